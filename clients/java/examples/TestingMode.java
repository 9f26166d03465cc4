import io.holdoff.client.Holdoff;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;

/** How code that makes guarded calls is tested: no service, no waiting, at most three attempts. */
final class TestingMode {
    private TestingMode() {}

    /** The code under test. In production it gets a client that knows a service. */
    private static int fetch(Holdoff holdoff, AtomicInteger calls) throws IOException {
        return holdoff.guard("rates")
                .idempotent()
                .deadline(Duration.ofSeconds(30))
                .call(
                        attempt -> {
                            int call = calls.getAndIncrement();
                            if (call < 2) {
                                throw new IOException("503");
                            }
                            return call;
                        });
    }

    public static void main(String[] arguments) throws IOException {
        long begun = System.nanoTime();
        try (Holdoff holdoff = Holdoff.testing()) {
            AtomicInteger calls = new AtomicInteger();
            System.out.println("it recovers: " + fetch(holdoff, calls));
            System.out.println("after " + calls.get() + " calls");

            try {
                holdoff.guard("rates").idempotent().call(attempt -> fail());
            } catch (IOException error) {
                System.out.println("it gives up: " + error.getMessage());
                System.out.println("because: " + Holdoff.whyStopped(error).orElseThrow());
            }
        }
        long took = System.nanoTime() - begun;
        System.out.println("without waiting: " + (took < Duration.ofSeconds(1).toNanos()));
    }

    private static int fail() throws IOException {
        throw new IOException("503");
    }
}
