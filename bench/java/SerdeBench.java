// Offset commits through Kafka's GroupCoordinatorRecordSerde: java SerdeBench <file of records>
// Each line on stdin starts one pass over the file; its answer is a line "commits tombstones checksum seconds" of CPU time.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

import com.sun.management.OperatingSystemMXBean;

import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;

public class SerdeBench {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] args) throws Exception {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        try (FileChannel file = FileChannel.open(Path.of(args[0]))) {
            ByteBuffer data = file.map(FileChannel.MapMode.READ_ONLY, 0, file.size());
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            while (lines.readLine() != null) {
                long started = system.getProcessCpuTime();
                String found = pass(data);
                System.out.println(found + " " + (system.getProcessCpuTime() - started) / 1e9);
                System.out.flush();
            }
        }
    }

    private static String pass(ByteBuffer data) {
        long commits = 0;
        long tombstones = 0;
        long checksum = 0;
        int at = 0;
        int end = data.limit();
        while (at < end) {
            int size = data.getInt(at);
            ByteBuffer key = data.slice(at + 4, size);
            at += 4 + size;
            size = data.getInt(at);
            at += 4;
            ByteBuffer value = null;
            if (size >= 0) {
                value = data.slice(at, size);
                at += size;
            }
            CoordinatorRecord record = SERDE.deserialize(key, value);
            if (record.value() == null) {
                tombstones++;
                continue;
            }
            commits++;
            OffsetCommitKey name = (OffsetCommitKey) record.key();
            OffsetCommitValue commit = (OffsetCommitValue) record.value().message();
            checksum += commit.offset() * 31 + commit.commitTimestamp() * 7 + name.partition()
                + name.group().length() + name.topic().length();
        }
        return commits + " " + tombstones + " " + Long.toUnsignedString(checksum);
    }
}
