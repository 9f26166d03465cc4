package io.holdoff.client.link;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.grpc.Status;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.v1.CheckRun;
import io.holdoff.client.v1.CheckShared;
import io.holdoff.client.v1.PlanCheckResponse;

/**
 * When to check next, read strictly: a plan that says something unknown, or leaves out what it
 * must say, is none. A delay that is absent is not "now".
 *
 * @param plan null: there is none
 * @param why there is none, or null
 */
public record PlanAnswer(Plan plan, NoAnswer why) {
    private static final long DELAY_MAX = 2 * Nanos.DAY;
    private static final long TIMEOUT_MAX = 3600 * Nanos.SECOND;
    private static final int VERDICTS = 3;

    /**
     * Spans are nanoseconds.
     *
     * @param delay to the run, or until to ask again
     * @param timeout of the run
     * @param permit null: others check
     * @param shared what they have found, 1 to 3 as on the wire; 0: it is this one's turn
     * @param age of what they have found; null: nobody has checked yet
     * @param verdict of all, 1 to 3
     * @param period of the policy; 0: not said
     */
    public record Plan(
            long delay,
            long timeout,
            ByteString permit,
            int shared,
            Long age,
            int verdict,
            long period) {}

    /** What makes a plan none. */
    private static final class Odd extends Exception {
        private static final long serialVersionUID = 1;

        private Odd(String why) {
            super(why, null, false, false);
        }
    }

    static PlanAnswer none(NoAnswer why) {
        return new PlanAnswer(null, why);
    }

    /** A response, or null and how the request ended. */
    static PlanAnswer of(PlanCheckResponse response, Status status) {
        if (response == null) {
            return none(failed(status));
        }
        try {
            return new PlanAnswer(read(response), null);
        } catch (Odd odd) {
            return none(new NoAnswer(NoAnswer.Kind.UNREADABLE, odd.getMessage()));
        }
    }

    private static NoAnswer failed(Status status) {
        if (status.getCause() != null) {
            return NoAnswer.LOST;
        }
        NoAnswer.Kind kind =
                switch (status.getCode()) {
                    // A service that is well says so that it plans nothing here.
                    case FAILED_PRECONDITION,
                            UNIMPLEMENTED,
                            INVALID_ARGUMENT,
                            NOT_FOUND,
                            PERMISSION_DENIED,
                            UNAUTHENTICATED ->
                            NoAnswer.Kind.REFUSED;
                    default -> NoAnswer.Kind.FAILED;
                };
        String text = status.getDescription() == null ? "" : status.getDescription();
        return new NoAnswer(kind, status.getCode() + ": " + text);
    }

    private static Plan read(PlanCheckResponse response) throws Odd {
        int verdict = verdict(response.getVerdictValue());
        long period = 0;
        if (response.hasPeriod()) {
            period = someTime(response.getPeriod(), Nanos.DAY);
        }
        return switch (response.getPlanCase()) {
            case RUN -> run(response.getRun(), verdict, period);
            case SHARED -> shared(response.getShared(), verdict, period);
            case PLAN_NOT_SET -> throw new Odd("the answer has no plan");
        };
    }

    private static Plan run(CheckRun run, int verdict, long period) throws Odd {
        if (!run.hasDelay() || !run.hasTimeout()) {
            throw new Odd("the plan does not say when");
        }
        if (run.getPermit().size() > Wire.PERMIT_BYTES_MAX) {
            throw new Odd("the permit is longer than any permit");
        }
        long delay = span(run.getDelay(), DELAY_MAX);
        long timeout = someTime(run.getTimeout(), TIMEOUT_MAX);
        ByteString permit = ByteString.copyFrom(run.getPermit().toByteArray());
        return new Plan(delay, timeout, permit, 0, null, verdict, period);
    }

    private static Plan shared(CheckShared shared, int verdict, long period) throws Odd {
        if (!shared.hasAskAgain()) {
            throw new Odd("the plan does not say when");
        }
        int found = verdict(shared.getVerdictValue());
        Long age = shared.hasAge() ? (Long) span(shared.getAge(), Nanos.MAX) : null;
        long askAgain = span(shared.getAskAgain(), DELAY_MAX);
        return new Plan(askAgain, 0, null, found, age, verdict, period);
    }

    private static int verdict(int said) throws Odd {
        if (said < 1 || said > VERDICTS) {
            throw new Odd("the verdict is unknown to this client");
        }
        return said;
    }

    private static long span(Duration said, long max) throws Odd {
        try {
            long span = Wire.readDuration(said);
            if (Nanos.less(max, span)) {
                throw new Odd("a duration of the plan is out of range");
            }
            return span;
        } catch (Wire.OddDuration odd) {
            throw new Odd("a duration of the plan is out of range");
        }
    }

    private static long someTime(Duration said, long max) throws Odd {
        long span = span(said, max);
        if (span == 0) {
            throw new Odd("a duration of the plan is out of range");
        }
        return span;
    }
}
