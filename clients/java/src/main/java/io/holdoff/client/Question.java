package io.holdoff.client;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * What a caller says about a call before it makes it. Immutable: each setting returns a new one.
 *
 * <pre>{@code
 * Question.of("payments").idempotent().deadline(Duration.ofSeconds(2))
 * }</pre>
 */
public final class Question {
    /** Attempts that a call may have where its caller names no limit of its own. */
    private static final int ATTEMPTS = 10;

    private static final int COST_MAX = 1_000_000;
    private static final int NAME_LENGTH_MAX = 200;
    private static final int SHOWN_MAX = 80;

    private final String dependency;
    private final Safety safety;
    private final Priority priority;
    private final int cost;
    private final String callId;
    private final Duration deadline;
    private final int maxAttempts;
    private final Duration attemptTimeout;

    private Question(
            String dependency,
            Safety safety,
            Priority priority,
            int cost,
            String callId,
            Duration deadline,
            int maxAttempts,
            Duration attemptTimeout) {
        this.dependency = Objects.requireNonNull(dependency, "dependency");
        this.safety = Objects.requireNonNull(safety, "safety");
        this.priority = Objects.requireNonNull(priority, "priority");
        this.cost = cost;
        this.callId = callId;
        this.deadline = deadline;
        this.maxAttempts = maxAttempts;
        this.attemptTimeout = attemptTimeout;
    }

    /**
     * About a call to this dependency.
     *
     * @param dependency 1 to 200 ASCII letters, digits and {@code . _ / : @ -}; a client refuses
     *     other names
     * @return the question, of an unsafe call
     */
    public static Question of(String dependency) {
        return new Question(
                dependency, Safety.UNSAFE, Priority.NORMAL, 0, null, null, ATTEMPTS, null);
    }

    /**
     * May it be executed twice?
     *
     * @param safe {@link Safety#UNSAFE} unless said
     * @return a new question
     */
    public Question safety(Safety safe) {
        return new Question(
                dependency, safe, priority, cost, callId, deadline, maxAttempts, attemptTimeout);
    }

    /**
     * Executing it twice is the same as once.
     *
     * @return a new question
     */
    public Question idempotent() {
        return safety(Safety.IDEMPOTENT);
    }

    /**
     * Who goes first.
     *
     * @param rank {@link Priority#NORMAL} unless said
     * @return a new question
     */
    public Question priority(Priority rank) {
        return new Question(
                dependency, safety, rank, cost, callId, deadline, maxAttempts, attemptTimeout);
    }

    /**
     * How long the caller waits in all, delays and attempts together, counted from the first
     * question.
     *
     * @param wait none unless said
     * @return a new question
     */
    public Question deadline(Duration wait) {
        return new Question(
                dependency, safety, priority, cost, callId, wait, maxAttempts, attemptTimeout);
    }

    /**
     * The caller's own limit, the first call included. The service may allow fewer.
     *
     * @param attempts 10 unless said, {@link Integer#MAX_VALUE} for one that never gives up
     * @return a new question
     */
    public Question maxAttempts(int attempts) {
        int some = Math.max(1, attempts);
        return new Question(
                dependency, safety, priority, cost, callId, deadline, some, attemptTimeout);
    }

    /**
     * Gives one attempt up, as timed out, after so long.
     *
     * @param timeout none unless said
     * @return a new question
     */
    public Question attemptTimeout(Duration timeout) {
        return new Question(
                dependency, safety, priority, cost, callId, deadline, maxAttempts, timeout);
    }

    /**
     * What it takes from a rate limit.
     *
     * @param units 1 unless said
     * @return a new question
     * @throws IllegalArgumentException it is negative, or above 1,000,000
     */
    public Question cost(int units) {
        if (units < 0 || units > COST_MAX) {
            throw new IllegalArgumentException("cost " + units + ": 0 to " + COST_MAX);
        }
        return new Question(
                dependency, safety, priority, units, callId, deadline, maxAttempts, attemptTimeout);
    }

    /**
     * A name of this call.
     *
     * @param id at most 128 bytes; drawn at random unless said
     * @return a new question
     */
    public Question callId(String id) {
        return new Question(
                dependency, safety, priority, cost, id, deadline, maxAttempts, attemptTimeout);
    }

    /**
     * What is called.
     *
     * @return its name
     */
    public String dependency() {
        return dependency;
    }

    /**
     * Whether it may be executed twice.
     *
     * @return how safe that is
     */
    public Safety safety() {
        return safety;
    }

    /**
     * The caller's own limit of attempts.
     *
     * @return at least 1
     */
    public int maxAttempts() {
        return maxAttempts;
    }

    Priority priority() {
        return priority;
    }

    OptionalInt cost() {
        return cost == 0 ? OptionalInt.empty() : OptionalInt.of(cost);
    }

    String callId() {
        return callId;
    }

    /** Null: there is none. */
    Duration deadline() {
        return deadline;
    }

    Optional<Duration> attemptTimeout() {
        return Optional.ofNullable(attemptTimeout);
    }

    boolean isRepeatable() {
        return safety != Safety.UNSAFE;
    }

    /** Throws where no dependency can have this name. */
    static void checkName(String setting, String name) {
        if (!isName(name)) {
            String shown = name.length() > SHOWN_MAX ? name.substring(0, SHOWN_MAX) + "…" : name;
            throw new IllegalArgumentException(
                    setting + " `" + shown + "`: 1 to 200 ASCII letters, digits and . _ / : @ -");
        }
    }

    static boolean isName(String name) {
        return !name.isEmpty()
                && name.length() <= NAME_LENGTH_MAX
                && name.chars().allMatch(Question::isAllowed);
    }

    private static boolean isAllowed(int c) {
        boolean isLetter = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z';
        return isLetter || c >= '0' && c <= '9' || "._/:@-".indexOf(c) >= 0;
    }

    @Override
    public String toString() {
        return "Question[" + dependency + ", " + safety + "]";
    }
}
