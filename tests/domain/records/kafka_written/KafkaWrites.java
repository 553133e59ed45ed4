// Writes the values of values.json with Kafka's own generated classes, for those cases that name this release:
//   java -cp '<jars of that release>/*:<jackson jars>/*' KafkaWrites.java <release> values.json
// prints the file again with `hex` filled in. The content was written by hand; the bytes are Kafka's.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class KafkaWrites {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        ArrayNode cases = (ArrayNode) mapper.readTree(new File(args[1]));
        for (JsonNode each : cases) {
            if (each.get("kafka").asText().equals(args[0])) {
                Class<?> schema = Class.forName("org.apache.kafka.coordinator.group.generated." + each.get("schema").asText());
                Message message = (Message) build(schema, each.get("value"));
                short version = (short) each.get("version").asInt();
                byte[] bytes = MessageUtil.toVersionPrefixedBytes(version, message);
                ((ObjectNode) each).put("hex", HexFormat.of().formatHex(bytes));
            }
        }
        System.out.println(mapper.writeValueAsString(cases));
    }

    private static Object build(Type type, JsonNode value) throws Exception {
        if (value.isNull()) {
            return null;
        }
        if (type instanceof ParameterizedType list) {
            List<Object> elements = new ArrayList<>();
            for (JsonNode each : value) {
                elements.add(build(list.getActualTypeArguments()[0], each));
            }
            return elements;
        }
        return switch (type.getTypeName()) {
            case "byte" -> (byte) value.asInt();
            case "short", "java.lang.Short" -> (short) value.asInt();
            case "int", "java.lang.Integer" -> value.asInt();
            case "long" -> value.asLong();
            case "java.lang.String" -> value.asText();
            case "byte[]" -> value.binaryValue();
            case "org.apache.kafka.common.Uuid" -> Uuid.fromString(value.asText());
            default -> struct((Class<?>) type, value);
        };
    }

    private static Object struct(Class<?> type, JsonNode fields) throws Exception {
        Object built = type.getConstructor().newInstance();
        for (Iterator<String> names = fields.fieldNames(); names.hasNext();) {
            String name = names.next();
            String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
            Method found = null;
            for (Method each : type.getMethods()) {
                if (each.getName().equals(setter)) {
                    found = each;
                }
            }
            if (found == null) {
                throw new NoSuchMethodException(type + "." + setter);
            }
            found.invoke(built, build(found.getGenericParameterTypes()[0], fields.get(name)));
        }
        return built;
    }
}
