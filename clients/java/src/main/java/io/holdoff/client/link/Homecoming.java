package io.holdoff.client.link;

import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.holdoff.client.link.Course.End;
import java.util.concurrent.ScheduledFuture;

/**
 * A connection to an endpoint that is not the preferred one is left for that one when it is back:
 * it is looked for once in a jittered minute or two, and the leave is taken between questions, if
 * they leave a gap.
 */
final class Homecoming {
    private static final long SECOND = 1_000_000_000L;
    private static final long MILLISECOND = 1_000_000L;
    private static final long TRIED_EVERY = 60 * SECOND;
    private static final long DIAL_MAX = 2 * SECOND;
    private static final long GAP = 100 * MILLISECOND;

    private final Link link;
    private final int index;
    private ScheduledFuture<?> timer;
    private ManagedChannel tried;
    private boolean hasEnded;

    Homecoming(Link link, int index) {
        this.link = link;
        this.index = index;
    }

    void begin(Connection from) {
        if (index != 0 && !hasEnded) {
            long wait = (long) (TRIED_EVERY * (1 + Entropy.unit()));
            timer = link.loop.after(wait, () -> look(from));
        }
    }

    void end() {
        hasEnded = true;
        Loop.cancel(timer);
        forget();
    }

    private void look(Connection from) {
        if (hasEnded) {
            return;
        }
        try {
            tried = link.dialer.channel(0, link.loop);
        } catch (RuntimeException odd) {
            link.warnings.noTransport(odd);
            return;
        }
        watch(from, tried, System.nanoTime() + DIAL_MAX);
    }

    private void watch(Connection from, ManagedChannel channel, long until) {
        if (hasEnded) {
            return;
        }
        ConnectivityState state = channel.getState(true);
        boolean isLate = System.nanoTime() - until >= 0;
        if (state == ConnectivityState.READY) {
            forget();
            leave(from, System.nanoTime() + GAP);
        } else if (state == ConnectivityState.TRANSIENT_FAILURE || isLate) {
            forget();
            begin(from);
        } else {
            timer = link.loop.after(10 * MILLISECOND, () -> watch(from, channel, until));
        }
    }

    private void leave(Connection from, long until) {
        if (from.isIdle() || System.nanoTime() - until >= 0) {
            from.end(End.AGAIN);
        } else if (!hasEnded) {
            timer = link.loop.after(MILLISECOND, () -> leave(from, until));
        }
    }

    private void forget() {
        if (tried != null) {
            tried.shutdownNow();
            tried = null;
        }
    }
}
