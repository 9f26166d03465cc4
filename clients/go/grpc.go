package holdoff

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
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
		var trailer metadata.MD
		// Known where the request was put on a connection, be it by an attempt of gRPC's own.
		var server peer.Peer
		callOptions = append(slices.Clip(callOptions), grpc.Trailer(&trailer), grpc.Peer(&server))
		byStatus := ClassifyBy(func(_ any, err error) Outcome { return classifyRPC(err, trailer, server.Addr != nil) })
		return c.Call(ctx, dependency, func(ctx context.Context, _ Attempt) error {
			trailer, server = nil, peer.Peer{}
			return invoke(ctx, method, request, reply, conn, callOptions...)
		}, append([]CallOption{byStatus}, options...)...)
	}
}

// StreamClientInterceptor guards the beginning of streams: one that cannot be established is asked for
// again as the service allows. A stream counts as a success with its first message or a good end, and
// by its status where it ends before; what comes after the first message is the caller's. One that is
// left unread counts as cancelled when the context ends, which gRPC wants of such a stream.
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
				return guardStream(ctx, p, stream), nil
			}
			last = result[grpc.ClientStream]{err: err, isKnown: true}
			outcome := classifyRPC(err, nil, false)
			p.fell(&outcome.told)
		}
	}
}

// classifyRPC is [ClassifyError], and knows more of a status: its trailers, and whether the request was
// put on a connection. Where it was not, since none could be made, it was not sent; what a server says of
// connections is of its own.
func classifyRPC(err error, trailer metadata.MD, hadConnection bool) Outcome {
	var told teller
	if errors.As(err, &told) {
		return toldBy(told, err, func(last error) Outcome { return classifyRPC(last, trailer, hadConnection) })
	}
	if !hadConnection && saysUnconnected(err) {
		return NotSent().WithStatusCode(uint32(codes.Unavailable))
	}
	return ClassifyGRPC(err, trailer)
}

// saysUnconnected: gRPC tells it by these words alone.
func saysUnconnected(err error) bool {
	for cause := range causes(err) {
		if told, is := cause.(interface{ GRPCStatus() *status.Status }); is {
			text := told.GRPCStatus().Message()
			isSaid := strings.Contains(text, "Error while dialing") || strings.Contains(text, "resolver error: ")
			return isSaid && told.GRPCStatus().Code() == codes.Unavailable
		}
	}
	return false
}

// guardedStream reports once, at the latest when the caller's context ends.
type guardedStream struct {
	grpc.ClientStream
	report func(Outcome)
	// isRead: its end is told to the reader.
	isRead atomic.Bool
}

// guardStream does not ask the stream for its context: gRPC allows it no sooner than its header or a
// message, and ends it before it returns a status.
func guardStream(ctx context.Context, p *Permit, stream grpc.ClientStream) *guardedStream {
	begun := time.Now()
	ctx, free := context.WithCancel(ctx)
	var once sync.Once
	guarded := &guardedStream{ClientStream: stream}
	guarded.report = func(outcome Outcome) {
		once.Do(func() {
			p.Report(outcome.WithLatency(time.Since(begun)))
			free()
		})
	}
	giveUp := func() { guarded.report(Cancelled()) }
	context.AfterFunc(ctx, func() {
		if !guarded.isRead.Load() {
			giveUp()
		}
	})
	if limit, has := p.limit(); has && p.isProbe {
		lease := time.AfterFunc(time.Until(limit), giveUp)
		context.AfterFunc(ctx, func() { lease.Stop() })
	}
	return guarded
}

func (s *guardedStream) SendMsg(message any) error {
	err := s.ClientStream.SendMsg(message)
	if err != nil && !errors.Is(err, io.EOF) {
		// This process has ended it. What the server says is told to who reads.
		s.report(Cancelled())
	}
	return err
}

func (s *guardedStream) RecvMsg(message any) error {
	s.isRead.Store(true)
	err := s.ClientStream.RecvMsg(message)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		s.report(Success())
	default:
		s.report(classifyRPC(err, s.Trailer(), true))
	}
	return err
}
