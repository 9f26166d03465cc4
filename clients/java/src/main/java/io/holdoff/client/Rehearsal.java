package io.holdoff.client;

import io.holdoff.client.link.Counting;
import io.holdoff.client.link.Loop;
import io.holdoff.client.link.Warnings;
import io.holdoff.client.rules.LocalRecord.Mode;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A call that nobody makes, once in a process, while the client is built. What it takes to load
 * the classes of a call and of its question would otherwise be the first call's to wait for.
 */
final class Rehearsal {
    private static final AtomicBoolean IS_OVER = new AtomicBoolean();

    private Rehearsal() {}

    static void once() {
        if (IS_OVER.getAndSet(true)) {
            return;
        }
        Clock clock = new Clock();
        Local local = new Local(LocalPolicy.standard().policy(), Mode.ALL, clock, null);
        Core nobody =
                new Core(
                        new Loop(),
                        null,
                        true,
                        0,
                        OnNoDecision.LOCAL,
                        local,
                        clock,
                        new Counting(),
                        Runnable::run,
                        new Warnings());
        Question question = Question.of("rehearsal").idempotent();
        Asking.first(nobody, question).request(null);
        try {
            new Guard(nobody, question, OnDenied.FAIL, Classifier.standard()).call(Rehearsal::attempt);
        } catch (IOException | DeniedException | TimedOutException refused) {
            // Nobody is told.
            return;
        }
    }

    private static String attempt(Attempt attempt) throws IOException {
        if (attempt.number() == 1) {
            throw new IOException("rehearsed");
        }
        return "rehearsed";
    }
}
