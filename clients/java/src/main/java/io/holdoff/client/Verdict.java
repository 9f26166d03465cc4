package io.holdoff.client;

/** What all checkers together have found. */
public enum Verdict {
    /** It answers as it should. */
    HEALTHY,
    /** It does not, so often in a row that the policy calls it unhealthy. */
    UNHEALTHY,
    /** Nobody has checked yet. */
    UNKNOWN
}
