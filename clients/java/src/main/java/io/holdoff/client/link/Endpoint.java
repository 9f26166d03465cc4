package io.holdoff.client.link;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where a service is. Read by hand rather than by {@link java.net.URI}, which takes much that is no
 * endpoint: docs/client-states.md, Settings.
 *
 * @param host a name or an address, without brackets
 * @param isEncrypted by TLS
 */
public record Endpoint(String host, int port, boolean isEncrypted) {
    private static final int DEFAULT_PORT = 7460;
    private static final int PORT_MAX = 65_535;
    private static final int SHOWN_MAX = 80;
    private static final Pattern FORM =
            Pattern.compile(
                    "(?:(https?)://)?(?:\\[([0-9a-f:.]+)]|([a-z0-9._-]+))(?::([0-9]{1,5}))?(/?)");

    /** Reads it; {@code setting} is where it was said. */
    public static Endpoint parse(String setting, String text) {
        return read(text)
                .orElseThrow(
                        () ->
                                new IllegalArgumentException(
                                        setting
                                                + " `"
                                                + shown(text)
                                                + "`: it must be http://host:port,"
                                                + " https://host:port or host:port"));
    }

    /** Empty: it is none. */
    public static Optional<Endpoint> read(String text) {
        Matcher read = FORM.matcher(text.toLowerCase(Locale.ROOT));
        if (!read.matches()) {
            return Optional.empty();
        }
        boolean hasScheme = read.group(1) != null;
        boolean hasPort = read.group(4) != null;
        // Without a scheme a lone word is a mistake more often than a host, and a path is one too.
        boolean isWhole = hasScheme || hasPort && read.group(5).isEmpty();
        int port = hasPort ? Integer.parseInt(read.group(4)) : DEFAULT_PORT;
        String address = read.group(2);
        if (!isWhole || port < 1 || port > PORT_MAX || address != null && !isAddress(address)) {
            return Optional.empty();
        }
        String host = address == null ? read.group(3) : address;
        return Optional.of(new Endpoint(host, port, "https".equals(read.group(1))));
    }

    /** In brackets it is read as an address, and never looked up. */
    private static boolean isAddress(String text) {
        try {
            InetAddress.getByName("[" + text + "]");
            return true;
        } catch (UnknownHostException none) {
            return false;
        }
    }

    /** What stands in front of an {@code @} may be a password. */
    private static String shown(String text) {
        String plain = text.replaceAll("(?s)^.*@", "…@");
        return plain.length() > SHOWN_MAX ? plain.substring(0, SHOWN_MAX) + "…" : plain;
    }

    /** {@code host:port}, with brackets where they are needed. */
    @Override
    public String toString() {
        return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
    }

    boolean isLoopback() {
        return host.equals("localhost") || host.startsWith("127.") || host.equals("::1");
    }
}
