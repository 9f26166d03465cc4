package holdoff_test

import (
	"context"
	"errors"
	"io"
	"net"
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, l)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func channel(t *testing.T, address string, client *holdoff.Client, options ...holdoff.CallOption) grpc_health_v1.HealthClient {
	methodOf := func(string) (string, []holdoff.CallOption) { return "ledger", options }
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithUnaryInterceptor(holdoff.UnaryClientInterceptor(client, methodOf)),
		grpc.WithStreamInterceptor(holdoff.StreamClientInterceptor(client, methodOf)))
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

func TestACallWhoseConnectionWasRefusedWasNotSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	// Unsafe, and still repeated.
	_, err = channel(t, listener.Addr().String(), holdoff.NewTesting()).Check(t.Context(), nil)
	var stopped *holdoff.Stopped
	if !errors.As(err, &stopped) || stopped.Reason != holdoff.ReasonAttemptsExhausted || status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
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
