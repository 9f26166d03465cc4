/**
 * The rules that a client keeps to by itself: pure functions of a policy, a state, the time and
 * two random draws, which are arguments.
 *
 * <p>They read no clock, draw nothing, and know neither threads nor the wire, so that one set of
 * vectors checks them in all languages. Times are unsigned 64-bit nanoseconds in a {@code long}.
 *
 * <p>Not for use outside of this library: nothing here is kept compatible.
 */
package io.holdoff.client.rules;
