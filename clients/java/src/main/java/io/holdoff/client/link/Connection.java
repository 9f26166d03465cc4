package io.holdoff.client.link;

import io.grpc.ManagedChannel;
import io.holdoff.client.link.Course.End;

/** One connection, by its loop alone. It has one channel, which ends with it. */
interface Connection {
    void begin();

    /** The service has taken it. */
    boolean isOpen();

    /** Nothing waits for an answer. */
    boolean isIdle();

    void take(Ask ask);

    /** Sends outcomes, due or not. */
    void report();

    /** Gives it up. Those who wait learn it at once. */
    void end(End end);

    ManagedChannel channel();
}
