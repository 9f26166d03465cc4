package io.holdoff.client.rules;

import java.nio.charset.StandardCharsets;

/**
 * The number by which a checker has its place in a period, the same after a restart: FNV-1a over
 * dependency, service and instance, each behind its length, mixed so that all bits count.
 */
public final class CheckerName {
    private static final long OFFSET = 0xcbf29ce484222325L;
    private static final long PRIME = 0x100000001b3L;

    private CheckerName() {}

    public static long of(String dependency, String service, String instance) {
        long hash = OFFSET;
        for (String part : new String[] {dependency, service, instance}) {
            byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
            for (int shift = 0; shift < 64; shift += 8) {
                hash = (hash ^ (long) bytes.length >>> shift & 0xff) * PRIME;
            }
            for (byte each : bytes) {
                hash = (hash ^ each & 0xff) * PRIME;
            }
        }
        hash = (hash ^ hash >>> 30) * 0xBF58476D1CE4E5B9L;
        hash = (hash ^ hash >>> 27) * 0x94D049BB133111EBL;
        return hash ^ hash >>> 31;
    }

    /** This part of 2^64 of a period. */
    public static long partOf(long name, long period) {
        long high = Math.multiplyHigh(name, period);
        // Of unsigned numbers.
        return high + (name >> 63 & period) + (period >> 63 & name);
    }
}
