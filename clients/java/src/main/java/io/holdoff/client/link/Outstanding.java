package io.holdoff.client.link;

import io.holdoff.client.v1.AcquireBatch;
import io.holdoff.client.v1.ReportRequest;
import io.holdoff.client.v1.SessionRequest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Messages on a stream that have no answer yet, by their id. */
final class Outstanding {
    /** Questions in one message. */
    private static final int BATCH_MAX = 1_000;

    private final Link link;
    private final Map<Long, List<Ask>> batches = new HashMap<>();

    /** The sequence numbers of reports. */
    private final Map<Long, Long> reports = new HashMap<>();

    /** 0 is what is pushed. */
    private long lastId;

    Outstanding(Link link) {
        this.link = link;
    }

    /** Groups that the service takes as one message each. */
    static List<List<Ask>> inMessages(List<Ask> asks) {
        List<List<Ask>> messages = new ArrayList<>();
        List<Ask> message = new ArrayList<>();
        int bytes = 0;
        for (Ask ask : asks) {
            int size = ask.request.getSerializedSize() + 8;
            boolean isFull =
                    message.size() >= BATCH_MAX || bytes + size > Reports.MESSAGE_BYTES_MAX;
            if (isFull && !message.isEmpty()) {
                messages.add(message);
                message = new ArrayList<>();
                bytes = 0;
            }
            message.add(ask);
            bytes += size;
        }
        messages.add(message);
        return messages;
    }

    /** The message that asks them all. */
    SessionRequest ask(List<Ask> asks) {
        forgetThoseGivenUp();
        long id = ++lastId;
        batches.put(id, asks);
        AcquireBatch.Builder batch = AcquireBatch.newBuilder();
        asks.forEach(ask -> batch.addRequests(ask.request));
        return SessionRequest.newBuilder().setId(id).setAcquire(batch).build();
    }

    SessionRequest report(ReportRequest report) {
        long id = ++lastId;
        reports.put(id, report.getSequence());
        return SessionRequest.newBuilder().setId(id).setReport(report).build();
    }

    /** Whom an answer to questions is for. */
    List<Ask> take(long id) {
        List<Ask> asks = batches.remove(id);
        return asks == null ? List.of() : asks;
    }

    /** The sequence number of a report, or null. */
    Long takeReport(long id) {
        return reports.remove(id);
    }

    /** All questions, which are forgotten here. */
    List<Ask> all() {
        List<Ask> all = new ArrayList<>();
        batches.values().forEach(all::addAll);
        batches.clear();
        reports.clear();
        return all;
    }

    boolean isEmpty() {
        return batches.isEmpty() && reports.isEmpty();
    }

    /**
     * A message of which somebody still waits is kept whole, since answers have its order. Where
     * too many are forgotten by those who asked, their answers are not waited for any more; a
     * permit in such an answer ends by itself.
     */
    private void forgetThoseGivenUp() {
        if (link.waiting.get() < Link.ASKS_MAX / 2) {
            return;
        }
        batches.values()
                .removeIf(
                        asks -> {
                            boolean isForgotten = asks.stream().allMatch(Ask::hasEnded);
                            link.waiting.addAndGet(isForgotten ? -asks.size() : 0);
                            return isForgotten;
                        });
    }
}
