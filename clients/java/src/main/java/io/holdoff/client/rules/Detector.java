package io.holdoff.client.rules;

/**
 * Tells a failing dependency from a healthy one by a cumulative sum of evidence (Page's CUSUM):
 * the log-likelihood ratio of "fails with p1" against "fails with p0".
 *
 * <pre>
 * failure: sum += ln(p1 / p0)          success: sum -= ln((1 - p0) / (1 - p1)), at least 0
 * trip:    sum &gt;= 13.3 (ln 600,000)
 * p0 = clamp(2 * baseline, 2 %, 20 %)  p1 = clamp(5 * p0, 50 %, 90 %)
 * </pre>
 *
 * <p>At the lowest p0 five straight failures trip it (3.2 each). Old evidence decays with a
 * half-life of 30 s. The baseline is learned from stretches that ended healthy alone.
 */
public final class Detector {
    private static final double THRESHOLD = 13.3;
    private static final double HALF_LIFE = 30e9;
    private static final long LESSON = 256;
    private static final long STRETCH_MAX = 65_535;

    private double sum;
    private double baseline = 0.01;
    private long at;

    /** The stretch since the baseline last moved. */
    private long calls;

    private long failures;

    /** Adds outcomes that ended now. True: it trips. */
    public boolean record(long successes, long failed, long now) {
        double p0 = clamp(2 * baseline, 0.02, 0.2);
        double p1 = clamp(5 * p0, 0.5, 0.9);
        double net = failed * Math.log(p1 / p0) - successes * Math.log((1 - p0) / (1 - p1));
        double halfLives = Nanos.toDouble(Nanos.subtract(now, at)) / HALF_LIFE;
        sum = Math.max(0, sum * Math.pow(2, -halfLives) + net);
        at = Nanos.max(at, now);
        learn(successes, failed);
        return sum >= THRESHOLD;
    }

    public double sum() {
        return sum;
    }

    /** Forgets the evidence and keeps the baseline. */
    void clear() {
        sum = 0;
        calls = 0;
        failures = 0;
    }

    private void learn(long successes, long failed) {
        calls += successes + failed;
        failures += failed;
        if (calls > STRETCH_MAX) {
            failures = failures * STRETCH_MAX / calls;
            calls = STRETCH_MAX;
        }
        if (sum > 0 || calls < LESSON) {
            return;
        }
        double seen = Math.min(1, (double) failures / calls);
        long lessons = Math.min(64, calls / LESSON);
        baseline += (seen - baseline) / 64 * lessons;
        calls = 0;
        failures = 0;
    }

    private static double clamp(double value, double low, double high) {
        return Math.max(low, Math.min(high, value));
    }
}
