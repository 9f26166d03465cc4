// Package bench measures what a guarded call costs on the success path: the breaker is closed, the
// service has pushed "go", and no question is asked.
//
//	go test -bench . -benchmem
package bench

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/sony/gobreaker/v2"

	"github.com/holdoff/holdoff/clients/go"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

func nothing(context.Context, holdoff.Attempt) error { return nil }

// pushed is a client to which "go" was pushed.
func pushed(b *testing.B) *holdoff.Client {
	service := (&scripted.Service{Updates: scripted.Go("payments")}).Start(b)
	client, err := holdoff.New(holdoff.WithEndpoints(service.Address), holdoff.WithFollow("payments"), holdoff.WithTimeout(time.Second))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if !client.Connect(ctx) {
		b.Fatal("not connected")
	}
	return client
}

func noHop(b *testing.B, client *holdoff.Client) {
	if asked := client.Counters().Asked; asked > 0 {
		b.Fatalf("%d questions were asked", asked)
	}
}

func BenchmarkHoldoff(b *testing.B) {
	client, ctx := pushed(b), context.Background()
	for b.Loop() {
		if err := client.Call(ctx, "payments", nothing, holdoff.Idempotent()); err != nil {
			b.Fatal(err)
		}
	}
	noHop(b, client)
}

func BenchmarkHoldoffWithDeadline(b *testing.B) {
	client := pushed(b)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for b.Loop() {
		if err := client.Call(ctx, "payments", nothing, holdoff.Idempotent()); err != nil {
			b.Fatal(err)
		}
	}
	noHop(b, client)
}

func BenchmarkHoldoffParallel(b *testing.B) {
	client, ctx := pushed(b), context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := client.Call(ctx, "payments", nothing, holdoff.Idempotent()); err != nil {
				b.Error(err)
			}
		}
	})
	noHop(b, client)
}

// Retries and a breaker, as a guarded call has.
func executor() failsafe.Executor[any] {
	return failsafe.With(retrypolicy.NewWithDefaults[any](), circuitbreaker.NewWithDefaults[any]())
}

func BenchmarkFailsafe(b *testing.B) {
	guarded, ctx := executor(), context.Background()
	for b.Loop() {
		if err := guarded.WithContext(ctx).Run(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFailsafeParallel(b *testing.B) {
	guarded, ctx := executor(), context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := guarded.WithContext(ctx).Run(func() error { return nil }); err != nil {
				b.Error(err)
			}
		}
	})
}

// A breaker alone.
func BenchmarkGobreaker(b *testing.B) {
	breaker := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{})
	for b.Loop() {
		if _, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGobreakerParallel(b *testing.B) {
	breaker := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := breaker.Execute(func() (struct{}, error) { return struct{}{}, nil }); err != nil {
				b.Error(err)
			}
		}
	})
}
