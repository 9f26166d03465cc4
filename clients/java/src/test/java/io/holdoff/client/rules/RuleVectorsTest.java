package io.holdoff.client.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import io.holdoff.client.DenialReason;
import io.holdoff.client.Outcome;
import io.holdoff.client.vectors.Fields;
import io.holdoff.client.vectors.Vectors;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Every vector of a single rule. */
final class RuleVectorsTest {
    @TestFactory
    List<DynamicTest> backoff() throws IOException {
        return Vectors.each(
                "backoff",
                121,
                vector -> {
                    Policy policy = vector.within("policy", PolicyFields::read).orElseThrow();
                    long retry = vector.count("retry");
                    long before = vector.nanos("previous_delay_ns");
                    double sample = vector.real("sample");
                    vector.within(
                            "expected",
                            expected -> {
                                assertNanos(expected, "ceiling_ns", Backoff.ceiling(policy, retry));
                                long delay = Backoff.delay(policy, retry, before, sample);
                                return assertNanos(expected, "delay_ns", delay);
                            });
                });
    }

    @TestFactory
    List<DynamicTest> pushbackHttp() throws IOException {
        return Vectors.each(
                "pushback_http",
                49,
                vector -> {
                    OptionalLong wait =
                            Pushback.ofHttp(
                                    vector.text("value"),
                                    vector.textOrNull("date"),
                                    vector.count("wall_unix_seconds"));
                    String expected = vector.textOrNull("expected_ns");
                    assertEquals(expected, Vectors.text(orNull(wait)));
                });
    }

    @TestFactory
    List<DynamicTest> pushbackGrpc() throws IOException {
        return Vectors.each(
                "pushback_grpc",
                21,
                vector -> {
                    OptionalLong wait = Pushback.ofGrpc(vector.text("value"));
                    vector.within(
                            "expected",
                            expected -> {
                                boolean isForbidden = expected.flag("do_not_retry", false);
                                assertEquals(isForbidden, wait.isEmpty());
                                Long after = expected.nanosOrNull("after_ns");
                                assertEquals(Vectors.text(after), Vectors.text(orNull(wait)));
                                return true;
                            });
                });
    }

    @TestFactory
    List<DynamicTest> classifyHttp() throws IOException {
        return Vectors.each(
                "classify_http",
                144,
                vector -> {
                    Outcome outcome =
                            HttpRules.classify(
                                    (int) vector.count("status"),
                                    header(vector, "retry-after"),
                                    header(vector, "date"),
                                    vector.count("wall_unix_seconds"));
                    vector.within(
                            "expected",
                            expected -> {
                                assertOutcome(expected, outcome);
                                return true;
                            });
                });
    }

    @TestFactory
    List<DynamicTest> classifyGrpc() throws IOException {
        return Vectors.each(
                "classify_grpc",
                73,
                vector -> {
                    List<String> pushback = new ArrayList<>();
                    vector.get("pushback")
                            .getAsJsonArray()
                            .forEach(value -> pushback.add(value.getAsString()));
                    Outcome outcome = GrpcRules.classify((int) vector.count("code"), pushback);
                    vector.within(
                            "expected",
                            expected -> {
                                assertOutcome(expected, outcome);
                                boolean restarts = expected.flag("restarts_backoff");
                                assertEquals(restarts, outcome.isBackoffRestarted());
                                boolean isForbidden = expected.flag("do_not_retry");
                                assertEquals(isForbidden, outcome.isRetryForbidden());
                                return true;
                            });
                });
    }

    @TestFactory
    List<DynamicTest> budget() throws IOException {
        return Vectors.each(
                "budget",
                18,
                vector -> {
                    Policy policy = vector.within("policy", this::budgetPolicy).orElseThrow();
                    Budget budget = new Budget();
                    vector.each("steps", step -> budgetStep(policy, budget, step));
                });
    }

    private Policy budgetPolicy(Fields fields) {
        double ratio = fields.real("ratio");
        double floor = fields.real("floor_per_second");
        long ttl = fields.nanos("ttl_ns");
        return Policy.OWN.with(
                changed -> {
                    changed.budgetRatioPpm = Math.round(ratio * 1e6);
                    changed.budgetTtl = ttl;
                    changed.floorMicrosPerSecond = Math.round(floor * 1e6);
                });
    }

    private void budgetStep(Policy policy, Budget budget, Fields step) {
        long now = step.nanos("now_ns");
        long count = step.count("count");
        long granted = 0;
        switch (step.text("do")) {
            case "deposit" -> budget.deposit(policy, count, now);
            case "ask" -> {
                while (granted < count && budget.level(policy, now).hasRoom()) {
                    budget.withdraw(policy, now);
                    granted++;
                }
            }
            default -> throw new AssertionError(step.text("do"));
        }
        long taken = granted;
        step.within(
                "expected",
                expected -> {
                    assertEquals(expected.count("granted"), taken);
                    Budget.Level level = budget.level(policy, now);
                    assertEquals(expected.count("first_attempts"), level.firstAttempts());
                    assertEquals(expected.count("retries"), level.retries());
                    assertEquals(expected.count("allowed"), level.allowed());
                    return true;
                });
    }

    @TestFactory
    List<DynamicTest> detector() throws IOException {
        return Vectors.each(
                "detector",
                13,
                vector -> {
                    Detector detector = new Detector();
                    vector.each("steps", step -> detectorStep(detector, step));
                });
    }

    private void detectorStep(Detector detector, Fields step) {
        boolean trips =
                detector.record(
                        step.count("successes"), step.count("failures"), step.nanos("now_ns"));
        step.within(
                "expected",
                expected -> {
                    assertEquals(expected.flag("trips"), trips);
                    double sum = expected.real("sum");
                    assertTrue(
                            sum > 1000 || Math.abs(sum - detector.sum()) < 0.01,
                            () -> "expected " + sum + ", got " + detector.sum());
                    return true;
                });
    }

    @TestFactory
    List<DynamicTest> ownWords() throws IOException {
        return Vectors.each(
                "own_words",
                60,
                vector -> {
                    Optional<DenialReason> refused = ownWords(vector);
                    String reason = refused.map(DenialReason::name).orElse(null);
                    vector.within(
                            "expected",
                            expected -> {
                                assertEquals(expected.textOrNull("refused"), reason);
                                return true;
                            });
                });
    }

    private Optional<DenialReason> ownWords(Fields vector) {
        long attempt = vector.count("attempt");
        long max = vector.count("max_attempts");
        boolean isRepeatable = !vector.text("safety").equals("unsafe");
        Long left = vector.nanosOrNull("time_left_ns");
        Optional<Outcome> before = vector.within("previous", Vectors::outcome);
        return OwnWords.time(left)
                .or(() -> before.flatMap(b -> OwnWords.retry(attempt, max, isRepeatable, b)));
    }

    @TestFactory
    List<DynamicTest> clamp() throws IOException {
        return Vectors.each(
                "clamp",
                120,
                vector -> {
                    Fields expected = new Fields(vector.get("expected"));
                    vector.within("wait", wait -> clampWait(wait, expected));
                    vector.within(
                            "lease",
                            lease -> {
                                long use = Clamp.useOfLease(lease.nanos("lease_ns"));
                                return assertNanos(expected, "use_ns", use);
                            });
                    vector.within("ask_again", again -> clampAskAgain(again, expected));
                    vector.within(
                            "held_back",
                            held -> {
                                long clients = held.count("known_clients");
                                Long left = held.nanosOrNull("time_left_ns");
                                long nanos = Clamp.heldBack(clients, left, held.real("sample"));
                                return assertNanos(expected, "held_ns", nanos);
                            });
                    vector.within(
                            "shut",
                            shut -> {
                                long trials = shut.count("failed_trials");
                                long shutFor = Clamp.shut(trials, shut.real("sample"));
                                return assertNanos(expected, "shut_ns", shutFor);
                            });
                    expected.close();
                });
    }

    private boolean clampWait(Fields wait, Fields expected) {
        long delay = wait.nanos("delay_ns");
        boolean fits = Clamp.fits(delay, wait.nanosOrNull("time_left_ns"));
        if (expected.has("denied")) {
            assertEquals("DEADLINE", expected.text("denied"));
            assertEquals(false, fits);
            return true;
        }
        assertEquals(true, fits);
        return assertNanos(expected, "wait_ns", Clamp.delay(delay));
    }

    private boolean clampAskAgain(Fields again, Fields expected) {
        OptionalLong wait =
                Clamp.askAgain(
                        DenialReason.valueOf(again.text("reason")),
                        again.nanosOrNull("retry_after_ns"),
                        again.nanosOrNull("time_left_ns"));
        assertEquals(expected.textOrNull("wait_ns"), Vectors.text(orNull(wait)));
        return true;
    }

    private static List<String> header(Fields vector, String name) {
        List<String> values = new ArrayList<>();
        for (JsonElement header : vector.get("headers").getAsJsonArray()) {
            String said = header.getAsJsonArray().get(0).getAsString();
            if (said.toLowerCase(Locale.ROOT).equals(name)) {
                values.add(header.getAsJsonArray().get(1).getAsString());
            }
        }
        return values;
    }

    private static void assertOutcome(Fields expected, Outcome outcome) {
        assertEquals(Vectors.kind(expected), outcome.kind());
        assertEquals(expected.count("status_code"), outcome.statusCode());
        Long pushback = outcome.pushback().map(Nanos::of).orElse(null);
        assertEquals(expected.textOrNull("pushback_ns"), Vectors.text(pushback));
    }

    private static boolean assertNanos(Fields expected, String name, long nanos) {
        assertEquals(expected.text(name), Long.toUnsignedString(nanos));
        return true;
    }

    private static Long orNull(OptionalLong value) {
        return value.isPresent() ? value.getAsLong() : null;
    }
}
