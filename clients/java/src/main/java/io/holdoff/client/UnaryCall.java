package io.holdoff.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** A unary gRPC call, whose request is kept so that it can be repeated. */
final class UnaryCall<Q, R> extends ClientCall<Q, R> {
    private final Guard guard;
    private final MethodDescriptor<Q, R> method;
    private final CallOptions options;
    private final Channel channel;
    private Listener<R> listener;
    private Metadata headers;
    private Q request;
    private CompletableFuture<Response<R>> call;
    private boolean isOver;

    UnaryCall(Guard guard, MethodDescriptor<Q, R> method, CallOptions options, Channel channel) {
        this.guard = guard.classify(UnaryCall::read);
        this.method = method;
        this.options = options;
        this.channel = channel;
    }

    /** What came of one attempt, if it was well. */
    private record Response<R>(Metadata headers, R message, Metadata trailers) {}

    /** What came of one attempt, if it was not. */
    private static final class Failed extends Exception {
        private static final long serialVersionUID = 1;
        private final transient Status status;
        private final transient Metadata trailers;

        private Failed(Status status, Metadata trailers) {
            super(status.toString(), status.getCause(), true, false);
            this.status = status;
            this.trailers = trailers;
        }
    }

    private static Outcome read(Object value, Throwable error) {
        return error instanceof Failed failed
                ? Classifier.grpc(failed.status, failed.trailers)
                : Classifier.standard().classify(value, error);
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
        synchronized (this) {
            call = begun;
        }
        begun.whenComplete((response, error) -> handOver(() -> end(response, error)));
    }

    @Override
    public void cancel(String message, Throwable cause) {
        CompletableFuture<Response<R>> begun;
        synchronized (this) {
            begun = call;
        }
        if (begun != null) {
            begun.cancel(true);
        } else {
            Status status = Status.CANCELLED.withDescription(message).withCause(cause);
            handOver(() -> close(status, new Metadata()));
        }
    }

    private CompletionStage<Response<R>> attempt(Attempt attempt) {
        ClientCall<Q, R> one = channel.newCall(method, limited(attempt));
        Collecting<R> collecting = new Collecting<>();
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
        return collecting.ended;
    }

    private CallOptions limited(Attempt attempt) {
        Duration limit = attempt.limit().orElse(null);
        return limit == null
                ? options
                : options.withDeadlineAfter(limit.toNanos(), TimeUnit.NANOSECONDS);
    }

    /** On the executor that the stub waits for. */
    private void handOver(Runnable task) {
        Executor executor = options.getExecutor();
        if (executor == null) {
            task.run();
        } else {
            executor.execute(task);
        }
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
            close(failed.status.withCause(failed), failed.trailers);
        } else {
            close(HoldoffInterceptor.status(cause), new Metadata());
        }
    }

    private void close(Status status, Metadata trailers) {
        if (!isOver) {
            isOver = true;
            listener.onClose(status, trailers);
        }
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
