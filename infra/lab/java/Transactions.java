import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends a record and the consumer's positions in one transaction a second; every third is aborted. */
final class Transactions {
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private int count = 0;
    private long lastMs = 0;

    Transactions(Properties settings, String topic, String name) {
        Properties own = new Properties();
        own.setProperty("bootstrap.servers", settings.getProperty("bootstrap.servers"));
        own.setProperty("transactional.id", name);
        producer = new KafkaProducer<>(own, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        this.topic = topic;
    }

    void commitNowAndThen(KafkaConsumer<byte[], byte[]> consumer) {
        if (consumer.assignment().isEmpty() || System.currentTimeMillis() - lastMs < 1000) return;
        Map<TopicPartition, OffsetAndMetadata> positions = new LinkedHashMap<>();
        for (TopicPartition each : consumer.assignment()) positions.put(each, new OffsetAndMetadata(consumer.position(each)));
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, ("transaction " + count).getBytes()));
        producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
        if (count % 3 == 2) producer.abortTransaction();
        else producer.commitTransaction();
        count++;
        lastMs = System.currentTimeMillis();
    }
}
