import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Appends what a client saw, with its own clock, as JSON lines; one write per line, so that readers see whole lines. */
final class Truth {
    private final FileOutputStream file;
    private final String client;

    Truth(String path, String client) throws IOException {
        this.file = new FileOutputStream(path, true);
        this.client = client;
    }

    synchronized void write(String event, Map<String, Object> more) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("at_ms", System.currentTimeMillis());
        line.put("client", client);
        line.put("event", event);
        line.putAll(more);
        try {
            file.write((json(line) + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new IllegalStateException("the truth file cannot be written", e);
        }
    }

    private static String json(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
        if (value instanceof Map)
            return ((Map<?, ?>) value).entrySet().stream()
                .map(entry -> json(entry.getKey()) + ": " + json(entry.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
        if (value instanceof Collection)
            return ((Collection<?>) value).stream().map(Truth::json).collect(Collectors.joining(", ", "[", "]"));
        StringBuilder text = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') text.append('\\').append(c);
            else if (c < ' ') text.append(String.format("\\u%04x", (int) c));
            else text.append(c);
        }
        return text.append('"').toString();
    }
}
