package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdoff.client.service.Scripted;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The first calls of a process, and what is told of a service that is not there. */
@Timeout(60)
final class ColdStartTest {
    /** How many of so many calls at once were decided alone; {@code waits} gets their waits in ms. */
    private static int burst(Holdoff holdoff, int size, List<Long> waits) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(size);
        CyclicBarrier together = new CyclicBarrier(size);
        AtomicInteger alone = new AtomicInteger();
        List<Future<?>> calls = new ArrayList<>();
        for (int call = 0; call < size; call++) {
            calls.add(
                    threads.submit(
                            () -> {
                                together.await();
                                long begun = System.nanoTime();
                                holdoff.call(
                                        "payments",
                                        attempt -> {
                                            waits.add((System.nanoTime() - begun) / 1_000_000);
                                            alone.addAndGet(attempt.isLocal() ? 1 : 0);
                                            return null;
                                        });
                                return null;
                            }));
        }
        for (Future<?> call : calls) {
            call.get();
        }
        threads.shutdown();
        return alone.get();
    }

    @Test
    void aBurstAsTheFirstActMakesThreeCallersWaitAndAllIsCoordinatedAfterIt() throws Exception {
        try (Scripted service = Scripted.start();
                Holdoff holdoff = service.client().timeout(Duration.ofSeconds(2)).build()) {
            List<Long> waits = Collections.synchronizedList(new ArrayList<>());
            int alone = burst(holdoff, 100, waits);
            Collections.sort(waits);
            // Those who wait have two seconds, and the others nothing to wait for.
            assertTrue(waits.get(96) < 1_000, () -> "waits " + waits);
            assertTrue(alone <= 97, () -> alone + " alone");
            assertTrue(holdoff.connect(Duration.ofSeconds(5)));
            assertEquals(0, burst(holdoff, 100, waits));
        }
    }

    @Test
    void aServiceThatCannotBeReachedIsToldOnceWithItsAddress() {
        List<String> lines = Collections.synchronizedList(new ArrayList<>());
        Handler handler =
                new Handler() {
                    @Override
                    public void publish(LogRecord line) {
                        lines.add(line.getLevel() + " " + new SimpleFormatter().formatMessage(line));
                    }

                    @Override
                    public void flush() {}

                    @Override
                    public void close() {}
                };
        Logger logger = Logger.getLogger("io.holdoff.client");
        logger.addHandler(handler);
        try (Holdoff holdoff = Holdoff.builder().endpoints("127.0.0.1:1").build()) {
            for (int call = 0; call < 100; call++) {
                holdoff.call("payments", attempt -> null);
            }
            while (lines.stream().noneMatch(line -> line.contains("127.0.0.1:1 "))) {
                Thread.onSpinWait();
            }
        } finally {
            logger.removeHandler(handler);
        }
        List<String> told = lines.stream().filter(line -> line.contains("127.0.0.1:1 ")).toList();
        assertEquals(1, told.size(), told::toString);
        assertTrue(told.get(0).startsWith("WARNING holdoff at 127.0.0.1:1 is away"), told.get(0));
    }
}
