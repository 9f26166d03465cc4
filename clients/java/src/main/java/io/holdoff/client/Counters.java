package io.holdoff.client;

import io.holdoff.client.link.Counting;

/**
 * What a client has done since it was built.
 *
 * @param asked questions put to the connection, whether it stood or not
 * @param answered questions that it decided, yes or no
 * @param noDecision questions that it did not decide: late, lost, failed or unreadable
 * @param pushedGrants first attempts made on pushed state, without a question
 * @param pushedDenials first attempts refused on pushed state, without a question
 * @param localGrants attempts granted without the service
 * @param localDenials attempts denied without the service
 * @param reported outcomes that the service took; a tally of many counts as one
 * @param reportsDropped outcomes lost since the queue was full or the service was away twice
 * @param connections streams opened
 */
public record Counters(
        long asked,
        long answered,
        long noDecision,
        long pushedGrants,
        long pushedDenials,
        long localGrants,
        long localDenials,
        long reported,
        long reportsDropped,
        long connections) {

    static Counters of(Counting counting) {
        return new Counters(
                counting.asked.sum(),
                counting.answered.sum(),
                counting.noDecision.sum(),
                counting.pushedGrants.sum(),
                counting.pushedDenials.sum(),
                counting.localGrants.sum(),
                counting.localDenials.sum(),
                counting.reported.sum(),
                counting.reportsDropped.sum(),
                counting.connections.sum());
    }
}
