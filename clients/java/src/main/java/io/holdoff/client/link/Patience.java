package io.holdoff.client.link;

/**
 * How many callers wait for a service of which nothing has been heard yet: three in all, at once
 * or one after the other. The others decide alone at once, while the connection is made at
 * nobody's cost. So a process that begins with a burst of calls pays for three of them, and being
 * slow to start is not taken for the service's silence: the {@link Gate} is for questions that
 * were sent.
 */
final class Patience {
    private static final int WAITING_MAX = 3;

    /** The service has said something on the connection that stands. */
    private boolean isHeard;

    private int waiting;

    /** Since it was last heard of. */
    private int inVain;

    /** Whether one more caller may wait. Then {@link #leave} is called once. */
    synchronized boolean enter() {
        if (!isHeard && waiting + inVain >= WAITING_MAX) {
            return false;
        }
        waiting++;
        return true;
    }

    /** Three have waited in vain. */
    synchronized boolean isOver() {
        return !isHeard && inVain >= WAITING_MAX;
    }

    synchronized void leave(NoAnswer why) {
        waiting--;
        inVain += why != null && why.isLate() && !isHeard ? 1 : 0;
    }

    synchronized void heard() {
        isHeard = true;
        inVain = 0;
    }

    /** The connection is over. */
    synchronized void lost() {
        isHeard = false;
    }
}
