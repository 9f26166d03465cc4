package io.holdoff.client.cost;

import com.google.protobuf.Duration;
import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.retry.Retry;
import io.holdoff.client.Guard;
import io.holdoff.client.Holdoff;
import io.holdoff.client.service.Scripted;
import io.holdoff.client.v1.Update;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;

/**
 * What a guarded call costs while all is well: the service has pushed GO, so that nothing is
 * asked. Beside it the same with resilience4j, its retry around its circuit breaker. Rounds of
 * both alternate; the median of their means is printed.
 */
public final class Cost {
    private static final int CALLS = 1_000_000;
    private static final int ROUNDS = 11;
    private static final int WARM_UPS = 3;

    private static long sum;

    private Cost() {}

    private record Subject(String name, Callable<Integer> call, double[] nanos) {}

    public static void main(String[] arguments) throws Exception {
        Update go =
                Update.newBuilder()
                        .setDependency("payments")
                        .setStateValue(1)
                        .setFirstAttemptsValue(1)
                        .setEpoch(1)
                        .setValidFor(Duration.newBuilder().setSeconds(300))
                        .build();
        Scripted service = Scripted.start().push(go);
        Holdoff holdoff = service.client().follow("payments").build();
        try (service;
                holdoff) {
            if (!holdoff.connect(java.time.Duration.ofSeconds(5))) {
                throw new IllegalStateException("the service was not reached");
            }
            Guard guard = holdoff.guard("payments").idempotent();
            Callable<Integer> plain = Cost::work;
            CircuitBreaker breaker = CircuitBreaker.ofDefaults("payments");
            Retry retry = Retry.ofDefaults("payments");
            Callable<Integer> decorated =
                    Retry.decorateCallable(retry, CircuitBreaker.decorateCallable(breaker, plain));
            List<Subject> subjects = new ArrayList<>();
            subjects.add(subject("plain call", plain));
            subjects.add(subject("holdoff, pushed GO", () -> guard.call(attempt -> work())));
            subjects.add(subject("resilience4j 2.4.0, retry and circuit breaker", decorated));
            for (int round = -WARM_UPS; round < ROUNDS; round++) {
                for (Subject subject : subjects) {
                    double nanos = measure(subject.call());
                    if (round >= 0) {
                        subject.nanos()[round] = nanos;
                    }
                }
            }
            long hops = holdoff.counters().asked();
            subjects.forEach(Cost::print);
            System.out.printf("%d questions were asked in all%n", hops);
        }
    }

    private static Subject subject(String name, Callable<Integer> call) {
        return new Subject(name, call, new double[ROUNDS]);
    }

    private static int work() {
        return 1;
    }

    private static double measure(Callable<Integer> call) throws Exception {
        long begun = System.nanoTime();
        for (int i = 0; i < CALLS; i++) {
            sum += call.call();
        }
        return (double) (System.nanoTime() - begun) / CALLS;
    }

    private static void print(Subject subject) {
        Arrays.sort(subject.nanos());
        System.out.printf("%-48s %8.1f ns%n", subject.name(), subject.nanos()[ROUNDS / 2]);
    }
}
