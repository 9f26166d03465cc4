package session

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
)

const (
	// farewell: the last outcomes of a client that is closed are waited for so long.
	farewell = time.Second
	// search: a service that nobody waits for any longer has so long to take a new stream.
	search = time.Second
	// gap between questions is waited for so long.
	gap = 100 * time.Millisecond
)

// stream is one session. The writer sends whatever is queued when it wakes as one message, so that
// questions asked together travel together; the reader hands answers out by id.
type stream struct {
	link      *Link
	index     int
	conn      *grpc.ClientConn
	ctx       context.Context
	cancel    context.CancelFunc
	ends      chan end
	rpc       grpc.BidiStreamingClient[pb.SessionRequest, pb.SessionResponse]
	following following

	mu          sync.Mutex
	outstanding outstanding
	waiting     []chan<- bool
	// isOpen: the service has taken the stream; isProven: it has said something on it.
	isOpen, isProven bool
	// cause is why it ended; the reader's, until it has ended.
	cause error
}

func newStream(link *Link, index int, conn *grpc.ClientConn) *stream {
	ctx, cancel := context.WithCancel(link.ctx)
	return &stream{
		link: link, index: index, conn: conn, ctx: ctx, cancel: cancel,
		ends:        make(chan end, 1),
		following:   following{pushed: link.Pushed, left: map[string]bool{}},
		outstanding: newOutstanding(),
	}
}

// end: the first one counts.
func (s *stream) end(how end) {
	select {
	case s.ends <- how:
	default:
	}
}

// run returns how the stream ended. Then nothing of it runs any more, and those who wait have learnt
// that their questions are lost, except where there is no such stream.
func (s *stream) run() end {
	defer s.cancel()
	rpc, err := pb.NewCoordinatorServiceClient(s.conn).Session(s.ctx)
	if err != nil {
		s.cause = err
		return s.close(s.endOf(err))
	}
	s.rpc = rpc
	var running sync.WaitGroup
	running.Go(s.read)
	running.Go(s.write)
	running.Go(s.watch)
	how := endUnwanted
	select {
	case how = <-s.ends:
	case <-s.link.ctx.Done():
	}
	s.cancel()
	running.Wait()
	return s.close(how)
}

func (s *stream) close(how end) end {
	if how == endUnimplemented {
		return how
	}
	asks, waiting := s.unsent()
	for _, asked := range asks {
		s.link.answer(asked, nil, ErrLost)
	}
	for _, connected := range waiting {
		connected <- false
	}
	return how
}

// unsent are the questions that were never taken, where there is no such stream.
func (s *stream) unsent() ([]*ask, []chan<- bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.waiting
	s.waiting = nil
	return s.outstanding.takeAll(), waiting
}

// watch leaves a service that is looked for at nobody's wait and does not even take the stream, and one that is not
// the preferred one where that is back.
func (s *stream) watch() {
	_, wasShut := s.link.gate.shutUntil(time.Now())
	if !sleep(s.ctx, search) {
		return
	}
	s.mu.Lock()
	isOpen := s.isOpen
	s.mu.Unlock()
	if !isOpen && (wasShut || s.link.patience.isOver()) {
		s.end(endUnheard)
		return
	}
	if s.index == 0 {
		return
	}
	for sleep(s.ctx, time.Duration(float64(returnTriedEvery)*(1+rand.Float64()))) {
		if conn, _, _ := s.link.dialer.dialOne(s.ctx, 0); conn != nil {
			_ = conn.Close()
			s.untilQuiet(gap)
			s.end(endAgain)
			return
		}
	}
}

// sleep: false where the context ended.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// untilQuiet returns when all is answered, or the time is over.
func (s *stream) untilQuiet(most time.Duration) {
	for over := time.Now().Add(most); time.Now().Before(over); {
		s.mu.Lock()
		isQuiet := s.outstanding.isEmpty()
		s.mu.Unlock()
		if isQuiet || !sleep(s.ctx, time.Millisecond) {
			return
		}
	}
}

func (s *stream) write() {
	leaving := time.NewTicker(leaveEvery)
	defer leaving.Stop()
	isOpen := s.send(s.following.greeting(s.link.hello)...)
	for isOpen {
		asks, waiting, isClosed := s.link.wanted()
		s.wait(waiting)
		if isOpen = s.ask(asks); !isOpen {
			break
		}
		if isClosed {
			s.sendAllReports()
			s.untilQuiet(farewell)
			s.end(endUnwanted)
			return
		}
		var timer <-chan time.Time
		if due, isDue := s.link.Reports.dueAt(); isDue && !s.link.isDoubted() {
			timer = time.After(time.Until(due))
		}
		select {
		case <-s.link.wake:
		case <-s.link.Reports.changed:
		case <-timer:
			isOpen = s.sendReport()
		case <-leaving.C:
			isOpen = s.send(s.following.leaveIdle()...)
		case <-s.ctx.Done():
			return
		}
	}
	// The reader knows why the stream ended.
}

// wait tells those who want a connection when there is one.
func (s *stream) wait(waiting []chan<- bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, waiting...)
	if s.isOpen {
		s.tellConnected()
	}
}

func (s *stream) tellConnected() {
	for _, connected := range s.waiting {
		connected <- true
	}
	s.waiting = nil
}

// send: false where the stream is over.
func (s *stream) send(messages ...*pb.SessionRequest) bool {
	for _, message := range messages {
		if s.rpc.Send(message) != nil {
			return false
		}
	}
	return true
}

// ask: false where the stream is over.
func (s *stream) ask(asks []*ask) bool {
	var wanted []*ask
	tellsFailure := false
	for _, asked := range asks {
		if asked.state.Load() == askWaits {
			wanted = append(wanted, asked)
			tellsFailure = tellsFailure || asked.request.GetPrevious() != nil
		}
	}
	isOpen := !tellsFailure || s.sendAllReports()
	if again := s.following.resume(wanted); again != nil {
		isOpen = isOpen && s.send(again)
	}
	for _, asks := range inMessages(wanted) {
		s.mu.Lock()
		message, hasRoom := s.outstanding.ask(asks)
		s.mu.Unlock()
		if !hasRoom {
			for _, asked := range asks {
				s.link.answer(asked, nil, ErrBusy)
			}
			continue
		}
		isOpen = isOpen && s.send(message)
	}
	return isOpen
}

// inMessages are groups that the service takes as one message each.
func inMessages(asks []*ask) (messages [][]*ask) {
	bytes := 0
	for _, asked := range asks {
		size := proto.Size(asked.request) + 8
		bytes += size
		last := len(messages) - 1
		if last < 0 || bytes > messageBytesMax || len(messages[last]) >= batchMax {
			messages = append(messages, []*ask{asked})
			bytes = size
			continue
		}
		messages[last] = append(messages[last], asked)
	}
	return messages
}

// sendAllReports: false where the stream is over.
func (s *stream) sendAllReports() bool {
	for batch := s.link.Reports.take(); batch != nil; batch = s.link.Reports.take() {
		if !s.sendBatch(batch) {
			return false
		}
	}
	return true
}

func (s *stream) sendReport() bool {
	batch := s.link.Reports.take()
	return batch == nil || s.sendBatch(batch)
}

func (s *stream) sendBatch(batch *batch) bool {
	s.mu.Lock()
	message := s.outstanding.report(s.link.report(batch))
	s.mu.Unlock()
	return s.send(message)
}

func (l *Link) report(batch *batch) *pb.ReportRequest {
	return &pb.ReportRequest{
		Namespace: l.hello.GetNamespace(), Caller: l.hello.GetCaller(),
		Entries: batch.entries, Sequence: batch.sequence,
	}
}

func (s *stream) read() {
	header, err := s.rpc.Header()
	if err != nil {
		s.cause = err
		s.end(s.endOf(err))
		return
	}
	// Without one the stream ended at once, and Recv knows how.
	if header != nil {
		s.opened()
	}
	for {
		message, err := s.rpc.Recv()
		if err != nil {
			s.cause = err
			s.end(s.endOf(err))
			return
		}
		s.take(message)
	}
}

func (s *stream) opened() {
	s.link.opened()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOpen = true
	s.tellConnected()
}

func (s *stream) endOf(err error) end {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isProven:
		return endBroken
	case status.Code(err) == codes.Unimplemented:
		return endUnimplemented
	default:
		return endUnproven
	}
}

func (s *stream) take(message *pb.SessionResponse) {
	id := message.GetId()
	switch said := message.GetMessage().(type) {
	case *pb.SessionResponse_Acquired:
		s.handOut(id, said.Acquired.GetItems())
	case *pb.SessionResponse_Reported:
		s.reported(id, true)
	case *pb.SessionResponse_Update:
		s.link.Pushed.Store(said.Update)
		if s.link.isDoubted() {
			s.link.gate.heard(time.Now())
		}
	case *pb.SessionResponse_Status:
		s.refused(id, said.Status)
	default: // Something newer than this client.
	}
	s.mu.Lock()
	s.isProven = true
	s.mu.Unlock()
}

func (s *stream) handOut(id uint64, items []*pb.AcquireItem) {
	s.mu.Lock()
	asks := s.outstanding.take(id)
	s.mu.Unlock()
	for i, asked := range asks {
		var item *pb.AcquireItem
		if i < len(items) {
			item = items[i]
		}
		switch result := item.GetResult().(type) {
		case *pb.AcquireItem_Response:
			s.link.answer(asked, result.Response, nil)
		case *pb.AcquireItem_Status:
			s.link.answer(asked, nil, failed(result.Status))
		default:
			s.link.answer(asked, nil, &Failed{codes.Internal, "no answer in it"})
		}
	}
}

func (s *stream) reported(id uint64, wasTaken bool) {
	s.mu.Lock()
	sequence, known := s.outstanding.takeReport(id)
	s.mu.Unlock()
	if known {
		s.link.Reports.answered(sequence, wasTaken)
	}
}

// refused: a whole message was.
func (s *stream) refused(id uint64, why *spb.Status) {
	if id == 0 {
		// What is not followed is asked about each time.
		s.link.Warn("holdoff refuses to push the state of a dependency", "text", Cut(why.GetMessage(), 200))
	}
	s.reported(id, false)
	s.mu.Lock()
	asks := s.outstanding.take(id)
	s.mu.Unlock()
	for _, asked := range asks {
		s.link.answer(asked, nil, failed(why))
	}
}

func failed(why *spb.Status) error {
	return &Failed{codes.Code(uint32(why.GetCode())), why.GetMessage()}
}
