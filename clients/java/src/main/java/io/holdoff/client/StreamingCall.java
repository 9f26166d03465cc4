package io.holdoff.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * A gRPC call that streams: it begins when it may, what is done with it before is kept until then,
 * and its end is reported. It is never repeated, since its messages are gone.
 */
final class StreamingCall<Q, R> extends ClientCall<Q, R> {
    private final Holdoff holdoff;
    private final Question question;
    private final MethodDescriptor<Q, R> method;
    private final CallOptions options;
    private final Channel channel;
    private final List<Consumer<ClientCall<Q, R>>> kept = new ArrayList<>();
    private CompletableFuture<Permit> asked;

    /** Null: it may not begin yet. */
    private ClientCall<Q, R> begun;

    private boolean isRefused;

    StreamingCall(
            Holdoff holdoff,
            Question question,
            MethodDescriptor<Q, R> method,
            CallOptions options,
            Channel channel) {
        this.holdoff = holdoff;
        this.question = question;
        this.method = method;
        this.options = options;
        this.channel = channel;
    }

    @Override
    public void start(Listener<R> listener, Metadata headers) {
        asked = holdoff.acquireAsync(question).thenCompose(Permit::awaitAsync);
        asked.whenComplete(
                (permit, error) -> {
                    if (error == null) {
                        begin(permit, listener, headers);
                    } else {
                        refuse(listener, Later.cause(error));
                    }
                });
    }

    private void begin(Permit permit, Listener<R> listener, Metadata headers) {
        ClientCall<Q, R> call = channel.newCall(method, options);
        call.start(new Reporting<>(listener, permit), headers);
        while (true) {
            List<Consumer<ClientCall<Q, R>>> waiting;
            synchronized (this) {
                if (kept.isEmpty()) {
                    begun = call;
                    return;
                }
                waiting = new ArrayList<>(kept);
                kept.clear();
            }
            waiting.forEach(each -> each.accept(call));
        }
    }

    private void refuse(Listener<R> listener, Throwable error) {
        synchronized (this) {
            isRefused = true;
            kept.clear();
        }
        Status status = HoldoffInterceptor.status(error);
        Runnable close = () -> listener.onClose(status, new Metadata());
        Executor executor = options.getExecutor();
        if (executor == null) {
            close.run();
        } else {
            executor.execute(close);
        }
    }

    private void whenBegun(Consumer<ClientCall<Q, R>> action) {
        ClientCall<Q, R> call;
        synchronized (this) {
            if (isRefused) {
                return;
            }
            call = begun;
            if (call == null) {
                kept.add(action);
                return;
            }
        }
        action.accept(call);
    }

    @Override
    public void request(int messages) {
        whenBegun(call -> call.request(messages));
    }

    @Override
    public void sendMessage(Q message) {
        whenBegun(call -> call.sendMessage(message));
    }

    @Override
    public void halfClose() {
        whenBegun(ClientCall::halfClose);
    }

    @Override
    public void setMessageCompression(boolean isEnabled) {
        whenBegun(call -> call.setMessageCompression(isEnabled));
    }

    @Override
    public void cancel(String message, Throwable cause) {
        whenBegun(call -> call.cancel(message, cause));
        if (asked != null && !asked.isDone()) {
            asked.cancel(true);
        }
    }

    @Override
    public synchronized boolean isReady() {
        return begun != null && begun.isReady();
    }

    private static final class Reporting<R> extends SimpleForwardingClientCallListener<R> {
        private final Permit permit;

        private Reporting(Listener<R> listener, Permit permit) {
            super(listener);
            this.permit = permit;
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            permit.report(Classifier.grpc(status, trailers));
            super.onClose(status, trailers);
        }
    }
}
