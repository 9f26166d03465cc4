package io.holdoff.client.link;

import com.google.protobuf.ByteString;
import io.grpc.CallOptions;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.holdoff.client.Outcome;
import io.holdoff.client.link.Course.End;
import io.holdoff.client.v1.AcquireRequest;
import io.holdoff.client.v1.CheckResult;
import io.holdoff.client.v1.CoordinatorServiceGrpc;
import io.holdoff.client.v1.Hello;
import io.holdoff.client.v1.PlanCheckRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/**
 * The way to the service. Its public methods may be called by any thread; all else is done by that
 * of the loop.
 *
 * <p>It is away, or it has one {@link Connection}: a stream, or single requests to a service that
 * has no stream. Before the time of the next try everything that is asked is refused at once.
 */
public final class Link {
    /** Questions that wait to be sent or answered. */
    static final int ASKS_MAX = 10_000;

    private static final long FAREWELL = 1_000_000_000L;

    final Loop loop;
    final Dialer dialer;
    final Hello hello;
    final Reports reports;
    final Pushed pushed;
    final Counting counting;
    final Warnings warnings;
    final Gate gate = new Gate();
    private final Patience patience = new Patience();
    final AtomicInteger waiting = new AtomicInteger();

    private final Course course;
    private final List<CompletableFuture<Boolean>> connecting = new ArrayList<>();

    /** Null: there is none. */
    private Connection connection;

    /** Endpoints of this round that could not be reached. */
    private int unreachable;

    /**
     * Connected when the client is made, so that the first question does not wait for classes to
     * load. Nothing is said on it before.
     */
    private ManagedChannel prepared;

    private ScheduledFuture<?> reporting;
    private ScheduledFuture<?> searching;
    private volatile boolean isClosed;
    private volatile boolean stands;

    /** A connection is wanted by nobody who waits. */
    private final AtomicBoolean isSought = new AtomicBoolean();

    /** Where the connection is made to, or was last. */
    private volatile String endpoint = "";

    public Link(Loop loop, Dialer dialer, Hello hello, Pushed pushed, Counting counting, Warnings warnings) {
        this.loop = loop;
        this.dialer = dialer;
        this.hello = hello;
        this.pushed = pushed;
        this.counting = counting;
        this.warnings = warnings;
        reports = new Reports(counting, () -> loop.execute(this::scheduleReport));
        course = new Course(dialer.count(), System.nanoTime());
        loop.execute(this::prepare);
        loop.execute(Prepare::messages);
    }

    public Reports reports() {
        return reports;
    }

    public Pushed pushed() {
        return pushed;
    }

    public Hello hello() {
        return hello;
    }

    /**
     * Asks; how long is waited is the caller's matter. The question is not made where nobody is
     * asked.
     */
    public Ask ask(Supplier<AcquireRequest> question) {
        Gate.Pass pass = isClosed ? null : gate.enter(System.nanoTime());
        if (pass == null) {
            return Ask.away(this, null);
        }
        counting.asked.increment();
        if (!patience.enter()) {
            seek();
            return Ask.away(this, pass);
        }
        Ask ask = new Ask(this, question.get(), pass, patience);
        if (waiting.incrementAndGet() > ASKS_MAX) {
            waiting.decrementAndGet();
            ask.end(NoAnswer.BUSY);
            return ask;
        }
        loop.execute(() -> take(ask));
        return ask;
    }

    /** Has a connection made that nobody waits for, when it is time for one. */
    public void seek() {
        if (!isSought.getAndSet(true)) {
            loop.execute(this::begunOrScheduled);
        }
    }

    private void begunOrScheduled() {
        if (standOrBegin()) {
            isSought.set(false);
        } else {
            scheduleSearch();
        }
    }

    /** Connects now. False: it could not. */
    public CompletableFuture<Boolean> connect() {
        CompletableFuture<Boolean> connected = new CompletableFuture<>();
        loop.execute(() -> connect(connected));
        return connected;
    }

    /**
     * Asks when to check next, on the connection that stands or is opened for it. It neither opens
     * nor shuts the gate: nobody waits for a plan, and a service that answers calls may have none.
     *
     * @param last how the last check ended, or null
     */
    public CompletableFuture<PlanAnswer> planCheck(String dependency, CheckResult last, long timeout) {
        if (isShut()) {
            return CompletableFuture.completedFuture(PlanAnswer.none(NoAnswer.AWAY));
        }
        PlanCheckRequest.Builder request =
                PlanCheckRequest.newBuilder()
                        .setNamespace(hello.getNamespace())
                        .setDependency(dependency)
                        .setChecker(hello.getCaller());
        if (last != null) {
            request.setLastResult(last);
        }
        CompletableFuture<PlanAnswer> answer = new CompletableFuture<>();
        ScheduledFuture<?> late =
                loop.after(timeout, () -> answer.complete(PlanAnswer.none(NoAnswer.LATE)));
        loop.execute(() -> plan(request.build(), answer));
        return answer.whenComplete((said, error) -> Loop.cancel(late));
    }

    private void plan(PlanCheckRequest request, CompletableFuture<PlanAnswer> answer) {
        if (!standOrBegin() || connection.channel() == null) {
            answer.complete(PlanAnswer.none(NoAnswer.AWAY));
            return;
        }
        CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(10, TimeUnit.SECONDS);
        Unary.One.call(
                this,
                connection.channel(),
                CoordinatorServiceGrpc.getPlanCheckMethod(),
                options,
                request,
                (response, status) -> answer.complete(PlanAnswer.of(response, status)));
    }

    /** Sends what is queued at once. */
    public void hurry() {
        reports.hurry();
        loop.execute(this::scheduleReport);
    }

    /** Whether nothing is to be asked now. Mostly it is open, and no lock is taken for that. */
    boolean isShut() {
        return !gate.isOpen() && gate.shutFor(System.nanoTime()) > 0;
    }

    /** Whether somebody would wait for an answer now. */
    boolean isAwaited() {
        return !isShut() && !patience.isOver();
    }

    /** Gives the last outcomes a moment, and ends. */
    public CompletableFuture<Void> close() {
        CompletableFuture<Void> closed = new CompletableFuture<>();
        loop.execute(
                () -> {
                    isClosed = true;
                    pollFarewell(System.nanoTime() + FAREWELL, closed);
                });
        return closed;
    }

    /** Nobody waits for this answer any longer. */
    void giveBack(Answer answer) {
        if (answer instanceof Answer.Grant grant) {
            reports.push(grant.permit(), Outcome.cancelled(), false);
        }
    }

    public void giveBack(ByteString permit) {
        reports.push(permit, Outcome.cancelled(), false);
    }

    /** How a question ended, before whoever asked it learns. */
    void note(Gate.Pass pass, Answer said) {
        long now = System.nanoTime();
        if (!(said instanceof Answer.None none)) {
            answered();
            return;
        }
        switch (none.why().kind()) {
            case UNREADABLE, NO_DELAY -> answered();
            case REFUSED -> {
                answered();
                warnings.refused(none.why().detail());
            }
            case LATE, FAILED -> unanswered(pass, none.why(), now);
            // What was not sent says nothing of the service, unless it is the trial.
            case UNSENT -> {
                if (pass.isTrial()) {
                    unanswered(pass, none.why(), now);
                }
            }
            // No time was lost, and the link waits by itself before it connects again.
            case UNASKED, AWAY, BUSY, LOST, GIVEN_UP -> gate.unsaid(pass, now);
        }
    }

    private void answered() {
        if (gate.answered()) {
            warnings.back(endpoint);
        }
    }

    private void unanswered(Gate.Pass pass, NoAnswer why, long now) {
        if (gate.unanswered(pass, now, Entropy.unit())) {
            warnings.away(endpoint, why.detail());
            loop.execute(() -> hasShut(why.isLate()));
        }
    }

    /** The service has stopped to answer: leave it, and look for it at no caller's cost. */
    private void hasShut(boolean isLate) {
        if (isLate && connection != null) {
            connection.end(End.SILENT);
        }
        scheduleSearch();
    }

    private void take(Ask ask) {
        if (standOrBegin()) {
            connection.take(ask);
        } else {
            drop(ask, NoAnswer.AWAY);
        }
    }

    /** False: there is no connection, and it is not time to make one. */
    private boolean standOrBegin() {
        return connection != null || begin();
    }

    /** The end of a question that this link holds. */
    void drop(Ask ask, NoAnswer why) {
        waiting.decrementAndGet();
        ask.end(why);
    }

    void answer(Ask ask, Answer said) {
        waiting.decrementAndGet();
        ask.end(said);
    }

    private void connect(CompletableFuture<Boolean> connected) {
        if (!standOrBegin()) {
            connected.complete(false);
        } else if (connection.isOpen()) {
            connected.complete(true);
        } else {
            connecting.add(connected);
        }
    }

    /** False: it is not time to. */
    private boolean begin() {
        if (isClosed || System.nanoTime() - course.notBefore() < 0) {
            return false;
        }
        unreachable = 0;
        isSought.set(false);
        open(course.start());
        return true;
    }

    private void open(int index) {
        ManagedChannel channel = index == 0 ? prepared() : channel(index);
        endpoint = dialer.name(index);
        connection =
                course.isUnary(index)
                        ? new Unary(this, index, channel)
                        : new Session(this, index, channel);
        connection.begin();
        scheduleReport();
    }

    private void prepare() {
        prepared = channel(0);
        if (prepared != null) {
            prepared.getState(true);
        }
    }

    /** What was refused when the client was made says nothing of now. */
    private ManagedChannel prepared() {
        ManagedChannel channel = prepared;
        prepared = null;
        if (channel == null) {
            return channel(0);
        }
        if (channel.getState(false) != ConnectivityState.TRANSIENT_FAILURE) {
            return channel;
        }
        channel.shutdownNow();
        return channel(0);
    }

    /** Null: there is no transport on the class path. */
    private ManagedChannel channel(int index) {
        try {
            return dialer.channel(index, loop);
        } catch (RuntimeException odd) {
            warnings.noTransport(odd);
            return null;
        }
    }

    /** The connection stands; nothing was sent on it yet. */
    void stands() {
        stands = true;
        reports.streamBegins();
    }

    /**
     * A connection stands, and the service has not been silent on it. Each first attempt looks,
     * so that no lock is taken where all is well.
     */
    public boolean isAsked() {
        return stands && !isShut();
    }

    /** The service is there. */
    void opened() {
        gate.heard(System.nanoTime());
        patience.heard();
        if (gate.isOpen()) {
            // One that has been silent has to answer first.
            warnings.back(endpoint);
        }
        connecting.forEach(each -> each.complete(true));
        connecting.clear();
    }

    /** Nobody listens there: whoever waits may have luck with the next one. */
    void unreachable(int index, List<Ask> asks, String why) {
        unreachable++;
        connection = null;
        if (unreachable < course.endpoints() && !isClosed) {
            open((index + 1) % course.endpoints());
            asks.forEach(connection::take);
            return;
        }
        warnings.away(dialer.names(), why);
        asks.forEach(ask -> drop(ask, NoAnswer.AWAY));
        course.nothingReachable(System.nanoTime(), Entropy.unit());
        away();
    }

    /** There is no stream here. */
    void unimplemented(int index, ManagedChannel channel, List<Ask> asks) {
        course.noteUnary(index);
        connection = new Unary(this, index, channel);
        connection.begin();
        asks.forEach(connection::take);
    }

    void ended(int index, End end) {
        connection = null;
        stands = false;
        patience.lost();
        reports.broken();
        if (end == End.BROKEN || end == End.BROKEN_UNPROVEN) {
            warnings.away(dialer.name(index), NoAnswer.LOST.detail());
        }
        course.ended(index, end, System.nanoTime(), Entropy.unit());
        away();
    }

    private void away() {
        connecting.forEach(each -> each.complete(false));
        connecting.clear();
        scheduleReport();
        scheduleSearch();
    }

    /** The next batch of outcomes goes when it is due and there is a way. */
    void scheduleReport() {
        Loop.cancel(reporting);
        long now = System.nanoTime();
        long due = reports.dueIn(now);
        if (due < 0) {
            reporting = null;
            return;
        }
        long wait = connection == null ? Math.max(due, course.notBefore() - now) : due;
        reporting = loop.after(wait, this::report);
    }

    private void report() {
        if (!standOrBegin()) {
            return;
        }
        if (reports.dueIn(System.nanoTime()) == 0) {
            connection.report();
        }
    }

    /** While the gate is shut, or where it is sought, it is looked for without a question. */
    private void scheduleSearch() {
        Loop.cancel(searching);
        long now = System.nanoTime();
        long untilOpen = gate.shutFor(now);
        long untilTry = course.notBefore() - now;
        boolean isWanted = isSought.get() && !isClosed || untilOpen > 0 && untilTry < untilOpen;
        boolean isWorthIt = connection == null && isWanted;
        searching = isWorthIt ? loop.after(Math.max(0, untilTry), this::search) : null;
    }

    private void search() {
        if (connection == null && (isSought.get() || isShut())) {
            begin();
        }
    }

    private void pollFarewell(long until, CompletableFuture<Void> closed) {
        boolean isOver = System.nanoTime() - until >= 0;
        boolean isDone = connection == null || reports.isEmpty() && connection.isIdle();
        if (!isOver && !isDone) {
            connection.report();
            loop.after(1_000_000, () -> pollFarewell(until, closed));
            return;
        }
        if (connection != null) {
            connection.end(End.UNWANTED);
        }
        if (prepared != null) {
            prepared.shutdownNow();
            prepared = null;
        }
        away();
        closed.complete(null);
    }
}
