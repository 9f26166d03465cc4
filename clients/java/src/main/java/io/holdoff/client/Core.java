package io.holdoff.client;

import io.holdoff.client.link.Counting;
import io.holdoff.client.link.Link;
import io.holdoff.client.link.Loop;
import io.holdoff.client.link.OnState;
import io.holdoff.client.link.Warnings;
import java.util.concurrent.Executor;

/**
 * What the calls of one client share.
 *
 * @param link null: there is no service to ask
 * @param isTesting nothing is waited for
 * @param executor runs what those who do not block have to run
 */
record Core(
        Loop loop,
        Link link,
        boolean isTesting,
        long timeout,
        OnNoDecision onNoDecision,
        Local local,
        Clock clock,
        Counting counting,
        Executor executor,
        Warnings warnings) {

    /** In a bypass nothing is coordinated, and no name is too odd for that. */
    void checkName(String dependency) {
        if (link != null || isTesting) {
            Question.checkName("dependency", dependency);
        }
    }

    /** The service is away, and this process decides by all that it knows itself. */
    boolean countsAlone() {
        return link != null && onNoDecision == OnNoDecision.LOCAL && !link.isAsked();
    }

    /**
     * Where the service was lost while an attempt on pushed state ran, it counts for this process
     * too: about the failures of what is under way at that moment this process decides, and it
     * must not see them alone. The service has its tally all the same. True: it was lost.
     */
    boolean countIfLost(String dependency, Made made, Outcome outcome) {
        boolean isLost = made instanceof Made.OnPushed && countsAlone();
        if (isLost) {
            local.count(dependency, outcome);
        }
        return isLost;
    }

    /** How the attempt ended that was made so. */
    void report(String dependency, Made made, Outcome outcome) {
        boolean isUrgent = outcome.kind().isUrgent();
        if (made instanceof Made.Local own) {
            local.report(dependency, own.permit(), outcome);
        } else if (link == null) {
            // Permits and states of the service exist only where there is one.
            return;
        } else if (made instanceof Made.OnPushed pushed) {
            Telling.tell(this, dependency, pushed.on(), outcome);
        } else if (made instanceof Made.Fleet fleet) {
            link.reports().push(fleet.permit(), outcome, isUrgent);
        }
    }

    /** The state last heard of. */
    OnState last(String dependency) {
        return link == null ? OnState.UNKNOWN : link.pushed().last(dependency);
    }
}
