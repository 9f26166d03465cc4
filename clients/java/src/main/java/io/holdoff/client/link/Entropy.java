package io.holdoff.client.link;

import java.security.SecureRandom;
import java.util.concurrent.atomic.AtomicLong;

/** Random numbers, begun by the operating system for each process (splitmix64). */
public final class Entropy {
    private static final AtomicLong STATE = new AtomicLong(new SecureRandom().nextLong());

    private Entropy() {}

    public static long number() {
        long z = STATE.addAndGet(0x9E3779B97F4A7C15L);
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }

    /** Uniform in [0, 1). */
    public static double unit() {
        return (number() >>> 11) * 0x1p-53;
    }
}
