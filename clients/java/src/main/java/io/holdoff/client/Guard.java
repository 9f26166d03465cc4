package io.holdoff.client;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/**
 * Guarded calls to one dependency: asks, waits, runs, classifies, reports, retries. Immutable and
 * safe for use by several threads: each setting returns a new one, and a guard may be kept.
 *
 * <pre>{@code
 * Guard payments = holdoff.guard("payments").idempotent().deadline(Duration.ofSeconds(2));
 * Receipt receipt = payments.call(attempt -> charge(order));
 * }</pre>
 */
public final class Guard {
    private final Core core;
    private final Question question;
    private final OnDenied onDenied;
    private final Classifier classifier;

    Guard(Core core, Question question, OnDenied onDenied, Classifier classifier) {
        this.core = core;
        this.question = Objects.requireNonNull(question, "question");
        this.onDenied = Objects.requireNonNull(onDenied, "onDenied");
        this.classifier = Objects.requireNonNull(classifier, "classifier");
    }

    /**
     * See {@link Question#safety}.
     *
     * @param safety {@link Safety#UNSAFE} unless said
     * @return a new guard
     */
    public Guard safety(Safety safety) {
        return asking(question.safety(safety));
    }

    /**
     * See {@link Question#idempotent}.
     *
     * @return a new guard
     */
    public Guard idempotent() {
        return asking(question.idempotent());
    }

    /**
     * See {@link Question#priority}.
     *
     * @param priority {@link Priority#NORMAL} unless said
     * @return a new guard
     */
    public Guard priority(Priority priority) {
        return asking(question.priority(priority));
    }

    /**
     * See {@link Question#deadline}.
     *
     * @param deadline of the whole call; none unless said
     * @return a new guard
     */
    public Guard deadline(Duration deadline) {
        return asking(question.deadline(deadline));
    }

    /**
     * See {@link Question#maxAttempts}.
     *
     * @param attempts 10 unless said
     * @return a new guard
     */
    public Guard maxAttempts(int attempts) {
        return asking(question.maxAttempts(attempts));
    }

    /**
     * See {@link Question#attemptTimeout}.
     *
     * @param timeout none unless said
     * @return a new guard
     */
    public Guard attemptTimeout(Duration timeout) {
        return asking(question.attemptTimeout(timeout));
    }

    /**
     * See {@link Question#cost}.
     *
     * @param cost 1 unless said
     * @return a new guard
     */
    public Guard cost(int cost) {
        return asking(question.cost(cost));
    }

    /**
     * What happens when the answer is no.
     *
     * @param when {@link OnDenied#FAIL} unless said
     * @return a new guard
     */
    public Guard onDenied(OnDenied when) {
        return new Guard(core, question, when, classifier);
    }

    /**
     * How the end of an attempt is read.
     *
     * @param by {@link Classifier#standard()} unless said
     * @return a new guard
     */
    public Guard classify(Classifier by) {
        return new Guard(core, question, onDenied, by);
    }

    /**
     * Makes a call on this thread. Interrupting it gives the call up, and the service hears of it.
     *
     * @param <T> what the operation returns
     * @param <E> what the operation throws
     * @param operation makes one attempt
     * @return its result; also one that counts as a failure, where there is no further attempt
     * @throws E the last real error itself; {@link Holdoff#whyStopped} finds in it why there was
     *     no further attempt
     * @throws DeniedException no attempt was made
     * @throws TimedOutException all attempts were cut off by a time limit
     */
    public <T, E extends Exception> T call(Operation<T, E> operation) throws E {
        return new BlockingCall<>(core, question, onDenied, classifier, operation).run();
    }

    /**
     * Makes a call, and where it is given up, with or without an attempt, what the fallback makes
     * of it.
     *
     * @param <T> what the operation returns
     * @param <E> what the operation throws
     * @param operation makes one attempt
     * @param fallback gets the error
     * @return the result of either
     * @throws E of the fallback
     */
    public <T, E extends Exception> T callOr(Operation<T, E> operation, Fallback<T, E> fallback)
            throws E {
        try {
            return call(operation);
        } catch (Exception why) {
            return fallback.get(why);
        }
    }

    /**
     * Makes a call that blocks no thread, while it waits or otherwise. Cancelling the future gives
     * the call up, and the service hears of it.
     *
     * @param <T> what the operation returns
     * @param operation begins one attempt; the first one on this thread, further ones on the
     *     client's executor
     * @return ends with the result, with the last real error itself, or with a {@link
     *     DeniedException} or a {@link TimedOutException}
     */
    public <T> CompletableFuture<T> callAsync(AsyncOperation<T> operation) {
        return new AsyncCall<>(core, question, onDenied, classifier, operation).begin();
    }

    private Guard asking(Question other) {
        return new Guard(core, other, onDenied, classifier);
    }
}
