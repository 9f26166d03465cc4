package holdoff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

const (
	// healthyAfter: a run of so long ends a series of failures.
	healthyAfter = 60 * time.Second
	// firstCeiling: a task that falls at once is not restarted at once, whatever the policy of calls says.
	firstCeiling = 100 * rules.Millisecond
)

// SuperviseOption is a setting of [Client.Supervise].
type SuperviseOption func(*supervisor)

// HealthyAfter: a run of so long counts as healthy, and the next failure is a first one again. 60 s
// unless said.
func HealthyAfter(run time.Duration) SuperviseOption {
	return func(s *supervisor) { s.healthyAfter = run }
}

// StopIf says after which errors the task is not restarted: none unless said.
func StopIf(isFinal func(error) bool) SuperviseOption {
	return func(s *supervisor) { s.isFinal = isFinal }
}

// PanicError is a task that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("the task panicked: %v", e.Value) }

// Unwrap is the value, where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Supervise runs a task and restarts it when it returns an error or panics, after a coordinated and
// jittered delay, until it returns nil, an error is final, or the context ends, whose error is then in
// the one returned. The name is that of a dependency: the task's own, or what the task cannot do
// without.
//
// A restart is asked for like the retry of an idempotent call, so that a fleet of tasks that fall
// together comes back in the places of the fleet's calendar. There is no limit of attempts: where the
// service allows no further one, the supervisor waits for a delay of its own (uniform below the
// policy's ceiling) and begins anew; where it names a time, for that. A start counts as a success
// once it has run for long enough, not when it ends: a permit does not live for hours.
//
// The number of an attempt is 1 for the first start and counts on with each restart; after a healthy
// run, which is then the first one, it counts from 2 again.
func (c *Client) Supervise(ctx context.Context, name string, task func(context.Context, Attempt) error, options ...SuperviseOption) error {
	if denial := c.badName(name); denial != nil {
		return denial
	}
	s := &supervisor{client: c, name: name, healthyAfter: healthyAfter}
	for _, option := range options {
		option(s)
	}
	s.permit = s.first()
	for {
		if denial := s.permission(ctx); denial != nil {
			if ctx.Err() != nil || s.failures > 0 {
				return &Stopped{Denial: denial.Denial, Attempts: int(s.started), Last: s.last, cause: denial.cause}
			}
			return denial
		}
		attempt := s.permit.described()
		attempt.Number = int(s.failures) + 1
		s.started++
		err, wasHealthy := s.run(ctx, task, attempt)
		switch {
		case err == nil:
			s.permit.Report(Success())
			return nil
		case ctx.Err() != nil:
			s.permit.Release()
			return fmt.Errorf("the task was told to stop: %w", err)
		}
		s.last = err
		isFinal := s.isFinal != nil && s.isFinal(err)
		s.fell(wasHealthy)
		if isFinal {
			s.permit.tell()
			return err
		}
		c.log.Warn("a supervised task fell", "name", name, "failures", s.failures, "error", err)
	}
}

type supervisor struct {
	client       *Client
	name         string
	healthyAfter time.Duration
	isFinal      func(error) bool
	// permit of the start that runs, or of the one that is asked for. The chain of its attempts is what
	// the service counts; it ends where the service allows no further one, and where a start was
	// reported as a success before it fell.
	permit *Permit
	// failures since the last healthy run. While they are more than the chain's attempts, the
	// supervisor's own delay is a floor under the granted one.
	failures uint32
	started  uint32
	last     error
}

func (s *supervisor) first() *Permit {
	p := newPermit(s.client, s.name, []CallOption{setIdempotent})
	p.question.maxAttempts = rules.Unlimited
	return p
}

// fell: a start ended in failure. Without a permit it was told as a success before, and is now a first
// attempt on the state last pushed.
func (s *supervisor) fell(wasHealthy bool) {
	if wasHealthy {
		s.failures = 0
	}
	s.failures++
	failure := rules.Outcome{Kind: rules.Failure}
	if !s.permit.fell(&failure) {
		s.permit = s.first()
		s.permit.made = made{onState: s.lastState()}
		s.permit.fell(&failure)
	}
}

func (s *supervisor) lastState() *session.Heard {
	if s.client.link == nil {
		return &session.Heard{}
	}
	return s.client.pushed.Of(s.name).Last()
}

// permission obtains a permit whose delay is over. Only a client for tests gives up, and one whose
// context has ended.
func (s *supervisor) permission(ctx context.Context) *Denied {
	isOwed := s.permit.attempt <= s.failures && !s.client.isTesting
	for {
		denial, wasGranted := s.permit.ask(ctx), false
		if denial == nil {
			if denial = s.waitedFor(ctx, isOwed); denial == nil {
				return nil
			}
			s.permit.Release()
			wasGranted = true
		}
		if s.client.isTesting || ctx.Err() != nil {
			s.permit.tell()
			return denial
		}
		wait := min(max(denial.RetryAfter, rules.DelayMin.Duration()), rules.DelayMax.Duration())
		if denial.Final {
			isOwed = false
			wait = s.ownDelay()
		}
		if !pause(ctx, wait) {
			s.permit.tell()
			return ended(ctx)
		}
		// A grant that was given back would be granted again, void.
		isTransient := denial.Reason == ReasonBudgetExhausted || denial.Reason == ReasonNoDecision
		if wasGranted || (denial.Final && !isTransient) {
			s.permit.tell()
			s.permit = s.first()
		}
	}
}

// waitedFor waits for the own delay too, where that is owed.
func (s *supervisor) waitedFor(ctx context.Context, isOwed bool) *Denied {
	if isOwed && !pause(ctx, s.ownDelay()) {
		return ended(ctx)
	}
	return s.permit.wait(ctx)
}

// ownDelay is uniform below the policy's ceiling for this restart.
func (s *supervisor) ownDelay() time.Duration {
	kept, _ := s.client.kept(s.name)
	return fullJitter(*kept, s.failures, rand.Float64())
}

func fullJitter(policy rules.Policy, failures uint32, unit float64) time.Duration {
	policy.Jitter = rules.FullJitter
	policy.InitialDelay = max(policy.InitialDelay, firstCeiling)
	policy.MaxDelay = max(policy.MaxDelay, firstCeiling)
	return min(rules.Delay(&policy, failures, 0, unit), rules.DelayMax).Duration()
}

// pause: false where the context ended.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// run makes a start, and reports it as a success when it has run for long enough.
func (s *supervisor) run(ctx context.Context, task func(context.Context, Attempt) error, attempt Attempt) (err error, wasHealthy bool) {
	begun := time.Now()
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if value := recover(); value != nil {
				ended <- &PanicError{Value: value, Stack: debug.Stack()}
			}
		}()
		ended <- task(ctx, attempt)
	}()
	provenAfter := s.healthyAfter
	if life := s.permit.lives; life > 0 {
		// Well before the permit's life ends.
		provenAfter = min(provenAfter, life-life/10)
	}
	proven := time.NewTimer(provenAfter)
	defer proven.Stop()
	select {
	case err = <-ended:
	case <-proven.C:
		s.permit.Report(Success())
		err = <-ended
	}
	return err, time.Since(begun) >= s.healthyAfter
}
