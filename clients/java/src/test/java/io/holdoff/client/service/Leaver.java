package io.holdoff.client.service;

import io.holdoff.client.Holdoff;
import java.time.Duration;

/** A program that has a connection, closes nothing, and leaves its main method. */
public final class Leaver {
    private Leaver() {}

    public static void main(String[] arguments) throws Exception {
        Scripted service = Scripted.start();
        Holdoff holdoff = service.client().build();
        holdoff.call("payments", attempt -> "done");
        holdoff.connect(Duration.ofSeconds(1));
        service.close();
        System.out.println("left");
    }
}
