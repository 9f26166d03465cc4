package io.holdoff.client.link;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import io.holdoff.client.v1.BreakerState;
import io.holdoff.client.v1.ClientPolicy;
import io.holdoff.client.v1.FirstAttempts;
import io.holdoff.client.v1.Update;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What is kept of what the service pushed. */
final class PushedTest {
    private long now;
    private final Pushed pushed = new Pushed(() -> now, Policy.OWN, List.of("wished"));

    private void update() {
        pushed.store(
                Update.newBuilder()
                        .setDependency("payments")
                        .setState(BreakerState.BREAKER_STATE_CLOSED)
                        .setFirstAttempts(FirstAttempts.FIRST_ATTEMPTS_GO)
                        .setPolicy(ClientPolicy.newBuilder().setMaxAttempts(7))
                        .build());
    }

    @Test
    void whatIsCalledNoLongerIsLeftOnceAndItsPolicyIsKept() {
        update();
        now = 600 * Nanos.SECOND;
        assertEquals(List.of("wished"), pushed.followed());
        assertEquals(List.of("payments"), pushed.leaveIdle());
        assertEquals(List.of(), pushed.leaveIdle());
        assertEquals(7, pushed.policy("payments").orElseThrow().maxAttempts());
        pushed.word("payments", now);
        update();
        now += 600 * Nanos.SECOND;
        assertEquals(List.of("payments"), pushed.leaveIdle());
    }
}
