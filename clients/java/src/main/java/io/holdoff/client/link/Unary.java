package io.holdoff.client.link;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.holdoff.client.link.Course.End;
import io.holdoff.client.v1.AcquireRequest;
import io.holdoff.client.v1.CoordinatorServiceGrpc;
import io.holdoff.client.v1.ReportRequest;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/**
 * The same without a stream: one request a question, for a service or a proxy that has no {@code
 * Session}. After a while a stream is tried again.
 */
final class Unary implements Connection {
    /** Requests under way. */
    private static final int CALLS_MAX = 256;

    private static final long TRY_A_STREAM_AFTER = 600_000_000_000L;

    /** A report that is not answered by then counts as lost with its connection. */
    private static final long REPORT_SECONDS = 5;

    private final Link link;
    private final int index;
    private final ManagedChannel channel;
    private final Deque<Ask> pending = new ArrayDeque<>();
    private final Map<Ask, ClientCall<?, ?>> asked = new HashMap<>();
    private ScheduledFuture<?> again;
    private boolean isReporting;
    private boolean hasAnswered;
    private boolean hasEnded;

    Unary(Link link, int index, ManagedChannel channel) {
        this.link = link;
        this.index = index;
        this.channel = channel;
    }

    @Override
    public void begin() {
        if (channel == null) {
            link.loop.execute(() -> end(End.BROKEN_UNPROVEN));
            return;
        }
        again = link.loop.after(TRY_A_STREAM_AFTER, () -> end(End.AGAIN));
        link.stands();
        link.opened();
        link.scheduleReport();
    }

    @Override
    public boolean isOpen() {
        return true;
    }

    @Override
    public boolean isIdle() {
        return pending.isEmpty() && asked.isEmpty() && !isReporting;
    }

    @Override
    public ManagedChannel channel() {
        return channel;
    }

    @Override
    public void take(Ask ask) {
        pending.add(ask);
        sendAsks();
    }

    private void sendAsks() {
        while (!hasEnded && channel != null && asked.size() < CALLS_MAX && !pending.isEmpty()) {
            Ask ask = pending.remove();
            if (!ask.sends()) {
                link.waiting.decrementAndGet();
                continue;
            }
            AcquireRequest request =
                    ask.request.toBuilder()
                            .setNamespace(link.hello.getNamespace())
                            .setCaller(link.hello.getCaller())
                            .build();
            CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(10, TimeUnit.SECONDS);
            var call =
                    One.call(
                            link,
                            channel,
                            CoordinatorServiceGrpc.getAcquireMethod(),
                            options,
                            request,
                            (response, status) -> {
                                Answer said = response == null ? null : Wire.read(response);
                                answered(ask, said, status);
                            });
            asked.put(ask, call);
        }
    }

    private void answered(Ask ask, Answer said, Status status) {
        if (asked.remove(ask) == null) {
            return;
        }
        boolean isBroken = said == null && Failures.isOfTheConnection(status);
        if (said != null) {
            link.answer(ask, said);
        } else if (isBroken) {
            link.drop(ask, NoAnswer.LOST);
        } else {
            link.drop(ask, Failures.of(status.getCode().value(), text(status)));
        }
        if (isBroken) {
            end(hasAnswered ? End.BROKEN : End.BROKEN_UNPROVEN);
        } else {
            hasAnswered = true;
            sendAsks();
        }
    }

    /** One at a time: sequence numbers must arrive in their order. */
    @Override
    public void report() {
        if (isReporting || hasEnded || channel == null) {
            return;
        }
        Reports.Batch batch = link.reports.take();
        if (batch == null) {
            return;
        }
        isReporting = true;
        ReportRequest request =
                ReportRequest.newBuilder()
                        .setNamespace(link.hello.getNamespace())
                        .setCaller(link.hello.getCaller())
                        .addAllEntries(batch.entries())
                        .setSequence(batch.sequence())
                        .build();
        CallOptions options =
                CallOptions.DEFAULT.withDeadlineAfter(REPORT_SECONDS, TimeUnit.SECONDS);
        One.call(
                link,
                channel,
                CoordinatorServiceGrpc.getReportMethod(),
                options,
                request,
                (response, status) -> reported(batch.sequence(), response != null, status));
    }

    private void reported(long sequence, boolean wasTaken, Status status) {
        isReporting = false;
        if (hasEnded) {
            return;
        }
        boolean isLost =
                Failures.isOfTheConnection(status)
                        || status.getCode() == Status.Code.DEADLINE_EXCEEDED;
        if (!wasTaken && isLost) {
            end(hasAnswered ? End.BROKEN : End.BROKEN_UNPROVEN);
            return;
        }
        hasAnswered = true;
        link.reports.answered(sequence, wasTaken);
        link.scheduleReport();
    }

    @Override
    public void end(End end) {
        if (hasEnded) {
            return;
        }
        hasEnded = true;
        Loop.cancel(again);
        pending.forEach(ask -> link.drop(ask, NoAnswer.AWAY));
        List<Ask> lost = new ArrayList<>(asked.keySet());
        asked.clear();
        lost.forEach(ask -> link.drop(ask, NoAnswer.LOST));
        if (channel != null) {
            channel.shutdownNow();
        }
        link.ended(index, end);
    }

    private static String text(Status status) {
        return status.getDescription() == null ? "" : status.getDescription();
    }

    /** One request. */
    static final class One {
        private One() {}

        /** {@code done} gets the response or null, and how it ended, in the loop. */
        static <Q, R> ClientCall<Q, R> call(
                Link link,
                ManagedChannel channel,
                MethodDescriptor<Q, R> method,
                CallOptions options,
                Q request,
                BiConsumer<R, Status> done) {
            ClientCall<Q, R> call = channel.newCall(method, options);
            call.start(
                    new ClientCall.Listener<>() {
                        private R response;

                        @Override
                        public void onMessage(R message) {
                            response = message;
                        }

                        @Override
                        public void onClose(Status status, Metadata trailers) {
                            done.accept(status.isOk() ? response : null, status);
                        }
                    },
                    link.dialer.headers());
            call.sendMessage(request);
            call.halfClose();
            call.request(2);
            return call;
        }
    }
}
