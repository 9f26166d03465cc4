package io.holdoff.client;

/** Whether an attempt may be made again after it may have been executed. */
public enum Safety {
    /** Executing it twice does harm: retried only when it certainly was not sent. */
    UNSAFE,
    /** Executing it twice is the same as once. */
    IDEMPOTENT,
    /** It carries a key by which the dependency tells a repetition. */
    KEYED
}
