package io.holdoff.client;

import io.holdoff.client.rules.Nanos;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/**
 * What is known of an attempt that ended. Immutable: each setting returns a new one.
 *
 * <pre>{@code
 * permit.report(Outcome.of(OutcomeKind.THROTTLED).pushback(Duration.ofSeconds(2)));
 * }</pre>
 */
public final class Outcome {
    private static final Outcome SUCCESS = of(OutcomeKind.SUCCESS);
    private static final Outcome FAILURE = of(OutcomeKind.FAILURE);
    private static final Outcome TIMEOUT = of(OutcomeKind.TIMEOUT);
    private static final Outcome CANCELLED = of(OutcomeKind.CANCELLED);

    private final OutcomeKind kind;
    /** Nanoseconds; -1: not known. */
    private final long latency;

    private final Duration pushback;
    private final boolean restartsBackoff;
    private final boolean doNotRetry;
    private final boolean retriedBelow;
    private final int statusCode;

    private Outcome(
            OutcomeKind kind,
            long latency,
            Duration pushback,
            boolean restartsBackoff,
            boolean doNotRetry,
            boolean retriedBelow,
            int statusCode) {
        this.kind = Objects.requireNonNull(kind, "kind");
        this.latency = latency;
        this.pushback = pushback;
        this.restartsBackoff = restartsBackoff;
        this.doNotRetry = doNotRetry;
        this.retriedBelow = retriedBelow;
        this.statusCode = statusCode;
    }

    /**
     * It ended so, and nothing more is known.
     *
     * @param kind how
     * @return the outcome
     */
    public static Outcome of(OutcomeKind kind) {
        return new Outcome(kind, -1, null, false, false, false, 0);
    }

    /**
     * It worked.
     *
     * @return the outcome
     */
    public static Outcome success() {
        return SUCCESS;
    }

    /**
     * It failed, and a later attempt may work.
     *
     * @return the outcome
     */
    public static Outcome failure() {
        return FAILURE;
    }

    /**
     * No answer came in time.
     *
     * @return the outcome
     */
    public static Outcome timeout() {
        return TIMEOUT;
    }

    /**
     * The caller gave it up.
     *
     * @return the outcome
     */
    public static Outcome cancelled() {
        return CANCELLED;
    }

    /**
     * How long it took. A whole call measures it where this is not said.
     *
     * @param took the latency, not negative
     * @return a new outcome
     */
    public Outcome latency(Duration took) {
        return latencyNanos(Nanos.min(Nanos.of(took), Long.MAX_VALUE));
    }

    Outcome latencyNanos(long took) {
        return new Outcome(
                kind, took, pushback, restartsBackoff, doNotRetry, retriedBelow, statusCode);
    }

    /**
     * The dependency asked for so long a wait, as HTTP's {@code Retry-After} does.
     *
     * @param wait the wait, not negative
     * @return a new outcome
     */
    public Outcome pushback(Duration wait) {
        return new Outcome(kind, latency, wait, false, doNotRetry, retriedBelow, statusCode);
    }

    /**
     * The dependency asked for so long a wait by gRPC, after which the backoff starts at its first
     * delay again.
     *
     * @param wait the wait, not negative
     * @return a new outcome
     */
    public Outcome grpcPushback(Duration wait) {
        return new Outcome(kind, latency, wait, true, doNotRetry, retriedBelow, statusCode);
    }

    /**
     * The dependency said that there must be no retry.
     *
     * @return a new outcome
     */
    public Outcome doNotRetry() {
        return new Outcome(
                kind, latency, pushback, restartsBackoff, true, retriedBelow, statusCode);
    }

    /**
     * A layer between the caller and the fault has retried already.
     *
     * @return a new outcome
     */
    public Outcome retriedBelow() {
        return new Outcome(kind, latency, pushback, restartsBackoff, doNotRetry, true, statusCode);
    }

    /**
     * The HTTP status or gRPC code, for people. It decides nothing.
     *
     * @param code the code, not negative
     * @return a new outcome
     */
    public Outcome statusCode(int code) {
        return new Outcome(
                kind, latency, pushback, restartsBackoff, doNotRetry, retriedBelow, code);
    }

    /**
     * How it ended.
     *
     * @return the kind
     */
    public OutcomeKind kind() {
        return kind;
    }

    /**
     * How long it took.
     *
     * @return the latency, where it is known
     */
    public Optional<Duration> latency() {
        return latency < 0 ? Optional.empty() : Optional.of(Duration.ofNanos(latency));
    }

    /**
     * How long it took.
     *
     * @return nanoseconds; -1 where it is not known
     */
    public long latencyNanos() {
        return latency;
    }

    /**
     * What the dependency asked for.
     *
     * @return the wait, where it asked for one
     */
    public Optional<Duration> pushback() {
        return Optional.ofNullable(pushback);
    }

    /**
     * Whether the pushback came by gRPC.
     *
     * @return true where the backoff starts anew after it
     */
    public boolean isBackoffRestarted() {
        return restartsBackoff;
    }

    /**
     * Whether the dependency forbade a retry.
     *
     * @return true where it did
     */
    public boolean isRetryForbidden() {
        return doNotRetry;
    }

    /**
     * Whether a layer below has retried.
     *
     * @return true where it has
     */
    public boolean isRetriedBelow() {
        return retriedBelow;
    }

    /**
     * The HTTP status or gRPC code.
     *
     * @return 0 where there is none
     */
    public int statusCode() {
        return statusCode;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Outcome that
                && kind == that.kind
                && latency == that.latency
                && Objects.equals(pushback, that.pushback)
                && restartsBackoff == that.restartsBackoff
                && doNotRetry == that.doNotRetry
                && retriedBelow == that.retriedBelow
                && statusCode == that.statusCode;
    }

    @Override
    public int hashCode() {
        return Objects.hash(
                kind, latency, pushback, restartsBackoff, doNotRetry, retriedBelow, statusCode);
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Outcome[").append(kind);
        if (statusCode != 0) {
            text.append(", code ").append(statusCode);
        }
        if (latency >= 0) {
            text.append(", took ").append(Duration.ofNanos(latency));
        }
        if (pushback != null) {
            text.append(", pushback ").append(pushback);
        }
        return text.append(doNotRetry ? ", do not retry]" : "]").toString();
    }
}
