package io.holdoff.client.link;

import io.holdoff.client.Denied;
import io.holdoff.client.rules.Nanos;
import io.holdoff.client.rules.Policy;
import io.holdoff.client.v1.Update;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.LongSupplier;

/**
 * The state that the service pushes: what to do with first attempts, and what to keep to when it
 * is away.
 *
 * <p>The client obeys and derives nothing from the state of the breaker. Nothing is forgotten when
 * a session breaks: what was said holds to its own end, and the policy for as long as the client
 * lives. Only where there are too many do those that are not called make room.
 */
public final class Pushed {
    /** A client subscribes to what it calls; more than this was not asked for. */
    private static final int DEPENDENCIES_MAX = 10_000;

    private static final int NAME_LENGTH_MAX = 200;

    /** A dependency that was not called for so long is followed no longer. */
    private static final long IDLE = 600 * Nanos.SECOND;

    private final LongSupplier clock;
    private final Policy own;
    private final List<String> wished;
    private final Map<String, Entry> entries = new ConcurrentHashMap<>();
    private final List<Runnable> listeners = new CopyOnWriteArrayList<>();

    private static final class Entry {
        private volatile Heard heard;

        /** The last question about it. Lost updates do no harm. */
        private volatile long used;

        /** It is followed no longer. */
        private volatile boolean isLeft;

        private Entry(Heard heard, long now) {
            this.heard = heard;
            this.used = now;
        }
    }

    /** {@code wished}: wanted from the first connection on. */
    public Pushed(LongSupplier clock, Policy own, List<String> wished) {
        this.clock = clock;
        this.own = own;
        this.wished = List.copyOf(wished);
    }

    /** By the thread of the link alone. */
    void store(Update update) {
        String name = update.getDependency();
        if (name.length() > NAME_LENGTH_MAX) {
            return;
        }
        long now = clock.getAsLong();
        Entry entry = entries.get(name);
        if (entry == null && entries.size() >= DEPENDENCIES_MAX) {
            entries.values().removeIf(old -> isIdle(old, now));
            if (entries.size() >= DEPENDENCIES_MAX) {
                return;
            }
        }
        Heard before = entry == null ? null : entry.heard;
        Heard heard = Heard.read(update, before, own, now);
        if (entry == null) {
            entries.put(name, new Entry(heard, now));
        } else {
            entry.heard = heard;
            entry.isLeft = false;
        }
        listeners.forEach(Runnable::run);
    }

    /** What the service says about a first attempt now. */
    public Word word(String dependency, long now) {
        Entry entry = entries.get(dependency);
        if (entry == null) {
            return Word.ASK;
        }
        // Each call reads it, and few have to write it.
        if (now - entry.used > Nanos.SECOND) {
            entry.used = now;
        }
        return entry.heard.word(now);
    }

    /** Is run, by the thread of the link, after each update, until it is removed. */
    public void listen(Runnable listener) {
        listeners.add(listener);
    }

    public void forget(Runnable listener) {
        listeners.remove(listener);
    }

    /** Why an attempt that was granted in {@code epoch} may not be made any more. */
    public Optional<Denied> trippedSince(String dependency, long epoch, long attempt) {
        Entry entry = entries.get(dependency);
        return entry == null
                ? Optional.empty()
                : entry.heard.trippedSince(epoch, attempt, clock.getAsLong());
    }

    /** Why there is no retry of an attempt that was made on the state of {@code epoch}. */
    public Optional<Denied> refusedSince(String dependency, long epoch) {
        Entry entry = entries.get(dependency);
        return entry == null
                ? Optional.empty()
                : entry.heard.refusedSince(epoch, clock.getAsLong());
    }

    /** See {@link Heard#refusedAlone}. */
    public Optional<Denied> refusedAlone(String dependency, boolean isExtra, Long since) {
        Entry entry = entries.get(dependency);
        return entry == null
                ? Optional.empty()
                : entry.heard.refusedAlone(isExtra, since, clock.getAsLong());
    }

    /** How many clients the fleet had when the service last said so; 0: it has not. */
    public long knownClients(String dependency) {
        Entry entry = entries.get(dependency);
        return entry == null ? 0 : entry.heard.knownClients();
    }

    /** Whether the service is known to stand by what it granted in {@code epoch}. */
    public boolean standsBy(String dependency, long epoch) {
        Entry entry = entries.get(dependency);
        return entry != null && entry.heard.standsBy(epoch, clock.getAsLong());
    }

    /** The state last heard of, valid or not. */
    public OnState last(String dependency) {
        Entry entry = entries.get(dependency);
        return entry == null ? OnState.UNKNOWN : entry.heard.on;
    }

    /** The policy last said. */
    public Optional<Policy> policy(String dependency) {
        Entry entry = entries.get(dependency);
        return entry == null ? Optional.empty() : Optional.of(entry.heard.policy);
    }

    /** When the service last let first attempts go; null: never. */
    public Long letGoAt(String dependency) {
        Entry entry = entries.get(dependency);
        return entry == null ? null : entry.heard.letGoAt;
    }

    /** Whether something was said about all that is wanted from the beginning. */
    public boolean hasAllWished() {
        return entries.keySet().containsAll(wished);
    }

    /** What a new session subscribes to. */
    List<String> followed() {
        long now = clock.getAsLong();
        TreeSet<String> names = new TreeSet<>(wished);
        entries.forEach(
                (name, entry) -> {
                    if (!isIdle(entry, now)) {
                        entry.isLeft = false;
                        names.add(name);
                    }
                });
        return List.copyOf(names);
    }

    /**
     * What is called no longer, unless it was wanted from the beginning; each once. What was heard
     * of it is kept.
     */
    List<String> leaveIdle() {
        long now = clock.getAsLong();
        List<String> idle = new ArrayList<>();
        entries.forEach(
                (name, entry) -> {
                    if (isIdle(entry, now) && !entry.isLeft && !wished.contains(name)) {
                        entry.isLeft = true;
                        idle.add(name);
                    }
                });
        return idle;
    }

    private static boolean isIdle(Entry entry, long now) {
        return !Nanos.less(Nanos.subtract(now, entry.used), IDLE);
    }
}
