package io.holdoff.client.link;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** How many callers wait for a service of which nothing is heard. */
final class PatienceTest {
    private final Patience patience = new Patience();

    private void enter(int times) {
        for (int time = 0; time < times; time++) {
            assertTrue(patience.enter(), "caller " + (time + 1));
        }
    }

    private void late(int times) {
        for (int time = 0; time < times; time++) {
            patience.leave(NoAnswer.UNSENT);
        }
    }

    @Test
    void threeWaitInAllAtOnceOrOneAfterTheOther() {
        enter(3);
        assertFalse(patience.enter());
        late(3);
        assertFalse(patience.enter());
    }

    @Test
    void whatIsRefusedAtOnceHasCostNothing() {
        enter(3);
        patience.leave(NoAnswer.AWAY);
        enter(1);
        assertFalse(patience.enter());
    }

    @Test
    void onceTheServiceIsHeardOfAnyNumberWaitsUntilTheConnectionIsLost() {
        enter(3);
        late(3);
        patience.heard();
        enter(100);
        late(100);
        patience.lost();
        enter(3);
        assertFalse(patience.enter());
    }
}
