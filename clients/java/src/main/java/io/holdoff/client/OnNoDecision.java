package io.holdoff.client;

/** What a client does when the service decides nothing. */
public enum OnNoDecision {
    /** Decides by the same rules, over what this process alone knows. */
    LOCAL,
    /** Lets first attempts through; retries wait and end as ever. */
    ALLOW,
    /** Denies. */
    DENY
}
