// Answers what Kafka's own classes read from bytes: java Oracle <release>=<folder of jars> ...
//
// In, as often as wanted: int32 count, then per case int8 kind, int32 length and bytes of the key, the same of the value
// (length -1: null). Out: int32 length, then a line of JSON per case with one answer per release, "=" for the same again.
// An answer is a string for a refusal, else what was read and how many bytes were left over.

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.File;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.HashMap;
import java.util.Optional;

public class Oracle {
    private static final int RECORD = 0;
    private static final int CONSUMER_SUBSCRIPTION = 1;
    private static final int CONSUMER_ASSIGNMENT = 2;
    private static final int EAGER_WORKER_STATE = 3;
    private static final int EAGER_ASSIGNMENT = 4;
    private static final int COOPERATIVE_WORKER_STATE = 5;
    private static final int COOPERATIVE_ASSIGNMENT = 6;
    private static final int STICKY_USER_DATA = 7;
    private static final int METADATA = 8;
    private static final int STREAMS_SUBSCRIPTION = 9;
    private static final int STREAMS_ASSIGNMENT = 10;

    public static void main(String[] args) throws Exception {
        DataOutputStream out = new DataOutputStream(System.out);
        System.setOut(new PrintStream(OutputStream.nullOutputStream())); // where Kafka's classes log what they refuse
        List<Release> releases = new ArrayList<>();
        for (String arg : args) {
            String[] parts = arg.split("=", 2);
            releases.add(new Release(parts[1]));
        }
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
        while (true) {
            int count;
            try {
                count = in.readInt();
            } catch (EOFException end) {
                return;
            }
            byte[][] keys = new byte[count][];
            byte[][] values = new byte[count][];
            int[] kinds = new int[count];
            for (int i = 0; i < count; i++) {
                kinds[i] = in.readByte();
                keys[i] = readBytes(in);
                values[i] = readBytes(in);
            }
            StringBuilder answers = new StringBuilder(count * 200);
            for (int i = 0; i < count; i++) {
                String last = null;
                answers.append('[');
                for (Release release : releases) {
                    String answer = release.answer(kinds[i], keys[i], values[i]);
                    if (last != null) {
                        answers.append(',');
                    }
                    answers.append(answer.equals(last) ? "\"=\"" : answer);
                    last = answer;
                }
                answers.append("]\n");
            }
            byte[] bytes = answers.toString().getBytes(StandardCharsets.UTF_8);
            out.writeInt(bytes.length);
            out.write(bytes);
            out.flush();
        }
    }

    private static byte[] readBytes(DataInputStream in) throws Exception {
        int length = in.readInt();
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    /** One release's classes, away from those of the others. */
    private static class Release {
        private final ClassLoader loader;
        private final Object serde;
        private final Method deserialize;
        private final Method subscription;
        private final Method assignment;
        private final Method eagerState;
        private final Method eagerAssignment;
        private final Method cooperativeState;
        private final Method cooperativeAssignment;
        private final Object sticky;
        private final Method memberData;
        private final java.lang.reflect.Constructor<?> newSubscription;
        private final Object metadataSerde;
        private final Method readMetadata;
        private final java.lang.reflect.Constructor<?> newReadable;
        private final Method streamsSubscription;
        private final Field streamsSubscriptionData;
        private final Method streamsAssignment;
        private final Map<Class<?>, Shape> shapes = new HashMap<>();

        Release(String folder) throws Exception {
            List<URL> jars = new ArrayList<>();
            for (File jar : new File(folder).listFiles()) {
                if (jar.getName().endsWith(".jar")) {
                    jars.add(jar.toURI().toURL());
                }
            }
            loader = new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
            Thread.currentThread().setContextClassLoader(loader);
            Class<?> serdeClass;
            try {
                serdeClass = loader.loadClass("org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde");
            } catch (ClassNotFoundException before41) {
                serdeClass = loader.loadClass("org.apache.kafka.coordinator.group.CoordinatorRecordSerde");
            }
            serde = serdeClass.getConstructor().newInstance();
            Method found = null;
            for (Method each : serdeClass.getMethods()) {
                if (each.getName().equals("deserialize") && !each.isBridge()) {
                    found = each;
                }
            }
            deserialize = found;
            Class<?> consumer = loader.loadClass("org.apache.kafka.clients.consumer.internals.ConsumerProtocol");
            subscription = consumer.getMethod("deserializeSubscription", ByteBuffer.class);
            assignment = consumer.getMethod("deserializeAssignment", ByteBuffer.class);
            String connect = "org.apache.kafka.connect.runtime.distributed.";
            Class<?> eager = loader.loadClass(connect + "ConnectProtocol");
            eagerState = eager.getMethod("deserializeMetadata", ByteBuffer.class);
            eagerAssignment = eager.getMethod("deserializeAssignment", ByteBuffer.class);
            Class<?> cooperative = loader.loadClass(connect + "IncrementalCooperativeConnectProtocol");
            cooperativeState = cooperative.getMethod("deserializeMetadata", ByteBuffer.class);
            cooperativeAssignment = cooperative.getMethod("deserializeAssignment", ByteBuffer.class);
            Class<?> stickyClass = loader.loadClass("org.apache.kafka.clients.consumer.StickyAssignor");
            sticky = stickyClass.getConstructor().newInstance();
            Class<?> subscriptionClass =
                loader.loadClass("org.apache.kafka.clients.consumer.ConsumerPartitionAssignor$Subscription");
            newSubscription = subscriptionClass.getConstructor(List.class, ByteBuffer.class);
            memberData = stickyClass.getDeclaredMethod("memberData", subscriptionClass);
            memberData.setAccessible(true);
            Class<?> metadataClass = loader.loadClass("org.apache.kafka.metadata.MetadataRecordSerde");
            metadataSerde = metadataClass.getConstructor().newInstance();
            Class<?> readable = loader.loadClass("org.apache.kafka.common.protocol.Readable");
            readMetadata = metadataClass.getMethod("read", readable, int.class);
            newReadable = loader.loadClass("org.apache.kafka.common.protocol.ByteBufferAccessor").getConstructor(ByteBuffer.class);
            String streams = "org.apache.kafka.streams.processor.internals.assignment.";
            Class<?> subscriptionInfo = loader.loadClass(streams + "SubscriptionInfo");
            streamsSubscription = subscriptionInfo.getMethod("decode", ByteBuffer.class);
            streamsSubscriptionData = subscriptionInfo.getDeclaredField("data");
            streamsSubscriptionData.setAccessible(true);
            streamsAssignment = loader.loadClass(streams + "AssignmentInfo").getMethod("decode", ByteBuffer.class);
        }

        String answer(int kind, byte[] key, byte[] value) {
            StringBuilder out = new StringBuilder(160);
            try {
                if (kind == RECORD) {
                    record(out, key, value);
                } else if (kind == METADATA) {
                    metadata(out, ByteBuffer.wrap(value));
                } else {
                    embedded(out, kind, ByteBuffer.wrap(value));
                }
                return out.toString();
            } catch (InvocationTargetException refused) {
                return refusal(refused.getCause(), kind >= STREAMS_SUBSCRIPTION);
            } catch (Throwable refused) {
                return refusal(refused, false);
            }
        }

        private String refusal(Throwable refused, boolean isStreams) {
            StringBuilder out = new StringBuilder();
            if (refused instanceof OutOfMemoryError && isStreams) {
                text(out, "OutOfMemoryError: it believes any count");
                return out.toString();
            }
            if (refused instanceof VirtualMachineError || refused instanceof ReflectiveOperationException) {
                text(out, "broken: " + refused);
                return out.toString();
            }
            String message = String.valueOf(refused.getMessage());
            text(out, refused.getClass().getSimpleName() + ": " + message.substring(0, Math.min(90, message.length())));
            return out.toString();
        }

        private void record(StringBuilder out, byte[] key, byte[] value) throws Exception {
            ByteBuffer keyBuffer = key == null ? null : ByteBuffer.wrap(key);
            ByteBuffer valueBuffer = value == null ? null : ByteBuffer.wrap(value);
            Object record = deserialize.invoke(serde, keyBuffer, valueBuffer);
            Object recordKey = call(record, "key");
            if (recordKey.getClass().getSimpleName().equals("ApiMessageAndVersion")) {
                recordKey = call(recordKey, "message");
            }
            out.append("{\"key\":");
            struct(out, recordKey);
            Object versioned = call(record, "value");
            if (versioned == null) {
                out.append(",\"value\":null,\"version\":null");
            } else {
                out.append(",\"value\":");
                struct(out, call(versioned, "message"));
                out.append(",\"version\":").append(call(versioned, "version"));
            }
            out.append(",\"keyLeft\":").append(keyBuffer.remaining());
            out.append(",\"valueLeft\":").append(valueBuffer == null ? 0 : valueBuffer.remaining()).append('}');
        }

        private void metadata(StringBuilder out, ByteBuffer buffer) throws Exception {
            Object versioned = readMetadata.invoke(metadataSerde, newReadable.newInstance(buffer), buffer.remaining());
            Object message = call(versioned, "message");
            out.append("{\"type\":").append(call(message, "apiKey")).append(",\"version\":");
            out.append(call(versioned, "version")).append(",\"value\":");
            struct(out, message);
            out.append('}');
        }

        private void embedded(StringBuilder out, int kind, ByteBuffer buffer) throws Exception {
            out.append("{\"read\":[");
            switch (kind) {
                case CONSUMER_SUBSCRIPTION -> {
                    Object read = subscription.invoke(null, buffer);
                    plain(out, call(read, "topics"));
                    plain(out.append(','), call(read, "userData"));
                    plain(out.append(','), call(read, "ownedPartitions"));
                    plain(out.append(','), call(read, "generationId"));
                    plain(out.append(','), call(read, "rackId"));
                }
                case CONSUMER_ASSIGNMENT -> {
                    Object read = assignment.invoke(null, buffer);
                    plain(out, call(read, "partitions"));
                    plain(out.append(','), call(read, "userData"));
                }
                case EAGER_WORKER_STATE -> workerState(out, eagerState.invoke(null, buffer));
                case EAGER_ASSIGNMENT -> assigned(out, eagerAssignment.invoke(null, buffer));
                case COOPERATIVE_WORKER_STATE -> {
                    Object read = cooperativeState.invoke(null, buffer);
                    workerState(out, read);
                    Object allocation = call(read, "assignment");
                    if (allocation == null) {
                        out.append(",null");
                    } else {
                        out.append(",[");
                        cooperativelyAssigned(out, allocation);
                        out.append(']');
                    }
                }
                case COOPERATIVE_ASSIGNMENT -> cooperativelyAssigned(out, cooperativeAssignment.invoke(null, buffer));
                case STICKY_USER_DATA -> {
                    Object read = memberData.invoke(sticky, newSubscription.newInstance(List.of(), buffer));
                    plain(out, field(read, "partitions"));
                    plain(out.append(','), field(read, "generation"));
                }
                case STREAMS_SUBSCRIPTION ->
                    struct(out, streamsSubscriptionData.get(streamsSubscription.invoke(null, buffer)));
                case STREAMS_ASSIGNMENT -> {
                    Object read = streamsAssignment.invoke(null, buffer);
                    plain(out, call(read, "version"));
                    plain(out.append(','), call(read, "commonlySupportedVersion"));
                    plain(out.append(','), call(read, "activeTasks"));
                    pairs(out.append(','), (Map<?, ?>) call(read, "standbyTasks"));
                    pairs(out.append(','), (Map<?, ?>) call(read, "partitionsByHost"));
                    pairs(out.append(','), (Map<?, ?>) call(read, "standbyPartitionByHost"));
                    plain(out.append(','), call(read, "errCode"));
                    plain(out.append(','), call(read, "nextRebalanceMs"));
                }
                default -> throw new IllegalArgumentException("kind " + kind);
            }
            out.append("],\"left\":").append(buffer.remaining()).append('}');
        }

        private void pairs(StringBuilder out, Map<?, ?> map) throws Exception {
            out.append('[');
            String between = "";
            for (Map.Entry<?, ?> each : map.entrySet()) {
                pair(out.append(between), each.getKey(), each.getValue());
                between = ",";
            }
            out.append(']');
        }

        private void workerState(StringBuilder out, Object state) throws Exception {
            plain(out, call(state, "url"));
            plain(out.append(','), call(state, "offset"));
        }

        private void assigned(StringBuilder out, Object read) throws Exception {
            plain(out, call(read, "error"));
            for (String name : new String[] {"leader", "leaderUrl", "offset", "connectors", "tasks"}) {
                plain(out.append(','), call(read, name));
            }
        }

        private void cooperativelyAssigned(StringBuilder out, Object read) throws Exception {
            assigned(out, read);
            for (String name : new String[] {"version", "revokedConnectors", "revokedTasks", "delay"}) {
                plain(out.append(','), call(read, name));
            }
        }

        private final Map<String, Method> methods = new HashMap<>();

        private Object call(Object on, String name) throws Exception {
            String id = on.getClass().getName() + '.' + name;
            Method method = methods.get(id);
            if (method == null) {
                method = on.getClass().getMethod(name);
                method.setAccessible(true);
                methods.put(id, method);
            }
            return method.invoke(on);
        }

        private Object field(Object on, String name) throws Exception {
            Field field = on.getClass().getField(name);
            field.setAccessible(true);
            return field.get(on);
        }

        /** Every field of a generated class, by its name. */
        private void struct(StringBuilder out, Object message) throws Exception {
            Shape shape = shapes.get(message.getClass());
            if (shape == null) {
                shape = new Shape(message.getClass());
                shapes.put(message.getClass(), shape);
            }
            out.append('{');
            for (int i = 0; i < shape.fields.length; i++) {
                out.append(shape.starts[i]);
                plain(out, shape.fields[i].get(message));
            }
            Collection<?> unknown = (Collection<?>) shape.unknown.get(message);
            if (unknown != null && !unknown.isEmpty()) {
                out.append(shape.fields.length == 0 ? "\"~\":[" : ",\"~\":[");
                String between = "";
                for (Object tag : unknown) {
                    out.append(between).append('[').append(call(tag, "tag")).append(',');
                    plain(out, call(tag, "data"));
                    out.append(']');
                    between = ",";
                }
                out.append(']');
            }
            out.append('}');
        }

        private void plain(StringBuilder out, Object value) throws Exception {
            if (value == null) {
                out.append("null");
            } else if (value instanceof String each) {
                text(out, each);
            } else if (value instanceof Number || value instanceof Boolean) {
                out.append(value);
            } else if (value instanceof byte[] each) {
                hex(out, ByteBuffer.wrap(each));
            } else if (value instanceof ByteBuffer each) {
                hex(out, each.duplicate());
            } else if (value instanceof Optional<?> each) {
                plain(out, each.orElse(null));
            } else if (value instanceof Collection<?> each) {
                out.append('[');
                String between = "";
                for (Object element : each) {
                    out.append(between);
                    plain(out, element);
                    between = ",";
                }
                out.append(']');
            } else {
                switch (value.getClass().getName()) {
                    case "org.apache.kafka.common.Uuid" -> text(out, value.toString());
                    case "org.apache.kafka.common.TopicPartition" -> pair(out, call(value, "topic"), call(value, "partition"));
                    case "org.apache.kafka.streams.state.HostInfo" -> pair(out, call(value, "host"), call(value, "port"));
                    case "org.apache.kafka.streams.processor.TaskId" -> {
                        out.append('[').append(call(value, "subtopology")).append(',').append(call(value, "partition"));
                        plain(out.append(','), call(value, "topologyName"));
                        out.append(']');
                    }
                    case "org.apache.kafka.connect.util.ConnectorTaskId" -> pair(out, call(value, "connector"), call(value, "task"));
                    default -> struct(out, value);
                }
            }
        }

        private void pair(StringBuilder out, Object one, Object other) throws Exception {
            plain(out.append('['), one);
            plain(out.append(','), other);
            out.append(']');
        }
    }

    private static class Shape {
        final Field[] fields;
        final String[] starts;
        final Field unknown;

        Shape(Class<?> type) throws Exception {
            List<Field> found = new ArrayList<>();
            for (Field each : type.getDeclaredFields()) {
                // An element of a linked collection has `next` and `prev` of its own.
                boolean isLink = each.getName().equals("next") || each.getName().equals("prev");
                if (!Modifier.isStatic(each.getModifiers()) && !each.getName().startsWith("_") && !isLink) {
                    each.setAccessible(true);
                    found.add(each);
                }
            }
            fields = found.toArray(new Field[0]);
            starts = new String[fields.length];
            for (int i = 0; i < fields.length; i++) {
                starts[i] = (i == 0 ? "\"" : ",\"") + fields[i].getName() + "\":";
            }
            unknown = type.getDeclaredField("_unknownTaggedFields");
            unknown.setAccessible(true);
        }
    }

    private static final char[] DIGITS = "0123456789abcdef".toCharArray();

    private static void hex(StringBuilder out, ByteBuffer bytes) {
        out.append('"');
        while (bytes.hasRemaining()) {
            byte each = bytes.get();
            out.append(DIGITS[(each >> 4) & 15]).append(DIGITS[each & 15]);
        }
        out.append('"');
    }

    private static void text(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (each == '"' || each == '\\') {
                out.append('\\').append(each);
            } else if (each < ' ') {
                out.append("\\u00").append(DIGITS[each >> 4]).append(DIGITS[each & 15]);
            } else {
                out.append(each);
            }
        }
        out.append('"');
    }
}
