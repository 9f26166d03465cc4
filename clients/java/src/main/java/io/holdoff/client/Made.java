package io.holdoff.client;

import com.google.protobuf.ByteString;
import io.holdoff.client.link.OnState;
import io.holdoff.client.rules.LocalPermit;

/** Under what an attempt is made. */
sealed interface Made {
    /** A permit of the service. */
    record Fleet(ByteString permit) implements Made {}

    /** No permit: the service has let first attempts go. */
    record OnPushed(OnState on) implements Made {}

    /**
     * A decision of this process.
     *
     * @param begunIn the epoch that the service had pushed when the attempt began; 0: none
     */
    record Local(LocalPermit permit, long begunIn) implements Made {}
}
