package org.apache.kafka.controller;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignablePartition;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData.ReassignableTopic;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData.BrokerState;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.metrics.QuorumControllerMetrics;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own controller, without a network, given random requests: what was asked, what it answered, the records it
 * wrote and the partition it then had. One JSON line per request.
 *
 * <pre>java -cp 'jars of Kafka 4.3.0/*:classes' org.apache.kafka.controller.DriveController SEED REQUESTS</pre>
 *
 * 3.9.1 has other names: defaultFeatureMap, setBrokerUncleanShutdownHandler((broker, written) -> { }), no setMetrics, no
 * setFeatureControl for configurations, and wants setMetadataVersion for features.
 */
public final class DriveController {
    private static final int BROKERS = 7;
    private static final int PARTITIONS = 4;
    private final Random random;
    private final LogContext log = new LogContext();
    private final SnapshotRegistry snapshots = new SnapshotRegistry(log);
    private final FeatureControlManager features;
    private final ClusterControlManager cluster;
    private final ReplicationControlManager replication;
    private final List<String> records = new ArrayList<>();
    private Uuid topic;
    private int topics = 0;

    private DriveController(long seed) {
        random = new Random(seed);
        features = new FeatureControlManager.Builder().setSnapshotRegistry(snapshots)
            .setQuorumFeatures(new QuorumFeatures(0, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(0))).build();
        cluster = new ClusterControlManager.Builder().setSnapshotRegistry(snapshots).setClusterId("lab")
            .setSessionTimeoutNs(1_000_000_000L).setReplicaPlacer(new StripedReplicaPlacer(new Random(1)))
            .setFeatureControlManager(features).setBrokerShutdownHandler((broker, isClean, written) -> { })
            .setMetrics(new QuorumControllerMetrics(Optional.empty(), Time.SYSTEM, 1000)).build();
        ConfigurationControlManager configuration = new ConfigurationControlManager.Builder()
            .setSnapshotRegistry(snapshots).setFeatureControl(features)
            .setKafkaConfigSchema(new KafkaConfigSchema(
                Map.of(ConfigResource.Type.TOPIC, settings(), ConfigResource.Type.BROKER, settings()), Map.of()))
            .setStaticConfig(Map.of("min.insync.replicas", "1")).build();
        replication = new ReplicationControlManager.Builder().setSnapshotRegistry(snapshots).setLogContext(log)
            .setMaxElectionsPerImbalance(100).setConfigurationControl(configuration).setClusterControl(cluster)
            .setFeatureControl(features).build();
        cluster.activate();
    }

    public static void main(String[] arguments) {
        new DriveController(Long.parseLong(arguments[0])).run(Integer.parseInt(arguments[1]));
    }

    private void run(int requests) {
        write(List.of(new ApiMessageAndVersion(new FeatureLevelRecord().setName(MetadataVersion.FEATURE_NAME)
            .setFeatureLevel(MetadataVersion.latestProduction().featureLevel()), (short) 0)));
        for (int broker = 0; broker < BROKERS; broker++) {
            RegisterBrokerRecord registration = new RegisterBrokerRecord().setBrokerId(broker).setBrokerEpoch(100 + broker)
                .setIncarnationId(new Uuid(1, broker)).setFenced(false).setLogDirs(List.of(new Uuid(2, 100 + broker)));
            write(List.of(new ApiMessageAndVersion(registration, (short) 3)));
        }
        newTopic();
        for (int i = 0; i < requests; i++) request();
    }

    private void newTopic() {
        topic = new Uuid(3, ++topics);
        List<ApiMessageAndVersion> created = new ArrayList<>();
        created.add(new ApiMessageAndVersion(new TopicRecord().setName("orders").setTopicId(topic), (short) 0));
        for (int partition = 0; partition < PARTITIONS; partition++) {
            List<Integer> replicas = brokers(1 + random.nextInt(3));
            created.add(new ApiMessageAndVersion(new PartitionRecord().setTopicId(topic).setPartitionId(partition)
                .setReplicas(replicas).setIsr(replicas).setLeader(replicas.get(0)).setLeaderEpoch(0).setPartitionEpoch(0)
                .setDirectories(Collections.nCopies(replicas.size(), new Uuid(2, 100))), (short) 1));
        }
        write(created);
        answer("create", -1, null, "NONE", true);
    }

    private void request() {
        int partition = random.nextInt(PARTITIONS);
        PartitionRegistration now = replication.getPartition(topic, partition);
        int dice = random.nextInt(100);
        boolean isMoving = now.addingReplicas.length + now.removingReplicas.length > 0;
        if (dice < (isMoving ? 8 : 40)) move(partition, now);
        else if (dice < (isMoving ? 20 : 42)) alter(partition, null);
        else if (dice < 82) alterIsr(partition, now);
        else if (dice < 86) fence(random.nextInt(BROKERS), true);
        else if (dice < 94) fence(random.nextInt(BROKERS), false);
        else if (dice < 99) elect(partition);
        else delete();
    }

    private void move(int partition, PartitionRegistration now) {
        List<Integer> target = brokers(1 + random.nextInt(3));
        if (random.nextInt(5) == 0) {  // another order of what there is
            target = new ArrayList<>();
            for (int replica : now.replicas) target.add(replica);
            Collections.shuffle(target, random);
        }
        alter(partition, target);
    }

    private void alter(int partition, List<Integer> target) {
        ReassignablePartition asked = new ReassignablePartition().setPartitionIndex(partition).setReplicas(target);
        ReassignableTopic asking = new ReassignableTopic().setName("orders").setPartitions(List.of(asked));
        var result = replication.alterPartitionReassignments(
            new AlterPartitionReassignmentsRequestData().setTopics(List.of(asking)));
        Errors error = Errors.forCode(result.response().responses().get(0).partitions().get(0).errorCode());
        write(result.records());
        answer(target == null ? "cancel" : "move", partition, target, error.name(), true);
    }

    /** The leader reports one replica more, several, or one fewer in sync. */
    private void alterIsr(int partition, PartitionRegistration now) {
        if (now.leader < 0) return;
        TreeSet<Integer> isr = new TreeSet<>();
        for (int replica : now.isr) isr.add(replica);
        boolean shrinks = random.nextInt(4) == 0;
        for (int replica : now.replicas) {
            if (replica == now.leader) continue;
            if (!shrinks && random.nextInt(2) == 0) isr.add(replica);
            if (shrinks && random.nextInt(3) == 0) isr.remove(replica);
        }
        List<BrokerState> states = new ArrayList<>();
        for (int replica : isr) states.add(new BrokerState().setBrokerId(replica).setBrokerEpoch(100 + replica));
        AlterPartitionRequestData request = new AlterPartitionRequestData().setBrokerId(now.leader)
            .setBrokerEpoch(100 + now.leader).setTopics(List.of(new AlterPartitionRequestData.TopicData().setTopicId(topic)
                .setPartitions(List.of(new AlterPartitionRequestData.PartitionData().setPartitionIndex(partition)
                    .setLeaderEpoch(now.leaderEpoch).setPartitionEpoch(now.partitionEpoch)
                    .setNewIsrWithEpochs(states)))));
        ControllerRequestContext context = new ControllerRequestContext(
            new RequestHeaderData().setRequestApiKey(ApiKeys.ALTER_PARTITION.id).setRequestApiVersion((short) 3),
            KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        write(replication.alterPartition(context, request).records());
        answer("isr", partition, new ArrayList<>(isr), "NONE", true);
    }

    private void fence(int broker, boolean isFenced) {
        if (cluster.registration(broker).fenced() == isFenced) return;
        List<ApiMessageAndVersion> written = new ArrayList<>();
        if (isFenced) replication.handleBrokerFenced(broker, written);
        else replication.handleBrokerUnfenced(broker, 100 + broker, written);
        write(written);
        answer(isFenced ? "fence" : "unfence", -1, List.of(broker), "NONE", true);
    }

    private void elect(int partition) {
        List<ApiMessageAndVersion> written = new ArrayList<>();
        var error = replication.electLeader("orders", partition, org.apache.kafka.common.ElectionType.PREFERRED, written);
        write(written);
        answer("elect", partition, null, error.error().name(), true);
    }

    private void delete() {
        write(List.of(new ApiMessageAndVersion(new RemoveTopicRecord().setTopicId(topic), (short) 0)));
        answer("delete", -1, null, "NONE", false);
        newTopic();
    }

    private List<Integer> brokers(int count) {
        List<Integer> all = new ArrayList<>();
        for (int broker = 0; broker < BROKERS; broker++) all.add(broker);
        Collections.shuffle(all, random);
        return new ArrayList<>(all.subList(0, count));
    }

    private void write(List<ApiMessageAndVersion> written) {
        for (ApiMessageAndVersion record : written) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            MetadataRecordSerde serde = new MetadataRecordSerde();
            ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(record, cache));
            serde.write(record, cache, new ByteBufferAccessor(buffer));
            StringBuilder hex = new StringBuilder();
            for (byte b : buffer.array()) hex.append(String.format("%02x", b));
            records.add("\"" + hex + "\"");
            replay(record.message());
        }
    }

    private void replay(ApiMessage message) {
        if (message instanceof FeatureLevelRecord record) features.replay(record);
        else if (message instanceof RegisterBrokerRecord record) cluster.replay(record, record.brokerEpoch());
        else if (message instanceof BrokerRegistrationChangeRecord record) cluster.replay(record);
        else if (message instanceof TopicRecord record) replication.replay(record);
        else if (message instanceof PartitionRecord record) replication.replay(record);
        else if (message instanceof PartitionChangeRecord record) replication.replay(record);
        else if (message instanceof RemoveTopicRecord record) replication.replay(record);
        else throw new IllegalStateException("not expected: " + message);
    }

    private void answer(String what, int partition, List<Integer> asked, String error, boolean hasState) {
        StringBuilder states = new StringBuilder();
        for (int p = 0; hasState && p < PARTITIONS; p++) {
            PartitionRegistration s = replication.getPartition(topic, p);
            states.append(p == 0 ? "" : ", ").append(String.format("[%s, %s, %d, %s, %s, %d, %d]",
                list(s.replicas), list(s.isr), s.leader, list(s.addingReplicas), list(s.removingReplicas),
                s.leaderEpoch, s.partitionEpoch));
        }
        System.out.printf("{\"what\": \"%s\", \"partition\": %d, \"asked\": %s, \"error\": \"%s\", \"records\": [%s], "
            + "\"states\": [%s]}%n", what, partition, asked == null ? "null" : asked.toString(), error,
            String.join(", ", records), states);
        records.clear();
    }

    private static ConfigDef settings() {
        return new ConfigDef()
            .define("min.insync.replicas", ConfigDef.Type.INT, 1, ConfigDef.Importance.HIGH, "")
            .define("unclean.leader.election.enable", ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.HIGH, "");
    }

    private static String list(int[] ids) {
        return java.util.Arrays.toString(ids);
    }
}
