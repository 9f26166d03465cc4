package io.holdoff.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdoff.client.service.FirstCall;
import io.holdoff.client.service.Leaver;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Each example runs to its end, with the service and without; and no thread keeps a process. */
@Timeout(120)
final class ExamplesTest {
    private static final Path ROOT = Path.of(System.getProperty("holdoff.root"));
    private static final int PORT = 7460;

    @Test
    void quickstartRetries() throws Exception {
        assertTrue(run("Quickstart").contains("charged"));
    }

    @Test
    void twoStepFindsIt() throws Exception {
        assertTrue(run("TwoStep").contains("found a needle"));
    }

    @Test
    void testingModeDoesNotWait() throws Exception {
        assertTrue(run("TestingMode").contains("without waiting: true"));
    }

    @Test
    void guardedCallDoesAll() throws Exception {
        List<String> said = run("GuardedCall");
        for (String line :
                List.of(
                        "status 200",
                        "the last real error: connection reset",
                        "why there was no retry: RETRY_UNSAFE",
                        "a price from the cache: 42",
                        "later",
                        "hello")) {
            assertTrue(said.contains(line), () -> line + " is not in " + said);
        }
    }

    @Test
    void withTheServiceCallsAskNothing() throws Exception {
        assertTrue(isFree(), "this test needs port " + PORT + ", on which something listens");
        Process service =
                new ProcessBuilder(
                                ROOT.resolve("target/debug/holdoff").toString(),
                                "serve", "--listen", "127.0.0.1:" + PORT, "--http", "off")
                        .redirectError(ProcessBuilder.Redirect.DISCARD)
                        .start();
        try (BufferedReader out = service.inputReader()) {
            assertTrue(out.readLine().startsWith("holdoff: gRPC on "));
            List<String> guarded = run("GuardedCall");
            assertTrue(guarded.contains("status 200"), guarded::toString);
            String calls = guarded.get(1);
            assertTrue(calls.contains("decided here"), calls);
            List<String> twoStep = run("TwoStep");
            assertTrue(twoStep.contains("found a needle"), twoStep::toString);
            assertTrue(run("Quickstart").contains("charged"));
        } finally {
            service.destroy();
            service.waitFor();
        }
    }

    @Test
    void aClientThatIsNeverClosedKeepsNoProcess() throws Exception {
        assertEquals(List.of("left"), run(Leaver.class.getName()));
    }

    @Test
    void theRulesOfAFirstCallAreLoadedBeforeIt() throws Exception {
        List<String> said = run(FirstCall.class.getName(), "-Xlog:class+load");
        List<String> during = said.subList(said.indexOf("calls"), said.indexOf("called"));
        assertTrue(said.stream().anyMatch(line -> line.contains("rules.LocalRecord")));
        List<String> late = during.stream().filter(line -> line.contains("client.rules.")).toList();
        assertEquals(List.of(), late);
    }

    private static boolean isFree() {
        try (Socket socket = new Socket("127.0.0.1", PORT)) {
            return !socket.isConnected();
        } catch (IOException refused) {
            return true;
        }
    }

    private static List<String> run(String name, String... options) throws IOException, InterruptedException {
        Path java = Path.of(System.getProperty("java.home"), "bin", "java");
        Path examples = ROOT.resolve("target/clients/java/examples");
        String path = examples + ":" + System.getProperty("java.class.path");
        List<String> command = new ArrayList<>(List.of(java.toString(), "-XX:TieredStopAtLevel=1"));
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", path, name));
        ProcessBuilder builder = new ProcessBuilder(command);
        Process process = builder.redirectError(ProcessBuilder.Redirect.DISCARD).start();
        List<String> lines = new ArrayList<>();
        try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
            out.lines().forEach(lines::add);
        }
        assertTrue(process.waitFor(30, TimeUnit.SECONDS), name + " does not end");
        assertEquals(0, process.exitValue(), () -> name + ": " + lines);
        return lines;
    }
}
