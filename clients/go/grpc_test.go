package holdoff_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go"
	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

// ledger is a dependency that speaks gRPC.
type ledger struct {
	grpc_health_v1.UnimplementedHealthServer
	calls atomic.Int32
	check func(call int32, ctx context.Context) error
}

func (l *ledger) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if err := l.check(l.calls.Add(1), ctx); err != nil {
		return nil, err
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func (l *ledger) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	if err := l.check(l.calls.Add(1), stream.Context()); err != nil {
		return err
	}
	return stream.Send(&grpc_health_v1.HealthCheckResponse{})
}

func (l *ledger) address(t *testing.T) string {
	address, _ := l.serve(t)
	return address
}

func (l *ledger) serve(t *testing.T) (address string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String(), server.Stop
}

func channel(t *testing.T, address string, client *holdoff.Client, options ...holdoff.CallOption) grpc_health_v1.HealthClient {
	return guardedChannel(t, "passthrough:///"+address, []*holdoff.Client{client}, options, grpc.WithDisableRetry())
}

// guardedChannel by these clients, the outermost one first.
func guardedChannel(t *testing.T, target string, clients []*holdoff.Client, options []holdoff.CallOption, dialOptions ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	methodOf := func(string) (string, []holdoff.CallOption) { return "ledger", options }
	dialOptions = append(dialOptions, grpc.WithTransportCredentials(insecure.NewCredentials()))
	for _, client := range clients {
		dialOptions = append(dialOptions,
			grpc.WithChainUnaryInterceptor(holdoff.UnaryClientInterceptor(client, methodOf)),
			grpc.WithChainStreamInterceptor(holdoff.StreamClientInterceptor(client, methodOf)))
	}
	conn, err := grpc.NewClient(target, dialOptions...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return grpc_health_v1.NewHealthClient(conn)
}

func TestAUnaryCallIsRepeatedAsItsStatusSays(t *testing.T) {
	for name, c := range map[string]struct {
		code     codes.Code
		pushback string
		calls    int32
	}{
		"unavailable":                      {codes.Unavailable, "", 3},
		"unavailable with a pushback":      {codes.Unavailable, "5", 3},
		"unavailable, do not retry":        {codes.Unavailable, "-1", 1},
		"a wrong request":                  {codes.InvalidArgument, "", 1},
		"throttled":                        {codes.ResourceExhausted, "", 3},
		"aborted, which is a layer higher": {codes.Aborted, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := &ledger{check: func(_ int32, ctx context.Context) error {
				if c.pushback != "" {
					_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", c.pushback))
				}
				return status.Error(c.code, "scripted")
			}}
			_, err := channel(t, server.address(t), holdoff.NewTesting(), holdoff.Idempotent()).Check(t.Context(), nil)
			if status.Code(err) != c.code || server.calls.Load() != c.calls {
				t.Errorf("%d calls, %v", server.calls.Load(), err)
			}
			if !errors.As(err, new(*holdoff.Stopped)) {
				t.Errorf("no reason in %v", err)
			}
		})
	}
}

func TestACallThatRecoversHasItsReplyAndTheCallersTrailer(t *testing.T) {
	server := &ledger{check: func(call int32, ctx context.Context) error {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("who", "ledger"))
		if call == 1 {
			return status.Error(codes.Unavailable, "scripted")
		}
		return nil
	}}
	var trailer metadata.MD
	reply, err := channel(t, server.address(t), holdoff.NewTesting(), holdoff.Idempotent()).Check(t.Context(), nil, grpc.Trailer(&trailer))
	if err != nil || reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING || trailer.Get("who")[0] != "ledger" {
		t.Errorf("%v, %v, %v", reply, err, trailer)
	}
}

func TestACallWithoutAConnectionWasNotSentAndEvenAnUnsafeOneIsRepeated(t *testing.T) {
	for name, target := range map[string]string{
		"refused":                              "passthrough:///" + nowhere(t),
		"refused by each of two addresses":     "dns:///localhost:1",
		"unreachable":                          "passthrough:///255.255.255.255:80",
		"a name that does not resolve":         "dns:///no-such-host.invalid:80",
		"a name that does not resolve, dialed": "passthrough:///no-such-host.invalid:80",
	} {
		t.Run(name, func(t *testing.T) {
			health := guardedChannel(t, target, []*holdoff.Client{holdoff.NewTesting()}, nil)
			var stopped *holdoff.Stopped
			_, err := health.Check(t.Context(), nil)
			if !errors.As(err, &stopped) || stopped.Reason != holdoff.ReasonAttemptsExhausted || status.Code(err) != codes.Unavailable {
				t.Errorf("%v", err)
			}
			_, err = health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if !errors.As(err, &stopped) || stopped.Reason != holdoff.ReasonAttemptsExhausted {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestWhatAServerSaysOfAnotherConnectionIsAFailure(t *testing.T) {
	server := &ledger{check: func(int32, context.Context) error {
		return status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:80: connect: connection refused"`)
	}}
	_, err := channel(t, server.address(t), holdoff.NewTesting()).Check(t.Context(), nil)
	var stopped *holdoff.Stopped
	if !errors.As(err, &stopped) || stopped.Reason != holdoff.ReasonRetryUnsafe || server.calls.Load() != 1 {
		t.Errorf("%v, %d calls", err, server.calls.Load())
	}
}

func TestACallThatWasSentBeforeGRPCsOwnRetryWasRefusedIsAFailure(t *testing.T) {
	stop := func() {}
	server := &ledger{check: func(_ int32, ctx context.Context) error {
		go stop()
		<-ctx.Done()
		return nil
	}}
	address, stop := server.serve(t)
	health := guardedChannel(t, "passthrough:///"+address, []*holdoff.Client{holdoff.NewTesting()}, nil, grpc.WithDefaultServiceConfig(`{"methodConfig": [{
		"name": [{}],
		"retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	_, err := health.Check(t.Context(), nil)
	var stopped *holdoff.Stopped
	if !errors.As(err, &stopped) || !strings.Contains(err.Error(), "Error while dialing") {
		t.Fatalf("gRPC did not retry: %v", err)
	}
	if stopped.Reason != holdoff.ReasonRetryUnsafe || server.calls.Load() != 1 {
		t.Errorf("%v, %d calls", err, server.calls.Load())
	}
}

func TestACallThatIsGuardedBelowIsNotRetriedAgain(t *testing.T) {
	denying := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		return scripted.Denied(pb.DenialReason_DENIAL_REASON_BREAKER_OPEN, time.Second)
	}})
	failing := &ledger{check: func(int32, context.Context) error { return status.Error(codes.Unavailable, "scripted") }}
	for name, c := range map[string]struct {
		below   *holdoff.Client
		address string
		calls   int32
		reason  holdoff.Reason
	}{
		"given up": {holdoff.NewTesting(), failing.address(t), 3, holdoff.ReasonRetriedBelow},
		"refused":  {holdoff.NewTesting(), nowhere(t), 0, holdoff.ReasonRetriedBelow},
		"denied":   {denying, failing.address(t), 0, holdoff.ReasonNotRetryable},
	} {
		t.Run(name, func(t *testing.T) {
			failing.calls.Store(0)
			health := guardedChannel(t, "passthrough:///"+c.address, []*holdoff.Client{holdoff.NewTesting(), c.below}, []holdoff.CallOption{holdoff.Idempotent()}, grpc.WithDisableRetry())
			_, err := health.Check(t.Context(), nil)
			var stopped *holdoff.Stopped
			if !errors.As(err, &stopped) || stopped.Attempts != 1 || stopped.Reason != c.reason || failing.calls.Load() != c.calls {
				t.Errorf("%v, %d calls", err, failing.calls.Load())
			}
			if c.calls > 0 {
				// Its streams begin.
				return
			}
			_, err = health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if !errors.As(err, &stopped) || stopped.Attempts != 1 || stopped.Reason != c.reason {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestADeniedCallEndsLikeAnyRPC(t *testing.T) {
	client := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		return scripted.Denied(pb.DenialReason_DENIAL_REASON_RATE_LIMITED, time.Second)
	}})
	server := &ledger{check: func(int32, context.Context) error { return nil }}
	health := channel(t, server.address(t), client)
	_, err := health.Check(t.Context(), nil)
	if status.Code(err) != codes.ResourceExhausted || !errors.As(err, new(*holdoff.Denied)) {
		t.Errorf("%v", err)
	}
	if _, err := health.Watch(t.Context(), nil); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	if server.calls.Load() != 0 {
		t.Error("it was made")
	}
}

func TestAStreamIsReportedOnceByItsFirstMessageItsStatusOrItsCaller(t *testing.T) {
	for name, c := range map[string]struct {
		fails  error
		leaves bool
		kind   pb.OutcomeKind
	}{
		"a message": {kind: pb.OutcomeKind_OUTCOME_KIND_SUCCESS},
		"a status":  {fails: status.Error(codes.Internal, "scripted"), kind: pb.OutcomeKind_OUTCOME_KIND_FAILURE},
		"left":      {leaves: true, kind: pb.OutcomeKind_OUTCOME_KIND_CANCELLED},
	} {
		t.Run(name, func(t *testing.T) {
			service := &scripted.Service{}
			client := clientOf(t, service)
			server := &ledger{check: func(_ int32, ctx context.Context) error {
				if c.leaves {
					<-ctx.Done()
				}
				return c.fails
			}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := channel(t, server.address(t), client).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if c.leaves {
				cancel()
			}
			for err == nil {
				_, err = stream.Recv()
			}
			if c.fails == nil && !c.leaves && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			for len(service.Kinds()) == 0 {
				flush(t, client)
			}
			if kinds := service.Kinds(); len(kinds) != 1 || kinds[0] != c.kind {
				t.Errorf("%v", kinds)
			}
		})
	}
}

// stubborn is a stream of gRPC's making: it must not be asked for its context before its header or a
// message, and ends it before its status is returned.
type stubborn struct {
	grpc.ClientStream
	t    *testing.T
	ctx  context.Context
	end  context.CancelFunc
	sent error
}

func (s *stubborn) Context() context.Context {
	s.t.Error("its context is asked for before its header or a message")
	return s.ctx
}

func (s *stubborn) SendMsg(any) error { return s.sent }

func (s *stubborn) RecvMsg(any) error {
	s.end()
	// Whoever listens to the context is first.
	time.Sleep(10 * time.Millisecond)
	return status.Error(codes.Internal, "scripted")
}

func (s *stubborn) Trailer() metadata.MD { return nil }

func TestAStreamIsReportedByWhatItsCallerSees(t *testing.T) {
	for name, c := range map[string]struct {
		does func(stream grpc.ClientStream, cancel context.CancelFunc) error
		kind pb.OutcomeKind
	}{
		"its status": {func(stream grpc.ClientStream, _ context.CancelFunc) error {
			return stream.RecvMsg(nil)
		}, pb.OutcomeKind_OUTCOME_KIND_FAILURE},
		"left unread": {func(_ grpc.ClientStream, cancel context.CancelFunc) error {
			cancel()
			return nil
		}, pb.OutcomeKind_OUTCOME_KIND_CANCELLED},
		"not sent by this process itself": {func(stream grpc.ClientStream, _ context.CancelFunc) error {
			return stream.SendMsg(nil)
		}, pb.OutcomeKind_OUTCOME_KIND_CANCELLED},
	} {
		t.Run(name, func(t *testing.T) {
			service := &scripted.Service{}
			client := clientOf(t, service)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			open := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
				ctx, end := context.WithCancel(ctx)
				return &stubborn{t: t, ctx: ctx, end: end, sent: status.Error(codes.Internal, "it cannot be encoded")}, nil
			}
			methodOf := func(string) (string, []holdoff.CallOption) { return "ledger", nil }
			stream, err := holdoff.StreamClientInterceptor(client, methodOf)(ctx, nil, nil, "/shop.v1.Ledger/Watch", open)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.does(stream, cancel)
			if !until(func() bool { flush(t, client); return len(service.Kinds()) > 0 }) {
				t.Fatal("nothing was reported")
			}
			if kinds := service.Kinds(); len(kinds) != 1 || kinds[0] != c.kind {
				t.Errorf("%v", kinds)
			}
		})
	}
}

func TestAStreamWhoseDeadlinePassesWhileItIsReadTimedOut(t *testing.T) {
	service := &scripted.Service{}
	client := clientOf(t, service)
	server := &ledger{check: func(_ int32, ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	health := channel(t, server.address(t), client)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		stream, err := health.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		for err == nil {
			_, err = stream.Recv()
		}
		cancel()
		if status.Code(err) != codes.DeadlineExceeded {
			t.Fatal(err)
		}
		if !until(func() bool { flush(t, client); return len(service.Kinds()) > i }) {
			t.Fatal("nothing was reported")
		}
	}
	for _, kind := range service.Kinds() {
		if kind != pb.OutcomeKind_OUTCOME_KIND_TIMEOUT {
			t.Errorf("%v", service.Kinds())
			break
		}
	}
}
