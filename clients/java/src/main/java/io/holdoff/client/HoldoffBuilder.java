package io.holdoff.client;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.holdoff.client.link.Counting;
import io.holdoff.client.link.Dialer;
import io.holdoff.client.link.Endpoint;
import io.holdoff.client.link.Link;
import io.holdoff.client.link.Loop;
import io.holdoff.client.link.Pushed;
import io.holdoff.client.link.Warnings;
import io.holdoff.client.rules.LocalRecord.Mode;
import io.holdoff.client.rules.Policy;
import io.holdoff.client.v1.Caller;
import io.holdoff.client.v1.Hello;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Supplier;

/**
 * Settings of a {@link Holdoff}. Only malformed ones fail; a service that cannot be reached is the
 * everyday case, and is met when the first question is asked.
 */
public final class HoldoffBuilder {
    private static final Duration TIMEOUT_MAX = Duration.ofSeconds(10);
    private static final int NAME_BYTES_MAX = 200;
    private static final long LOOK_EVERY = 1_000_000_000L;

    /** Null: by the environment. */
    private List<String> endpoints;

    private String service = Identity.service();
    private String instance = Identity.instance();
    private String namespace = "";
    private Duration timeout = Duration.ofMillis(50);
    private OnNoDecision onNoDecision = OnNoDecision.LOCAL;
    private List<String> follow = List.of();
    private LocalPolicy localPolicy = LocalPolicy.standard();
    private Tls tls = Tls.create();
    private Supplier<String> token;
    private Executor executor = ForkJoinPool.commonPool();

    HoldoffBuilder() {}

    /**
     * Where the service is, in order of preference. A later one is used while those before it
     * cannot be reached.
     *
     * @param urls {@code http://host:port}, {@code https://host:port} or {@code host:port}; unless
     *     said the environment's {@code HOLDOFF_SERVER}, else {@code http://127.0.0.1:7460}
     * @return this
     */
    public HoldoffBuilder endpoints(String... urls) {
        endpoints = List.of(urls);
        return this;
    }

    /**
     * What this process is.
     *
     * @param name for example {@code checkout}; the program's name unless said
     * @return this
     */
    public HoldoffBuilder service(String name) {
        service = Objects.requireNonNull(name, "service");
        return this;
    }

    /**
     * Which process of it.
     *
     * @param name no two may share one; host name, process id and a random part unless said
     * @return this
     */
    public HoldoffBuilder instance(String name) {
        instance = Objects.requireNonNull(name, "instance");
        return this;
    }

    /**
     * The tenant.
     *
     * @param name {@code default} unless said
     * @return this
     */
    public HoldoffBuilder namespace(String name) {
        namespace = Objects.requireNonNull(name, "namespace");
        return this;
    }

    /**
     * The longest that a call waits for the service.
     *
     * @param longest above 0, at most 10 s; 50 ms unless said
     * @return this
     */
    public HoldoffBuilder timeout(Duration longest) {
        timeout = Objects.requireNonNull(longest, "timeout");
        return this;
    }

    /**
     * What happens when the service decides nothing.
     *
     * @param then {@link OnNoDecision#LOCAL} unless said
     * @return this
     */
    public HoldoffBuilder onNoDecision(OnNoDecision then) {
        onNoDecision = Objects.requireNonNull(then, "onNoDecision");
        return this;
    }

    /**
     * Dependencies whose state is wanted from the first connection on, so that even the first call
     * needs no question. What is asked about is followed by itself.
     *
     * @param dependencies their names
     * @return this
     */
    public HoldoffBuilder follow(Collection<String> dependencies) {
        follow = List.copyOf(dependencies);
        return this;
    }

    /**
     * The same.
     *
     * @param dependencies their names
     * @return this
     */
    public HoldoffBuilder follow(String... dependencies) {
        return follow(List.of(dependencies));
    }

    /**
     * The policy of decisions without the service, until it has pushed its own.
     *
     * @param policy {@link LocalPolicy#standard()} unless said
     * @return this
     */
    public HoldoffBuilder localPolicy(LocalPolicy policy) {
        localPolicy = Objects.requireNonNull(policy, "localPolicy");
        return this;
    }

    /**
     * Whom {@code https://} endpoints must be, and who this client is to them.
     *
     * @param settings the system's authorities and the endpoint's host unless said
     * @return this
     */
    public HoldoffBuilder tls(Tls settings) {
        tls = Objects.requireNonNull(settings, "tls");
        return this;
    }

    /**
     * Sends {@code authorization: Bearer TOKEN} with each request. Over {@code http://} anybody on
     * the way can read it.
     *
     * @param bearer none unless said
     * @return this
     */
    public HoldoffBuilder token(String bearer) {
        Objects.requireNonNull(bearer, "token");
        return token(() -> bearer);
    }

    /**
     * The same with a token that changes.
     *
     * @param source is asked anew for each stream and each request, so that it must be quick
     * @return this
     */
    public HoldoffBuilder token(Supplier<String> source) {
        token = Objects.requireNonNull(source, "token");
        return this;
    }

    /**
     * Runs the further attempts of calls that block no thread. What it rejects is run by {@link
     * ForkJoinPool#commonPool()}, since somebody waits for it.
     *
     * @param runs {@link ForkJoinPool#commonPool()} unless said
     * @return this
     */
    public HoldoffBuilder executor(Executor runs) {
        Objects.requireNonNull(runs, "executor");
        executor =
                task -> {
                    try {
                        runs.execute(task);
                    } catch (RejectedExecutionException full) {
                        ForkJoinPool.commonPool().execute(task);
                    }
                };
        return this;
    }

    /**
     * The client. Nothing is connected yet.
     *
     * @return a client, to be closed
     * @throws IllegalArgumentException a setting can never work: a malformed endpoint or name, a
     *     timeout of zero
     */
    public Holdoff build() {
        return build(System.getenv());
    }

    Holdoff build(Map<String, String> environment) {
        check();
        Dialer dialer = dialer(environment);
        boolean isBypassed = "1".equals(environment.get("HOLDOFF_BYPASS"));
        Clock clock = new Clock();
        Loop loop = new Loop();
        Counting counting = new Counting();
        Warnings warnings = new Warnings();
        Policy own = localPolicy.policy();
        if (isBypassed) {
            Local local = new Local(own, Mode.RETRIES_ONLY, clock, null);
            return new Holdoff(
                    new Core(
                            loop,
                            null,
                            false,
                            0,
                            onNoDecision,
                            local,
                            clock,
                            counting,
                            executor,
                            warnings));
        }
        Pushed pushed = new Pushed(clock::time, own, follow);
        Mode mode = onNoDecision == OnNoDecision.ALLOW ? Mode.RETRIES_ONLY : Mode.ALL;
        Local local = new Local(own, mode, clock, pushed);
        Link link = new Link(loop, dialer, hello(), pushed, counting, warnings);
        lookForSleep(loop, clock);
        Rehearsal.once();
        long nanos = timeout.toNanos();
        return new Holdoff(
                new Core(
                        loop,
                        link,
                        false,
                        nanos,
                        onNoDecision,
                        local,
                        clock,
                        counting,
                        executor,
                        warnings));
    }

    /** What was pushed is not valid for longer because the machine slept. */
    private static void lookForSleep(Loop loop, Clock clock) {
        loop.after(
                LOOK_EVERY,
                () -> {
                    clock.look();
                    lookForSleep(loop, clock);
                });
    }

    static Holdoff testing() {
        Clock clock = new Clock();
        Local local = new Local(LocalPolicy.testing(), Mode.RETRIES_ONLY, clock, null);
        return new Holdoff(
                new Core(
                        new Loop(),
                        null,
                        true,
                        0,
                        OnNoDecision.LOCAL,
                        local,
                        clock,
                        new Counting(),
                        ForkJoinPool.commonPool(),
                        new Warnings()));
    }

    private Dialer dialer(Map<String, String> environment) {
        List<Endpoint> parsed = parsed(environment.getOrDefault("HOLDOFF_SERVER", ""));
        String said = environment.getOrDefault("HOLDOFF_TOKEN", "");
        Supplier<String> bearer = token == null && !said.isEmpty() ? () -> said : token;
        boolean isEncrypted = parsed.stream().anyMatch(Endpoint::isEncrypted);
        ChannelCredentials encrypted =
                isEncrypted ? tls.credentials() : InsecureChannelCredentials.create();
        return new Dialer(parsed, encrypted, tls.serverName(), bearer);
    }

    private List<Endpoint> parsed(String server) {
        if (endpoints != null) {
            return endpoints.stream().map(text -> Endpoint.parse("endpoint", text)).toList();
        }
        return List.of(
                server.isEmpty()
                        ? Endpoint.parse("endpoint", "http://127.0.0.1:7460")
                        : Endpoint.parse("HOLDOFF_SERVER", server));
    }

    private Hello hello() {
        Caller caller = Caller.newBuilder().setService(service).setInstance(instance).build();
        return Hello.newBuilder().setCaller(caller).setNamespace(namespace).build();
    }

    private void check() {
        if (timeout.isNegative() || timeout.isZero() || timeout.compareTo(TIMEOUT_MAX) > 0) {
            throw new IllegalArgumentException(
                    "timeout " + timeout + ": it must be above zero and at most 10 s");
        }
        if (endpoints != null && endpoints.isEmpty()) {
            throw new IllegalArgumentException("endpoints: there must be at least one");
        }
        isShort("service", service);
        isShort("instance", instance);
        if (!namespace.isEmpty()) {
            Question.checkName("namespace", namespace);
        }
        follow.forEach(name -> Question.checkName("follow", name));
    }

    private static void isShort(String field, String value) {
        if (value.getBytes(StandardCharsets.UTF_8).length > NAME_BYTES_MAX) {
            throw new IllegalArgumentException(
                    field + " `" + value.substring(0, 40) + "…`: at most 200 bytes");
        }
    }
}
