package holdoff_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdoff/holdoff/clients/go"
	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

var errBoom = errors.New("boom")

// clientOf a scripted service, connected.
func clientOf(t testing.TB, service *scripted.Service, options ...holdoff.Option) *holdoff.Client {
	t.Helper()
	service.Start(t)
	client := newClient(t, append([]holdoff.Option{
		holdoff.WithEndpoints(service.Address), holdoff.WithTimeout(2 * time.Second),
	}, options...)...)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if !client.Connect(ctx) {
		t.Fatal("not connected")
	}
	return client
}

func newClient(t testing.TB, options ...holdoff.Option) *holdoff.Client {
	t.Helper()
	client, err := holdoff.New(append([]holdoff.Option{
		holdoff.WithService("checkout"), holdoff.WithInstance("test-1"), holdoff.WithLogger(slog.New(slog.DiscardHandler)),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func flush(t testing.TB, client *holdoff.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if !client.Flush(ctx) {
		t.Fatal("outcomes are still on their way")
	}
}

func failing(context.Context, holdoff.Attempt) error { return errBoom }

func TestTheLastRealErrorAndTheReasonAreBothReached(t *testing.T) {
	err := holdoff.NewTesting().Call(t.Context(), "payments", failing, holdoff.Idempotent())
	var stopped *holdoff.Stopped
	if !errors.Is(err, errBoom) || !errors.As(err, &stopped) {
		t.Fatalf("%v", err)
	}
	if stopped.Reason != holdoff.ReasonAttemptsExhausted || stopped.Attempts != 3 || stopped.By != holdoff.ByLocal || !stopped.Final {
		t.Errorf("%+v", stopped)
	}
	if text := err.Error(); !strings.HasPrefix(text, "boom (gave up after attempt 3: ATTEMPTS_EXHAUSTED") {
		t.Error(text)
	}
}

func TestACallThatIsDeniedIsNeverMade(t *testing.T) {
	client := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		return scripted.Denied(pb.DenialReason_DENIAL_REASON_BREAKER_OPEN, 3*time.Second)
	}})
	err := client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error {
		t.Error("it was made")
		return nil
	})
	var denied *holdoff.Denied
	if !errors.As(err, &denied) || denied.Reason != holdoff.ReasonBreakerOpen || denied.By != holdoff.ByFleet || denied.RetryAfter != 3*time.Second {
		t.Errorf("%v", err)
	}
	if errors.As(err, new(*holdoff.Stopped)) {
		t.Error("no attempt was made that could be stopped")
	}
}

func TestAnEndedContextIsInTheError(t *testing.T) {
	client := holdoff.NewTesting()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	err := client.Call(ctx, "payments", failing)
	var denied *holdoff.Denied
	if !errors.As(err, &denied) || denied.Reason != holdoff.ReasonCancelled || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
	late, cancelLate := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancelLate()
	<-late.Done()
	err = client.Call(late, "payments", failing)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestAPanickingClassifierGivesItsPermitBack(t *testing.T) {
	service := &scripted.Service{}
	client := clientOf(t, service)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = client.Call(t.Context(), "payments", failing, holdoff.ClassifyBy(func(any, error) holdoff.Outcome { panic("boom") }))
	}()
	flush(t, client)
	if kinds := service.Kinds(); len(kinds) != 1 || kinds[0] != pb.OutcomeKind_OUTCOME_KIND_CANCELLED {
		t.Errorf("%v", kinds)
	}
}

func TestAPanickingFunctionGivesItsPermitBack(t *testing.T) {
	service := &scripted.Service{}
	client := clientOf(t, service)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error { panic("boom") })
	}()
	flush(t, client)
	if kinds := service.Kinds(); len(kinds) != 1 || kinds[0] != pb.OutcomeKind_OUTCOME_KIND_CANCELLED {
		t.Errorf("%v", kinds)
	}
}

func TestAReportedPermitIsReportedOnce(t *testing.T) {
	service := &scripted.Service{}
	client := clientOf(t, service)
	permit, err := client.Acquire(t.Context(), "payments")
	if err != nil {
		t.Fatal(err)
	}
	permit.Report(holdoff.Success())
	permit.Release()
	permit.Report(holdoff.Failure())
	if _, err := permit.Retry(t.Context(), holdoff.Failure()); err == nil {
		t.Error("a reported permit was retried")
	}
	flush(t, client)
	if kinds := service.Kinds(); len(kinds) != 1 || kinds[0] != pb.OutcomeKind_OUTCOME_KIND_SUCCESS {
		t.Errorf("%v", kinds)
	}
}

func TestAResponseThatCountsAsFailureIsTheCallersWithItsBody(t *testing.T) {
	calls := 0
	response, err := holdoff.Do(t.Context(), holdoff.NewTesting(), "payments", func(context.Context, holdoff.Attempt) (*http.Response, error) {
		calls++
		return &http.Response{StatusCode: 503, Body: io.NopCloser(strings.NewReader("sorry"))}, nil
	}, holdoff.Idempotent())
	if err != nil || calls != 3 || response.StatusCode != 503 {
		t.Fatalf("%v after %d calls: %+v", err, calls, response)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "sorry" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestAnAttemptThatIsCutOffCountsAsTimeoutAndIsNoRealError(t *testing.T) {
	service := &scripted.Service{Answer: func(request *pb.AcquireRequest) *pb.AcquireResponse {
		if request.GetAttempt() > 1 {
			return scripted.Denied(pb.DenialReason_DENIAL_REASON_BUDGET_EXHAUSTED, -1)
		}
		return scripted.Granted(0)
	}}
	client := clientOf(t, service)
	err := client.Call(t.Context(), "payments", func(ctx context.Context, _ holdoff.Attempt) error {
		<-ctx.Done()
		return ctx.Err()
	}, holdoff.Idempotent(), holdoff.AttemptTimeout(20*time.Millisecond))
	var stopped *holdoff.Stopped
	if !errors.As(err, &stopped) || stopped.Last != nil || stopped.Reason != holdoff.ReasonBudgetExhausted {
		t.Fatalf("%v", err)
	}
	if kind := service.Asked()[1].GetPrevious().GetOutcome().GetKind(); kind != pb.OutcomeKind_OUTCOME_KIND_TIMEOUT {
		t.Errorf("%v", kind)
	}
}

func TestOnlyWhatCanNeverWorkFails(t *testing.T) {
	for _, bad := range []string{"", "no port", "ftp://x:1", "http://", "127.0.0.1"} {
		if _, err := holdoff.New(holdoff.WithEndpoints(bad)); err == nil || !strings.Contains(err.Error(), "endpoint") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	negative := holdoff.DefaultLocalPolicy()
	negative.BudgetRatio = -0.1
	for field, option := range map[string]holdoff.Option{
		"timeout":     holdoff.WithTimeout(0),
		"instance":    holdoff.WithInstance(strings.Repeat("x", 201)),
		"follow":      holdoff.WithFollow("a b"),
		"BudgetRatio": holdoff.WithLocalPolicy(negative),
		"endpoints":   holdoff.WithEndpoints(),
	} {
		if _, err := holdoff.New(option); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, good := range []string{"http://no-such-host.invalid:1", "http://x", "https://x:1", "[::1]:7460", "x:1"} {
		client, err := holdoff.New(holdoff.WithEndpoints(good))
		if err != nil {
			t.Errorf("%q: %v", good, err)
			continue
		}
		_ = client.Close()
	}
}

func TestTheSuccessPathAllocatesOneObjectAndAsksNothing(t *testing.T) {
	client := clientOf(t, &scripted.Service{Updates: scripted.Go("payments")}, holdoff.WithFollow("payments"))
	ctx := t.Context()
	objects := testing.AllocsPerRun(1000, func() {
		err := client.Call(ctx, "payments", func(context.Context, holdoff.Attempt) error { return nil }, holdoff.Idempotent())
		if err != nil {
			t.Error(err)
		}
	})
	if objects > 1 {
		t.Errorf("%v objects", objects)
	}
	if counters := client.Counters(); counters.Asked != 0 || counters.PushedGrants < 1000 {
		t.Errorf("%+v", counters)
	}
}
