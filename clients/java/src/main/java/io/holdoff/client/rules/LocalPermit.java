package io.holdoff.client.rules;

/** What this process granted itself. Belongs to the record that gave it. */
public final class LocalPermit {
    long epoch;
    long givenAt;
    final long delay;

    /** 0 for a first attempt. */
    final long retry;

    final boolean tookToken;

    /** The end of a probe's lease; 0: it has none. */
    long leaseEnds;

    boolean isTold;
    boolean isVoid;

    LocalPermit(long epoch, long givenAt, long delay, long retry, boolean tookToken) {
        this.epoch = epoch;
        this.givenAt = givenAt;
        this.delay = delay;
        this.retry = retry;
        this.tookToken = tookToken;
    }

    /** Whether it is for a probe. */
    public boolean isProbe() {
        return leaseEnds != 0;
    }
}
