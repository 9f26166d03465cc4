package io.holdoff.client.link;

import java.lang.System.Logger.Level;
import java.util.concurrent.atomic.AtomicLong;

/** Warnings that do not flood a log: one of a kind a minute. */
public final class Warnings {
    private static final System.Logger LOG = System.getLogger("io.holdoff.client");
    private static final long EVERY = 60_000_000_000L;
    private static final int TEXT_LENGTH = 200;

    private final AtomicLong away = new AtomicLong(System.nanoTime() - EVERY);
    private final AtomicLong settings = new AtomicLong(System.nanoTime() - EVERY);

    void away(NoAnswer why) {
        if (isDue(away)) {
            String text = "holdoff does not answer ({0}); deciding locally for a while";
            LOG.log(Level.WARNING, text, why.detail());
        }
    }

    void back() {
        LOG.log(Level.INFO, "holdoff answers again");
    }

    void refused(String what) {
        warnOfSettings("holdoff refuses the question; deciding locally: " + what);
    }

    void notFollowed(String what) {
        warnOfSettings("holdoff refuses to push the state of a dependency: " + what);
    }

    public void oddName(String name) {
        warnOfSettings(
                "a dependency's name is not 1 to 200 of the letters allowed; deciding locally: "
                        + name);
    }

    void noTransport(RuntimeException why) {
        warnOfSettings("no connection can be made: " + why);
    }

    private void warnOfSettings(String text) {
        if (isDue(settings)) {
            String plain = text.replaceAll("\\p{Cntrl}", " ");
            LOG.log(Level.WARNING, plain.substring(0, Math.min(plain.length(), TEXT_LENGTH)));
        }
    }

    private static boolean isDue(AtomicLong last) {
        long now = System.nanoTime();
        long before = last.get();
        return now - before >= EVERY && last.compareAndSet(before, now);
    }
}
