package io.holdoff.client.link;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.holdoff.client.link.Course.End;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** When the next connection is tried, and where. */
final class CourseTest {
    private static final long SECOND = 1_000_000_000L;

    private final Course course = new Course(2, 0);

    @Test
    void aReturnIsSpreadOverFiveSecondsGrowingToThirtyWhereTheServiceIsIll() {
        List<Long> waits = new ArrayList<>();
        for (int time = 0; time < 5; time++) {
            course.ended(0, End.BROKEN_UNPROVEN, 0, 1);
            waits.add(course.notBefore() / SECOND);
        }
        assertEquals(List.of(5L, 10L, 20L, 30L, 30L), waits);
        for (int time = 0; time < 5; time++) {
            course.nothingReachable(0, 1);
            assertEquals(5, course.notBefore() / SECOND, "nobody listens");
        }
        course.ended(0, End.BROKEN, 0, 0.5);
        assertEquals(5 * SECOND / 2, course.notBefore());
    }

    @Test
    void aSilentEndpointIsLeftForTheNextOneAfterOneToFiveSeconds() {
        course.ended(0, End.SILENT, 0, 0);
        assertEquals(1, course.start());
        assertEquals(SECOND, course.notBefore());
        course.ended(1, End.SILENT, 0, 1);
        assertEquals(0, course.start());
        assertEquals(5 * SECOND, course.notBefore());
    }
}
