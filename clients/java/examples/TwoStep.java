import io.holdoff.client.DeniedException;
import io.holdoff.client.Holdoff;
import io.holdoff.client.Outcome;
import io.holdoff.client.Permit;
import io.holdoff.client.Question;
import java.time.Duration;
import java.util.concurrent.TimeoutException;

/** Ask and report as two steps, for callers that run their attempts themselves. */
final class TwoStep {
    private TwoStep() {}

    public static void main(String[] arguments) throws InterruptedException {
        try (Holdoff holdoff = Holdoff.builder().service("worker").build()) {
            boolean isThere = holdoff.connect(Duration.ofMillis(500));
            System.out.println("the service is " + (isThere ? "there" : "away"));

            Question question = Question.of("search").idempotent().deadline(Duration.ofSeconds(3));
            try {
                find(holdoff.acquire(question));
            } catch (DeniedException denied) {
                System.out.println("no further attempt: " + denied.denied());
            }
            holdoff.flush(Duration.ofSeconds(1));
            System.out.println(holdoff.counters());
        }
    }

    private static void find(Permit first) throws InterruptedException {
        Permit permit = first;
        while (true) {
            System.out.println("attempt " + permit.attempt() + " in " + permit.delay());
            permit = permit.await();
            try {
                System.out.println("found " + search(permit.attempt()));
                permit.report(Outcome.success().latency(Duration.ofMillis(12)));
                return;
            } catch (TimeoutException why) {
                System.out.println(why.getMessage());
                permit = permit.retry(Outcome.timeout());
            }
        }
    }

    private static String search(int attempt) throws TimeoutException {
        if (attempt < 3) {
            throw new TimeoutException("no answer in time");
        }
        return "a needle";
    }
}
