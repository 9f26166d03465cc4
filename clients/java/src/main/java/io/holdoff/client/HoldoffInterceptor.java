package io.holdoff.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
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
 * <p>A unary call is retried. The nearest of the deadlines of the stub, of the gRPC context and of
 * the question is that of the whole call; its attempts run in the context in which it was begun,
 * and it is given up with that. A call that streams either way is asked for, ends at that deadline
 * too, and is never repeated; it is a success with its first message, and else by its status. One that is a probe is cut off
 * before its lease ends, unless a message has come. A call that is refused ends with a status, as
 * any other: {@code DEADLINE_EXCEEDED}, {@code RESOURCE_EXHAUSTED} or {@code UNAVAILABLE}; {@link
 * Holdoff#whyStopped} finds the reason in its exception.
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
        Context context = Context.current();
        Question asked =
                within(question.apply(method), options.getDeadline(), context.getDeadline());
        if (method.getType() == MethodDescriptor.MethodType.UNARY) {
            Guard guard = holdoff.guard(asked).onDenied(onDenied);
            return new UnaryCall<>(guard, method, options, next, context);
        }
        return new StreamingCall<>(
                holdoff, asked.maxAttempts(1), method, options, next, context);
    }

    private static Question within(Question asked, Deadline... deadlines) {
        Duration nearest = asked.deadline();
        for (Deadline deadline : deadlines) {
            if (deadline != null) {
                long nanos = Math.max(0, deadline.timeRemaining(TimeUnit.NANOSECONDS));
                Duration left = Duration.ofNanos(nanos);
                nearest = nearest == null || left.compareTo(nearest) < 0 ? left : nearest;
            }
        }
        return nearest == null ? asked : asked.deadline(nearest);
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
