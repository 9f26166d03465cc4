package io.holdoff.client.link;

import java.net.URI;
import java.net.URISyntaxException;

/**
 * Where a service is.
 *
 * @param host a name or an address, without brackets
 * @param isEncrypted by TLS
 */
public record Endpoint(String host, int port, boolean isEncrypted) {
    /** Reads {@code http://host:port} or {@code https://host:port}. */
    public static Endpoint parse(String text) {
        try {
            URI uri = new URI(text);
            boolean isKnown = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
            boolean isBare = uri.getPath() == null || uri.getPath().replace("/", "").isEmpty();
            if (!isKnown || !isBare || uri.getHost() == null || uri.getUserInfo() != null) {
                throw odd(text);
            }
            boolean isEncrypted = "https".equals(uri.getScheme());
            int usual = isEncrypted ? 443 : 80;
            int port = uri.getPort() == -1 ? usual : uri.getPort();
            if (port < 1 || port > 65_535) {
                throw odd(text);
            }
            String host = uri.getHost().replaceAll("^\\[|]$", "");
            return new Endpoint(host, port, isEncrypted);
        } catch (URISyntaxException wrong) {
            throw odd(text);
        }
    }

    /** {@code host:port}, with brackets where they are needed. */
    @Override
    public String toString() {
        return (host.indexOf(':') < 0 ? host : "[" + host + "]") + ":" + port;
    }

    boolean isLoopback() {
        return host.equals("localhost") || host.startsWith("127.") || host.equals("::1");
    }

    private static IllegalArgumentException odd(String text) {
        return new IllegalArgumentException(
                "endpoint `" + text + "`: it must look like http://host:port or https://host:port");
    }
}
