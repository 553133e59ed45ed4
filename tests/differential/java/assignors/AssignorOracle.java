// In Connect's own package: what its assignor computes before it is turned into bytes is visible only here.
package org.apache.kafka.connect.runtime.distributed;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** One group per line of JSON in, what Kafka's own assignor gives it per line out; {"error": ...} where it fails. */
public final class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int GIVEN_UP_AFTER_S = 30;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.isEmpty()) {
                out.flush();
                continue;
            }
            JsonNode asked = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(asked, answer);
            } catch (InvocationTargetException failed) {
                answer = JSON.createObjectNode().put("error", String.valueOf(failed.getCause()));
            } catch (RuntimeException failed) {
                answer = JSON.createObjectNode().put("error", String.valueOf(failed));
            }
            out.write(JSON.writeValueAsString(answer));
            out.write('\n');
        }
        out.flush();
    }

    private static void answer(JsonNode asked, ObjectNode answer) throws Exception {
        switch (asked.get("assignor").asText()) {
            case "range" -> consumers(new RangeAssignor(), asked, answer);
            case "roundrobin" -> consumers(new RoundRobinAssignor(), asked, answer);
            case "sticky" -> consumers(new StickyAssignor(), asked, answer);
            case "cooperative-sticky" -> consumers(new CooperativeStickyAssignor(), asked, answer);
            case "server-range" ->
                server(new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), asked, answer);
            case "uniform" -> server(new UniformAssignor(), asked, answer);
            case "connect-eager" -> connectEager(asked, answer);
            case "connect-incremental" -> connectIncremental(asked, answer);
            default -> throw new IllegalArgumentException(asked.get("assignor").asText());
        }
    }

    private static void consumers(AbstractPartitionAssignor assignor, JsonNode asked, ObjectNode answer)
            throws Exception {
        Map<String, Integer> topics = new HashMap<>();
        asked.get("topics").properties().forEach(each -> topics.put(each.getKey(), each.getValue().asInt()));
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            List<TopicPartition> owned = new ArrayList<>();
            member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
            int generation = member.get("generation").asInt();
            ByteBuffer userData = assignor instanceof StickyAssignor ? stickyData(owned, generation)
                : assignor instanceof CooperativeStickyAssignor ? ByteBuffer.allocate(4).putInt(0, generation) : null;
            Subscription subscription = new Subscription(
                texts(member.get("topics")), userData, assignor instanceof StickyAssignor ? List.of() : owned,
                member.get("joined_generation").asInt(), Optional.empty());
            subscription.setGroupInstanceId(Optional.ofNullable(member.get("instance_id").textValue()));
            subscriptions.put(member.get("member_id").asText(), subscription);
        }
        assigned(assignor, topics, subscriptions).forEach((memberId, partitions) -> {
            ArrayNode given = answer.putArray(memberId);
            partitions.forEach(each -> given.addArray().add(each.topic()).add(each.partition()));
        });
    }

    /** Sticky assignors that balance for ever are given up after a while, with an exception. */
    private static Map<String, List<TopicPartition>> assigned(
            AbstractPartitionAssignor assignor, Map<String, Integer> topics, Map<String, Subscription> subscriptions)
            throws InterruptedException {
        if (!(assignor instanceof AbstractStickyAssignor)) {
            return assignor.assign(topics, subscriptions);
        }
        FutureTask<Map<String, List<TopicPartition>>> task =
            new FutureTask<>(() -> assignor.assign(topics, subscriptions));
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(GIVEN_UP_AFTER_S, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw new IllegalStateException(failed.getCause());
        } catch (TimeoutException failed) {
            thread.stop();
            throw new IllegalStateException("no answer in " + GIVEN_UP_AFTER_S + " s");
        }
    }

    private static ByteBuffer stickyData(List<TopicPartition> owned, int generation) throws Exception {
        Constructor<AbstractStickyAssignor.MemberData> make =
            AbstractStickyAssignor.MemberData.class.getConstructor(List.class, Optional.class);
        Method write = StickyAssignor.class.getDeclaredMethod(
            "serializeTopicPartitionAssignment", AbstractStickyAssignor.MemberData.class);
        write.setAccessible(true);
        return (ByteBuffer) write.invoke(null, make.newInstance(owned, Optional.of(generation)));
    }

    private static List<String> texts(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(each -> found.add(each.asText()));
        return found;
    }

    private static Uuid uuid(String decimal) {
        BigInteger bits = new BigInteger(decimal);
        return new Uuid(bits.shiftRight(64).longValue(), bits.longValue());
    }

    private static String decimal(Uuid id) {
        BigInteger low = new BigInteger(Long.toUnsignedString(id.getLeastSignificantBits()));
        return new BigInteger(Long.toUnsignedString(id.getMostSignificantBits())).shiftLeft(64).or(low).toString();
    }

    private static void server(ConsumerGroupPartitionAssignor assignor, JsonNode asked, ObjectNode answer) {
        Map<Uuid, Integer> topics = new HashMap<>();
        asked.get("topics").properties().forEach(each -> topics.put(uuid(each.getKey()), each.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> wanted = new HashSet<>();
        for (JsonNode member : asked.get("members")) {
            String memberId = member.get("member_id").asText();
            Set<Uuid> topicIds = new LinkedHashSet<>();
            member.get("topic_ids").forEach(each -> topicIds.add(uuid(each.asText())));
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            member.get("target").properties().forEach(each -> {
                List<Integer> numbers = new ArrayList<>();
                each.getValue().forEach(number -> numbers.add(number.asInt()));
                target.put(uuid(each.getKey()), new HashSet<>(numbers));
                Map<Integer, String> owner = owners.computeIfAbsent(uuid(each.getKey()), ignored -> new HashMap<>());
                numbers.forEach(number -> owner.put(number, memberId));
            });
            wanted.add(topicIds);
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.ofNullable(member.get("instance_id").textValue()), topicIds,
                new Assignment(Collections.unmodifiableMap(target))));
        }
        SubscriptionType type = wanted.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return topics.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        assignor.assign(new GroupSpecImpl(members, type, owners), describer).members().forEach((memberId, given) -> {
            ArrayNode list = answer.putArray(memberId);
            given.partitions().forEach((topicId, numbers) ->
                numbers.forEach(number -> list.addArray().add(decimal(topicId)).add(number)));
        });
    }

    private static ClusterConfigState config(JsonNode connectors) {
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        connectors.properties().forEach(each -> {
            counts.put(each.getKey(), each.getValue().asInt());
            configs.put(each.getKey(), Map.of());
        });
        return new ClusterConfigState(
            1, null, counts, configs, Map.of(), Map.of(), Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
    }

    /** Never constructed: only these two methods are asked. */
    private static final class Remembering extends WorkerCoordinator {
        private ClusterConfigState snapshot;

        private Remembering() {
            super(null, null, null, null, null, null, null, null, null, null, 0);
        }

        @Override
        public ClusterConfigState configSnapshot() {
            return snapshot;
        }

        @Override
        public void leaderState(LeaderState state) {
        }
    }

    private static void connectEager(JsonNode asked, ObjectNode answer) throws Exception {
        Field unsafe = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        Method allocate = Class.forName("sun.misc.Unsafe").getMethod("allocateInstance", Class.class);
        Remembering coordinator = (Remembering) allocate.invoke(unsafe.get(null), Remembering.class);
        coordinator.snapshot = config(asked.get("connectors"));
        Map<String, ExtendedWorkerState> workers = new HashMap<>();
        texts(asked.get("workers")).forEach(id -> workers.put(id, new ExtendedWorkerState("url", 1, null)));
        Method assign = EagerAssignor.class.getDeclaredMethod(
            "performTaskAssignment", String.class, long.class, Map.class, WorkerCoordinator.class);
        assign.setAccessible(true);
        String leader = workers.keySet().iterator().next();
        Map<?, ?> given = (Map<?, ?>) assign.invoke(new EagerAssignor(new LogContext()), leader, 1L, workers, coordinator);
        given.forEach((worker, bytes) -> {
            ConnectProtocol.Assignment read = ConnectProtocol.deserializeAssignment((ByteBuffer) bytes);
            work(answer.putObject((String) worker), read.connectors(), read.tasks());
        });
    }

    private static void work(ObjectNode into, Collection<String> connectors, Collection<ConnectorTaskId> tasks) {
        ArrayNode names = into.putArray("connectors");
        connectors.forEach(names::add);
        ArrayNode numbers = into.putArray("tasks");
        tasks.forEach(task -> numbers.addArray().add(task.connector()).add(task.task()));
    }

    private static void connectIncremental(JsonNode asked, ObjectNode answer) {
        long[] now = {0};
        Time clock = (Time) java.lang.reflect.Proxy.newProxyInstance(
            Time.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> {
                if (method.getName().equals("milliseconds")) {
                    return now[0];
                }
                throw new UnsupportedOperationException(method.getName());
            });
        IncrementalCooperativeAssignor assignor =
            new IncrementalCooperativeAssignor(new LogContext(), clock, asked.get("max_delay_ms").asInt());
        ArrayNode rounds = answer.putArray("rounds");
        for (JsonNode round : asked.get("rounds")) {
            now[0] = round.get("now_ms").asLong();
            Map<String, ConnectorsAndTasks> running = new HashMap<>();
            round.get("running").properties().forEach(each -> {
                List<ConnectorTaskId> tasks = new ArrayList<>();
                each.getValue().get("tasks").forEach(task ->
                    tasks.add(new ConnectorTaskId(task.get(0).asText(), task.get(1).asInt())));
                running.put(each.getKey(), new ConnectorsAndTasks.Builder()
                    .with(texts(each.getValue().get("connectors")), tasks).build());
            });
            IncrementalCooperativeAssignor.ClusterAssignment given = assignor.performTaskAssignment(
                config(round.get("connectors")), round.get("last_completed_generation").asInt(),
                round.get("generation").asInt(), running);
            ObjectNode listed = rounds.addObject();
            listed.put("delay_ms", assignor.delay);
            for (String worker : new LinkedHashMap<>(running).keySet()) {
                ObjectNode one = listed.putObject("worker " + worker);
                work(one.putObject("added"), given.newlyAssignedConnectors(worker), given.newlyAssignedTasks(worker));
                work(one.putObject("revoked"), given.newlyRevokedConnectors(worker), given.newlyRevokedTasks(worker));
            }
        }
    }
}
