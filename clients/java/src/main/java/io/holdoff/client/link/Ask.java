package io.holdoff.client.link;

import io.holdoff.client.v1.AcquireRequest;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A question that somebody waits for. It ends once: by its answer, or by whoever does not wait any
 * longer. An answer that comes after that may carry a permit, even the lease of a probe, and is
 * given back.
 */
public final class Ask {
    final AcquireRequest request;
    private final Link link;

    /** Null: it was never asked. */
    private final Gate.Pass pass;

    private final AtomicBoolean hasEnded = new AtomicBoolean();
    private final CompletableFuture<Answer> answer = new CompletableFuture<>();

    Ask(Link link, AcquireRequest request, Gate.Pass pass) {
        this.link = link;
        this.request = request;
        this.pass = pass;
    }

    /** Waits for the answer, no longer than this. */
    public Answer await(long nanos) throws InterruptedException {
        try {
            return answer.get(nanos, TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            end(NoAnswer.LATE);
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
        if (!answer.isDone()) {
            var timer = loop.after(nanos, () -> end(NoAnswer.LATE));
            if (timer == null) {
                end(NoAnswer.AWAY);
            }
            answer.whenComplete((said, error) -> Loop.cancel(timer));
        }
        return answer;
    }

    /** Nobody waits any longer. */
    public void giveUp() {
        end(NoAnswer.GIVEN_UP);
    }

    boolean hasEnded() {
        return hasEnded.get();
    }

    void end(NoAnswer why) {
        end(new Answer.None(why));
    }

    void end(Answer said) {
        if (!hasEnded.compareAndSet(false, true)) {
            link.giveBack(said);
            return;
        }
        if (pass != null) {
            link.note(pass, said);
        }
        answer.complete(said);
    }
}
