import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * A share consumer that writes down when it came and went; share consumers have no rebalance callbacks.
 *
 * <pre>java TruthShareConsumer consumer.properties topic,topic truth.jsonl</pre>
 *
 * By reflection, since the class exists from 4.0 on only. End of input, and {@code close} on it, closes.
 */
public final class TruthShareConsumer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = new FileInputStream(arguments[0])) {
            settings.load(file);
        }
        Truth truth = new Truth(arguments[2], settings.getProperty("client.id"));
        Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.KafkaShareConsumer");
        Object consumer = kind.getConstructor(Properties.class, Deserializer.class, Deserializer.class)
            .newInstance(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        truth.write("started", Map.of("topics", Arrays.asList(arguments[1].split(","))));
        kind.getMethod("subscribe", Collection.class).invoke(consumer, Arrays.asList(arguments[1].split(",")));
        Method poll = kind.getMethod("poll", Duration.class);
        while (System.in.available() == 0) poll.invoke(consumer, Duration.ofMillis(100));
        truth.write("close_start", Map.of());
        kind.getMethod("close").invoke(consumer);
        truth.write("closed", Map.of());
    }
}
