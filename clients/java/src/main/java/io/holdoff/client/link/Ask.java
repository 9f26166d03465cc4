package io.holdoff.client.link;

import io.holdoff.client.v1.AcquireRequest;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;

/**
 * A question that somebody waits for. It ends once: by its answer, or by whoever does not wait any
 * longer. An answer that comes after that may carry a permit, even the lease of a probe, and is
 * given back.
 *
 * <p>A wait is counted in parts, and one in which the virtual machine stood still, for its garbage
 * or for want of a processor, counts for one and a half at most: nobody could have been heard
 * meanwhile.
 */
public final class Ask {
    private static final int PARTS = 5;

    private enum State {
        WAITING,
        /** It may have reached the service. */
        SENT,
        ENDED
    }

    /** Null: it is not asked. */
    final AcquireRequest request;
    private final Link link;

    /** Null: it was never asked. */
    private final Gate.Pass pass;

    private final AtomicReference<State> state = new AtomicReference<>(State.WAITING);
    private final CompletableFuture<Answer> answer = new CompletableFuture<>();

    /** Null: it does not wait. */
    private final Patience patience;

    Ask(Link link, AcquireRequest request, Gate.Pass pass, Patience patience) {
        this.link = link;
        this.request = request;
        this.pass = pass;
        this.patience = patience;
    }

    /** One that nobody waits for. */
    static Ask away(Link link, Gate.Pass pass) {
        Ask ask = new Ask(link, null, pass, null);
        ask.end(NoAnswer.AWAY);
        return ask;
    }

    /** Waits for the answer, no longer than this. */
    public Answer await(long nanos) throws InterruptedException {
        try {
            for (long left = nanos; left > 0; ) {
                long begun = System.nanoTime();
                try {
                    return answer.get(part(nanos, left), TimeUnit.NANOSECONDS);
                } catch (TimeoutException silent) {
                    left -= counted(nanos, System.nanoTime() - begun);
                }
            }
            late();
            return answer.join();
        } catch (InterruptedException givenUp) {
            giveUp();
            throw givenUp;
        } catch (ExecutionException impossible) {
            // It is only ever completed with a value.
            throw new IllegalStateException(impossible);
        }
    }

    /** The same for those who do not block. Completed by the thread of the link. */
    public CompletableFuture<Answer> within(Loop loop, long nanos) {
        wait(loop, nanos, nanos);
        return answer;
    }

    private void wait(Loop loop, long nanos, long left) {
        if (answer.isDone()) {
            return;
        }
        long begun = System.nanoTime();
        Runnable then =
                () -> {
                    long rest = left - counted(nanos, System.nanoTime() - begun);
                    if (rest > 0) {
                        wait(loop, nanos, rest);
                    } else {
                        late();
                    }
                };
        var timer = loop.after(part(nanos, left), then);
        if (timer == null) {
            end(NoAnswer.AWAY);
        }
        answer.whenComplete((said, error) -> Loop.cancel(timer));
    }

    private static long part(long nanos, long left) {
        return Math.min(Math.max(1, nanos / PARTS), left);
    }

    private static long counted(long nanos, long took) {
        return Math.min(took, Math.max(1, nanos / PARTS * 3 / 2));
    }

    /** Nobody waits any longer. */
    public void giveUp() {
        end(NoAnswer.GIVEN_UP);
    }

    private void late() {
        if (!end(State.WAITING, new Answer.None(NoAnswer.UNSENT))) {
            end(NoAnswer.LATE);
        }
    }

    boolean hasEnded() {
        return state.get() == State.ENDED;
    }

    /** It goes to the service now. False: nobody waits for it any longer. */
    boolean sends() {
        return state.compareAndSet(State.WAITING, State.SENT) || !hasEnded();
    }

    void end(NoAnswer why) {
        end(new Answer.None(why));
    }

    void end(Answer said) {
        if (!end(State.WAITING, said) && !end(State.SENT, said)) {
            link.giveBack(said);
        }
    }

    private boolean end(State from, Answer said) {
        if (!state.compareAndSet(from, State.ENDED)) {
            return false;
        }
        if (patience != null) {
            patience.leave(said instanceof Answer.None none ? none.why() : null);
        }
        if (pass != null) {
            link.note(pass, said);
        }
        answer.complete(said);
        return true;
    }
}
