package io.holdoff.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * A gRPC call that streams: it begins when it may, and what is done with it before is kept until
 * then. It is never repeated, since its messages are gone.
 *
 * <p>It is reported once: as a success with its first message, since a permit does not live as long
 * as a stream does; else by its status.
 */
final class StreamingCall<Q, R> extends ClientCall<Q, R> {
    private final Holdoff holdoff;
    private final Question question;
    private final MethodDescriptor<Q, R> method;
    private final CallOptions options;
    private final Channel channel;
    private final CallContext context;
    private final List<Consumer<ClientCall<Q, R>>> kept = new ArrayList<>();

    /** Null: it has not started. */
    private CompletableFuture<Permit> asked;

    /** Null: it may not begin yet. */
    private ClientCall<Q, R> begun;

    private boolean isRefused;

    /** Null: the caller has not. */
    private Status givenUp;

    StreamingCall(
            Holdoff holdoff,
            Question question,
            MethodDescriptor<Q, R> method,
            CallOptions options,
            Channel channel,
            Context context) {
        this.holdoff = holdoff;
        this.question = question;
        this.method = method;
        this.options = options;
        this.channel = channel;
        this.context = new CallContext(context, options.getExecutor(), this::giveUp);
    }

    @Override
    public void start(Listener<R> listener, Metadata headers) {
        CompletableFuture<Permit> permission = holdoff.obtainAsync(question);
        synchronized (this) {
            asked = permission;
        }
        context.watch();
        permission.whenComplete(
                (permit, error) -> {
                    // Once it has begun, gRPC itself looks after it.
                    context.over();
                    if (error == null) {
                        context.run(() -> begin(permit, listener, headers));
                    } else {
                        refuse(listener, Later.cause(error));
                    }
                });
    }

    private void begin(Permit permit, Listener<R> listener, Metadata headers) {
        ClientCall<Q, R> call;
        Reporting<R> reporting = new Reporting<>(listener, permit);
        try {
            call = channel.newCall(method, limited(permit));
            call.start(reporting, headers);
        } catch (RuntimeException odd) {
            reporting.report(Classifier.error(odd));
            refuse(listener, odd);
            return;
        }
        if (permit.isProbe()) {
            cutAtLimit(call, reporting);
        }
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

    /** By what is left of the question's deadline; to that of the context gRPC itself keeps. */
    private CallOptions limited(Permit permit) {
        Long left = permit.asking.timeLeft();
        if (left == null) {
            return options;
        }
        Deadline own = Deadline.after(left, TimeUnit.NANOSECONDS);
        Deadline stubs = options.getDeadline();
        return options.withDeadline(stubs == null ? own : own.minimum(stubs));
    }

    /** Not by the client's own thread, since what hangs on the call is the user's. */
    private void cutAtLimit(ClientCall<Q, R> call, Reporting<R> reporting) {
        Core core = holdoff.core();
        Runnable cut = () -> context.run(() -> reporting.cut(call));
        reporting.permit
                .limit()
                .ifPresent(
                        limit ->
                                core.loop()
                                        .after(
                                                limit.toNanos(),
                                                () -> core.executor().execute(cut)));
    }

    private void refuse(Listener<R> listener, Throwable error) {
        Status status;
        synchronized (this) {
            isRefused = true;
            kept.clear();
            boolean isOwn = error instanceof CancellationException && givenUp != null;
            status = isOwn ? givenUp : HoldoffInterceptor.status(error);
        }
        context.handOver(() -> listener.onClose(status, new Metadata()));
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
        giveUp(Status.CANCELLED.withDescription(message).withCause(cause));
    }

    private void giveUp(Status why) {
        CompletableFuture<Permit> permission;
        synchronized (this) {
            givenUp = givenUp == null ? why : givenUp;
            permission = asked;
        }
        whenBegun(call -> call.cancel(why.getDescription(), why.getCause()));
        if (permission != null) {
            permission.cancel(true);
        }
    }

    @Override
    public synchronized boolean isReady() {
        return begun != null && begun.isReady();
    }

    private static final class Reporting<R> extends SimpleForwardingClientCallListener<R> {
        private final Permit permit;
        private final long begun = System.nanoTime();
        private final AtomicBoolean isReported = new AtomicBoolean();
        private volatile boolean wasCut;

        private Reporting(Listener<R> listener, Permit permit) {
            super(listener);
            this.permit = permit;
        }

        /** False: it was reported before. */
        private boolean report(Outcome outcome) {
            if (!isReported.compareAndSet(false, true)) {
                return false;
            }
            permit.report(outcome.latencyNanos(System.nanoTime() - begun));
            return true;
        }

        private void cut(ClientCall<?, R> call) {
            if (report(Outcome.timeout())) {
                wasCut = true;
                call.cancel("no message came within the limit of a probe", null);
            }
        }

        @Override
        public void onMessage(R message) {
            report(Outcome.success());
            super.onMessage(message);
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            report(
                    status.isOk()
                            ? Outcome.success()
                            : Classifier.error(status.asException(trailers)));
            String late = "holdoff: no message came within the limit of a probe";
            super.onClose(
                    wasCut ? Status.DEADLINE_EXCEEDED.withDescription(late) : status, trailers);
        }
    }
}
