package io.holdoff.client.link;

import java.util.concurrent.atomic.LongAdder;

/** What the client counts. Each is exact, together they are no snapshot. */
public final class Counting {
    public final LongAdder asked = new LongAdder();
    public final LongAdder answered = new LongAdder();
    public final LongAdder noDecision = new LongAdder();
    public final LongAdder pushedGrants = new LongAdder();
    public final LongAdder pushedDenials = new LongAdder();
    public final LongAdder localGrants = new LongAdder();
    public final LongAdder localDenials = new LongAdder();
    public final LongAdder reported = new LongAdder();
    public final LongAdder reportsDropped = new LongAdder();
    public final LongAdder connections = new LongAdder();
}
