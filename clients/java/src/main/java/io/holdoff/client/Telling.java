package io.holdoff.client;

import io.holdoff.client.link.Answer;
import io.holdoff.client.link.OnState;
import io.holdoff.client.link.Wire;
import io.holdoff.client.v1.AcquireRequest;
import io.holdoff.client.v1.Previous;

/**
 * Tells how an attempt on pushed state ended that no question has told of. It is tallied; but a
 * tally has no place for a wait that the dependency asked for, and that may hold the whole fleet.
 * Such an outcome goes with a question about a retry that is sure to be denied.
 */
final class Telling {
    private Telling() {}

    static void tell(Core core, String dependency, OnState on, Outcome outcome) {
        boolean pushesBack =
                outcome.pushback().isPresent() && outcome.kind() != OutcomeKind.SUCCESS;
        if (pushesBack) {
            askInVain(core, dependency, on, outcome);
        } else {
            tally(core, dependency, on, outcome);
        }
    }

    private static void tally(Core core, String dependency, OnState on, Outcome outcome) {
        core.link().reports().tally(dependency, on, outcome, outcome.kind().isUrgent());
    }

    private static void askInVain(Core core, String dependency, OnState on, Outcome outcome) {
        Previous.Builder previous =
                Previous.newBuilder().setEpoch(on.epoch()).setOutcome(Wire.write(outcome));
        AcquireRequest request =
                AcquireRequest.newBuilder()
                        .setDependency(dependency)
                        .setAttempt(2)
                        // Only what certainly was not sent could be granted, and that is given back.
                        .setSafety(Wire.write(Safety.UNSAFE))
                        .setPrevious(previous)
                        .setCallId(CallId.draw().toString())
                        .build();
        core.link().reports().beginTelling();
        core.link()
                .ask(() -> request)
                .within(core.loop(), core.timeout())
                .thenAccept(
                        answer -> {
                            if (answer instanceof Answer.Grant grant) {
                                core.link().giveBack(grant.permit());
                            } else if (answer instanceof Answer.None none
                                    && !none.why().mayHaveArrived()) {
                                tally(core, dependency, on, outcome);
                            }
                            core.link().reports().endTelling();
                        });
    }
}
