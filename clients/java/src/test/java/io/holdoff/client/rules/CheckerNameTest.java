package io.holdoff.client.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.holdoff.client.vectors.Vectors;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** The place of a checker in its period, as the service computes it. */
final class CheckerNameTest {
    @Test
    void aPartOfAPeriodIsThatPartOfTwoToThePowerOf64() {
        long period = 30 * Nanos.SECOND;
        assertEquals(0, CheckerName.partOf(0, period));
        assertEquals(period / 2, CheckerName.partOf(Long.MIN_VALUE, period));
        assertEquals(period - 1, CheckerName.partOf(-1, period));
        assertEquals(period / 4, CheckerName.partOf(1L << 62, period));
    }

    /** The plans themselves are the service's matter. */
    @TestFactory
    List<DynamicTest> names() throws IOException {
        return Vectors.some(
                "check",
                vector -> vector.has("name_of"),
                9,
                vector -> {
                    var parts = vector.get("name_of").getAsJsonArray();
                    long name =
                            CheckerName.of(
                                    parts.get(0).getAsString(),
                                    parts.get(1).getAsString(),
                                    parts.get(2).getAsString());
                    assertEquals(vector.text("expected"), Long.toUnsignedString(name));
                });
    }
}
