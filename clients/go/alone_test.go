package holdoff_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdoff/holdoff/clients/go"
	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

// A pushed "go" outlives the service that has pushed it.

// quick retries, so that what is decided alone is not waited for.
func quick() holdoff.Option {
	policy := holdoff.DefaultLocalPolicy()
	policy.InitialDelay, policy.MaxDelay = time.Millisecond, time.Millisecond
	return holdoff.WithLocalPolicy(policy)
}

// letGo is a client that was told that first attempts go.
func letGo(t *testing.T, service *scripted.Service, options ...holdoff.Option) *holdoff.Client {
	t.Helper()
	service.Updates = scripted.Go("payments")
	client := clientOf(t, service, append([]holdoff.Option{quick(), holdoff.WithFollow("payments")}, options...)...)
	if isLocal, err := called(t, client); isLocal || err != nil || client.Counters().Asked > 0 {
		t.Fatalf("%+v, %v", client.Counters(), err)
	}
	return client
}

// called says whether the one attempt, which succeeds, was decided alone.
func called(t *testing.T, client *holdoff.Client) (bool, error) {
	t.Helper()
	return holdoff.Do(t.Context(), client, "payments", func(_ context.Context, attempt holdoff.Attempt) (bool, error) {
		return attempt.IsLocal, nil
	})
}

// isLost once the client knows that the service is gone.
func isLost(t *testing.T, client *holdoff.Client) bool {
	t.Helper()
	return until(func() bool {
		isLocal, err := called(t, client)
		return isLocal && err == nil
	})
}

// failsOnce fails the first attempt of a call.
func failsOnce(_ context.Context, attempt holdoff.Attempt) error {
	if attempt.Number == 1 {
		return errBoom
	}
	return nil
}

func TestWhileAGoOutlivesTheServiceWhatEndsWellCountsToo(t *testing.T) {
	service := &scripted.Service{}
	client := letGo(t, service)
	service.Stop()
	if !isLost(t, client) {
		t.Fatal("first attempts go on as if the service counted them")
	}
	before := client.Counters()
	for i := range 160 {
		function := func(context.Context, holdoff.Attempt) error { return nil }
		if i%8 == 7 {
			function = failsOnce
		}
		if err := client.Call(t.Context(), "payments", function, holdoff.Idempotent()); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	after := client.Counters()
	if asked, alone := after.NoDecision-before.NoDecision, after.LocalGrants-before.LocalGrants; asked != 20 || alone != 180 {
		t.Errorf("%d questions for 20 retries, %d attempts alone", asked, alone)
	}
}

func TestADependencyThatFailsIsFoundOutAloneAlthoughAGoStands(t *testing.T) {
	service := &scripted.Service{}
	client := letGo(t, service)
	service.Stop()
	if !isLost(t, client) {
		t.Fatal("first attempts go on as if the service counted them")
	}
	made := 0
	fails := func(context.Context, holdoff.Attempt) error {
		made++
		return errBoom
	}
	var denied *holdoff.Denied
	for range 20 {
		if err := client.Call(t.Context(), "payments", fails); errors.As(err, &denied) {
			break
		}
	}
	if denied == nil || denied.Reason != holdoff.ReasonBreakerOpen || denied.By != holdoff.ByLocal || made > 10 {
		t.Errorf("%v after %d attempts", denied, made)
	}
}

func TestWhereThisProcessDoesNotDecideAGoOutlivesTheService(t *testing.T) {
	for name, noDecision := range map[string]holdoff.NoDecision{"allow": holdoff.AllowFirstAttempts, "deny": holdoff.DenyAll} {
		t.Run(name, func(t *testing.T) {
			var log lines
			service := &scripted.Service{}
			client := letGo(t, service, holdoff.WithNoDecision(noDecision), log.option())
			service.Stop()
			if !until(func() bool { return len(log.all()) > 0 }) {
				t.Fatal("it was not lost")
			}
			for range 20 {
				if isLocal, err := called(t, client); isLocal || err != nil {
					t.Fatalf("local: %v, %v", isLocal, err)
				}
				_ = client.Call(t.Context(), "payments", failing)
			}
		})
	}
}

func TestWhatIsUnderWayWhenTheServiceIsLostCountsHereAndIsToldOnce(t *testing.T) {
	service := &scripted.Service{}
	client := letGo(t, service)
	flush(t, client)
	permits := make([]*holdoff.Permit, 80)
	for i := range permits {
		permit, err := client.Acquire(t.Context(), "payments", holdoff.Idempotent())
		if err != nil || permit.IsLocal() {
			t.Fatal(err)
		}
		permits[i] = permit
	}
	service.Stop()
	if !isLost(t, client) {
		t.Fatal("first attempts go on as if the service counted them")
	}
	for i, permit := range permits {
		if i%8 < 7 {
			permit.Report(holdoff.Success())
			continue
		}
		next, err := permit.Retry(t.Context(), holdoff.Failure())
		if err != nil {
			t.Fatalf("attempt %d: %v", i, err)
		}
		next.Report(holdoff.Success())
	}
	again := (&scripted.Service{Address: service.Address}).Start(t)
	flush(t, client)
	var told pb.Tally
	for _, entry := range again.Reported() {
		told.FirstAttempts += entry.GetTally().GetFirstAttempts()
		told.Successes += entry.GetTally().GetSuccesses()
		told.Failures += entry.GetTally().GetFailures()
	}
	// The first one was told before, and some may have been made before the loss was known.
	succeeded := client.Counters().PushedGrants - 1 - 10
	if uint64(told.Successes) != succeeded || told.Failures != 10 || told.FirstAttempts != 0 {
		t.Errorf("%d of %d and %d of 10 told, %d deposited", told.Successes, succeeded, told.Failures, told.FirstAttempts)
	}
}

func TestWhatTheServiceDeniedARetryBindsNoFirstAttemptThatItLetGo(t *testing.T) {
	service := &scripted.Service{}
	service.Answer = func(*pb.AcquireRequest) *pb.AcquireResponse {
		// The state is not pushed again after it.
		service.Updates = nil
		return scripted.Denied(pb.DenialReason_DENIAL_REASON_HELD, time.Minute)
	}
	client := letGo(t, service)
	var stopped *holdoff.Stopped
	retried := func() error { return client.Call(t.Context(), "payments", failing, holdoff.Idempotent()) }
	if err := retried(); !errors.As(err, &stopped) || stopped.Reason != holdoff.ReasonHeld || stopped.By != holdoff.ByFleet {
		t.Fatalf("%v", err)
	}
	service.Stop()
	if !isLost(t, client) {
		t.Fatal("first attempts are refused")
	}
	if err := retried(); !errors.As(err, &stopped) || stopped.Reason != holdoff.ReasonHeld || stopped.By != holdoff.ByLocal {
		t.Errorf("a retry is bound by it: %v", err)
	}
}

func TestAfterThreeSilentAnswersAGoIsDecidedAlone(t *testing.T) {
	service := &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse { return nil }}
	client := letGo(t, service, holdoff.WithTimeout(100*time.Millisecond))
	for i := range 3 {
		if isLocal, err := called(t, client); isLocal || err != nil {
			t.Fatalf("after %d silent answers: local %v, %v", i, isLocal, err)
		}
		if err := client.Call(t.Context(), "payments", failsOnce, holdoff.Idempotent()); err != nil {
			t.Fatal(err)
		}
	}
	if isLocal, err := called(t, client); !isLocal || err != nil {
		t.Errorf("after three: local %v, %v", isLocal, err)
	}
}

func TestTheServiceIsLookedForWhileAGoOutlivesItAndNothingFails(t *testing.T) {
	t.Parallel()
	service := &scripted.Service{}
	client := letGo(t, service)
	flush(t, client)
	service.Stop()
	if !isLost(t, client) {
		t.Fatal("first attempts go on as if the service counted them")
	}
	(&scripted.Service{Address: service.Address}).Start(t)
	if isLocal, err := called(t, client); err != nil {
		t.Fatalf("local %v, %v", isLocal, err)
	}
	if !until(func() bool { return client.Counters().Connections == 2 }) {
		t.Fatal("it was not looked for")
	}
	if !until(func() bool {
		isLocal, err := called(t, client)
		return !isLocal && err == nil
	}) {
		t.Error("what it lets go is decided alone")
	}
}
