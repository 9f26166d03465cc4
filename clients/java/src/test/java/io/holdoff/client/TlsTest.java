package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.TlsServerCredentials;
import io.holdoff.client.service.Scripted;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Encryption both ways, and tokens. */
@Timeout(60)
final class TlsTest {
    private static final char[] PASSWORD = "holdoff".toCharArray();

    @TempDir private Path folder;

    /** A certificate that vouches for itself. */
    private record Identity(byte[] certificate, byte[] key) {}

    private Identity identity(String name) throws IOException, InterruptedException {
        Path store = folder.resolve(name);
        Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
        Process made =
                new ProcessBuilder(
                                keytool.toString(), "-genkeypair", "-alias", "own", "-keyalg", "EC",
                                "-dname", "CN=" + name, "-ext", "san=dns:holdoff.test,ip:127.0.0.1",
                                "-ext", "bc=ca:true", "-storetype", "PKCS12", "-storepass",
                                new String(PASSWORD), "-keystore", store.toString())
                        .redirectErrorStream(true)
                        .redirectOutput(folder.resolve(name + ".log").toFile())
                        .start();
        assertEquals(true, made.waitFor(30, TimeUnit.SECONDS));
        assertEquals(0, made.exitValue());
        try (InputStream in = Files.newInputStream(store)) {
            KeyStore keys = KeyStore.getInstance("PKCS12");
            keys.load(in, PASSWORD);
            return new Identity(
                    pem("CERTIFICATE", keys.getCertificate("own").getEncoded()),
                    pem("PRIVATE KEY", keys.getKey("own", PASSWORD).getEncoded()));
        } catch (GeneralSecurityException odd) {
            throw new IOException(odd);
        }
    }

    private static byte[] pem(String kind, byte[] der) {
        String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der);
        String text = "-----BEGIN " + kind + "-----\n" + body + "\n-----END " + kind + "-----\n";
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static ServerCredentials credentials(Identity server, Identity client)
            throws IOException {
        return TlsServerCredentials.newBuilder()
                .keyManager(in(server.certificate()), in(server.key()))
                .trustManager(in(client.certificate()))
                .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE)
                .build();
    }

    private static InputStream in(byte[] bytes) {
        return new ByteArrayInputStream(bytes);
    }

    @Test
    void bothSidesShowWhoTheyAreAndTheTokenGoesAlong() throws Exception {
        Identity server = identity("server");
        Identity client = identity("client");
        List<String> tokens = new CopyOnWriteArrayList<>();
        Tls tls =
                Tls.create()
                        .authorities(server.certificate())
                        .identity(client.certificate(), client.key())
                        .serverName("holdoff.test");
        try (Scripted service = Scripted.start(credentials(server, client), new Tokens(tokens));
                Holdoff holdoff = encrypted(service, tls)) {
            assertFalse(isLocal(holdoff));
            assertEquals(List.of("Bearer secret"), tokens);
        }
    }

    @Test
    void aServiceThatNobodyVouchesForIsNotTalkedToAndCallsGoOn() throws Exception {
        Identity server = identity("server");
        Identity other = identity("other");
        Tls tls = Tls.create().authorities(other.certificate()).serverName("holdoff.test");
        try (Scripted service = Scripted.start(credentials(server, other));
                Holdoff holdoff = encrypted(service, tls)) {
            assertEquals(true, isLocal(holdoff));
            assertEquals(0, service.asked().size());
        }
    }

    private static Holdoff encrypted(Scripted service, Tls tls) {
        return service.client()
                .endpoints("https://127.0.0.1:" + service.port())
                .tls(tls)
                .token("secret")
                .build();
    }

    private static boolean isLocal(Holdoff holdoff) throws InterruptedException {
        try (Permit permit = holdoff.acquire(Question.of("payments").deadline(Duration.ofMinutes(1)))) {
            return permit.isLocal();
        }
    }

    private record Tokens(List<String> seen) implements ServerInterceptor {
        @Override
        public <Q, R> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
            var name = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
            seen.add(headers.get(name));
            return next.startCall(call, headers);
        }
    }
}
