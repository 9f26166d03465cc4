package io.holdoff.client;

import io.holdoff.client.link.Entropy;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;

/** What this process is called where its user does not say. */
final class Identity {
    private static final int PART_LENGTH = 150;

    private Identity() {}

    /** The main class or the jar that was started. */
    static String service() {
        String command = System.getProperty("sun.java.command", "java").split(" ", 2)[0];
        String file = command.substring(command.lastIndexOf('/') + 1);
        String name = file.endsWith(".jar") ? file : file.substring(file.lastIndexOf('.') + 1);
        return plain(name.isEmpty() ? "java" : name);
    }

    /** The random part tells apart processes with the same id in different containers. */
    static String instance() {
        String random = HexFormat.of().toHexDigits((int) Entropy.number());
        return plain(host()) + "-" + ProcessHandle.current().pid() + "-" + random;
    }

    /** Without asking a name server, which may take its time. */
    private static String host() {
        try {
            return Files.readString(Path.of("/etc/hostname"), StandardCharsets.UTF_8).strip();
        } catch (IOException | RuntimeException unknown) {
            String named = System.getenv("COMPUTERNAME");
            return named == null ? "host" : named;
        }
    }

    private static String plain(String name) {
        String ascii = name.replaceAll("[^A-Za-z0-9._-]", "-");
        return ascii.substring(0, Math.min(ascii.length(), PART_LENGTH));
    }
}
