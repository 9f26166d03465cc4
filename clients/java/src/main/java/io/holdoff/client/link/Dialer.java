package io.holdoff.client.link;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * Makes channels. Each connection has one of its own, which lives no longer: so that it is this
 * client that says when the next one is tried, and not grpc-java's own schedule.
 */
public final class Dialer {
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final long KEEP_ALIVE_SECONDS = 20;

    private final List<Endpoint> endpoints;
    private final ChannelCredentials encrypted;
    private final String serverName;
    private final Supplier<String> token;

    /**
     * {@code serverName} and {@code token} may be null.
     *
     * @param encrypted for endpoints with TLS
     */
    public Dialer(
            List<Endpoint> endpoints,
            ChannelCredentials encrypted,
            String serverName,
            Supplier<String> token) {
        this.endpoints = List.copyOf(endpoints);
        this.encrypted = encrypted;
        this.serverName = serverName;
        this.token = token;
    }

    int count() {
        return endpoints.size();
    }

    /** For people. */
    String name(int index) {
        return endpoints.get(index).toString();
    }

    String names() {
        return endpoints.stream().map(Endpoint::toString).collect(Collectors.joining(", "));
    }

    /** Nothing is connected yet. */
    public ManagedChannel channel(int index, Executor executor) {
        Endpoint endpoint = endpoints.get(index);
        ChannelCredentials credentials =
                endpoint.isEncrypted() ? encrypted : InsecureChannelCredentials.create();
        ManagedChannelBuilder<?> builder =
                Grpc.newChannelBuilderForAddress(endpoint.host(), endpoint.port(), credentials)
                        .executor(executor)
                        .disableRetry()
                        .disableServiceConfigLookUp()
                        .keepAliveTime(KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
                        .keepAliveTimeout(KEEP_ALIVE_SECONDS, TimeUnit.SECONDS)
                        .keepAliveWithoutCalls(true);
        if (endpoint.isLoopback()) {
            // A proxy that the environment names is none for this machine itself.
            builder.proxyDetector(target -> null);
        }
        if (endpoint.isEncrypted() && serverName != null) {
            builder.overrideAuthority(serverName);
        }
        return builder.build();
    }

    /** Of one request or stream; the token is read anew. */
    Metadata headers() {
        Metadata headers = new Metadata();
        String said = token == null ? null : token.get();
        if (said != null) {
            headers.put(AUTHORIZATION, "Bearer " + said);
        }
        return headers;
    }
}
