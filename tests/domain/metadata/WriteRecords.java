import java.nio.ByteBuffer;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Records of kinds that quiet clusters do not write, as Kafka's own serializer writes them: one JSON line each.
 *
 * <pre>java -cp 'jars of Kafka 4.3.0/*' WriteRecords.java > kafka_written.jsonl</pre>
 */
public final class WriteRecords {
    private static final Uuid TOPIC = Uuid.fromString("a3aZXC9HRiWZ2U21h_-tDQ");
    private static final Uuid DIRECTORY = Uuid.fromString("OraDDrd7SKupUBW4r14vTA");

    public static void main(String[] arguments) {
        for (int version = 0; version <= 2; version++) {
            write(version, new PartitionChangeRecord().setPartitionId(300).setTopicId(TOPIC));
            write(version, request(version));
            write(version, new PartitionChangeRecord().setPartitionId(1).setTopicId(TOPIC).setIsr(List.of(0, 1, 2, 3)));
            write(version, new PartitionChangeRecord().setPartitionId(1).setTopicId(TOPIC).setLeader(-1).setIsr(List.of()));
            PartitionChangeRecord end = request(version)
                .setIsr(List.of(2, 3, 5)).setLeader(2).setReplicas(List.of(2, 3, 5))
                .setRemovingReplicas(List.of()).setAddingReplicas(List.of()).setLeaderRecoveryState((byte) 1);
            if (version >= 1) end.setDirectories(List.of(DIRECTORY, DIRECTORY, Uuid.ZERO_UUID));
            if (version >= 2) end.setEligibleLeaderReplicas(List.of(7)).setLastKnownElr(List.of());
            write(version, end);
            PartitionRecord whole = new PartitionRecord().setPartitionId(2).setTopicId(TOPIC)
                .setReplicas(List.of(2, 3, 5, 0, 1)).setIsr(List.of(0, 1)).setAddingReplicas(List.of(3, 5))
                .setRemovingReplicas(List.of(0, 1)).setLeader(1).setLeaderEpoch(70000).setPartitionEpoch(9)
                .setLeaderRecoveryState((byte) 1);
            if (version >= 1) whole.setDirectories(List.of(DIRECTORY, DIRECTORY, DIRECTORY, DIRECTORY, DIRECTORY));
            if (version >= 2) whole.setEligibleLeaderReplicas(List.of(3)).setLastKnownElr(List.of(1));
            write(version, whole);
        }
        for (int version = 0; version <= 3; version++) {
            BrokerRegistrationChangeRecord change =
                new BrokerRegistrationChangeRecord().setBrokerId(5).setBrokerEpoch(1L << 40).setFenced((byte) 1);
            if (version >= 1) change.setInControlledShutdown((byte) 1);
            if (version >= 2) change.setLogDirs(List.of(DIRECTORY));
            write(version, change);
        }
        for (int version = 0; version <= 4; version++) {
            RegisterBrokerRecord broker = new RegisterBrokerRecord().setBrokerId(5).setIncarnationId(TOPIC)
                .setBrokerEpoch(77).setRack(version % 2 == 0 ? null : "r1").setFenced(true);
            broker.endPoints().add(new RegisterBrokerRecord.BrokerEndpoint().setName("SSL").setHost("h").setPort(65535)
                .setSecurityProtocol((short) 1));
            broker.features().add(new RegisterBrokerRecord.BrokerFeature().setName("metadata.version")
                .setMinSupportedVersion((short) 7).setMaxSupportedVersion((short) 30));
            if (version >= 1) broker.setInControlledShutdown(true);
            if (version >= 2) broker.setIsMigratingZkBroker(true);
            if (version >= 3) broker.setLogDirs(List.of(DIRECTORY));
            write(version, broker);
        }
        write(0, new UnregisterBrokerRecord().setBrokerId(5).setBrokerEpoch(8));
        write(0, new FenceBrokerRecord().setId(5).setEpoch(8));
        write(0, new UnfenceBrokerRecord().setId(5).setEpoch(8));
        write(0, new RemoveTopicRecord().setTopicId(TOPIC));
        write(0, new ConfigRecord().setResourceType((byte) 4).setResourceName("").setName("min.insync.replicas").setValue(null));
        write(0, new BeginTransactionRecord().setName(null));
        write(0, new AbortTransactionRecord().setReason("a reason"));
        write(0, new EndTransactionRecord());
        write(0, new ClearElrRecord().setTopicName("orders"));
        write(0, new NoOpRecord());
    }

    private static PartitionChangeRecord request(int version) {
        PartitionChangeRecord change = new PartitionChangeRecord().setPartitionId(0).setTopicId(TOPIC)
            .setReplicas(List.of(2, 3, 5, 0, 1)).setRemovingReplicas(List.of(0, 1)).setAddingReplicas(List.of(3, 5));
        return version >= 1 ? change.setDirectories(List.of(DIRECTORY, DIRECTORY, DIRECTORY, DIRECTORY, DIRECTORY)) : change;
    }

    private static void write(int version, ApiMessage message) {
        ApiMessageAndVersion record = new ApiMessageAndVersion(message, (short) version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        MetadataRecordSerde serde = new MetadataRecordSerde();
        ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(record, cache));
        serde.write(record, cache, new ByteBufferAccessor(buffer));
        StringBuilder hex = new StringBuilder();
        for (byte b : buffer.array()) hex.append(String.format("%02x", b));
        MetadataRecordType type = MetadataRecordType.fromId(message.apiKey());
        System.out.printf("{\"type\": \"%s\", \"version\": %d, \"hex\": \"%s\", \"data\": %s}%n",
            type.name(), version, hex, MetadataJsonConverters.writeJson(message, (short) version));
    }
}
