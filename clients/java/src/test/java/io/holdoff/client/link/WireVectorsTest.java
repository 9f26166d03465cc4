package io.holdoff.client.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.holdoff.client.Denied;
import io.holdoff.client.Outcome;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.ClientPolicy;
import io.holdoff.client.v1.Denial;
import io.holdoff.client.v1.Grant;
import io.holdoff.client.v1.OfflineAllowance;
import io.holdoff.client.v1.Tally;
import io.holdoff.client.v1.Update;
import io.holdoff.client.vectors.Fields;
import io.holdoff.client.vectors.Vectors;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Every vector of what is read from the wire and written to it. */
final class WireVectorsTest {
    @TestFactory
    List<DynamicTest> answer() throws IOException {
        return Vectors.each(
                "answer",
                91,
                vector -> {
                    long attempt = vector.count("attempt");
                    AcquireResponse response = vector.within("response", this::response).orElseThrow();
                    Answer answer = Wire.read(response);
                    vector.within("expected", expected -> compare(expected, answer, attempt));
                });
    }

    private AcquireResponse response(Fields said) {
        var response = AcquireResponse.newBuilder().setStateValue((int) said.count("state"));
        said.within("grant", this::grant).ifPresent(response::setGrant);
        said.within("denial", this::denial).ifPresent(response::setDenial);
        return response.build();
    }

    private Grant grant(Fields said) {
        var grant = Grant.newBuilder();
        said.within("delay", this::duration).ifPresent(grant::setDelay);
        said.within("permit_ttl", this::duration).ifPresent(grant::setPermitTtl);
        said.within("attempt_timeout", this::duration).ifPresent(grant::setAttemptTimeout);
        grant.setPermit(ByteString.copyFrom(new byte[(int) said.count("permit_bytes", 48)]));
        return grant.setProbe(said.flag("probe", false))
                .setConfirm(said.flag("confirm", false))
                .build();
    }

    private Denial denial(Fields said) {
        var denial = Denial.newBuilder().setReasonValue((int) said.count("reason"));
        said.within("retry_after", this::duration).ifPresent(denial::setRetryAfter);
        return denial.build();
    }

    private Duration duration(Fields said) {
        return Duration.newBuilder()
                .setSeconds(Long.parseLong(said.text("seconds")))
                .setNanos((int) said.count("nanos"))
                .build();
    }

    private boolean compare(Fields expected, Answer answer, long attempt) {
        if (expected.has("stops")) {
            assertEquals("UNREADABLE", expected.text("stops"));
            assertEquals(NoAnswer.Kind.NO_DELAY, assertInstanceOf(Answer.None.class, answer).why().kind());
            assertEquals(true, attempt > 1);
        }
        if (expected.flag("no_decision", false)) {
            NoAnswer.Kind kind = assertInstanceOf(Answer.None.class, answer).why().kind();
            boolean stops = kind == NoAnswer.Kind.NO_DELAY && attempt > 1;
            assertEquals(false, stops);
        }
        expected.within(
                "granted",
                said -> {
                    Answer.Grant grant = assertInstanceOf(Answer.Grant.class, answer);
                    assertEquals(said.text("delay_ns"), Vectors.text(grant.delay()));
                    assertEquals(said.textOrNull("permit_ttl_ns"), Vectors.text(grant.permitTtl()));
                    assertEquals(said.flag("probe"), grant.isProbe());
                    assertEquals(said.flag("confirm"), grant.confirm());
                    String timeout = Vectors.text(grant.attemptTimeout());
                    assertEquals(said.textOrNull("attempt_timeout_ns"), timeout);
                    return true;
                });
        expected.within(
                "denied",
                said -> {
                    Answer.Denial denial = assertInstanceOf(Answer.Denial.class, answer);
                    assertEquals(said.text("reason"), denial.reason().name());
                    String wait = Vectors.text(denial.retryAfter());
                    assertEquals(said.textOrNull("retry_after_ns"), wait);
                    return true;
                });
        return true;
    }

    @TestFactory
    List<DynamicTest> clientPolicy() throws IOException {
        return Vectors.each(
                "client_policy",
                168,
                vector -> {
                    ClientPolicy said = vector.within("said", this::clientPolicy).orElse(null);
                    OfflineAllowance allowance =
                            vector.within("allowance", this::allowance).orElse(null);
                    Policy policy = PolicyReader.read(said, allowance, Policy.OWN);
                    vector.within("expected", expected -> compare(expected, policy));
                });
    }

    private OfflineAllowance allowance(Fields said) {
        var allowance = OfflineAllowance.newBuilder();
        return allowance.setRetriesPerSecond(said.real("retries_per_second", 0)).build();
    }

    private ClientPolicy clientPolicy(Fields said) {
        var policy =
                ClientPolicy.newBuilder()
                        .setMaxAttempts((int) said.count("max_attempts", 0))
                        .setStrategyValue((int) said.count("strategy", 0))
                        .setMultiplier(said.real("multiplier", 0))
                        .setJitterValue((int) said.count("jitter", 0))
                        .setJitterProportion(said.real("jitter_proportion", 0))
                        .setBudgetRatio(said.real("budget_ratio", 0))
                        .setOpenMultiplier(said.real("open_multiplier", 0))
                        .setBreakerOff(said.flag("breaker_off", false));
        said.within("initial_delay", this::duration).ifPresent(policy::setInitialDelay);
        said.within("max_delay", this::duration).ifPresent(policy::setMaxDelay);
        said.within("min_delay", this::duration).ifPresent(policy::setMinDelay);
        said.within("min_attempt_time", this::duration).ifPresent(policy::setMinAttemptTime);
        said.within("pushback_max", this::duration).ifPresent(policy::setPushbackMax);
        said.within("pushback_spread", this::duration).ifPresent(policy::setPushbackSpread);
        said.within("budget_ttl", this::duration).ifPresent(policy::setBudgetTtl);
        said.within("open_for", this::duration).ifPresent(policy::setOpenFor);
        said.within("open_max", this::duration).ifPresent(policy::setOpenMax);
        said.within("slow_after", this::duration).ifPresent(policy::setSlowAfter);
        return policy.build();
    }

    private boolean compare(Fields expected, Policy policy) {
        String attempts = policy.maxAttempts() == 0 ? null : "" + policy.maxAttempts();
        assertEquals(expected.textOrNull("max_attempts"), attempts);
        assertEquals(expected.text("strategy"), policy.strategy().name().toLowerCase(Locale.ROOT));
        assertEquals(expected.nanos("initial_delay_ns"), policy.initialDelay());
        assertEquals(expected.real("multiplier"), policy.multiplier());
        assertEquals(expected.nanos("max_delay_ns"), policy.maxDelay());
        assertEquals(expected.nanos("min_delay_ns"), policy.minDelay());
        assertEquals(expected.text("jitter"), policy.jitter().name().toLowerCase(Locale.ROOT));
        String proportion = expected.textOrNull("jitter_proportion");
        if (policy.jitter() == Policy.Jitter.PROPORTIONAL) {
            assertEquals(Double.parseDouble(proportion), policy.jitterProportion());
        } else {
            assertEquals(null, proportion);
        }
        assertEquals(expected.nanos("min_attempt_time_ns"), policy.minAttemptTime());
        assertEquals(expected.nanos("pushback_max_ns"), policy.pushbackMax());
        assertEquals(expected.nanos("pushback_spread_ns"), policy.pushbackSpread());
        assertEquals(expected.count("budget_ratio_ppm"), policy.budgetRatioPpm());
        assertEquals(expected.nanos("budget_ttl_ns"), policy.budgetTtl());
        assertEquals(expected.nanos("open_for_ns"), policy.openFor());
        assertEquals(expected.real("open_multiplier"), policy.openMultiplier());
        assertEquals(expected.nanos("open_max_ns"), policy.openMax());
        assertEquals(expected.nanos("slow_after_ns"), policy.slowAfter());
        assertEquals(expected.flag("breaker_off"), policy.breakerOff());
        assertEquals(expected.nanos("floor_micros_per_second"), policy.floorMicrosPerSecond());
        return true;
    }

    @TestFactory
    List<DynamicTest> pushed() throws IOException {
        return Vectors.each(
                "pushed",
                184,
                vector -> {
                    Update update = vector.within("update", this::update).orElseThrow();
                    Heard heard = Heard.read(update, null, Policy.OWN, 0);
                    long after = vector.nanos("after_ns");
                    Fields expected = new Fields(vector.get("expected"));
                    vector.within("waiting", waiting -> waits(waiting, expected, heard, after))
                            .or(() -> vector.within("alone", alone -> alone(alone, expected, heard, after)))
                            .orElseGet(() -> compare(expected, heard.word(after)));
                    expected.close();
                });
    }

    private Update update(Fields said) {
        var update =
                Update.newBuilder()
                        .setDependency("payments")
                        .setStateValue((int) said.count("state", 0))
                        .setFirstAttemptsValue((int) said.count("first_attempts", 0))
                        .setEpoch(said.count("epoch", 0));
        said.within("valid_for", this::duration).ifPresent(update::setValidFor);
        return update.build();
    }

    private boolean waits(Fields waiting, Fields expected, Heard heard, long after) {
        long epoch = waiting.count("granted_in");
        var dropped = heard.trippedSince(epoch, waiting.count("attempt"), after);
        String reason = dropped.map(denied -> denied.reason().name()).orElse(null);
        assertEquals(expected.textOrNull("dropped"), reason);
        assertEquals(expected.flag("confirmed"), heard.standsBy(epoch, after));
        return true;
    }

    private boolean alone(Fields alone, Fields expected, Heard heard, long after) {
        boolean isExtra = alone.text("sought").equals("extra");
        String since = alone.textOrNull("since");
        Denied refused =
                heard.refusedAlone(isExtra, since == null ? null : Long.valueOf(since), after)
                        .orElse(null);
        boolean isNamed =
                expected.within("refused", denied -> isRefused(denied, refused)).isPresent();
        assertEquals(isNamed, refused != null);
        return true;
    }

    private boolean isRefused(Fields expected, Denied refused) {
        assertEquals(expected.text("reason"), refused.reason().name());
        Long wait = refused.retryAfter().map(Nanos::of).orElse(null);
        assertEquals(expected.text("retry_after_ns"), Vectors.text(wait));
        return true;
    }

    private boolean compare(Fields expected, Word word) {
        switch (expected.text("word")) {
            case "ask" -> assertInstanceOf(Word.Ask.class, word);
            case "go" -> {
                Word.Go go = assertInstanceOf(Word.Go.class, word);
                assertEquals(expected.count("epoch"), go.on().epoch());
            }
            case "refuse" -> {
                var denied = assertInstanceOf(Word.Refuse.class, word).denied();
                assertEquals(expected.text("reason"), denied.reason().name());
                Long wait = denied.retryAfter().map(Nanos::of).orElse(null);
                assertEquals(expected.text("retry_after_ns"), Vectors.text(wait));
            }
            default -> throw new AssertionError(expected.text("word"));
        }
        return true;
    }

    @TestFactory
    List<DynamicTest> tally() throws IOException {
        return Vectors.each(
                "tally",
                22,
                vector -> {
                    Tallies tallies = new Tallies();
                    vector.each("ended", ended -> note(tallies, ended));
                    List<Tally> taken = new ArrayList<>();
                    tallies.take(100).forEach(entry -> taken.add(entry.getTally()));
                    taken.sort(
                            Comparator.comparing(Tally::getDependency)
                                    .thenComparing(Tally::getEpoch, Long::compareUnsigned));
                    List<Tally> expected = new ArrayList<>();
                    vector.each("expected", said -> expected.add(tally(said)));
                    assertEquals(expected, taken);
                });
    }

    private void note(Tallies tallies, Fields ended) {
        if (ended.flag("stream_begins", false)) {
            tallies.forgetStarts();
            return;
        }
        OnState on = new OnState(ended.count("epoch"), ended.nanos("slow_after_ns"));
        Outcome outcome = Outcome.of(Vectors.kind(ended));
        Long latency = ended.nanosOrNull("latency_ns");
        outcome = latency == null ? outcome : outcome.latency(Nanos.toDuration(latency));
        assertEquals(true, tallies.note(ended.text("dependency"), on, outcome));
    }

    private Tally tally(Fields said) {
        return Tally.newBuilder()
                .setDependency(said.text("dependency"))
                .setEpoch(said.count("epoch"))
                .setFirstAttempts((int) said.count("first_attempts"))
                .setSuccesses((int) said.count("successes"))
                .setFailures((int) said.count("failures"))
                .setTimeouts((int) said.count("timeouts"))
                .setThrottled((int) said.count("throttled"))
                .setRejected((int) said.count("rejected"))
                .setSlow((int) said.count("slow"))
                .setIgnored((int) said.count("ignored"))
                .setLatencySum(Wire.writeNanos(said.nanos("latency_sum_ns")))
                .build();
    }
}
