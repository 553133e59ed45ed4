import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Two records per second, and a line in the truth file at each start and stop. The lab may ask it to fail, once per JVM. */
public final class TruthSourceTask extends SourceTask {
    private static final long POLL_MS = 500;
    private static final Set<String> FAILED = ConcurrentHashMap.newKeySet();

    private String name;
    private String topic;
    private long stopMs;
    private long failAt = Long.MAX_VALUE;
    private long position = 0;
    private boolean polled = false;
    private volatile boolean stopping = false;

    @Override
    public void start(Map<String, String> settings) {
        name = settings.get("name") + "-" + settings.get("lab.task");
        write("task_start_begin");
        topic = settings.get("topic");
        stopMs = Long.parseLong(settings.getOrDefault("stop.ms", "0"));
        sleep(Long.parseLong(settings.getOrDefault("start.ms", "0")));
        if (settings.get("lab.task").equals(settings.get("fail.task"))) {
            failAt = System.currentTimeMillis() + Long.parseLong(settings.getOrDefault("fail.ms", "0"));
        }
        write("task_start_end");
    }

    @Override
    public List<SourceRecord> poll() {
        sleep(POLL_MS);
        if (stopping) return null;
        if (System.currentTimeMillis() >= failAt && FAILED.add(name)) {
            write("task_failed");
            throw new ConnectException("the lab told task " + name + " to fail");
        }
        if (!polled) {
            polled = true;
            write("first_record");
        }
        position++;
        List<SourceRecord> records = new ArrayList<>();
        records.add(
            new SourceRecord(
                Collections.singletonMap("task", name),
                Collections.singletonMap("position", position),
                topic,
                Schema.STRING_SCHEMA,
                name,
                Schema.STRING_SCHEMA,
                name + " " + position
            )
        );
        return records;
    }

    @Override
    public void stop() {
        write("task_stop_begin");
        stopping = true;
        sleep(stopMs);
        write("task_stop_end");
    }

    @Override
    public String version() {
        return "lab";
    }

    private void write(String event) {
        TruthSourceConnector.TRUTH.write(event, TruthSourceConnector.seen("tasks", name));
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
