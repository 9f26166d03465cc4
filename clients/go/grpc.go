package holdoff

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// MethodOf names the dependency of an RPC, by its full method ("/shop.v1.Ledger/Get"), and the options
// of the call.
type MethodOf func(method string) (dependency string, options []CallOption)

// UnaryClientInterceptor guards the unary methods of a channel. A call that was given up ends with the
// status of its last attempt, a denied one with UNAVAILABLE, RESOURCE_EXHAUSTED or DEADLINE_EXCEEDED;
// [errors.As] finds the [*Stopped] or [*Denied].
//
// Take it as the outermost interceptor, and leave gRPC's own retry policy off: an attempt that was
// retried below is not one attempt.
func UnaryClientInterceptor(c *Client, methodOf MethodOf) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, callOptions ...grpc.CallOption) error {
		dependency, options := methodOf(method)
		var header, trailer metadata.MD
		callOptions = append(slices.Clip(callOptions), grpc.Header(&header), grpc.Trailer(&trailer))
		byStatus := ClassifyBy(func(_ any, err error) Outcome { return classifyRPC(err, header, trailer) })
		return c.Call(ctx, dependency, func(ctx context.Context, _ Attempt) error {
			header, trailer = nil, nil
			return invoke(ctx, method, request, reply, conn, callOptions...)
		}, append([]CallOption{byStatus}, options...)...)
	}
}

// StreamClientInterceptor guards the beginning of streams: one that cannot be established is asked for
// again as the service allows. A stream counts as a success with its first message or a good end, and
// by its status where it ends before; what comes after the first message is the caller's.
func StreamClientInterceptor(c *Client, methodOf MethodOf) grpc.StreamClientInterceptor {
	return func(ctx context.Context, description *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, callOptions ...grpc.CallOption) (grpc.ClientStream, error) {
		dependency, options := methodOf(method)
		p := newPermit(c, dependency, options)
		var last result[grpc.ClientStream]
		for attempts := 0; ; attempts++ {
			if denial := p.obtain(ctx); denial != nil {
				_, err := last.stopped(denial, attempts)
				return nil, err
			}
			stream, err := open(ctx, description, conn, method, callOptions...)
			if err == nil {
				return guardStream(p, stream), nil
			}
			last = result[grpc.ClientStream]{err: err, isKnown: true}
			outcome := classifyRPC(err, nil, nil)
			p.fell(&outcome.told)
		}
	}
}

// classifyRPC knows one thing more than a status: an error without any headers is of this process, and
// where its connection was never made the request was not sent.
func classifyRPC(err error, header, trailer metadata.MD) Outcome {
	outcome := ClassifyGRPC(err, trailer)
	isOwn := len(header)+len(trailer) == 0 && status.Code(err) == codes.Unavailable
	if isOwn && strings.Contains(status.Convert(err).Message(), "Error while dialing") {
		outcome.told.Kind = rules.NotSent
	}
	return outcome
}

// guardedStream reports once.
type guardedStream struct {
	grpc.ClientStream
	report func(Outcome)
}

func guardStream(p *Permit, stream grpc.ClientStream) *guardedStream {
	begun := time.Now()
	var once sync.Once
	guarded := &guardedStream{ClientStream: stream}
	var forget func() bool
	guarded.report = func(outcome Outcome) {
		once.Do(func() {
			p.Report(outcome.WithLatency(time.Since(begun)))
			if forget != nil {
				forget()
			}
		})
	}
	// A stream that is left without being read, and a probe whose lease ends.
	giveUp := func() { guarded.report(Cancelled()) }
	forget = context.AfterFunc(stream.Context(), giveUp)
	if limit, has := p.limit(); has && p.isProbe {
		time.AfterFunc(time.Until(limit), giveUp)
	}
	return guarded
}

func (s *guardedStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		s.report(Success())
	default:
		s.report(classifyRPC(err, metadata.Pairs("ended", "here"), s.Trailer()))
	}
	return err
}
