package session

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
)

const (
	callsMax         = 256
	tryAStreamAfter  = 10 * time.Minute
	reportTimeout    = 5 * time.Second
	unaryAskPatience = 30 * time.Second
)

// unary does the same without a stream: one request a question, for a service or a proxy that has no
// Session. After a while a stream is tried again.
type unary struct {
	link    *Link
	client  pb.CoordinatorServiceClient
	ctx     context.Context
	cancel  context.CancelFunc
	ends    chan end
	room    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	answered bool
}

func newUnary(link *Link, conn *grpc.ClientConn) *unary {
	ctx, cancel := context.WithCancel(link.ctx)
	return &unary{
		link: link, client: pb.NewCoordinatorServiceClient(conn), ctx: ctx, cancel: cancel,
		ends: make(chan end, 1), room: make(chan struct{}, callsMax),
	}
}

func (u *unary) end(how end) {
	select {
	case u.ends <- how:
	default:
	}
}

func (u *unary) run(unsent []*ask, waiting []chan<- bool) end {
	how := u.loop(unsent, waiting)
	u.cancel()
	u.running.Wait()
	return how
}

func (u *unary) loop(asks []*ask, waiting []chan<- bool) end {
	again := time.NewTimer(tryAStreamAfter)
	defer again.Stop()
	// One report at a time: sequence numbers must arrive in their order.
	reported := make(chan bool, 1)
	isReporting := false
	for {
		u.ask(asks)
		for _, connected := range waiting {
			connected <- true
		}
		var timer <-chan time.Time
		if due, isDue := u.link.Reports.dueAt(); isDue && !isReporting && !u.link.isDoubted() {
			timer = time.After(time.Until(due))
		}
		select {
		case <-u.link.wake:
		case <-u.link.Reports.changed:
		case <-timer:
			if batch := u.link.Reports.take(); batch != nil {
				isReporting = true
				u.running.Go(func() { reported <- u.report(batch) })
			}
		case stands := <-reported:
			isReporting = false
			if !stands {
				return u.broken()
			}
		case how := <-u.ends:
			return how
		case <-again.C:
			return endAgain
		case <-u.ctx.Done():
			return endUnwanted
		}
		var isClosed bool
		if asks, waiting, isClosed = u.link.wanted(); isClosed {
			u.farewell(isReporting, reported)
			return endUnwanted
		}
	}
}

func (u *unary) farewell(isReporting bool, reported <-chan bool) {
	if isReporting {
		<-reported
	}
	for batch := u.link.Reports.take(); batch != nil; batch = u.link.Reports.take() {
		if !u.report(batch) {
			return
		}
	}
}

func (u *unary) broken() end {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answered {
		return endBroken
	}
	return endUnproven
}

func (u *unary) ask(asks []*ask) {
	for _, asked := range asks {
		select {
		case u.room <- struct{}{}:
			u.running.Go(func() {
				u.acquire(asked)
				<-u.room
			})
		default:
			u.link.answer(asked, nil, ErrBusy)
		}
	}
}

func (u *unary) acquire(asked *ask) {
	asked.isSent.Store(true)
	request := proto.CloneOf(asked.request)
	request.Namespace, request.Caller = u.link.hello.GetNamespace(), u.link.hello.GetCaller()
	ctx, cancel := context.WithTimeout(u.ctx, unaryAskPatience)
	defer cancel()
	var header, trailer metadata.MD
	response, err := u.client.Acquire(ctx, request, grpc.Header(&header), grpc.Trailer(&trailer))
	switch {
	case err == nil:
		u.link.answer(asked, response, nil)
	case isOfTheConnection(header, trailer):
		u.link.answer(asked, nil, ErrLost)
		u.end(u.broken())
		return
	default:
		u.link.answer(asked, nil, &Failed{status.Code(err), status.Convert(err).Message()})
	}
	u.mu.Lock()
	u.answered = true
	u.mu.Unlock()
}

// report: false where the connection is over.
func (u *unary) report(batch *batch) bool {
	ctx, cancel := context.WithTimeout(u.ctx, reportTimeout)
	defer cancel()
	var header, trailer metadata.MD
	_, err := u.client.Report(ctx, u.link.report(batch), grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil && isOfTheConnection(header, trailer) {
		return false
	}
	u.link.Reports.answered(batch.sequence, err == nil)
	return true
}

// isOfTheConnection: no answer of a service stands behind the error, which would have come with
// headers of its own.
func isOfTheConnection(header, trailer metadata.MD) bool { return len(header)+len(trailer) == 0 }

// PlanCheck asks when to check next: one request on the connection that stands, which is opened where
// there is none. It neither opens nor shuts the gate: nobody waits for a plan, so one that is late
// costs nothing; and a service that answers calls may have no plans. [ErrAway]: it was never sent.
func (l *Link) PlanCheck(ctx context.Context, dependency string, last *pb.CheckResult, timeout time.Duration) (*pb.PlanCheckResponse, error) {
	if _, isShut := l.gate.shutUntil(time.Now()); isShut {
		return nil, ErrAway
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if !l.Connect(ctx) {
		return nil, ErrAway
	}
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return nil, ErrAway
	}
	request := &pb.PlanCheckRequest{
		Namespace: l.hello.GetNamespace(), Dependency: dependency, Checker: l.hello.GetCaller(), LastResult: last,
	}
	var header, trailer metadata.MD
	response, err := pb.NewCoordinatorServiceClient(conn).PlanCheck(ctx, request, grpc.Header(&header), grpc.Trailer(&trailer))
	switch {
	case err == nil:
		return response, nil
	case status.Code(err) == codes.DeadlineExceeded && isOfTheConnection(header, trailer):
		return nil, ErrLate
	case isOfTheConnection(header, trailer):
		return nil, ErrLost
	default:
		return nil, &Failed{status.Code(err), status.Convert(err).Message()}
	}
}
