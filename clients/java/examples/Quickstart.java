import io.holdoff.client.Attempt;
import io.holdoff.client.Holdoff;
import java.io.IOException;
import java.time.Duration;

/** The smallest use: a call that is guarded. Runs with a service (`holdoff serve`) and without one. */
final class Quickstart {
    private Quickstart() {}

    public static void main(String[] arguments) throws IOException {
        try (Holdoff holdoff = Holdoff.builder().service("checkout").build()) {
            String answer =
                    holdoff.guard("payments")
                            .idempotent()
                            .deadline(Duration.ofSeconds(2))
                            .call(Quickstart::charge);
            System.out.println(answer);
        }
    }

    /** Stands for a call that fails now and then. */
    private static String charge(Attempt attempt) throws IOException {
        String by = attempt.isLocal() ? "this process" : "the service";
        System.out.println("attempt " + attempt.number() + ", granted by " + by);
        if (attempt.number() == 1) {
            throw new IOException("503 Service Unavailable");
        }
        return "charged";
    }
}
