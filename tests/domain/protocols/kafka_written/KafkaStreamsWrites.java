// Writes one subscription and one assignment of Kafka Streams in every version with Kafka's own classes:
//   java -cp '<kafka-streams, kafka-clients 4.0.0 and slf4j-api jars>' KafkaStreamsWrites.java > streams.json
// What is in them stands in test_streams_protocol.py.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

public class KafkaStreamsWrites {
    public static void main(String[] args) {
        StringBuilder out = new StringBuilder("{\n");
        for (int version = 1; version <= 11; version++) {
            out.append(String.format("  \"subscription-%d\": \"%s\",%n", version, hex(subscription(version).encode())));
            out.append(String.format("  \"assignment-%d\": \"%s\"%s%n", version, hex(assignment(version).encode()), version == 11 ? "" : ","));
        }
        System.out.print(out.append("}\n"));
    }

    private static SubscriptionInfo subscription(int version) {
        Map<TaskId, Long> sums = new LinkedHashMap<>();
        sums.put(new TaskId(0, 1), -2L);
        sums.put(new TaskId(0, 2), 1234567890123L);
        sums.put(new TaskId(1, 0), -3L);
        if (version >= 10) {
            sums.put(new TaskId(2, 0, "named"), 0L);
        }
        ProcessId process = new ProcessId(UUID.fromString("c2d3e4f5-0617-2839-4a5b-6c7d8e9fa0b1"));
        int latest = version < 3 ? -1 : 11;
        return new SubscriptionInfo(version, latest, process, "host:8080", sums, (byte) -5, 4, Map.of("zone", "eu-é"));
    }

    private static AssignmentInfo assignment(int version) {
        List<TaskId> active = version >= 10
            ? List.of(new TaskId(0, 1), new TaskId(0, 1), new TaskId(2, 0, "näméd"))
            : List.of(new TaskId(0, 1), new TaskId(0, 1), new TaskId(2, 0));
        Map<TaskId, Set<TopicPartition>> standby = Map.of(new TaskId(1, 3), Set.of(new TopicPartition("t-\u0000-é-😀", 3)));
        Map<HostInfo, Set<TopicPartition>> hosts = Map.of(new HostInfo("host", 8080), Set.of(new TopicPartition("in", 1)));
        Map<HostInfo, Set<TopicPartition>> standbyHosts = Map.of(new HostInfo("other", 1), Set.of(new TopicPartition("in", 2)));
        AssignmentInfo info = new AssignmentInfo(version, 11, active, standby, hosts, standbyHosts, 2);
        info.setNextRebalanceTime(1795276800123L);
        return info;
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
