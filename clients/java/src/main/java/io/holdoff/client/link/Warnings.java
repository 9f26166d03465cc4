package io.holdoff.client.link;

import java.lang.System.Logger.Level;
import java.util.concurrent.atomic.AtomicLong;

/** Warnings that do not flood a log: one of a kind a minute. */
public final class Warnings {
    private static final System.Logger LOG = System.getLogger("io.holdoff.client");
    private static final long EVERY = 60_000_000_000L;
    private static final int TEXT_LENGTH = 200;

    private final AtomicLong away = new AtomicLong(System.nanoTime() - EVERY);
    private boolean isAway;
    private boolean isWarned;
    private final AtomicLong settings = new AtomicLong(System.nanoTime() - EVERY);
    private final AtomicLong classifiers = new AtomicLong(System.nanoTime() - EVERY);

    /** The service has gone: told once, however many calls go on without it meanwhile. */
    synchronized void away(String endpoint, String why) {
        if (isAway) {
            return;
        }
        isAway = true;
        // Of a service that comes and goes, one a minute; and no return without one.
        isWarned = isDue(away);
        if (isWarned) {
            String text = "holdoff at {0} is away ({1}); deciding locally until it is back";
            LOG.log(Level.WARNING, text, endpoint, plain(why));
        }
    }

    synchronized void back(String endpoint) {
        if (isAway && isWarned) {
            LOG.log(Level.INFO, "holdoff at {0} is back", endpoint);
        }
        isAway = false;
    }

    void refused(String what) {
        warnOfSettings("holdoff refuses the question; deciding locally: " + what);
    }

    void notFollowed(String what) {
        warnOfSettings("holdoff refuses to push the state of a dependency: " + what);
    }

    void noTransport(RuntimeException why) {
        warnOfSettings("no connection can be made: " + why);
    }

    /** With where it was thrown, since the program has to be mended. */
    public void classifierFailed(Throwable fault) {
        if (isDue(classifiers)) {
            LOG.log(Level.WARNING, "a classifier failed; the outcome is ignored", fault);
        }
    }

    private void warnOfSettings(String text) {
        if (isDue(settings)) {
            LOG.log(Level.WARNING, plain(text));
        }
    }

    private static String plain(String text) {
        String plain = text.replaceAll("\\p{Cntrl}", " ");
        return plain.substring(0, Math.min(plain.length(), TEXT_LENGTH));
    }

    private static boolean isDue(AtomicLong last) {
        long now = System.nanoTime();
        long before = last.get();
        return now - before >= EVERY && last.compareAndSet(before, now);
    }
}
