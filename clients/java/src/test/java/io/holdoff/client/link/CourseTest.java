package io.holdoff.client.link;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.holdoff.client.link.Course.End;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** When the next connection is tried, and where. */
final class CourseTest {
    private static final long MILLISECOND = 1_000_000L;

    private final Course course = new Course(2, 0);

    @Test
    void aReturnIsSpreadOverFourAndAHalfSecondsGrowingToThirtyWhereTheServiceIsIll() {
        List<Long> waits = new ArrayList<>();
        for (int time = 0; time < 5; time++) {
            course.ended(0, End.BROKEN_UNPROVEN, 0, 1);
            waits.add(course.notBefore() / MILLISECOND);
        }
        assertEquals(List.of(4_500L, 9_000L, 18_000L, 30_000L, 30_000L), waits);
        for (int time = 0; time < 5; time++) {
            course.nothingReachable(0, 1);
            assertEquals(4_500, course.notBefore() / MILLISECOND, "nobody listens");
        }
        course.ended(0, End.BROKEN, 0, 0.5);
        assertEquals(2_250, course.notBefore() / MILLISECOND);
    }

    @Test
    void aSilentEndpointIsLeftForTheNextOneAfterOneToFourAndAHalfSeconds() {
        course.ended(0, End.SILENT, 0, 0);
        assertEquals(1, course.start());
        assertEquals(1_000, course.notBefore() / MILLISECOND);
        course.ended(1, End.SILENT, 0, 1);
        assertEquals(0, course.start());
        assertEquals(4_500, course.notBefore() / MILLISECOND);
    }
}
