package io.holdoff.client;

/** Why an attempt may not be made. The first nineteen are the service's own words. */
public enum DenialReason {
    /** An operator holds the breaker open. */
    FORCED_OPEN("forced open by an operator"),
    /** The dependency said: do not retry. */
    PUSHBACK("the dependency said: do not retry"),
    /** The dependency asked for a longer wait than the policy allows. */
    PUSHBACK_TOO_LONG("the dependency asked for too long a wait"),
    /** The outcome before is none that a retry can mend. */
    NOT_RETRYABLE("a retry cannot mend it"),
    /** A layer below retried already. */
    RETRIED_BELOW("a layer below retried already"),
    /** No further attempt is allowed. */
    ATTEMPTS_EXHAUSTED("no attempt left"),
    /** It may have been executed, and executing it twice may do harm. */
    RETRY_UNSAFE("a retry may do harm"),
    /** A hedge that may not run, or not at once. */
    HEDGE_REFUSED("hedge refused"),
    /** The dependency asked the whole fleet to wait. */
    HELD("the dependency asked the fleet to wait"),
    /** The breaker is open. */
    BREAKER_OPEN("breaker open"),
    /** The breaker is half-open and all probes are out. */
    PROBE_IN_PROGRESS("breaker half-open, all probes are out"),
    /** The breaker closed a moment ago and its admitted share is taken. */
    RECOVERING("recovering, the admitted share is taken"),
    /** This caller instance fails while the others do not. */
    CALLER_FAULT("this instance fails while others do not"),
    /** No place in the calendar of retries. */
    CALENDAR_FULL("calendar full"),
    /** The rate limit has no room. */
    RATE_LIMITED("rate limited"),
    /** The attempt cannot be made in the time that is left. */
    DEADLINE("no time left"),
    /** No more retries may be made now. */
    BUDGET_EXHAUSTED("retry budget exhausted"),
    /** The permit before was used for a retry already. */
    DUPLICATE("the permit was used already"),
    /** The permit is void. */
    PERMIT_VOID("the permit is void"),
    /** The service decided nothing, and the client was told to deny then. */
    NO_DECISION("nothing was decided"),
    /** The service granted a retry without saying when. That is never taken as "now". */
    UNREADABLE("unreadable answer"),
    /** The caller gave it up: its thread was interrupted, or its future cancelled. */
    CANCELLED("given up by the caller");

    private final String words;

    DenialReason(String words) {
        this.words = words;
    }

    /**
     * For people, as {@code breaker open}.
     *
     * @return the reason in words
     */
    public String words() {
        return words;
    }
}
