import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.PartitionReassignment;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Asks for reassignments, and writes down what the admin API says about every partition each time that changes; asked
 * every 100 ms, by another client than the one that gives orders.
 *
 * <pre>java TruthReassigner admin.properties truth.jsonl</pre>
 *
 * Commands on standard input: {@code create topic 1,2,3 2,3,1} (replicas per partition), {@code delete topic},
 * {@code move topic-0=2,3,5 …}, {@code cancel topic-0 …}, {@code elect topic-0 …}, {@code set topic orders name value},
 * {@code unset broker 1 name}. Each answers with an event {@code done} or {@code failed}.
 */
public final class TruthReassigner {
    private final Truth truth;
    private final Admin orders;
    private final Admin poller;
    private final Map<TopicPartition, Map<String, Object>> known = new HashMap<>();

    private TruthReassigner(Properties settings, String truthFile) throws IOException {
        truth = new Truth(truthFile, "admin");
        orders = Admin.create(settings);
        poller = Admin.create(settings);
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        TruthReassigner admin = new TruthReassigner(settings, arguments[1]);
        Thread poller = new Thread(admin::poll, "poller");
        poller.setDaemon(true);
        poller.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        admin.truth.write("started", Map.of());
        for (String line = lines.readLine(); line != null; line = lines.readLine()) admin.obey(line);
    }

    private void obey(String line) {
        String[] words = line.trim().split("\\s+");
        List<String> rest = Arrays.asList(words).subList(1, words.length);
        try {
            KafkaFuture<?> answer = answerTo(words[0], rest);
            truth.write("asked", Map.of("command", line));
            answer.get(60, TimeUnit.SECONDS);
            truth.write("done", Map.of("command", line));
        } catch (ExecutionException e) {
            truth.write("failed", Map.of("command", line, "error", e.getCause().toString()));
        } catch (Exception e) {
            truth.write("failed", Map.of("command", line, "error", e.toString()));
        }
    }

    private KafkaFuture<?> answerTo(String verb, List<String> words) {
        switch (verb) {
            case "create": {
                Map<Integer, List<Integer>> replicas = new TreeMap<>();
                for (int i = 1; i < words.size(); i++) replicas.put(i - 1, ids(words.get(i)));
                return orders.createTopics(Set.of(new NewTopic(words.get(0), replicas))).all();
            }
            case "delete":
                return orders.deleteTopics(words).all();
            case "move": {
                Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new LinkedHashMap<>();
                for (String word : words) {
                    String[] pair = word.split("=");
                    wanted.put(partition(pair[0]), Optional.of(new NewPartitionReassignment(ids(pair[1]))));
                }
                return orders.alterPartitionReassignments(wanted).all();
            }
            case "cancel":
                return orders.alterPartitionReassignments(
                    words.stream().collect(Collectors.toMap(TruthReassigner::partition, word -> Optional.empty()))).all();
            case "elect":
                return orders.electLeaders(
                    ElectionType.PREFERRED,
                    words.stream().map(TruthReassigner::partition).collect(Collectors.toSet())).all();
            case "set":
            case "unset": {
                ConfigResource.Type type = ConfigResource.Type.valueOf(words.get(0).toUpperCase());
                boolean isSet = verb.equals("set");
                AlterConfigOp change = new AlterConfigOp(
                    new ConfigEntry(words.get(2), isSet ? words.get(3) : ""),
                    isSet ? AlterConfigOp.OpType.SET : AlterConfigOp.OpType.DELETE);
                return orders.incrementalAlterConfigs(
                    Map.of(new ConfigResource(type, words.get(1)), Set.of(change))).all();
            }
            default:
                throw new IllegalArgumentException("no such command");
        }
    }

    private void poll() {
        while (true) {
            long start = System.currentTimeMillis();
            try {
                look();
            } catch (ExecutionException | TimeoutException e) {
                // A broker is away: the next look shows it.
            } catch (InterruptedException e) {
                return;
            }
            try {
                Thread.sleep(Math.max(1, 100 - (System.currentTimeMillis() - start)));
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private void look() throws ExecutionException, InterruptedException, TimeoutException {
        Set<String> topics = poller.listTopics().names().get(2, TimeUnit.SECONDS);
        Map<TopicPartition, PartitionReassignment> moving =
            poller.listPartitionReassignments().reassignments().get(2, TimeUnit.SECONDS);
        Map<TopicPartition, Map<String, Object>> seen = new HashMap<>();
        for (Map.Entry<String, KafkaFuture<TopicDescription>> each : descriptions(poller.describeTopics(topics)).entrySet())
            for (TopicPartitionInfo info : each.getValue().get(2, TimeUnit.SECONDS).partitions()) {
                TopicPartition partition = new TopicPartition(each.getKey(), info.partition());
                PartitionReassignment move = moving.get(partition);
                Map<String, Object> state = new LinkedHashMap<>();
                state.put("replicas", nodes(info.replicas()));
                state.put("isr", nodes(info.isr()).stream().sorted().collect(Collectors.toList()));
                state.put("leader", info.leader() == null ? null : info.leader().id());
                state.put("adding", move == null ? List.of() : new ArrayList<>(move.addingReplicas()));
                state.put("removing", move == null ? List.of() : new ArrayList<>(move.removingReplicas()));
                seen.put(partition, state);
            }
        for (Map.Entry<TopicPartition, Map<String, Object>> each : seen.entrySet())
            if (!each.getValue().equals(known.put(each.getKey(), each.getValue()))) {
                Map<String, Object> line = new LinkedHashMap<>(Map.of("tp", each.getKey().toString()));
                line.putAll(each.getValue());
                truth.write("state", line);
            }
        for (TopicPartition gone : new ArrayList<>(known.keySet()))
            if (!seen.containsKey(gone)) {
                known.remove(gone);
                truth.write("gone", Map.of("tp", gone.toString()));
            }
    }

    /** The method's name changed in 3.1, and its first name went in 4.0. */
    @SuppressWarnings("unchecked")
    private static Map<String, KafkaFuture<TopicDescription>> descriptions(DescribeTopicsResult result) {
        for (String name : List.of("topicNameValues", "values"))
            try {
                return (Map<String, KafkaFuture<TopicDescription>>)
                    DescribeTopicsResult.class.getMethod(name).invoke(result);
            } catch (NoSuchMethodException e) {
                continue;
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        throw new IllegalStateException("DescribeTopicsResult has neither method");
    }

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static List<Integer> ids(String text) {
        return Arrays.stream(text.split(",")).map(Integer::valueOf).collect(Collectors.toList());
    }

    private static List<Integer> nodes(Collection<Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.toList());
    }
}
