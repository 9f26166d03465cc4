package io.holdoff.client.link;

import io.holdoff.client.Denied;

/** What the service has pushed about first attempts. */
public sealed interface Word {
    /** Nothing that can be relied on. */
    Word ASK = new Ask();

    /** Make it, without a permit. */
    record Go(OnState on) implements Word {}

    /** Fail at once. */
    record Refuse(Denied denied) implements Word {}

    /** Ask before it. */
    record Ask() implements Word {}
}
