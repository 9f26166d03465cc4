package holdoff_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdoff/holdoff/clients/go"
	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

const (
	patience = 50 * time.Millisecond
	// slack for a busy machine.
	slack = 200 * time.Millisecond
)

func year() *durationpb.Duration { return durationpb.New(365 * 24 * time.Hour) }

func granted(change func(*pb.Grant)) *pb.AcquireResponse {
	response := scripted.Granted(0)
	change(response.GetGrant())
	return response
}

func odd(change func(*pb.AcquireResponse)) *pb.AcquireResponse {
	response := scripted.Granted(0)
	change(response)
	return response
}

// What no service says, or should not.
var hostile = map[string]func() *pb.AcquireResponse{
	"nothing":             func() *pb.AcquireResponse { return &pb.AcquireResponse{} },
	"silence":             func() *pb.AcquireResponse { return nil },
	"no delay":            func() *pb.AcquireResponse { return granted(func(g *pb.Grant) { g.Delay = nil }) },
	"negative delay":      func() *pb.AcquireResponse { return granted(func(g *pb.Grant) { g.Delay.Seconds = -1 }) },
	"overflowing delay":   func() *pb.AcquireResponse { return granted(func(g *pb.Grant) { g.Delay.Seconds = math.MaxInt64 }) },
	"odd nanoseconds":     func() *pb.AcquireResponse { return granted(func(g *pb.Grant) { g.Delay.Nanos = math.MinInt32 }) },
	"huge permit":         func() *pb.AcquireResponse { return granted(func(g *pb.Grant) { g.Permit = make([]byte, 1<<20) }) },
	"unknown state":       func() *pb.AcquireResponse { return odd(func(r *pb.AcquireResponse) { r.State = 99 }) },
	"unknown reason":      func() *pb.AcquireResponse { return scripted.Denied(99, time.Second) },
	"unspecified reason":  func() *pb.AcquireResponse { return scripted.Denied(0, time.Second) },
	"negative permit ttl": func() *pb.AcquireResponse { return granted(func(g *pb.Grant) { g.PermitTtl.Seconds = -1 }) },
}

func TestCL4WhateverTheServiceSaysFirstAttemptsAreMade(t *testing.T) {
	for name, answer := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse { return answer() }}, holdoff.WithTimeout(patience))
			for i := range 10 {
				begun := time.Now()
				err := client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error { return nil })
				if took := time.Since(begun); err != nil || took > patience+slack {
					t.Fatalf("call %d after %v: %v", i, took, err)
				}
			}
		})
	}
}

func TestCL4AYearIsNotWaitedFor(t *testing.T) {
	for name, answer := range map[string]*pb.AcquireResponse{
		"granted later": granted(func(g *pb.Grant) { g.Delay = year() }),
		"denied for it": scripted.Denied(pb.DenialReason_DENIAL_REASON_HELD, 365*24*time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			client := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse { return answer }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begun := time.Now()
			err := client.Call(ctx, "payments", failing, holdoff.WaitWhenDenied())
			if took := time.Since(begun); err == nil || took > slack {
				t.Errorf("%v after %v", err, took)
			}
		})
	}
}

func TestCL4ATextOfAMebibyteIsCut(t *testing.T) {
	client := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		response := scripted.Denied(pb.DenialReason_DENIAL_REASON_HELD, time.Second)
		response.GetDenial().Detail = strings.Repeat("é", 1<<19)
		return response
	}})
	_, err := client.Acquire(t.Context(), "payments")
	if err == nil || len(err.Error()) > 2000 {
		t.Errorf("%d bytes", len(fmt.Sprint(err)))
	}
}

func TestCL2WhateverStandsAtTheAddressCallsAreMadeInTime(t *testing.T) {
	for name, behave := range map[string]func(net.Conn){
		"a black hole":  func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"a full hole":   func(net.Conn) { select {} },
		"resets":        func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); _ = conn.Close() },
		"another HTTP":  func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n"); _ = conn.Close() },
		"random bytes":  func(conn net.Conn) { spew(conn) },
		"endless bytes": func(conn net.Conn) { _, _ = io.Copy(conn, zeros{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
					go behave(conn)
				}
			}()
			client := newClient(t, holdoff.WithEndpoints(listener.Addr().String()), holdoff.WithTimeout(patience))
			late := 0
			for range 30 {
				begun := time.Now()
				if err := client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error { return nil }); err != nil {
					t.Fatal(err)
				}
				took := time.Since(begun)
				if took > patience+slack {
					t.Fatalf("a call took %v", took)
				}
				if took >= patience/2 {
					late++
				}
				time.Sleep(time.Millisecond)
			}
			// Three shut the gate; a busy machine may make one more of it look late.
			if late > 4 {
				t.Errorf("%d calls waited", late)
			}
		})
	}
}

func spew(conn net.Conn) {
	bytes := make([]byte, 4096)
	for i := range bytes {
		bytes[i] = byte(rand.Uint32())
	}
	_, _ = conn.Write(bytes)
	_ = conn.Close()
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) { clear(into); return len(into), nil }

func TestWithoutTheServiceRetriesKeepToTheLocalBudget(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	policy := holdoff.DefaultLocalPolicy()
	policy.InitialDelay = 0
	client := newClient(t, holdoff.WithEndpoints(listener.Addr().String()), holdoff.WithLocalPolicy(policy))
	runs := 0
	for i := range 100 {
		_ = client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error {
			runs++
			if i%2 == 0 {
				return errBoom
			}
			return nil
		}, holdoff.Idempotent())
	}
	// A tenth of a hundred, and one a second over ten.
	if retries := runs - 100; retries > 20 {
		t.Errorf("%d retries", retries)
	}
}
