package io.holdoff.client.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import io.holdoff.client.DenialReason;
import io.holdoff.client.Outcome;
import io.holdoff.client.rules.LocalRecord.Answer;
import io.holdoff.client.rules.LocalRecord.Asked;
import io.holdoff.client.rules.LocalRecord.Before;
import io.holdoff.client.rules.LocalRecord.Granted;
import io.holdoff.client.rules.LocalRecord.Mode;
import io.holdoff.client.rules.LocalRecord.Refused;
import io.holdoff.client.rules.LocalRecord.Sample;
import io.holdoff.client.vectors.Fields;
import io.holdoff.client.vectors.Vectors;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The stories of a process that decides alone. */
final class LocalVectorsTest {
    @TestFactory
    List<DynamicTest> local() throws IOException {
        return Vectors.each("local", 158, vector -> new Story(vector).play());
    }

    private static final class Story {
        private final Fields vector;
        private final Policy policy;
        private final Mode mode;
        private final LocalRecord record = new LocalRecord(0);
        private final Map<String, LocalPermit> permits = new HashMap<>();

        private Story(Fields vector) {
            this.vector = vector;
            policy = vector.within("policy", PolicyFields::read).orElseThrow();
            mode = Mode.valueOf(vector.text("mode").toUpperCase(Locale.ROOT));
        }

        private void play() {
            vector.each("steps", this::step);
        }

        private void step(Fields step) {
            long now = step.nanos("now_ns");
            switch (step.text("do")) {
                case "first" -> check(step, record.first(asked(step), now));
                case "retry" -> check(step, retry(step, now));
                case "confirm" -> {
                    LocalPermit permit = permits.get(step.text("permit"));
                    check(step, record.confirm(asked(step), permit, now));
                }
                case "report" -> {
                    Outcome outcome = step.within("outcome", Vectors::outcome).orElseThrow();
                    record.report(policy, mode, permits.get(step.text("permit")), outcome, now);
                }
                case "told" ->
                        record.told(
                                DenialReason.valueOf(step.text("reason")),
                                step.nanosOrNull("retry_after_ns"),
                                now);
                case "let_go" -> record.letGo(now);
                default -> throw new AssertionError(step.text("do"));
            }
        }

        private Answer retry(Fields step, long now) {
            Outcome outcome = step.within("outcome", Vectors::outcome).orElseThrow();
            LocalPermit permit = null;
            if (step.has("made")) {
                assertEquals("fleet", step.text("made"));
            } else {
                permit = permits.get(step.text("permit"));
            }
            boolean isIdempotent = step.flag("idempotent", true);
            Before before = new Before(permit, outcome, true);
            return record.retry(asked(step), step.count("attempt"), before, isIdempotent, now);
        }

        private Asked asked(Fields step) {
            Sample sample = new Sample(step.real("jitter", 0), step.real("spread", 0));
            return new Asked(policy, mode, step.nanosOrNull("time_left_ns"), sample);
        }

        private void check(Fields step, Answer answer) {
            if (answer instanceof Granted granted && step.has("as")) {
                permits.put(step.text("as"), granted.permit());
            } else if (step.has("as")) {
                step.text("as");
            }
            step.within("expected", expected -> compare(expected, answer));
        }

        private static boolean compare(Fields expected, Answer answer) {
            expected.within(
                    "granted",
                    said -> {
                        Granted granted = assertInstanceOf(Granted.class, answer);
                        assertEquals(said.text("delay_ns"), Vectors.text(granted.delay()));
                        assertEquals(said.flag("probe"), granted.isProbe());
                        assertEquals(said.flag("confirm"), granted.confirm());
                        return true;
                    });
            expected.within(
                    "denied",
                    said -> {
                        Refused refused = assertInstanceOf(Refused.class, answer);
                        assertEquals(said.text("reason"), refused.reason().name());
                        String wait = Vectors.text(refused.retryAfter());
                        assertEquals(said.textOrNull("retry_after_ns"), wait);
                        return true;
                    });
            return true;
        }
    }
}
