package io.holdoff.client.link;

import io.holdoff.client.v1.Hello;
import io.holdoff.client.v1.SessionRequest;
import io.holdoff.client.v1.Subscribe;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * What a stream follows. It begins with what was called lately, the service adds what is asked
 * about, and what is called no longer is left, so that nothing is pushed for nobody and the
 * fleet's allowance is shared by those who use it.
 */
final class Following {
    /** Names in one message; of 202 bytes at most, so that these are 40 KiB. */
    private static final int NAMES_MAX = 200;

    /** Names that are followed again when they are asked about; others are only asked about. */
    private static final int LEFT_MAX = 10_000;

    private final Link link;
    private final Set<String> left = new HashSet<>();

    Following(Link link) {
        this.link = link;
    }

    /** The first messages of a stream. */
    List<SessionRequest> greeting() {
        List<List<String>> names = inMessages(link.pushed.followed());
        Hello.Builder hello = link.hello.toBuilder();
        if (!names.isEmpty()) {
            hello.addAllSubscribe(names.get(0));
        }
        List<SessionRequest> messages = new ArrayList<>();
        messages.add(SessionRequest.newBuilder().setHello(hello).build());
        names.stream()
                .skip(1)
                .map(some -> message(Subscribe.newBuilder().addAllAdd(some)))
                .forEach(messages::add);
        return messages;
    }

    /** Leaves what is called no longer. */
    List<SessionRequest> leaveIdle() {
        List<String> idle = link.pushed.leaveIdle();
        idle.stream().limit(Math.max(0, LEFT_MAX - left.size())).forEach(left::add);
        return inMessages(idle).stream()
                .map(some -> message(Subscribe.newBuilder().addAllRemove(some)))
                .toList();
    }

    /** Follows again what was left and is asked about. */
    Optional<SessionRequest> resume(List<Ask> asked) {
        if (left.isEmpty()) {
            return Optional.empty();
        }
        List<String> again =
                asked.stream().map(ask -> ask.request.getDependency()).filter(left::remove).toList();
        return again.isEmpty()
                ? Optional.empty()
                : Optional.of(message(Subscribe.newBuilder().addAllAdd(again)));
    }

    private static List<List<String>> inMessages(List<String> names) {
        List<List<String>> messages = new ArrayList<>();
        for (int from = 0; from < names.size(); from += NAMES_MAX) {
            messages.add(names.subList(from, Math.min(names.size(), from + NAMES_MAX)));
        }
        return messages;
    }

    /** Its answer, if any, is an error that nobody waits for, so that it has no id. */
    private static SessionRequest message(Subscribe.Builder subscribe) {
        return SessionRequest.newBuilder().setSubscribe(subscribe).build();
    }
}
