package io.holdoff.client.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.holdoff.client.Outcome;
import org.junit.jupiter.api.Test;

/** Outcomes on their way. */
final class ReportsTest {
    private static final ByteString PERMIT = ByteString.copyFromUtf8("permit");
    private static final OnState ON = new OnState(1, 0);

    private final Counting counting = new Counting();
    private final Reports reports = new Reports(counting, () -> {});

    @Test
    void cl5TenThousandOutcomesAreHeldAndTheRestIsCounted() {
        for (int each = 0; each < Reports.QUEUE_MAX + 5; each++) {
            reports.push(PERMIT, Outcome.success(), false);
        }
        assertEquals(5, counting.reportsDropped.sum());
        assertEquals(1_000, reports.take().entries().size());
    }

    @Test
    void cl5TenThousandCountersAreHeldAndThoseThatExistGoOn() {
        for (int each = 0; each < Tallies.COUNTERS_MAX; each++) {
            reports.tally("d" + each, ON, Outcome.success(), false);
        }
        reports.tally("one more", ON, Outcome.success(), false);
        reports.tally("d0", ON, Outcome.success(), false);
        assertEquals(1, counting.reportsDropped.sum());
    }

    @Test
    void successesWaitTenMillisecondsAndFailuresDoNot() {
        reports.push(PERMIT, Outcome.success(), false);
        long wait = reports.dueIn(System.nanoTime());
        assertTrue(wait > 0 && wait <= 10_000_000L, () -> wait + " ns");
        reports.push(PERMIT, Outcome.failure(), true);
        assertEquals(0, reports.dueIn(System.nanoTime()));
    }

    @Test
    void talliesGoFirstInABatch() {
        reports.push(PERMIT, Outcome.success(), false);
        reports.tally("payments", ON, Outcome.success(), false);
        Reports.Batch batch = reports.take();
        assertTrue(batch.entries().get(0).hasTally());
        assertTrue(batch.entries().get(1).hasResult());
    }

    @Test
    void startsOfBeforeAStreamDepositNothingRepeatedOrNot() {
        reports.tally("payments", ON, Outcome.success(), false);
        assertEquals(1, reports.take().entries().get(0).getTally().getFirstAttempts());
        reports.broken();
        reports.tally("payments", ON, Outcome.success(), false);
        reports.streamBegins();
        for (int batch = 0; batch < 2; batch++) {
            var tally = reports.take().entries().get(0).getTally();
            assertEquals(0, tally.getFirstAttempts());
            assertEquals(1, tally.getSuccesses());
        }
    }

    @Test
    void aLostBatchGoesOnceMoreUnderItsOwnNumber() {
        reports.push(PERMIT, Outcome.success(), false);
        long sequence = reports.take().sequence();
        reports.broken();
        assertEquals(sequence, reports.take().sequence());
        reports.broken();
        assertNull(reports.take());
        assertEquals(1, counting.reportsDropped.sum());
        assertTrue(reports.isEmpty());
    }
}
