package io.holdoff.client.link;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.holdoff.client.link.Course.End;
import io.holdoff.client.v1.AcquireBatchResponse;
import io.holdoff.client.v1.AcquireItem;
import io.holdoff.client.v1.CoordinatorServiceGrpc;
import io.holdoff.client.v1.ReportRequest;
import io.holdoff.client.v1.SessionRequest;
import io.holdoff.client.v1.SessionResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledFuture;

/**
 * One stream. Whatever is queued when the loop gets to it goes out together, so that questions
 * asked together travel together; answers are handed out by id.
 */
final class Session implements Connection {
    private static final long SECOND = 1_000_000_000L;

    /** An endpoint that is not connected by then is as one where nobody listens. */
    private static final long CONNECT_MAX = 2 * SECOND;

    /** A service that nobody waits for any longer has so long to take a new stream. */
    private static final long SEARCH = SECOND;

    private final Link link;
    private final int index;
    private final ManagedChannel channel;
    private final Outstanding outstanding;
    private final Following following;
    private final Homecoming homecoming;
    private final List<Ask> pending = new ArrayList<>();
    private final List<ScheduledFuture<?>> timers = new ArrayList<>();
    private ClientCall<SessionRequest, SessionResponse> call;
    private boolean isFlushing;
    private boolean isGreeted;
    private boolean isReportWanted;
    private boolean isOpen;
    private boolean hasEnded;

    /** The service has said something on it. */
    private boolean isProven;

    Session(Link link, int index, ManagedChannel channel) {
        this.link = link;
        this.index = index;
        this.channel = channel;
        outstanding = new Outstanding(link);
        following = new Following(link);
        homecoming = new Homecoming(link, index);
    }

    @Override
    public void begin() {
        if (channel == null) {
            link.loop.execute(() -> unreachable("no transport"));
            return;
        }
        call = channel.newCall(CoordinatorServiceGrpc.getSessionMethod(), CallOptions.DEFAULT);
        call.start(new Listener(), link.dialer.headers());
        call.request(64);
        timers.add(link.loop.after(CONNECT_MAX, this::connectedByNow));
        timers.add(link.loop.after(SEARCH, this::heardByNow));
    }

    @Override
    public boolean isOpen() {
        return isOpen;
    }

    @Override
    public boolean isIdle() {
        return pending.isEmpty() && outstanding.isEmpty();
    }

    @Override
    public ManagedChannel channel() {
        return channel;
    }

    @Override
    public void take(Ask ask) {
        pending.add(ask);
        if (!isFlushing) {
            isFlushing = true;
            link.loop.execute(this::flush);
        }
    }

    @Override
    public void report() {
        isReportWanted = true;
        flush();
    }

    @Override
    public void end(End end) {
        if (hasEnded) {
            return;
        }
        close();
        if (call != null) {
            call.cancel("the client leaves", null);
        }
        lose(pending, NoAnswer.AWAY);
        lose(outstanding.all(), NoAnswer.LOST);
        shutdown();
        link.ended(index, end);
    }

    /** Sends what waits, as far as the connection takes it. */
    private void flush() {
        isFlushing = false;
        if (hasEnded || call == null || !call.isReady()) {
            return;
        }
        if (!isGreeted) {
            isGreeted = true;
            link.counting.connections.increment();
            link.stands();
            following.greeting().forEach(call::sendMessage);
            timers.add(link.loop.after(60 * SECOND, this::leaveIdle));
            homecoming.begin(this);
        }
        pending.removeIf(this::isForgotten);
        boolean tells = pending.stream().anyMatch(ask -> ask.request.hasPrevious());
        if (isReportWanted || tells) {
            isReportWanted = false;
            sendReports();
        }
        sendAsks();
    }

    private boolean isForgotten(Ask ask) {
        boolean isForgotten = !ask.sends();
        if (isForgotten) {
            link.waiting.decrementAndGet();
        }
        return isForgotten;
    }

    private void sendAsks() {
        if (pending.isEmpty()) {
            return;
        }
        following.resume(pending).ifPresent(call::sendMessage);
        for (List<Ask> asks : Outstanding.inMessages(pending)) {
            call.sendMessage(outstanding.ask(asks));
        }
        pending.clear();
    }

    /** All that waits: a failure never arrives ahead of the successes around it. */
    private void sendReports() {
        for (Reports.Batch batch = link.reports.take(); batch != null; batch = link.reports.take()) {
            ReportRequest report =
                    ReportRequest.newBuilder()
                            .setNamespace(link.hello.getNamespace())
                            .setCaller(link.hello.getCaller())
                            .addAllEntries(batch.entries())
                            .setSequence(batch.sequence())
                            .build();
            call.sendMessage(outstanding.report(report));
        }
        link.scheduleReport();
    }

    private void leaveIdle() {
        if (hasEnded) {
            return;
        }
        following.leaveIdle().forEach(call::sendMessage);
        timers.add(link.loop.after(60 * SECOND, this::leaveIdle));
    }

    private void connectedByNow() {
        if (!hasEnded && !isGreeted) {
            call.cancel("not connected in time", null);
            unreachable("not connected in time");
        }
    }

    private void heardByNow() {
        if (!hasEnded && !isOpen && !link.isAwaited()) {
            end(End.SILENT);
        }
    }

    private void unreachable(String why) {
        if (hasEnded) {
            return;
        }
        close();
        shutdown();
        link.unreachable(index, pending, why);
    }

    private void close() {
        hasEnded = true;
        timers.forEach(Loop::cancel);
        homecoming.end();
    }

    private void shutdown() {
        if (channel != null) {
            channel.shutdownNow();
        }
    }

    private void lose(List<Ask> asks, NoAnswer why) {
        asks.forEach(ask -> link.drop(ask, why));
    }

    /** Runs in the loop, which is the channel's executor. */
    private final class Listener extends ClientCall.Listener<SessionResponse> {
        @Override
        public void onReady() {
            flush();
        }

        @Override
        public void onHeaders(Metadata headers) {
            if (!hasEnded) {
                isOpen = true;
                link.opened();
            }
        }

        @Override
        public void onMessage(SessionResponse message) {
            if (!hasEnded) {
                Session.this.take(message);
                isProven = true;
                call.request(1);
            }
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            if (!hasEnded) {
                closed(status);
            }
        }
    }

    private void closed(Status status) {
        boolean isUnimplemented = status.getCode() == Status.Code.UNIMPLEMENTED && !isProven;
        if (isUnimplemented) {
            close();
            List<Ask> asks = new ArrayList<>(outstanding.all());
            asks.addAll(pending);
            link.unimplemented(index, channel, asks);
        } else if (!isGreeted && Failures.isUnreachable(status.getCause())) {
            unreachable(Failures.text(status.getCause()));
        } else {
            end(isProven ? End.BROKEN : End.BROKEN_UNPROVEN);
        }
    }

    private void take(SessionResponse response) {
        long id = response.getId();
        switch (response.getMessageCase()) {
            case ACQUIRED -> handOut(id, response.getAcquired());
            case REPORTED -> reported(id, true);
            case UPDATE -> link.pushed.store(response.getUpdate());
            case STATUS -> refused(id, response.getStatus());
            // Something newer than this client.
            case MESSAGE_NOT_SET -> {}
        }
    }

    private void handOut(long id, AcquireBatchResponse answers) {
        List<Ask> asks = outstanding.take(id);
        for (int at = 0; at < asks.size(); at++) {
            Answer said =
                    at < answers.getItemsCount()
                            ? read(answers.getItems(at))
                            : failed(Status.Code.INTERNAL.value(), "no answer in it");
            link.answer(asks.get(at), said);
        }
    }

    private static Answer read(AcquireItem item) {
        return switch (item.getResultCase()) {
            case RESPONSE -> Wire.read(item.getResponse());
            case STATUS -> failed(item.getStatus().getCode(), item.getStatus().getMessage());
            case RESULT_NOT_SET -> failed(Status.Code.INTERNAL.value(), "no answer in it");
        };
    }

    private static Answer failed(int code, String text) {
        return new Answer.None(Failures.of(code, text));
    }

    private void reported(long id, boolean wasTaken) {
        Long sequence = outstanding.takeReport(id);
        if (sequence != null) {
            link.reports.answered(sequence, wasTaken);
            link.scheduleReport();
        }
    }

    /** A whole message was refused. */
    private void refused(long id, com.google.rpc.Status status) {
        if (id == 0) {
            link.warnings.notFollowed(status.getMessage());
        }
        reported(id, false);
        Answer said = failed(status.getCode(), status.getMessage());
        outstanding.take(id).forEach(ask -> link.answer(ask, said));
    }
}
