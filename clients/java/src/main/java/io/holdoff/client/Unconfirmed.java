package io.holdoff.client;

/** A confirmation that the service did not give: the permit is not void, and is given back. */
record Unconfirmed(Denied denied) {}
