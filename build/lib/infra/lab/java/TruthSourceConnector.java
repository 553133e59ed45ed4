import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * A source connector of `tasks.max` tasks that write down when they start and stop, and on which worker.
 *
 * The worker's truth file is `truth/<node>.jsonl` in the working directory, the node being the system property
 * `lab.node`: nothing about the machine gets into the connector's configuration.
 */
public final class TruthSourceConnector extends SourceConnector {
    static final Truth TRUTH = openTruth();

    private Map<String, String> settings;

    private static Truth openTruth() {
        String worker = System.getProperty("lab.node", "worker");
        try {
            return new Truth("truth/" + worker + ".jsonl", worker);
        } catch (IOException e) {
            throw new IllegalStateException("the truth file cannot be opened", e);
        }
    }

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
        TRUTH.write("connector_start", seen("connectors", settings.get("name")));
    }

    @Override
    public void stop() {
        TRUTH.write("connector_stop", seen("connectors", settings.get("name")));
    }

    @Override
    public Class<? extends Task> taskClass() {
        return TruthSourceTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int task = 0; task < maxTasks; task++) {
            Map<String, String> config = new HashMap<>(settings);
            config.put("lab.task", String.valueOf(task));
            configs.add(config);
        }
        return configs;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where the records go.")
            .define("start.ms", ConfigDef.Type.LONG, 0L, ConfigDef.Importance.LOW, "How long a task takes to start.")
            .define("stop.ms", ConfigDef.Type.LONG, 0L, ConfigDef.Importance.LOW, "How long a task takes to stop.")
            .define("fail.task", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "The task that fails once.")
            .define("fail.ms", ConfigDef.Type.LONG, 0L, ConfigDef.Importance.LOW, "How long after its start.")
            .define("password", ConfigDef.Type.PASSWORD, "", ConfigDef.Importance.LOW, "A made-up secret to redact.");
    }

    @Override
    public String version() {
        return "lab";
    }

    static Map<String, Object> seen(String resources, String name) {
        Map<String, Object> more = new LinkedHashMap<>();
        more.put(resources, Collections.singletonList(name));
        return more;
    }
}
