package holdoff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

// roundsMax are confirmations and renewals before one attempt; a service that wants more is ill.
const roundsMax = 100

// Permit is permission for one attempt. [Permit.Wait] before the attempt, [Permit.Report] or
// [Permit.Retry] after it. Defer [Permit.Release], which does nothing after those, so that no permit
// is lost. It is not safe for concurrent use.
type Permit struct {
	asking
	terms
}

// terms are what was granted, by whomever.
type terms struct {
	made made
	// askedAt is taken before the question was sent, so that a lease never seems longer than it is.
	askedAt  time.Time
	usableAt time.Time
	// lives runs from usableAt; 0: it does not end.
	lives     time.Duration
	delay     rules.Nanos
	isProbe   bool
	confirm   bool
	suggested time.Duration
	// epoch is that in which the service granted it.
	epoch    uint64
	hasEpoch bool
	// suspended is how long the machine had slept when it was granted.
	suspended time.Duration
}

func fleetTerms(grant *session.Grant) terms {
	return terms{
		made: made{fleet: grant.Permit, isFleet: true}, delay: grant.Delay, lives: grant.TTL.Duration(),
		isProbe: grant.Probe, confirm: grant.Confirm, suggested: grant.AttemptTimeout.Duration(),
		epoch: grant.Epoch, hasEpoch: true,
	}
}

func localTerms(grant *rules.Grant) terms {
	return terms{
		made: made{here: grant.Permit}, delay: grant.Delay, lives: grant.Lease.Duration(),
		isProbe: grant.Probe, confirm: grant.Confirm,
	}
}

// less: so much of the delay has passed already.
func (t terms) less(passed rules.Nanos) terms {
	t.delay = t.delay.Sub(passed)
	return t
}

func newPermit(client *Client, dependency string, options []CallOption) *Permit {
	p := &Permit{asking: asking{client: client, question: newQuestion(dependency), attempt: 1, callID: rand.Uint64()}}
	for _, option := range options {
		option(&p.question)
	}
	return p
}

// Acquire asks for a first attempt. The context's deadline is the caller's. The error is a [*Denied].
func (c *Client) Acquire(ctx context.Context, dependency string, options ...CallOption) (*Permit, error) {
	p := newPermit(c, dependency, options)
	if denial := p.ask(ctx); denial != nil {
		return nil, denial
	}
	return p, nil
}

// granted takes terms over. A delay that does not fit the deadline is not shortened: the permit goes
// back.
func (p *Permit) granted(ctx context.Context, terms terms, askedAt time.Time) *Denied {
	now := time.Now()
	terms.askedAt = askedAt
	terms.suspended = p.client.clock.Suspended()
	delay, fits := rules.ClampDelay(terms.delay, timeLeft(ctx))
	terms.usableAt = now.Add(delay.Duration())
	p.terms = terms
	p.begins()
	if !fits {
		p.Release()
		return tooLate(ctx, terms.delay)
	}
	return nil
}

func tooLate(ctx context.Context, delay rules.Nanos) *Denied {
	left := timeLeft(ctx).Time.Duration()
	return final(ByCaller, ReasonDeadline, fmt.Sprintf("it would begin in %v, and %v are left", delay.Duration(), left))
}

// Attempt is the number of the attempt: 1 for the first.
func (p *Permit) Attempt() int { return int(p.attempt) }

// Delay is how long to wait before the attempt, from now. [Permit.Wait] does it.
func (p *Permit) Delay() time.Duration { return max(time.Until(p.usableAt), 0) }

// IsProbe: the attempt tests a dependency that is thought broken.
func (p *Permit) IsProbe() bool { return p.isProbe }

// IsLocal: it was granted without the service.
func (p *Permit) IsLocal() bool { return p.made.here != nil }

// SuggestedTimeout is a limit for the attempt that the service finds sensible; it does not bind. 0:
// none is known.
func (p *Permit) SuggestedTimeout() time.Duration { return p.suggested }

// Context is that of the attempt: it ends at the caller's limit, and for a probe a margin before its
// lease ends. The function frees what belongs to it.
func (p *Permit) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	limit, has := p.limit()
	if !has {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, limit)
}

// limit is that of the attempt itself. The caller's deadline is in the context.
func (p *Permit) limit() (limit time.Time, has bool) {
	if timeout := p.question.attemptTimeout; timeout > 0 {
		limit, has = time.Now().Add(timeout), true
	}
	if p.isProbe && p.lives > 0 {
		ends := p.askedAt.Add(rules.LeaseUse(rules.NanosOf(p.lives)).Duration())
		if !has || ends.Before(limit) {
			limit, has = ends, true
		}
	}
	return limit, has
}

// Wait waits for the delay, and makes sure that the permit still holds then: it ends as soon as the
// service pushes that the breaker has tripped, and asks once more where the grant said so and no valid
// state is known, and after the machine was suspended. The error is a [*Denied]: the permit holds no
// more.
func (p *Permit) Wait(ctx context.Context) error {
	if denial := p.wait(ctx); denial != nil {
		p.Release()
		return denial
	}
	return nil
}

func (p *Permit) wait(ctx context.Context) *Denied {
	if p.made.onState != nil {
		// It was let go a moment ago.
		return nil
	}
	for range roundsMax {
		if denial := p.sleep(ctx); denial != nil {
			return denial
		}
		if slept := p.heedSuspend(); timeLeft(ctx).Reaches(slept) {
			return tooLate(ctx, 0)
		}
		if p.lives > 0 && time.Since(p.usableAt) >= p.lives {
			p.Release()
			if denial := p.ask(ctx); denial != nil {
				return denial
			}
			continue
		}
		if !p.confirm || p.isKnownToHold() {
			p.begins()
			return nil
		}
		if denial := p.confirmed(ctx); denial != nil {
			return denial
		}
		if !p.confirm && p.Delay() == 0 {
			p.begins()
			return nil
		}
	}
	return final(ByCaller, ReasonUnreadable, "the service went on to ask for confirmations")
}

// sleep until the end of the delay, or until the breaker trips.
func (p *Permit) sleep(ctx context.Context) *Denied {
	delay := p.Delay()
	if delay == 0 {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		var superseded <-chan struct{}
		if p.hasEpoch {
			heard := p.client.pushed.Of(p.question.dependency).Heard()
			if denial := heard.Tripped(p.epoch, p.attempt, p.client.clock.Now()); denial != nil {
				return denied(ByFleet, denial)
			}
			superseded = heard.Superseded()
		}
		select {
		case <-timer.C:
			return nil
		case <-superseded:
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

// heedSuspend: the monotonic clock stood still while the machine slept, so all ends come earlier by
// what is returned.
func (p *Permit) heedSuspend() rules.Nanos {
	suspended := p.client.clock.Suspended()
	slept := suspended - p.suspended
	p.suspended = suspended
	p.usableAt, p.askedAt = p.usableAt.Add(-slept), p.askedAt.Add(-slept)
	return rules.NanosOf(slept)
}

// begins: the attempt is made now, as far as is known here. What was decided locally belongs to the
// epoch that the service has pushed by now.
func (p *Permit) begins() {
	if p.made.here != nil && p.client.link != nil {
		p.made.begunIn = p.client.pushed.Of(p.question.dependency).Heard().Epoch
	}
}

// isKnownToHold: what the service pushes stands for a confirmation.
func (p *Permit) isKnownToHold() bool {
	if !p.hasEpoch {
		return false
	}
	heard := p.client.pushed.Of(p.question.dependency).Heard()
	return heard.StandsBy(p.epoch, p.client.clock.Now())
}

// confirmed asks whether the attempt may still be made, just before it is.
func (p *Permit) confirmed(ctx context.Context) *Denied {
	p.confirm = false
	askedAt := time.Now()
	if permit := p.made.here; permit != nil {
		if denial := p.confirmationRefused(); denial != nil {
			return denial
		}
		return p.decideHere(ctx, askedAt, 0, func(l *rules.Local, policy *rules.Policy, strictness rules.Strictness, now rules.Time) (rules.Grant, *rules.Denial) {
			return l.Confirm(policy, permit, timeLeft(ctx), strictness, now, draws())
		})
	}
	grant, denial, err := p.askFleet(ctx, p.made.fleet)
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case err == session.ErrNoDelay:
		return final(ByFleet, ReasonUnreadable, err.Error())
	case err != nil && p.client.noDecision == DenyAll:
		return undecided()
	case err != nil:
		// Nobody says that it may not, unless what is pushed does.
		return p.confirmationRefused()
	case denial != nil:
		p.remember(denial)
		p.made = made{}
		return denied(ByFleet, denial)
	}
	terms := fleetTerms(&grant)
	if len(grant.Permit) == 0 {
		terms.made = p.made
	}
	if terms.lives == 0 {
		terms.lives = p.lives
	}
	terms.confirm = terms.confirm && terms.delay > 0
	return p.granted(ctx, terms, askedAt)
}

// confirmationRefused: nobody answers the confirmation, but what is pushed says no, and is not older
// than the grant.
func (p *Permit) confirmationRefused() *Denied {
	if p.client.link == nil {
		return nil
	}
	since := uint64(0)
	if p.hasEpoch {
		since = p.epoch
	}
	heard := p.client.pushed.Of(p.question.dependency).Heard()
	if denial := heard.RefusedAlone(p.attempt, since, p.client.clock.Now()); denial != nil {
		return denied(ByFleet, denial)
	}
	return nil
}

// Report says how the attempt ended. The call is over with it; what is said later is not heard.
func (p *Permit) Report(outcome Outcome) { p.report(&outcome.told) }

func (p *Permit) report(outcome *rules.Outcome) {
	if p.made.isNothing() {
		return
	}
	under := p.made
	p.made = made{}
	p.client.countHere(p.question.dependency, &under, outcome)
	p.client.report(p.question.dependency, &under, outcome)
}

// Release gives the permit up: unreported, the attempt counts as cancelled.
func (p *Permit) Release() { p.report(&rules.Outcome{Kind: rules.Cancelled}) }

// Retry says how the attempt ended and asks for the next one. This permit is over with it. The error
// is a [*Denied]: there is no next attempt.
func (p *Permit) Retry(ctx context.Context, outcome Outcome) (*Permit, error) {
	next := *p
	p.made = made{}
	if !next.fell(&outcome.told) {
		return nil, final(ByCaller, ReasonPermitVoid, "it was reported already")
	}
	if denial := next.ask(ctx); denial != nil {
		next.tell()
		return nil, denial
	}
	return &next, nil
}

// mayRetry: the caller's own words allow another attempt after this one.
func (p *Permit) mayRetry(outcome *rules.Outcome) bool {
	return rules.OwnWords(outcome, p.attempt+1, p.question.maxAttempts, p.question.isSafe()) == ""
}

// fell makes this the permit of the next attempt, which is to be asked for. False: this one was
// reported already.
func (p *Permit) fell(outcome *rules.Outcome) bool {
	if p.made.isNothing() {
		return false
	}
	under := p.made
	p.terms = terms{}
	p.next(under, outcome)
	return true
}
