/**
 * The way to the service, and what it says: reading its answers strictly, one stream with a
 * bounded queue in front of it, outcomes on their way, pushed state.
 *
 * <p>A caller waits for an answer at most as long as it says, and not at all while the service is
 * known to be away. One daemon thread owns the connection; it begins with the first question and
 * ends with the client.
 *
 * <p>Not for use outside of this library: nothing here is kept compatible.
 */
package io.holdoff.client.link;
