package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// asksMax are questions that wait to be sent or answered.
const asksMax = 10_000

// Why there is no answer.
var (
	ErrAway = errors.New("not connected")
	ErrBusy = errors.New("too many questions wait")
	ErrLost = errors.New("the connection broke")
	ErrLate = errors.New("no answer in time")
)

// Failed is an error that the service answered with.
type Failed struct {
	Code codes.Code
	Text string
}

func (f *Failed) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Text) }

// IsConfiguration: the question is wrong, the service is not ill.
func (f *Failed) IsConfiguration() bool {
	switch f.Code {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

// MayHaveArrived: the service may have taken a question that it did not answer.
func MayHaveArrived(why error) bool {
	return errors.Is(why, ErrLate) || errors.Is(why, ErrLost) ||
		errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded)
}

// Link asks the service. One goroutine owns the connection; it begins with the first question and ends
// with [Link.Close]. A caller waits for an answer at most as long as it says, and not at all while the
// service is known to be away.
type Link struct {
	Reports *Reports
	Pushed  *Pushed

	dialer   *Dialer
	hello    *pb.Hello // opens each stream; its caller and namespace go with each unary request
	counting *Counting
	log      *slog.Logger
	gate     gate
	patience patience
	// wake: something is wanted.
	wake                          chan struct{}
	warnedAway, warnedConfigation seldom
	isSaidToBeAway                atomic.Bool
	isStanding                    atomic.Bool // a connection stands
	ctx                           context.Context
	cancel                        context.CancelFunc
	ended                         chan struct{}

	mu sync.Mutex
	// queue and waiting are what callers want of the goroutine.
	queue     []*ask
	waiting   []chan<- bool
	notBefore time.Time
	isRunning bool
	isClosed  bool
	// conn stands, and is that of the endpoint; nil: none does.
	conn     *grpc.ClientConn
	endpoint int
	// leave it, unless the service answers again until then.
	leave func()
	doubt *time.Timer
}

// ask is a question that somebody waits for, until it is answered or given up, whichever is first.
type ask struct {
	request *pb.AcquireRequest
	state   atomic.Int32
	// isSent: the service may have it.
	isSent atomic.Bool
	reply  chan reply
}

type reply struct {
	response *pb.AcquireResponse
	err      error
}

const (
	askWaits int32 = iota
	askAnswered
	askGivenUp
)

// NewLink connects nothing yet.
func NewLink(dialer *Dialer, hello *pb.Hello, pushed *Pushed, counting *Counting, log *slog.Logger) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	return &Link{
		Reports: NewReports(counting), Pushed: pushed,
		dialer: dialer, hello: hello, counting: counting, log: log,
		wake: make(chan struct{}, 1), ctx: ctx, cancel: cancel, ended: make(chan struct{}),
	}
}

// IsAsked: a connection stands, and the service has not been silent on it. Each first attempt looks, so
// that no lock is taken for it.
func (l *Link) IsAsked() bool { return l.isStanding.Load() && !l.gate.isShut() }

// Caller is who asks.
func (l *Link) Caller() *pb.Caller { return l.hello.GetCaller() }

// Ask asks, and waits for so long at most.
func (l *Link) Ask(ctx context.Context, request *pb.AcquireRequest, timeout time.Duration) (*pb.AcquireResponse, error) {
	pass, mayAsk := l.gate.enter(time.Now(), timeout)
	if !mayAsk {
		return nil, ErrAway
	}
	if !l.patience.enter() {
		pass.unsaid(time.Now())
		l.Seek()
		return nil, ErrAway
	}
	asked := &ask{request: request, reply: make(chan reply, 1)}
	if err := l.enqueue(asked); err != nil {
		l.patience.leave(false)
		pass.unsaid(time.Now())
		return nil, err
	}
	l.counting.Asked.Add(1)
	response, err := l.await(ctx, asked, pass.wait)
	l.patience.leave(errors.Is(err, ErrLate))
	l.judge(pass, err, asked.isSent.Load())
	return response, err
}

func (l *Link) await(ctx context.Context, asked *ask, timeout time.Duration) (*pb.AcquireResponse, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case answer := <-asked.reply:
		return answer.response, answer.err
	case <-timer.C:
		if asked.state.CompareAndSwap(askWaits, askGivenUp) {
			return nil, ErrLate
		}
		answer := <-asked.reply
		return answer.response, answer.err
	case <-ctx.Done():
		if !asked.state.CompareAndSwap(askWaits, askGivenUp) {
			l.GiveBack((<-asked.reply).response)
		}
		return nil, ctx.Err()
	}
}

// judge tells the gate. Where no time was lost it is told nothing: the goroutine waits by itself
// before it connects again. What was not sent says nothing of the service, unless it is the trial.
func (l *Link) judge(pass *pass, err error, isSent bool) {
	var failed *Failed
	switch {
	case err == nil:
		l.cameBack(pass.answered(time.Now()))
	case errors.As(err, &failed) && failed.IsConfiguration():
		l.cameBack(pass.answered(time.Now()))
		l.Warn("holdoff refuses the question; deciding locally", "code", failed.Code, "text", Cut(failed.Text, 200))
	case failed != nil, errors.Is(err, ErrLate) && pass.isWhole && (isSent || pass.isTrial):
		if pass.unanswered(time.Now(), rand.Float64()) {
			l.wentAway(err)
		}
	default:
		pass.unsaid(time.Now())
	}
}

func (l *Link) cameBack(wasShut bool) {
	if !wasShut {
		return
	}
	l.mu.Lock()
	if l.doubt != nil {
		l.doubt.Stop()
		l.doubt = nil
	}
	l.mu.Unlock()
	l.nudge()
	l.sayBack()
}

// wentAway: a service that has stopped to answer is listened to for a while, since a late answer may
// still come; nothing else is sent meanwhile.
func (l *Link) wentAway(why error) {
	if errors.Is(why, ErrLate) {
		l.mu.Lock()
		if l.leave != nil && l.doubt == nil {
			l.doubt = time.AfterFunc(silentFor(rand.Float64()), l.leave)
		}
		l.mu.Unlock()
	}
	l.sayAway("holdoff does not answer; deciding locally until it is back", l.where(), why)
}

// isDoubted: it has stopped to answer on the connection that stands.
func (l *Link) isDoubted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubt != nil
}

// opened: the service has taken a stream, or an endpoint without streams a connection.
func (l *Link) opened() {
	l.gate.heard(time.Now())
	l.patience.heard()
	if _, isShut := l.gate.shutUntil(time.Now()); !isShut {
		l.sayBack()
	}
}

// sayAway once, until it is back; and once a minute at most where it comes and goes.
func (l *Link) sayAway(text, where string, why error) {
	l.mu.Lock()
	isClosed := l.isClosed
	l.mu.Unlock()
	if isClosed || l.isSaidToBeAway.Load() || !l.warnedAway.now() {
		return
	}
	l.isSaidToBeAway.Store(true)
	attributes := []any{"endpoint", where}
	if why != nil {
		attributes = append(attributes, "why", why)
	}
	l.log.Warn(text, attributes...)
}

func (l *Link) sayBack() {
	if l.isSaidToBeAway.CompareAndSwap(true, false) {
		l.log.Info("holdoff answers again", "endpoint", l.where())
	}
}

// where is the endpoint of the connection that stands, or all of them.
func (l *Link) where() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return l.dialer.Endpoints[l.endpoint].Address
	}
	return l.dialer.everywhere()
}

// Warn of what is configured wrong, once a minute at most.
func (l *Link) Warn(text string, attributes ...any) {
	if l.warnedConfigation.now() {
		l.log.Warn(text, attributes...)
	}
}

// GiveBack: nobody waits for this answer any longer, and it may carry a permit, even the lease of a
// probe.
func (l *Link) GiveBack(response *pb.AcquireResponse) {
	if grant := response.GetGrant(); grant != nil {
		l.Reports.Push(grant.GetPermit(), &rules.Outcome{Kind: rules.Cancelled})
	}
}

func (l *Link) answer(asked *ask, response *pb.AcquireResponse, err error) {
	if asked.state.CompareAndSwap(askWaits, askAnswered) {
		asked.reply <- reply{response, err}
		return
	}
	if response != nil {
		l.gate.heardLate(time.Now())
	}
	l.GiveBack(response)
}

// Connect connects now. False: it could not.
func (l *Link) Connect(ctx context.Context) bool {
	connected := make(chan bool, 1)
	l.mu.Lock()
	if l.isClosed || time.Now().Before(l.notBefore) {
		l.mu.Unlock()
		return false
	}
	l.waiting = append(l.waiting, connected)
	l.begin()
	l.mu.Unlock()
	select {
	case is := <-connected:
		return is
	case <-ctx.Done():
		return false
	}
}

// Flush returns when all outcomes have been taken or lost. False: the context ended before.
func (l *Link) Flush(ctx context.Context) bool {
	for !l.Reports.isEmpty() {
		l.mu.Lock()
		l.begin()
		l.mu.Unlock()
		l.Reports.hurry()
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Close sends what waits, for a second at most, and ends.
func (l *Link) Close() {
	l.mu.Lock()
	wasRunning := l.isRunning
	l.isClosed = true
	l.mu.Unlock()
	l.nudge()
	if wasRunning {
		select {
		case <-l.ended:
		case <-time.After(farewell + 100*time.Millisecond):
		}
	}
	l.cancel()
}

func (l *Link) enqueue(asked *ask) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.isClosed, time.Now().Before(l.notBefore):
		return ErrAway
	case len(l.queue) >= asksMax:
		return ErrBusy
	}
	l.queue = append(l.queue, asked)
	l.begin()
	return nil
}

// Seek has a connection made that nobody waits for, when it is time for one.
func (l *Link) Seek() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isClosed && l.conn == nil && len(l.queue)+len(l.waiting) == 0 {
		l.waiting = append(l.waiting, make(chan bool, 1))
		l.begin()
	}
}

// begin is called under the lock.
func (l *Link) begin() {
	if !l.isRunning && !l.isClosed {
		l.isRunning = true
		go l.run()
	}
	l.nudge()
}

func (l *Link) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// wanted takes what callers want.
func (l *Link) wanted() (asks []*ask, waiting []chan<- bool, isClosed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asks, waiting = l.queue, l.waiting
	l.queue, l.waiting = nil, nil
	return asks, waiting, l.isClosed
}

// stands: this connection to the endpoint does, until leave is called. Nil: none.
func (l *Link) stands(conn *grpc.ClientConn, endpoint int, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.endpoint, l.leave = conn, endpoint, leave
	l.isStanding.Store(conn != nil)
	if l.doubt != nil {
		l.doubt.Stop()
		l.doubt = nil
	}
}

// run owns the connection.
func (l *Link) run() {
	defer close(l.ended)
	course := course{notBefore: time.Now(), unary: map[int]bool{}}
	for l.untilWanted(course.notBefore) {
		index, conn, tookOne, failure := l.dialer.dial(l.ctx, course.start)
		if conn == nil {
			now, unit := time.Now(), rand.Float64()
			if tookOne {
				course.ended(index, endUnproven, now, unit)
			} else {
				course.nothingReachable(now, unit)
			}
			l.refuse(course.notBefore)
			l.sayAway("holdoff cannot be reached; deciding locally until it is back", l.where(), failure)
			continue
		}
		l.counting.Reconnection.Add(1)
		l.Reports.streamBegins()
		how, cause := l.use(index, conn, &course)
		l.stands(nil, 0, nil)
		l.patience.lost()
		_ = conn.Close()
		l.Reports.broken()
		if how == endUnwanted {
			break
		}
		now := time.Now()
		course.ended(index, how, now, rand.Float64())
		if now.Before(course.notBefore) {
			l.refuse(course.notBefore)
		}
		if how == endBroken || how == endUnproven {
			l.sayAway("the connection to holdoff broke; deciding locally until it is back", l.dialer.Endpoints[index].Address, cause)
		}
	}
	l.refuse(time.Now())
}

// use returns how the time with the connection ended, and what ended it where that is known.
func (l *Link) use(index int, conn *grpc.ClientConn, course *course) (how end, cause error) {
	var unsent []*ask
	var waiting []chan<- bool
	if !course.unary[index] {
		stream := newStream(l, index, conn)
		l.stands(conn, index, func() { stream.end(endSilent) })
		how = stream.run()
		if how != endUnimplemented {
			return how, stream.cause
		}
		course.unary[index] = true
		unsent, waiting = stream.unsent()
	}
	unary := newUnary(l, conn)
	l.stands(conn, index, func() { unary.end(endSilent) })
	l.opened()
	return unary.run(unsent, waiting), nil
}

// untilWanted returns when there is something to connect for. Before its time everything is refused at
// once. While the gate is shut the service is looked for without a question, so that no caller pays
// for it. False: the client was closed.
func (l *Link) untilWanted(notBefore time.Time) bool {
	for {
		now := time.Now()
		l.mu.Lock()
		isWanted, isClosed := len(l.queue)+len(l.waiting) > 0, l.isClosed
		l.mu.Unlock()
		due, isDue := l.Reports.dueAt()
		shutUntil, isShut := l.gate.shutUntil(now)
		mayConnect := !now.Before(notBefore)
		switch {
		case isClosed:
			return false
		case mayConnect && (isWanted || isShut || (isDue && !now.Before(due))):
			return true
		}
		next := now.Add(time.Hour)
		if isWanted {
			next = notBefore
		}
		if isDue && due.Before(next) {
			next = later(due, notBefore)
		}
		if isShut && notBefore.Before(shutUntil) && notBefore.Before(next) {
			next = notBefore
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-l.wake:
		case <-l.Reports.changed:
		case <-l.ctx.Done():
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// refuse what waits, and what comes before its time.
func (l *Link) refuse(notBefore time.Time) {
	l.mu.Lock()
	l.notBefore = notBefore
	l.mu.Unlock()
	asks, waiting, _ := l.wanted()
	for _, asked := range asks {
		l.answer(asked, nil, ErrAway)
	}
	for _, connected := range waiting {
		connected <- false
	}
}
