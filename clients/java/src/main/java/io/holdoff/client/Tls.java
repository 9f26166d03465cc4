package io.holdoff.client;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;

/**
 * Whom {@code https://} endpoints must be, and who this client is to them. Immutable: each setting
 * returns a new one.
 */
public final class Tls {
    private final byte[] authorities;
    private final byte[] certificate;
    private final byte[] key;
    private final String serverName;

    private Tls(byte[] authorities, byte[] certificate, byte[] key, String serverName) {
        this.authorities = authorities;
        this.certificate = certificate;
        this.key = key;
        this.serverName = serverName;
    }

    /**
     * The service's certificate must be one that the system trusts, for the endpoint's host.
     *
     * @return these settings
     */
    public static Tls create() {
        return new Tls(null, null, null, null);
    }

    /**
     * Trusts these authorities, and no others.
     *
     * @param pem their certificates
     * @return new settings
     */
    public Tls authorities(byte[] pem) {
        return new Tls(pem.clone(), certificate, key, serverName);
    }

    /**
     * Shows this certificate: mutual TLS.
     *
     * @param certificatePem the certificate, with those between it and the authority
     * @param keyPem its private key, in PKCS 8
     * @return new settings
     */
    public Tls identity(byte[] certificatePem, byte[] keyPem) {
        return new Tls(authorities, certificatePem.clone(), keyPem.clone(), serverName);
    }

    /**
     * Expects this name in the service's certificate.
     *
     * @param name the endpoint's host unless said
     * @return new settings
     */
    public Tls serverName(String name) {
        return new Tls(authorities, certificate, key, name);
    }

    String serverName() {
        return serverName;
    }

    ChannelCredentials credentials() {
        try {
            TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
            if (authorities != null) {
                builder.trustManager(new ByteArrayInputStream(authorities));
            }
            if (certificate != null) {
                builder.keyManager(
                        new ByteArrayInputStream(certificate), new ByteArrayInputStream(key));
            }
            return builder.build();
        } catch (IOException impossible) {
            throw new IllegalArgumentException("tls: the certificates cannot be read", impossible);
        }
    }
}
