package io.holdoff.client.link;

import com.google.protobuf.ByteString;
import io.holdoff.client.Outcome;
import io.holdoff.client.v1.ReportEntry;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedList;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Outcomes on their way to the service: a bounded queue, sent in batches.
 *
 * <p>Reporting never makes a caller wait. A full queue loses the newest outcome and counts it; the
 * service then takes the permit for silent, which is what it is. A batch goes out 10 ms after its
 * first outcome under a permit, since a recovering dependency's ramp is steered by these; at once
 * when an entry is a failure; and always before a question that carries a failure, so that failures
 * never arrive ahead of the successes around them. Attempts made on pushed state are counted, and
 * their tallies go first in a batch; alone they wait 100 ms to 1 s, jittered.
 *
 * <p>A batch whose answer was lost with its stream is sent once more under the same sequence
 * number, by which the service tells a repetition. Numbers begin at the wall clock, so that those
 * of a restarted process with the same name are higher than those before.
 */
public final class Reports {
    static final int QUEUE_MAX = 10_000;
    private static final int BATCH_MAX = 1_000;
    private static final int TALLIES_MAX = 500;

    /** The service takes 256 KiB a message. */
    static final int MESSAGE_BYTES_MAX = 192 * 1024;

    private static final long MILLISECOND = 1_000_000L;

    /** What an outcome under a permit waits for others. */
    private static final long LINGER = 10 * MILLISECOND;

    /** The shortest and the longest of what only tallies wait. */
    private static final long TALLY_LINGER = 100 * MILLISECOND;

    private static final long TALLY_LINGER_MAX = 1_000 * MILLISECOND;

    /** Batches without an answer yet; past it the queue fills. */
    private static final int UNANSWERED_MAX = 64;

    private final Counting counting;
    private final Runnable sooner;
    private final Deque<ReportEntry> queue = new ArrayDeque<>();
    private final Tallies tallies = new Tallies();

    /** When the batch that is being gathered must go; meaningful where {@code isDue}. */
    private long due;

    private boolean isDue;
    private long nextSequence;
    private final SortedMap<Long, Batch> unanswered = new TreeMap<>();
    private final LinkedList<Batch> resend = new LinkedList<>();

    /** Outcomes that are being told in another way. */
    private int telling;

    /** What goes in one message. */
    record Batch(long sequence, List<ReportEntry> entries, boolean isRepetition) {}

    /** {@code sooner} is run, by whatever thread, where a batch must go sooner than before. */
    Reports(Counting counting, Runnable sooner) {
        this.counting = counting;
        this.sooner = sooner;
        Instant now = Instant.now();
        nextSequence = Math.max(1, now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000);
    }

    /** How the attempt under this permit ended. */
    public void push(ByteString permit, Outcome outcome, boolean isUrgent) {
        boolean isSooner;
        synchronized (this) {
            if (queue.size() >= QUEUE_MAX) {
                counting.reportsDropped.increment();
                return;
            }
            queue.add(Wire.resultOf(permit, outcome));
            isSooner = isDueIn(isUrgent || queue.size() >= BATCH_MAX ? 0 : LINGER);
        }
        if (isSooner) {
            sooner.run();
        }
    }

    /** An attempt on pushed state ended so. */
    public void tally(String dependency, OnState on, Outcome outcome, boolean isUrgent) {
        boolean isSooner = false;
        synchronized (this) {
            if (!tallies.note(dependency, on, outcome)) {
                counting.reportsDropped.increment();
                return;
            }
            if (isUrgent) {
                isSooner = isDueIn(0);
            } else if (!isDue) {
                long spread = TALLY_LINGER_MAX - TALLY_LINGER;
                isSooner = isDueIn(TALLY_LINGER + (long) (spread * Entropy.unit()));
            }
        }
        if (isSooner) {
            sooner.run();
        }
    }

    /** An outcome is told by a question, until {@link #endTelling}. */
    public synchronized void beginTelling() {
        telling++;
    }

    public synchronized void endTelling() {
        telling = Math.max(0, telling - 1);
    }

    /** In how long a batch should go; -1: there is none. */
    synchronized long dueIn(long now) {
        if (unanswered.size() >= UNANSWERED_MAX) {
            return -1;
        }
        if (!resend.isEmpty()) {
            return 0;
        }
        return isDue ? Math.max(0, due - now) : -1;
    }

    /** The next batch, due or not, or null. It is unanswered until {@link #answered}. */
    synchronized Batch take() {
        if (unanswered.size() >= UNANSWERED_MAX) {
            return null;
        }
        Batch batch = resend.isEmpty() ? gather() : resend.remove();
        if (batch != null) {
            unanswered.put(batch.sequence(), batch);
        }
        return batch;
    }

    /** The service answered the batch: taken, or refused for good. */
    synchronized void answered(long sequence, boolean wasTaken) {
        Batch batch = unanswered.remove(sequence);
        if (batch != null) {
            (wasTaken ? counting.reported : counting.reportsDropped).add(batch.entries().size());
        }
    }

    /** The stream broke: what was not answered goes once more, on the next one. */
    synchronized void broken() {
        for (Batch lost : unanswered.values()) {
            if (lost.isRepetition()) {
                counting.reportsDropped.add(lost.entries().size());
            } else {
                resend.add(new Batch(lost.sequence(), lost.entries(), true));
            }
        }
        unanswered.clear();
    }

    /**
     * A stream begins. What was counted before it deposits nothing, in a batch that is repeated
     * either.
     */
    synchronized void streamBegins() {
        tallies.forgetStarts();
        resend.replaceAll(Reports::withoutStarts);
    }

    private static Batch withoutStarts(Batch batch) {
        List<ReportEntry> entries = new ArrayList<>(batch.entries());
        entries.replaceAll(
                entry ->
                        entry.hasTally()
                                ? entry.toBuilder()
                                        .setTally(entry.getTally().toBuilder().setFirstAttempts(0))
                                        .build()
                                : entry);
        return new Batch(batch.sequence(), entries, batch.isRepetition());
    }

    /** Whether the service has taken all, or it was lost. */
    public synchronized boolean isEmpty() {
        return unanswered.isEmpty() && resend.isEmpty() && hasNothingNew() && telling == 0;
    }

    /** What is queued goes now. */
    synchronized void hurry() {
        if (isDue) {
            due = System.nanoTime();
        }
    }

    private boolean hasNothingNew() {
        return queue.isEmpty() && tallies.isEmpty();
    }

    /** What is gathered goes after so long at the latest. True: that is sooner than before. */
    private boolean isDueIn(long linger) {
        long at = System.nanoTime() + linger;
        boolean isSooner = !isDue || at - due < 0;
        if (isSooner) {
            due = at;
            isDue = true;
        }
        return isSooner;
    }

    private Batch gather() {
        // A tally takes 300 bytes at most, so that these leave room.
        List<ReportEntry> entries = new ArrayList<>(tallies.take(TALLIES_MAX));
        int bytes = 0;
        for (ReportEntry entry : entries) {
            bytes += entry.getSerializedSize() + 8;
        }
        while (!queue.isEmpty()) {
            bytes += queue.peek().getSerializedSize() + 8;
            boolean isFull = entries.size() >= BATCH_MAX || bytes > MESSAGE_BYTES_MAX;
            if (isFull && !entries.isEmpty()) {
                break;
            }
            entries.add(queue.remove());
        }
        isDue = !hasNothingNew();
        due = System.nanoTime();
        return entries.isEmpty() ? null : new Batch(nextSequence++, entries, false);
    }
}
