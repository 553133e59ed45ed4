import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer that writes down its rebalance callbacks.
 *
 * <pre>java TruthConsumer consumer.properties topic,topic truth.jsonl</pre>
 *
 * Group, assignor, protocol and timeouts are Kafka's own options in the properties file; client.id names the client in
 * the truth file unless that file has another name. {@code pattern:REGEX} in place of the topics subscribes to a pattern,
 * {@code broker-pattern:REGEX} to one that the broker resolves (KIP-848, from 4.0 on). With {@code lab.output.topic} it
 * commits in transactions alone, one a second, and aborts every third.
 * Commands on standard input: {@code close}, {@code stall MS} (no poll for that long), {@code delay MS} (per record),
 * {@code revoke_delay MS} (inside the revoked callback), {@code commit MS} (by hand, so often, never when letting go),
 * {@code pause} and {@code resume} (all partitions held, polling goes on), {@code subscribe a,b}, {@code unsubscribe}, {@code enforce}. End of input closes too.
 */
public final class TruthConsumer implements ConsumerRebalanceListener {
    private final Truth truth;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final boolean leavesOnClose;
    private final Queue<String> commands = new ConcurrentLinkedQueue<>();
    private final Set<TopicPartition> awaitingFirstRecord = new HashSet<>();
    private long delayMs = 0;
    private long revokeDelayMs = 0;
    private long commitEveryMs = 0;
    private long committedAtMs = 0;
    private final Transactions transactions;
    private boolean closing = false;

    private TruthConsumer(Properties settings, String truthFile) throws IOException {
        leavesOnClose = !"false".equals(settings.getProperty("internal.leave.group.on.close"));
        String name = new File(truthFile).getName().replaceFirst("\\.jsonl$", "");
        truth = new Truth(truthFile, name);
        String output = settings.getProperty("lab.output.topic");
        transactions = output == null ? null : new Transactions(settings, output, name);
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) throws IOException {
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        TruthConsumer client = new TruthConsumer(settings, arguments[2]);
        Thread reader = new Thread(client::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        // A SIGTERM, as a deployment sends it, is a close.
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> client.closeAndWaitFor(main)));
        client.run(arguments[1]);
    }

    private void run(String topics) {
        truth.write("started", Map.of("topics", Arrays.asList(topics.split(","))));
        subscribe(topics);
        while (!closing) {
            obey();
            try {
                processAll(consumer.poll(Duration.ofMillis(100)));
                commitByHand();
                if (transactions != null) transactions.commitNowAndThen(consumer);
            } catch (WakeupException e) {
                closing = true;
            } catch (KafkaException e) {
                // Fenced, say: a consumer cannot go on after that.
                truth.write("failed", Map.of("error", e.getClass().getSimpleName()));
                closing = true;
            }
        }
        truth.write("close_start", Map.of());
        if (leavesOnClose) consumer.close();
        else closeWithoutLeaving();
        truth.write("closed", Map.of());
    }

    /** Clients before 4.1 have a property for it, later ones an option of close(), here by reflection. */
    private void closeWithoutLeaving() {
        try {
            Class<?> options = Class.forName("org.apache.kafka.clients.consumer.CloseOptions");
            Class<?> membership = Class.forName(options.getName() + "$GroupMembershipOperation");
            Object remain = membership.getField("REMAIN_IN_GROUP").get(null);
            Object closing = options.getMethod("groupMembershipOperation", membership).invoke(null, remain);
            KafkaConsumer.class.getMethod("close", options).invoke(consumer, closing);
        } catch (ClassNotFoundException e) {
            consumer.close();
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private void subscribe(String topics) {
        if (topics.startsWith("pattern:")) consumer.subscribe(Pattern.compile(topics.substring(8)), this);
        else if (topics.startsWith("broker-pattern:")) subscribeAtBroker(topics.substring(15));
        else consumer.subscribe(Arrays.asList(topics.split(",")), this);
    }

    /** By reflection: the class is there from 4.0 on. */
    private void subscribeAtBroker(String regex) {
        try {
            Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
            KafkaConsumer.class
                .getMethod("subscribe", pattern, ConsumerRebalanceListener.class)
                .invoke(consumer, pattern.getConstructor(String.class).newInstance(regex), this);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private void commitByHand() {
        if (commitEveryMs == 0 || System.currentTimeMillis() - committedAtMs < commitEveryMs) return;
        consumer.commitSync();
        committedAtMs = System.currentTimeMillis();
    }

    /** A poll whose records take longer than a second to process is a stall that says how long, and of how many. */
    private void processAll(ConsumerRecords<byte[], byte[]> records) {
        long takesMs = records.count() * delayMs;
        if (takesMs > 1000) truth.write("stall_start", Map.of("stall_ms", takesMs, "records", records.count()));
        for (ConsumerRecord<byte[], byte[]> record : records) process(record);
        if (takesMs > 1000) truth.write("stall_end", Map.of());
    }

    private void process(ConsumerRecord<byte[], byte[]> record) {
        TopicPartition partition = new TopicPartition(record.topic(), record.partition());
        if (awaitingFirstRecord.remove(partition)) write("first_record", Collections.singleton(partition));
        if (delayMs > 0) sleep(delayMs);
    }

    private void obey() {
        for (String line = commands.poll(); line != null; line = commands.poll()) {
            String[] words = line.trim().split("\\s+", 2);
            switch (words[0]) {
                case "close" -> closing = true;
                case "stall" -> stall(Long.parseLong(words[1]));
                case "delay" -> delayMs = Long.parseLong(words[1]);
                case "revoke_delay" -> revokeDelayMs = Long.parseLong(words[1]);
                case "commit" -> commitEveryMs = Long.parseLong(words[1]);
                case "subscribe" -> subscribe(words[1]);
                case "pause" -> pause();
                case "resume" -> resume();
                case "unsubscribe" -> consumer.unsubscribe();
                case "enforce" -> consumer.enforceRebalance();
                default -> truth.write("unknown_command", Map.of("command", line));
            }
        }
    }

    private void pause() {
        truth.write("stall_start", Map.of());
        consumer.pause(consumer.assignment());
    }

    private void resume() {
        consumer.resume(consumer.paused());
        truth.write("stall_end", Map.of());
    }

    private void stall(long ms) {
        truth.write("stall_start", Map.of("stall_ms", ms));
        sleep(ms);
        truth.write("stall_end", Map.of());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        write("revoked_start", partitions);
        awaitingFirstRecord.removeAll(partitions);
        if (revokeDelayMs > 0) sleep(revokeDelayMs);
        write("revoked_end", partitions);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        write("assigned_start", partitions);
        awaitingFirstRecord.addAll(partitions);
        write("assigned_end", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        write("lost_start", partitions);
        awaitingFirstRecord.removeAll(partitions);
        write("lost_end", partitions);
    }

    private void write(String event, Collection<TopicPartition> partitions) {
        Map<String, Object> more = new LinkedHashMap<>();
        more.put("partitions", partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.toList()));
        ConsumerGroupMetadata group = consumer.groupMetadata();
        more.put("group", group.groupId());
        more.put("member_id", group.memberId());
        more.put("generation", group.generationId());
        group.groupInstanceId().ifPresent(instance -> more.put("group_instance_id", instance));
        truth.write(event, more);
    }

    private void readCommands() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) commands.add(line);
        } catch (IOException e) {
            truth.write("commands_failed", Map.of("error", e.toString()));
        }
        commands.add("close");
    }

    private void closeAndWaitFor(Thread main) {
        consumer.wakeup();
        try {
            main.join(30_000);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
