package io.holdoff.client.service;

import io.holdoff.client.Holdoff;
import java.io.IOException;

/** A program whose first call fails once, without a service. */
public final class FirstCall {
    private FirstCall() {}

    public static void main(String[] arguments) throws Exception {
        try (Holdoff holdoff = Holdoff.builder().endpoints("127.0.0.1:1").build()) {
            System.out.println("calls");
            holdoff.guard("payments").idempotent().call(attempt -> fail(attempt.number()));
            System.out.println("called");
        }
    }

    private static String fail(int attempt) throws IOException {
        if (attempt == 1) {
            throw new IOException("once");
        }
        return "done";
    }
}
