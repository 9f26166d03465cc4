package holdoff

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

var errFell = errors.New("fell")

// alone is a client without a service, as a bypassed one is.
func alone() *Client {
	policy := rules.OwnPolicy()
	return &Client{own: &policy, clock: session.NewClock(), counting: &session.Counting{}, log: slog.New(slog.DiscardHandler)}
}

func TestATaskThatFallsIsRestartedUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var numbers []int
		err := alone().Supervise(t.Context(), "consumer", func(_ context.Context, attempt Attempt) error {
			numbers = append(numbers, attempt.Number)
			switch attempt.Number {
			case 1:
				return errFell
			case 2:
				panic(errFell)
			default:
				if attempt.Number < 20 {
					return errFell
				}
				return nil
			}
		})
		if err != nil || len(numbers) != 20 || numbers[19] != 20 {
			t.Errorf("%v, %v", err, numbers)
		}
	})
}

func TestAHealthyRunEndsASeriesOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var numbers []int
		ctx, cancel := context.WithCancel(t.Context())
		err := alone().Supervise(ctx, "consumer", func(context.Context, Attempt) error { return nil })
		if err != nil {
			t.Error(err)
		}
		err = alone().Supervise(ctx, "consumer", func(ctx context.Context, attempt Attempt) error {
			numbers = append(numbers, attempt.Number)
			if len(numbers) == 3 {
				time.Sleep(2 * time.Minute)
			}
			if len(numbers) == 5 {
				cancel()
			}
			return errFell
		}, HealthyAfter(time.Minute))
		want := []int{1, 2, 3, 2, 3}
		if !errors.Is(err, errFell) || len(numbers) != len(want) {
			t.Fatalf("%v, %v", err, numbers)
		}
		for i, number := range want {
			if numbers[i] != number {
				t.Errorf("%v, expected %v", numbers, want)
			}
		}
	})
}

func TestAFinalErrorAndAPanicAreTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := alone().Supervise(t.Context(), "consumer", func(context.Context, Attempt) error { panic(errFell) },
			StopIf(func(err error) bool { return errors.As(err, new(*PanicError)) }))
		var panicked *PanicError
		if !errors.As(err, &panicked) || !errors.Is(err, errFell) || len(panicked.Stack) == 0 {
			t.Errorf("%v", err)
		}
	})
}

func TestASupervisorThatIsToldToStopStopsWhereverItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		starts := 0
		err := alone().Supervise(ctx, "consumer", func(context.Context, Attempt) error { starts++; return errFell })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errFell) {
			t.Errorf("%v", err)
		}
		// Its own delays grow to a mean of 5 s.
		if starts < 300 || starts > 2000 {
			t.Errorf("%d starts in an hour", starts)
		}
	})
}

func TestAClientForTestsGivesUp(t *testing.T) {
	starts := 0
	err := NewTesting().Supervise(t.Context(), "consumer", func(context.Context, Attempt) error { starts++; return errFell })
	var stopped *Stopped
	if !errors.As(err, &stopped) || stopped.Attempts != 3 || starts != 3 {
		t.Errorf("%v after %d", err, starts)
	}
}

func TestTheOwnDelayIsUniformBelowADoublingCeilingThatThePolicyCaps(t *testing.T) {
	policy := rules.OwnPolicy()
	for failures, millis := range map[uint32]int64{1: 100, 2: 200, 3: 400, 7: 6_400, 8: 10_000, 1 << 31: 10_000} {
		if delay := fullJitter(policy, failures, 1); delay.Milliseconds() != millis {
			t.Errorf("%d failures: %v", failures, delay)
		}
	}
	policy.InitialDelay, policy.MaxDelay = 0, 0
	if delay := fullJitter(policy, 3, 0.5); delay != 50*time.Millisecond {
		t.Errorf("a falling task spins: %v", delay)
	}
}
