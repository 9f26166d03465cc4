package holdoff_test

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdoff/holdoff/clients/go"
	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

// A service that is slow to begin, killed, refused, or silent for a while, over real sockets.

const burstSize = 100

// burst is how long each of many calls at once took, sorted, and how many were decided locally.
func burst(t *testing.T, client *holdoff.Client) (took []time.Duration, local int) {
	t.Helper()
	var mu sync.Mutex
	var calls sync.WaitGroup
	together := make(chan struct{})
	for range burstSize {
		calls.Go(func() {
			<-together
			begun := time.Now()
			isLocal, err := holdoff.Do(t.Context(), client, "payments", func(_ context.Context, attempt holdoff.Attempt) (bool, error) {
				return attempt.IsLocal, nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if isLocal {
				local++
			}
			took = append(took, time.Since(begun))
		})
	}
	close(together)
	calls.Wait()
	slices.Sort(took)
	return took, local
}

func until(is func() bool) bool {
	for over := time.Now().Add(10 * time.Second); !is() && time.Now().Before(over); {
		time.Sleep(10 * time.Millisecond)
	}
	return is()
}

func TestOfABurstThatIsTheFirstActThreeWaitAndAllIsCoordinatedAfterIt(t *testing.T) {
	service := (&scripted.Service{Updates: scripted.Go("payments")}).Start(t)
	// So long that a busy machine does not count.
	client := newClient(t, holdoff.WithEndpoints(service.Address), holdoff.WithTimeout(5*time.Second))
	if _, local := burst(t, client); local == burstSize {
		t.Error("nobody waited for the service")
	}
	if !client.Connect(t.Context()) {
		t.Fatal("there is no connection")
	}
	asked := func() uint64 {
		before := client.Counters().Asked
		if _, local := burst(t, client); local > 0 {
			t.Errorf("%d calls were decided locally after an answer", local)
		}
		return client.Counters().Asked - before
	}
	// The state is pushed after the answer.
	if !until(func() bool { return asked() == 0 }) {
		t.Error("calls are asked for although the state is pushed")
	}
}

func TestOfABurstIntoSilenceThreeCallsWaitAndTheOthersNotAtAll(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	client := newClient(t, holdoff.WithEndpoints(silent.Addr().String()), holdoff.WithTimeout(time.Second))
	took, _ := burst(t, client)
	if third, fourth := took[burstSize-3], took[burstSize-4]; third < 950*time.Millisecond || fourth > 400*time.Millisecond {
		t.Errorf("the third waited %v, the fourth %v", third, fourth)
	}
	if took, _ := burst(t, client); took[burstSize-1] > 900*time.Millisecond {
		t.Errorf("a later call waited %v", took[burstSize-1])
	}
}

func TestARefusedConnectionKeepsNobodyWaiting(t *testing.T) {
	client := newClient(t, holdoff.WithEndpoints(nowhere(t)), holdoff.WithTimeout(5*time.Second))
	if took, local := burst(t, client); took[burstSize-1] > time.Second || local != burstSize {
		t.Errorf("%v, %d of them local", took[burstSize-1], local)
	}
}

// nowhere nobody listens.
func nowhere(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = free.Close() }()
	return free.Addr().String()
}

// lines are what was logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(line))
	return len(line), nil
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}

func (l *lines) option() holdoff.Option {
	return holdoff.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

func says(line, level, address string) bool {
	return strings.Contains(line, "level="+level) && strings.Contains(line, address)
}

func TestARefusedServiceIsLoggedOnceWithItsAddressAndSoIsItsReturn(t *testing.T) {
	t.Parallel()
	address := nowhere(t)
	var log lines
	client := newClient(t, holdoff.WithEndpoints(address), log.option())
	for range 20 {
		if err := client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	until(func() bool { return len(log.all()) > 0 })
	if said := log.all(); len(said) != 1 || !says(said[0], "WARN", address) {
		t.Fatalf("%q", said)
	}
	(&scripted.Service{Address: address}).Start(t)
	if !until(func() bool { return client.Connect(t.Context()) }) {
		t.Fatal("it did not come back")
	}
	if said := log.all(); len(said) != 2 || !says(said[1], "INFO", address) {
		t.Errorf("%q", said)
	}
}

func TestAKilledServiceIsLoggedOnceWithItsAddress(t *testing.T) {
	var log lines
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterCoordinatorServiceServer(server, &scripted.Service{})
	go func() { _ = server.Serve(listener) }()
	client := newClient(t, holdoff.WithEndpoints(listener.Addr().String()), log.option())
	if !client.Connect(t.Context()) {
		t.Fatal("not connected")
	}
	server.Stop()
	if !until(func() bool { return len(log.all()) > 0 }) {
		t.Fatal("nothing is logged")
	}
	for range 20 {
		_ = client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error { return nil })
	}
	if said := log.all(); len(said) != 1 || !says(said[0], "WARN", listener.Addr().String()) {
		t.Errorf("%q", said)
	}
}

func TestAfterThreeSilentAnswersTheFirstLateOneBringsTheServiceBack(t *testing.T) {
	t.Parallel()
	mayAnswer := make(chan struct{})
	service := &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		<-mayAnswer
		return scripted.Granted(0)
	}}
	client := clientOf(t, service, holdoff.WithTimeout(200*time.Millisecond))
	isLocal := func() bool {
		local, err := holdoff.Do(t.Context(), client, "payments", func(_ context.Context, attempt holdoff.Attempt) (bool, error) {
			return attempt.IsLocal, nil
		})
		if err != nil {
			t.Error(err)
		}
		return local
	}
	for range 4 {
		isLocal()
	}
	if asked := client.Counters().Asked; asked != 3 {
		t.Fatalf("%d questions", asked)
	}
	begun := time.Now()
	close(mayAnswer)
	if !until(func() bool { return !isLocal() }) {
		t.Fatal("it did not come back")
	}
	// Not the timer, which is a second at least.
	if took := time.Since(begun); took > 950*time.Millisecond || client.Counters().Connections != 1 {
		t.Errorf("after %v, on %d connections", took, client.Counters().Connections)
	}
}
