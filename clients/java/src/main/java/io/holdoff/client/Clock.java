package io.holdoff.client;

import io.holdoff.client.rules.Nanos;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The monotonic clock of all that is decided, and how long the machine was suspended.
 *
 * <p>{@link System#nanoTime} stands still while a machine sleeps, so that after a resume a permit
 * looks younger than it is. Linux counts the time since it was started through a sleep; the
 * difference is looked at once a second at most. Elsewhere the clock is taken to run on.
 */
final class Clock {
    /** Below this the two clocks merely were not read at the same time. */
    private static final long SUSPENDED_MIN = 100 * Nanos.MILLISECOND;

    private static final Path UPTIME = Path.of("/proc/uptime");

    private final long origin = System.nanoTime();
    private final long mark = uptime() - origin;

    /** Since the origin. Read by many, written by whoever looks. */
    private volatile long slept;

    /** Now, as the rules count it: nanoseconds since the client was built. */
    long time() {
        return at(System.nanoTime());
    }

    /** The same of a reading of {@link System#nanoTime}. */
    long at(long nanoTime) {
        return nanoTime - origin + slept;
    }

    /** Looks whether the machine slept. Returns how long in all. */
    long look() {
        long since = uptime() - System.nanoTime() - mark;
        slept = since < SUSPENDED_MIN ? 0 : since;
        return slept;
    }

    private static long uptime() {
        try {
            String text = Files.readString(UPTIME, StandardCharsets.US_ASCII);
            int end = text.indexOf(' ');
            return (long) (Double.parseDouble(text.substring(0, end)) * Nanos.SECOND);
        } catch (IOException | RuntimeException noSuchClock) {
            return System.nanoTime();
        }
    }
}
