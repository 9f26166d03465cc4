package io.holdoff.client;

/** Who said no. */
public enum DeniedBy {
    /** The service, for the whole fleet. */
    FLEET,
    /** This process, by the same rules over what it knows itself. */
    LOCAL,
    /** The caller's own limits or what it said about the call. */
    CALLER
}
