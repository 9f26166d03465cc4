package io.holdoff.client.link;

import io.holdoff.client.Outcome;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.v1.ReportEntry;
import io.holdoff.client.v1.Tally;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Attempts that were made on pushed state, counted by dependency and epoch, until the next report
 * takes them along.
 *
 * <p>An attempt is counted when it ends: its start and its end together. Counted when it starts,
 * one whose failure is told with a question, which counts the start again, would deposit twice in
 * the retry budget, just when everything fails.
 *
 * <p>Not safe for use by several threads.
 */
final class Tallies {
    /** Past it new ones are refused. Those that exist go on. */
    static final int COUNTERS_MAX = 10_000;

    private final Map<Key, Counter> counters = new HashMap<>();

    /** Mostly the same is counted again. */
    private Key last;

    private Counter lastCounter;

    private record Key(String dependency, long epoch) {}

    private static final class Counter {
        /** Since the present stream began. */
        private int firstAttempts;

        private int successes;
        private int failures;
        private int timeouts;
        private int throttled;
        private int rejected;
        private int ignored;
        private int slow;
        private long latencySum;

        private void add(long nanos, OnState on) {
            slow += on.slowAfter() != 0 && !Nanos.less(nanos, on.slowAfter()) ? 1 : 0;
            latencySum = Nanos.add(latencySum, Nanos.min(nanos, Nanos.DAY));
        }
    }

    /** Counts an attempt that ended. False: there is no room. */
    boolean note(String dependency, OnState on, Outcome outcome) {
        boolean isLast =
                last != null
                        && last.epoch() == on.epoch()
                        && last.dependency().equals(dependency);
        if (!isLast && !look(new Key(dependency, on.epoch()))) {
            return false;
        }
        count(lastCounter, outcome);
        if (outcome.latencyNanos() >= 0) {
            lastCounter.add(outcome.latencyNanos(), on);
        }
        return true;
    }

    private boolean look(Key key) {
        Counter counter = counters.get(key);
        if (counter == null) {
            if (counters.size() >= COUNTERS_MAX) {
                return false;
            }
            counter = new Counter();
            counters.put(key, counter);
        }
        last = key;
        lastCounter = counter;
        return true;
    }

    /**
     * A stream begins: what was counted before it deposits nothing. A process that was alone for a
     * while had its own budget of it, and told all at once it would be a lump of retries just when
     * the service is back.
     */
    void forgetStarts() {
        counters.values().forEach(counter -> counter.firstAttempts = 0);
    }

    private static void count(Counter counter, Outcome outcome) {
        counter.firstAttempts++;
        switch (outcome.kind()) {
            case SUCCESS -> counter.successes++;
            // The dependency could not be reached: for the breaker a failure like any.
            case FAILURE, NOT_SENT -> counter.failures++;
            case TIMEOUT -> counter.timeouts++;
            case THROTTLED -> counter.throttled++;
            case REJECTED -> counter.rejected++;
            case IGNORED, CANCELLED -> counter.ignored++;
        }
    }

    /** As it may be said on the wire: at most a day. */
    static long latency(Duration took) {
        return Nanos.min(Nanos.of(took), Nanos.DAY);
    }

    /** Takes so many at most. */
    List<ReportEntry> take(int most) {
        last = null;
        lastCounter = null;
        List<ReportEntry> taken = new ArrayList<>(Math.min(most, counters.size()));
        Iterator<Map.Entry<Key, Counter>> each = counters.entrySet().iterator();
        while (each.hasNext() && taken.size() < most) {
            Map.Entry<Key, Counter> next = each.next();
            taken.add(entry(next.getKey(), next.getValue()));
            each.remove();
        }
        return taken;
    }

    boolean isEmpty() {
        return counters.isEmpty();
    }

    private static ReportEntry entry(Key key, Counter counter) {
        Tally.Builder tally =
                Tally.newBuilder()
                        .setDependency(key.dependency())
                        .setEpoch(key.epoch())
                        .setFirstAttempts(counter.firstAttempts)
                        .setSuccesses(counter.successes)
                        .setFailures(counter.failures)
                        .setTimeouts(counter.timeouts)
                        .setThrottled(counter.throttled)
                        .setRejected(counter.rejected)
                        .setSlow(counter.slow)
                        .setIgnored(counter.ignored)
                        .setLatencySum(Wire.writeNanos(counter.latencySum));
        return ReportEntry.newBuilder().setTally(tally).build();
    }
}
