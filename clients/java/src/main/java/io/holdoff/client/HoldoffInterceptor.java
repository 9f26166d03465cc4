package io.holdoff.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Guards the calls of a gRPC channel, under any generated stub.
 *
 * <pre>{@code
 * Channel guarded = ClientInterceptors.intercept(channel,
 *         HoldoffInterceptor.of(holdoff, method -> Question.of("ledger").idempotent()));
 * }</pre>
 *
 * <p>A unary call is retried; the deadline of the stub is that of the whole call. A call that
 * streams either way is asked for and reported, and never repeated. A call that is refused ends
 * with a status, as any other: {@code DEADLINE_EXCEEDED}, {@code RESOURCE_EXHAUSTED} or {@code
 * UNAVAILABLE}; {@link Holdoff#whyStopped} finds the reason in its exception.
 */
public final class HoldoffInterceptor implements ClientInterceptor {
    private final Holdoff holdoff;
    private final Function<MethodDescriptor<?, ?>, Question> question;
    private final OnDenied onDenied;

    private HoldoffInterceptor(
            Holdoff holdoff,
            Function<MethodDescriptor<?, ?>, Question> question,
            OnDenied onDenied) {
        this.holdoff = Objects.requireNonNull(holdoff, "holdoff");
        this.question = Objects.requireNonNull(question, "question");
        this.onDenied = Objects.requireNonNull(onDenied, "onDenied");
    }

    /**
     * An interceptor.
     *
     * @param holdoff is asked
     * @param question names, for each method, what is called and whether it may be repeated
     * @return an interceptor that waits for nothing when the answer is no
     */
    public static HoldoffInterceptor of(
            Holdoff holdoff, Function<MethodDescriptor<?, ?>, Question> question) {
        return new HoldoffInterceptor(holdoff, question, OnDenied.FAIL);
    }

    /**
     * What happens when the answer is no.
     *
     * @param when {@link OnDenied#FAIL} unless said
     * @return a new interceptor
     */
    public HoldoffInterceptor onDenied(OnDenied when) {
        return new HoldoffInterceptor(holdoff, question, when);
    }

    @Override
    public <Q, R> ClientCall<Q, R> interceptCall(
            MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
        Question asked = within(options.getDeadline(), question.apply(method));
        if (method.getType() == MethodDescriptor.MethodType.UNARY) {
            Guard guard = holdoff.guard(asked).onDenied(onDenied);
            return new UnaryCall<>(guard, method, options, next);
        }
        return new StreamingCall<>(holdoff, asked.maxAttempts(1), method, options, next);
    }

    private static Question within(Deadline deadline, Question asked) {
        if (deadline == null || asked.deadline() != null) {
            return asked;
        }
        long left = Math.max(0, deadline.timeRemaining(TimeUnit.NANOSECONDS));
        return asked.deadline(Duration.ofNanos(left));
    }

    /** As what a denied call ends. */
    static Status status(Throwable error) {
        Denied why = Holdoff.whyStopped(error).orElse(null);
        if (why == null) {
            return Status.fromThrowable(error);
        }
        if (error instanceof TimedOutException) {
            return Status.DEADLINE_EXCEEDED.withDescription("holdoff: " + why).withCause(error);
        }
        Status status =
                switch (why.reason()) {
                    case DEADLINE -> Status.DEADLINE_EXCEEDED;
                    case RATE_LIMITED -> Status.RESOURCE_EXHAUSTED;
                    case CANCELLED -> Status.CANCELLED;
                    default -> Status.UNAVAILABLE;
                };
        return status.withDescription("holdoff: " + why).withCause(error);
    }
}
