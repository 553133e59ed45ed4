import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaClientSupplier;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * One Streams instance of one thread that writes down which active tasks it was given and gave up.
 *
 * <pre>java TruthStreams streams.properties topic truth.jsonl</pre>
 *
 * Under the classic protocol by wrapping the rebalance listener Streams gives its consumer: partition p of the one
 * source topic is task 0_p. Under {@code group.protocol=streams} there is no such listener: the thread's own metadata
 * is looked at every 2 ms. {@code lab.stateful=true} counts by key, so that tasks have state to warm up.
 * {@code close} on standard input, and its end, closes.
 */
public final class TruthStreams implements KafkaClientSupplier {
    private final Truth truth;
    private final String group;
    private volatile boolean closing = false;

    private TruthStreams(String truthFile, Properties settings) throws IOException {
        truth = new Truth(truthFile, settings.getProperty("client.id"));
        group = settings.getProperty("application.id");
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        new TruthStreams(arguments[2], settings).run(settings, arguments[1]);
    }

    private void run(Properties settings, String topic) throws Exception {
        boolean isWatched = "streams".equals(settings.getProperty("group.protocol"));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> stream = builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()));
        if (Boolean.parseBoolean(settings.getProperty("lab.stateful")))
            stream.groupByKey().count(Materialized.<byte[], Long>as(Stores.inMemoryKeyValueStore("counts")).withKeySerde(Serdes.ByteArray()).withValueSerde(Serdes.Long()));
        else stream.foreach((key, value) -> { });
        KafkaStreams streams = isWatched ? new KafkaStreams(builder.build(), settings) : new KafkaStreams(builder.build(), settings, this);
        truth.write("started", Map.of("topics", Arrays.asList(topic)));
        streams.start();
        if (isWatched) {
            Thread watch = new Thread(() -> watch(streams), "watch");
            watch.setDaemon(true);
            watch.start();
        }
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && !line.trim().equals("close"); line = input.readLine()) { }
        truth.write("close_start", Map.of());
        closing = true;
        streams.close();
        truth.write("closed", Map.of());
    }

    private void watch(KafkaStreams streams) {
        Set<String> held = Set.of();
        try {
            while (!closing) {
                Set<String> now = activeTasks(streams);
                Set<String> gone = new TreeSet<>(held);
                gone.removeAll(now);
                Set<String> added = new TreeSet<>(now);
                added.removeAll(held);
                if (!gone.isEmpty()) for (String moment : new String[] {"revoked_start", "revoked_end"}) write(moment, gone);
                if (!added.isEmpty()) for (String moment : new String[] {"assigned_start", "assigned_end"}) write(moment, added);
                held = now;
                Thread.sleep(2);
            }
            for (String moment : new String[] {"revoked_start", "revoked_end"}) if (!held.isEmpty()) write(moment, held);
        } catch (InterruptedException | ReflectiveOperationException e) {
            truth.write("watch_failed", Map.of("error", e.toString()));
        }
    }

    /** By reflection: the method has this name from 3.0 on, and its types moved then. */
    private static Set<String> activeTasks(KafkaStreams streams) throws ReflectiveOperationException {
        Set<String> tasks = new TreeSet<>();
        for (Object thread : (Collection<?>) KafkaStreams.class.getMethod("metadataForLocalThreads").invoke(streams))
            for (Object task : (Collection<?>) thread.getClass().getMethod("activeTasks").invoke(thread))
                tasks.add(task.getClass().getMethod("taskId").invoke(task).toString());
        return tasks;
    }

    private void write(String event, Collection<String> tasks) {
        Map<String, Object> more = new LinkedHashMap<>();
        more.put("partitions", tasks);
        more.put("group", group);
        truth.write(event, more);
    }

    @Override
    public Consumer<byte[], byte[]> getConsumer(Map<String, Object> settings) {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer()) {
            @Override
            public void subscribe(Collection<String> topics, ConsumerRebalanceListener listener) {
                super.subscribe(topics, new Listener(listener, this));
            }
        };
    }

    @Override
    public Consumer<byte[], byte[]> getRestoreConsumer(Map<String, Object> settings) {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Consumer<byte[], byte[]> getGlobalConsumer(Map<String, Object> settings) {
        return getRestoreConsumer(settings);
    }

    @Override
    public Producer<byte[], byte[]> getProducer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    public Admin getAdmin(Map<String, Object> settings) {
        return Admin.create(settings);
    }

    private final class Listener implements ConsumerRebalanceListener {
        private final ConsumerRebalanceListener streams;
        private final KafkaConsumer<byte[], byte[]> consumer;

        private Listener(ConsumerRebalanceListener streams, KafkaConsumer<byte[], byte[]> consumer) {
            this.streams = streams;
            this.consumer = consumer;
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            around("revoked", partitions, () -> streams.onPartitionsRevoked(partitions));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            around("assigned", partitions, () -> streams.onPartitionsAssigned(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            around("lost", partitions, () -> streams.onPartitionsLost(partitions));
        }

        private void around(String what, Collection<TopicPartition> partitions, Runnable callback) {
            tell(what + "_start", partitions);
            callback.run();
            tell(what + "_end", partitions);
        }

        private void tell(String event, Collection<TopicPartition> partitions) {
            Map<String, Object> more = new LinkedHashMap<>();
            more.put("partitions", partitions.stream().map(each -> "0_" + each.partition()).sorted().collect(Collectors.toList()));
            more.put("group", group);
            more.put("member_id", consumer.groupMetadata().memberId());
            more.put("generation", consumer.groupMetadata().generationId());
            truth.write(event, more);
        }
    }
}
