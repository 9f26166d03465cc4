package io.holdoff.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusException;
import java.time.Duration;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

/** A unary gRPC call, whose request is kept so that it can be repeated. */
final class UnaryCall<Q, R> extends ClientCall<Q, R> {
    private final Guard guard;
    private final MethodDescriptor<Q, R> method;
    private final CallOptions options;
    private final Channel channel;
    private final CallContext context;
    private Listener<R> listener;
    private Metadata headers;
    private Q request;
    private CompletableFuture<Response<R>> call;

    /** Null: the caller has not. */
    private Status givenUp;

    private boolean isOver;

    UnaryCall(
            Guard guard,
            MethodDescriptor<Q, R> method,
            CallOptions options,
            Channel channel,
            Context context) {
        this.guard = guard;
        this.method = method;
        this.options = options;
        this.channel = channel;
        this.context = new CallContext(context, options.getExecutor(), this::giveUp);
    }

    /** What came of one attempt, if it was well. */
    private record Response<R>(Metadata headers, R message, Metadata trailers) {}

    /** What came of one attempt, if it was not. */
    private static final class Failed extends StatusException {
        private static final long serialVersionUID = 1;

        private Failed(Status status, Metadata trailers) {
            super(status, trailers);
        }

        /** Nobody looks for where it was made. */
        @Override
        public synchronized Throwable fillInStackTrace() {
            return this;
        }
    }

    @Override
    public void start(Listener<R> to, Metadata with) {
        listener = to;
        headers = with;
    }

    @Override
    public void request(int messages) {
        // The one message is handed over when it is there.
    }

    @Override
    public void sendMessage(Q message) {
        request = message;
    }

    @Override
    public void halfClose() {
        CompletableFuture<Response<R>> begun = guard.callAsync(this::attempt);
        boolean isLate;
        synchronized (this) {
            call = begun;
            isLate = givenUp != null;
        }
        if (isLate) {
            begun.cancel(true);
        }
        context.watch();
        begun.whenComplete(
                (response, error) -> {
                    context.over();
                    context.handOver(() -> end(response, error));
                });
    }

    @Override
    public void cancel(String message, Throwable cause) {
        giveUp(Status.CANCELLED.withDescription(message).withCause(cause));
    }

    private void giveUp(Status why) {
        CompletableFuture<Response<R>> begun;
        synchronized (this) {
            givenUp = givenUp == null ? why : givenUp;
            begun = call;
        }
        if (begun != null) {
            begun.cancel(true);
        } else {
            context.handOver(() -> close(why, new Metadata()));
        }
    }

    private CompletionStage<Response<R>> attempt(Attempt attempt) {
        Collecting<R> collecting = new Collecting<>();
        context.run(() -> begin(attempt, collecting));
        return collecting.ended;
    }

    private void begin(Attempt attempt, Collecting<R> collecting) {
        ClientCall<Q, R> one = channel.newCall(method, limited(attempt));
        Metadata copy = new Metadata();
        copy.merge(headers);
        one.start(collecting, copy);
        one.request(2);
        one.sendMessage(request);
        one.halfClose();
        collecting.ended.whenComplete(
                (response, error) -> {
                    if (collecting.ended.isCancelled()) {
                        one.cancel("given up", null);
                    }
                });
    }

    private CallOptions limited(Attempt attempt) {
        Duration limit = attempt.limit().orElse(null);
        return limit == null
                ? options
                : options.withDeadlineAfter(limit.toNanos(), TimeUnit.NANOSECONDS);
    }

    private void end(Response<R> response, Throwable error) {
        if (response != null) {
            listener.onHeaders(response.headers());
            listener.onMessage(response.message());
            close(Status.OK, response.trailers());
            return;
        }
        Throwable cause = Later.cause(error);
        if (cause instanceof Failed failed) {
            close(failed.getStatus().withCause(failed), failed.getTrailers());
        } else if (cause instanceof CancellationException) {
            close(givenUp(), new Metadata());
        } else {
            close(HoldoffInterceptor.status(cause), new Metadata());
        }
    }

    private synchronized Status givenUp() {
        return givenUp == null ? Status.CANCELLED : givenUp;
    }

    private void close(Status status, Metadata trailers) {
        synchronized (this) {
            if (isOver) {
                return;
            }
            isOver = true;
        }
        listener.onClose(status, trailers);
    }

    private static final class Collecting<R> extends Listener<R> {
        private final CompletableFuture<Response<R>> ended = new CompletableFuture<>();
        private Metadata headers = new Metadata();
        private R message;

        @Override
        public void onHeaders(Metadata came) {
            headers = came;
        }

        @Override
        public void onMessage(R came) {
            message = came;
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            if (status.isOk() && message != null) {
                ended.complete(new Response<>(headers, message, trailers));
            } else if (status.isOk()) {
                Status odd = Status.INTERNAL.withDescription("no message came");
                ended.completeExceptionally(new Failed(odd, trailers));
            } else {
                ended.completeExceptionally(new Failed(status, trailers));
            }
        }
    }
}
