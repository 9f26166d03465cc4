package io.holdoff.client;

import io.holdoff.client.rules.Clamp;
import io.holdoff.client.rules.Nanos;
import java.util.OptionalLong;

/** Whether the same question is asked again after a denial, and when. */
final class Again {
    private Again() {}

    /**
     * Empty: the denial stands. A permit that was granted and did not hold is given back; the same
     * question would be answered by the same, void grant, so that a first attempt is asked for
     * under another name, and a retry ends the call.
     */
    static OptionalLong after(Asking asking, OnDenied onDenied, Denied denied, boolean wasGranted) {
        // Nothing is waited for in tests.
        boolean waits = onDenied == OnDenied.WAIT && !asking.core.isTesting();
        if (!waits || wasGranted && asking.attempt > 1) {
            return OptionalLong.empty();
        }
        Long after = denied.retryAfter().map(Nanos::of).orElse(null);
        return Clamp.askAgain(denied.reason(), after, asking.timeLeft());
    }
}
