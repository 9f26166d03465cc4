package io.holdoff.client.vectors;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The fields of one JSON object. One that nobody has read by the end is an error: a misspelt field
 * would check nothing.
 */
public final class Fields implements AutoCloseable {
    private final JsonObject json;
    private final Set<String> read = new HashSet<>();

    public Fields(JsonElement json) {
        this.json = json.getAsJsonObject();
    }

    public boolean has(String name) {
        return json.has(name);
    }

    public JsonElement get(String name) {
        read.add(name);
        JsonElement value = json.get(name);
        if (value == null) {
            throw new AssertionError("no field `" + name + "` in " + json);
        }
        return value;
    }

    public String text(String name) {
        return get(name).getAsString();
    }

    public String text(String name, String otherwise) {
        return has(name) ? text(name) : otherwise;
    }

    /** Null for null. */
    public String textOrNull(String name) {
        JsonElement value = get(name);
        return value.isJsonNull() ? null : value.getAsString();
    }

    public long count(String name) {
        return get(name).getAsBigDecimal().longValueExact();
    }

    public long count(String name, long otherwise) {
        return has(name) ? count(name) : otherwise;
    }

    public double real(String name) {
        JsonPrimitive value = get(name).getAsJsonPrimitive();
        return Double.parseDouble(value.getAsString());
    }

    public double real(String name, double otherwise) {
        return has(name) ? real(name) : otherwise;
    }

    public boolean flag(String name) {
        return get(name).getAsBoolean();
    }

    public boolean flag(String name, boolean otherwise) {
        return has(name) ? flag(name) : otherwise;
    }

    /** Unsigned 64 bits. */
    public long nanos(String name) {
        return Long.parseUnsignedLong(text(name));
    }

    public long nanos(String name, long otherwise) {
        return has(name) ? nanos(name) : otherwise;
    }

    /** Null for null, and where there is no such field. */
    public Long nanosOrNull(String name) {
        if (!has(name) || get(name).isJsonNull()) {
            return null;
        }
        return nanos(name);
    }

    /** Looks at an object within, all of it. Empty: null, or none. */
    public <T> Optional<T> within(String name, Function<Fields, T> look) {
        if (!has(name) || get(name).isJsonNull()) {
            return Optional.empty();
        }
        try (Fields fields = new Fields(get(name))) {
            return Optional.of(look.apply(fields));
        }
    }

    /** Looks at each object of a list, all of it. */
    public void each(String name, Consumer<Fields> look) {
        for (JsonElement element : get(name).getAsJsonArray()) {
            try (Fields fields = new Fields(element)) {
                look.accept(fields);
            }
        }
    }

    @Override
    public void close() {
        for (String name : json.keySet()) {
            if (!read.contains(name)) {
                throw new AssertionError("nobody knows the field `" + name + "` of " + json);
            }
        }
    }
}
