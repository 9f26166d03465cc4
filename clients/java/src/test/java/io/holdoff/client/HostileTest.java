package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.holdoff.client.service.Scripted;
import io.holdoff.client.v1.AcquireResponse;
import io.holdoff.client.v1.ClientPolicy;
import io.holdoff.client.v1.Denial;
import io.holdoff.client.v1.Grant;
import io.holdoff.client.v1.Update;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/** A service that is wrong, or owned by somebody else, harms no call. */
@Timeout(60)
final class HostileTest {
    private static final Duration NOW = Duration.getDefaultInstance();
    private static final Duration TEN_YEARS =
            Duration.newBuilder().setSeconds(315_360_000L).build();

    @TestFactory
    List<DynamicTest> cl4AFirstAttemptIsMadeWhateverTheAnswer() {
        Map<String, AcquireResponse> answers = new TreeMap<>();
        answers.put("nothing", AcquireResponse.getDefaultInstance());
        answers.put("a state of the future", grant(NOW).setStateValue(99).build());
        answers.put("a reason of the future", deny(99));
        answers.put("a denial without a reason", deny(0));
        answers.put("a grant that does not say when", grant(null).build());
        answers.put("a negative delay", grant(Duration.newBuilder().setSeconds(-1).build()).build());
        answers.put(
                "too many nanoseconds",
                grant(Duration.newBuilder().setNanos(Integer.MAX_VALUE).build()).build());
        answers.put(
                "the longest duration",
                grant(Duration.newBuilder().setSeconds(Long.MAX_VALUE).build()).build());
        answers.put("a permit of a megabyte", bigPermit());
        answers.put("a lease of nothing", shortLease());
        return answers.entrySet().stream()
                .map(each -> DynamicTest.dynamicTest(each.getKey(), () -> completes(each.getValue())))
                .toList();
    }

    private static void completes(AcquireResponse answer) throws Exception {
        try (Scripted service = Scripted.start().answer(request -> answer);
                Holdoff holdoff = service.client().build()) {
            for (int call = 0; call < 5; call++) {
                assertEquals("done", holdoff.call("payments", attempt -> "done"));
            }
        }
    }

    @Test
    void cl4AnEvilPolicyLeavesTheClientsOwn() throws Exception {
        ClientPolicy evil =
                ClientPolicy.newBuilder()
                        .setMaxAttempts(-1)
                        .setMultiplier(Double.NaN)
                        .setInitialDelay(TEN_YEARS)
                        .setMaxDelay(TEN_YEARS)
                        .setBudgetRatio(Double.POSITIVE_INFINITY)
                        .build();
        Update update =
                Update.newBuilder()
                        .setDependency("payments")
                        .setStateValue(77)
                        .setFirstAttemptsValue(77)
                        .setValidFor(TEN_YEARS)
                        .setPolicy(evil)
                        .build();
        try (Scripted service = Scripted.start().push(update);
                Holdoff holdoff = service.client().follow("payments").build()) {
            assertTrue(holdoff.connect(java.time.Duration.ofSeconds(10)));
            service.answer(request -> AcquireResponse.getDefaultInstance());
            int attempts =
                    holdoff.guard("payments")
                            .idempotent()
                            .classify(
                                    (value, error) ->
                                            Outcome.of(
                                                    value.equals(3)
                                                            ? OutcomeKind.SUCCESS
                                                            : OutcomeKind.FAILURE))
                            .call(Attempt::number);
            assertEquals(3, attempts);
        }
    }

    @Test
    void cl4ADelayOfTenYearsEndsWithTheDeadline() throws Exception {
        AcquireResponse never = grant(TEN_YEARS).build();
        try (Scripted service = Scripted.start().answer(request -> never);
                Holdoff holdoff = service.client().build()) {
            Guard guard = holdoff.guard("payments").deadline(java.time.Duration.ofSeconds(30));
            long begun = System.nanoTime();
            Denied why =
                    guard.callOr(attempt -> Denied.byCaller(DenialReason.HELD, ""), HostileTest::why);
            assertEquals(DenialReason.DEADLINE, why.reason());
            assertTrue(System.nanoTime() - begun < 20_000_000_000L);
        }
    }

    private static Denied why(Exception error) {
        return Holdoff.whyStopped(error).orElseThrow();
    }

    @Test
    void cl4ATextOfAMegabyteIsCut() throws Exception {
        Denial.Builder denial = Denial.newBuilder().setReasonValue(10).setDetail("x".repeat(1 << 20));
        AcquireResponse wordy = AcquireResponse.newBuilder().setDenial(denial).setStateValue(2).build();
        try (Scripted service = Scripted.start().answer(request -> wordy);
                Holdoff holdoff = service.client().build()) {
            Denied why =
                    holdoff.guard("payments")
                            .callOr(attempt -> Denied.byCaller(DenialReason.HELD, ""), HostileTest::why);
            assertEquals(DenialReason.BREAKER_OPEN, why.reason());
            assertEquals(1024, why.detail().length());
        }
    }

    private static AcquireResponse.Builder grant(Duration delay) {
        Grant.Builder grant = Grant.newBuilder().setPermit(ByteString.copyFromUtf8("p"));
        if (delay != null) {
            grant.setDelay(delay);
        }
        return AcquireResponse.newBuilder().setGrant(grant).setStateValue(1);
    }

    private static AcquireResponse bigPermit() {
        ByteString permit = ByteString.copyFrom(new byte[1 << 20]);
        Grant grant = Grant.newBuilder().setDelay(NOW).setPermit(permit).build();
        return AcquireResponse.newBuilder().setGrant(grant).build();
    }

    private static AcquireResponse shortLease() {
        Grant grant = Grant.newBuilder().setDelay(NOW).setPermitTtl(NOW).setProbe(true).build();
        return AcquireResponse.newBuilder().setGrant(grant).build();
    }

    private static AcquireResponse deny(int reason) {
        Denial denial = Denial.newBuilder().setReasonValue(reason).build();
        return AcquireResponse.newBuilder().setDenial(denial).build();
    }
}
