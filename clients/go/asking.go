package holdoff

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

// asking is a question about one attempt that can be asked again.
type asking struct {
	client   *Client
	question question
	attempt  uint32
	// callID is drawn where the caller named none, and written only where a question is asked: most
	// calls on pushed state never need it.
	callID   uint64
	previous *previous
}

// made is under what an attempt is: a permit of the service, the state that it pushed, or a permit of
// this process. All nil: reported, or void.
type made struct {
	fleet   []byte
	isFleet bool
	onState *session.Heard
	here    *rules.Permit
	// begunIn is the epoch that the service had pushed when a local attempt began; 0: none.
	begunIn uint64
}

func (m *made) isNothing() bool { return !m.isFleet && m.onState == nil && m.here == nil }

// errUnasked: there is nobody to ask.
var errUnasked = errors.New("not asked")

// next is about the attempt after this one, which ended so.
func (a *asking) next(made made, outcome *rules.Outcome) {
	a.attempt++
	a.previous = &previous{made: made, outcome: *outcome}
}

// rename makes it a call of its own, unless the caller has named it.
func (a *asking) rename() { a.callID = rand.Uint64() }

func (a *asking) isRetry() bool { return a.attempt > 1 }

// ask puts the terms of the answer into the permit. It asks nobody what needs no service, then what
// the service has pushed, then the service, then what this process knows itself.
func (p *Permit) ask(ctx context.Context) *Denied {
	if denial := p.settled(ctx); denial != nil {
		p.tell()
		return denial
	}
	now := time.Now()
	if !p.isRetry() && p.client.link != nil {
		if isSettled, denial := p.onPushedState(ctx, now); isSettled {
			return denial
		}
	}
	held, refused := p.holdBack(ctx)
	if refused != nil {
		return refused
	}
	if held > 0 {
		now = time.Now()
	}
	grant, denial, err := p.askFleet(ctx, nil)
	switch {
	case err == nil && denial == nil:
		p.told()
		p.client.local.withKnown(p.question.dependency, func(l *rules.Local) { l.LetGo(p.client.clock.Now()) })
		return p.granted(ctx, fleetTerms(&grant).less(held), now)
	case err == nil:
		p.told()
		p.remember(denial)
		return denied(ByFleet, denial)
	}
	p.tellAfter(err)
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, session.ErrNoDelay) && p.isRetry():
		return final(ByFleet, ReasonUnreadable, err.Error())
	default:
		return p.askNobody(ctx, now, held)
	}
}

// settled is what follows from the caller's own words, so that a wrong answer cannot make a caller do
// harm.
func (p *Permit) settled(ctx context.Context) *Denied {
	if !p.isRetry() {
		if denial := p.client.badName(p.question.dependency); denial != nil {
			return denial
		}
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if left := timeLeft(ctx); left.Bounded && left.Time == 0 {
		return final(ByCaller, ReasonDeadline, "the caller's deadline has passed")
	}
	if p.previous == nil {
		return nil
	}
	q := &p.question
	reason := Reason(rules.OwnWords(&p.previous.outcome, p.attempt, q.maxAttempts, q.isSafe()))
	switch reason {
	case "":
		return nil
	case ReasonAttemptsExhausted:
		return final(ByCaller, reason, fmt.Sprintf("the caller allows %d", q.maxAttempts))
	case ReasonRetryUnsafe:
		return final(ByCaller, reason, "it may have been executed, and is neither idempotent nor keyed")
	default:
		return final(ByCaller, reason, "")
	}
}

func timeLeft(ctx context.Context) rules.Left {
	deadline, has := ctx.Deadline()
	if !has {
		return rules.Left{}
	}
	return rules.Left{Time: rules.NanosOf(time.Until(deadline)), Bounded: true}
}

// onPushedState: false where the service is to be asked.
func (p *Permit) onPushedState(ctx context.Context, now time.Time) (bool, *Denied) {
	c := p.client
	at := c.clock.At(now)
	word, heard := c.pushed.Of(p.question.dependency).Word(at)
	switch word {
	case session.Go:
		if c.countsAlone() {
			return true, p.letGoAlone(ctx, now)
		}
		c.counting.PushedGrants.Add()
		p.terms = terms{made: made{onState: heard}, askedAt: now, usableAt: now}
		return true, nil
	case session.Refuse:
		c.counting.PushedDenials.Add(1)
		return true, denied(ByFleet, heard.Denial(at))
	default:
		return false, nil
	}
}

// letGoAlone decides about a first attempt that a service has let go which is away by now. It counts
// nothing meanwhile: were the attempt its own, what ends well would count nowhere, and what fails here,
// with the question about the retry. So this process's own record says whether it is made. What the
// service denied besides does not bind it, as it would not with the service at hand. No question looks for
// the service where all goes well.
func (p *Permit) letGoAlone(ctx context.Context, now time.Time) *Denied {
	p.client.link.Seek()
	question := rules.Question{Attempt: 1, Safe: p.question.isSafe(), Left: timeLeft(ctx), Strictness: rules.OwnRecord}
	return p.decideHere(ctx, now, 0, func(l *rules.Local, policy *rules.Policy, _ rules.Strictness, now rules.Time) (rules.Grant, *rules.Denial) {
		return l.Ask(policy, &question, now, draws())
	})
}

func (p *Permit) askFleet(ctx context.Context, confirm []byte) (session.Grant, *rules.Denial, error) {
	c := p.client
	if c.link == nil {
		return session.Grant{}, nil, errUnasked
	}
	response, err := c.link.Ask(ctx, p.request(ctx, confirm), c.timeout)
	var grant session.Grant
	var denial *rules.Denial
	if err == nil {
		grant, denial, err = session.ReadAnswer(response)
	}
	if err != nil {
		c.counting.NoDecision.Add(1)
		if c.log.Enabled(ctx, slog.LevelDebug) {
			c.log.DebugContext(ctx, "holdoff: no decision", "dependency", p.question.dependency, "why", err)
		}
		return session.Grant{}, nil, err
	}
	c.counting.Answered.Add(1)
	return grant, denial, nil
}

func (p *Permit) request(ctx context.Context, confirm []byte) *pb.AcquireRequest {
	q := &p.question
	request := &pb.AcquireRequest{
		Dependency: q.dependency, Attempt: p.attempt,
		Safety: pb.Safety(q.safety), Priority: pb.Priority(q.priority), Cost: q.cost,
		Confirm: confirm, CallId: q.callID,
		// The stream's own stand for the namespace and the caller.
	}
	if q.callID == "" {
		request.CallId = fmt.Sprintf("%016x", p.callID)
	}
	if left := timeLeft(ctx); left.Bounded {
		request.TimeLeft = session.WriteDuration(left.Time)
	}
	if confirm == nil && p.previous != nil {
		request.Previous = p.previous.onTheWire()
	}
	return request
}

// askNobody decides without the service.
func (p *Permit) askNobody(ctx context.Context, askedAt time.Time, held rules.Nanos) *Denied {
	question := rules.Question{Attempt: p.attempt, Safe: p.question.isSafe(), Left: timeLeft(ctx)}
	if p.previous != nil {
		question.Previous = &p.previous.outcome
		question.MadeUnder = p.previous.made.here
		question.IsCounted = p.previous.isCountedHere
		p.previous.isCountedHere = true
	}
	if denial := p.refusedAlone(); denial != nil {
		p.noteHere(&question)
		return denial
	}
	return p.decideHere(ctx, askedAt, held, func(l *rules.Local, policy *rules.Policy, strictness rules.Strictness, now rules.Time) (rules.Grant, *rules.Denial) {
		question.Strictness = strictness
		return l.Ask(policy, &question, now, draws())
	})
}

// refusedAlone: the service gives no answer, and does not need to where what it has pushed still stands.
// More attempts than the policy allows are refused for that, since it is final.
func (p *Permit) refusedAlone() *Denied {
	c := p.client
	if c.link == nil {
		return nil
	}
	heard := c.pushed.Of(p.question.dependency).Heard()
	denial := heard.RefusedAlone(p.attempt, 0, c.clock.Now())
	allowed := heard.Policy.MaxAttempts
	if denial == nil || p.isRetry() && allowed > 0 && p.attempt > allowed {
		return nil
	}
	c.counting.PushedDenials.Add(1)
	return denied(ByFleet, denial)
}

// noteHere: what the attempt before showed counts for this process, whoever has answered.
func (p *Permit) noteHere(question *rules.Question) {
	c := p.client
	if c.noDecision == DenyAll {
		return
	}
	now := c.clock.Now()
	policy, _ := c.kept(p.question.dependency)
	question.Strictness = c.strictness()
	c.local.with(p.question.dependency, now, func(l *rules.Local) { l.Note(policy, question, now) })
}

type localRule func(*rules.Local, *rules.Policy, rules.Strictness, rules.Time) (rules.Grant, *rules.Denial)

func (p *Permit) decideHere(ctx context.Context, askedAt time.Time, held rules.Nanos, rule localRule) *Denied {
	c := p.client
	if c.link != nil && c.noDecision == DenyAll {
		return undecided()
	}
	var grant rules.Grant
	var denial *rules.Denial
	now := c.clock.Now()
	policy, heard := c.kept(p.question.dependency)
	c.local.with(p.question.dependency, now, func(l *rules.Local) {
		if at, has := heard.LetGoAt(); has {
			l.LetGoAt(at, now)
		}
		grant, denial = rule(l, policy, c.strictness(), now)
	})
	if denial != nil {
		c.counting.LocalDenials.Add(1)
		return denied(ByLocal, denial)
	}
	c.counting.LocalGrants.Add(1)
	if c.isTesting {
		grant.Delay = 0
	}
	return p.granted(ctx, localTerms(&grant).less(held), askedAt)
}

func undecided() *Denied {
	return final(ByLocal, ReasonNoDecision, "the service did not decide, and the client denies then")
}

// strictness of local decisions.
func (c *Client) strictness() rules.Strictness {
	if c.link == nil || c.noDecision == AllowFirstAttempts {
		return rules.RetriesOnly
	}
	return rules.AllRules
}

// kept is what the service last said about being alone with a dependency.
func (c *Client) kept(dependency string) (*rules.Policy, *session.Heard) {
	if c.link == nil {
		return c.own, &session.Heard{}
	}
	heard := c.pushed.Of(dependency).Heard()
	return heard.Policy, heard
}

// countsAlone: the service is away, and this process decides by all that it knows itself.
func (c *Client) countsAlone() bool {
	return c.link != nil && c.noDecision == DecideLocally && !c.link.IsAsked()
}

func (p *Permit) remember(denial *rules.Denial) {
	c := p.client
	now := c.clock.Now()
	c.local.with(p.question.dependency, now, func(l *rules.Local) { l.Told(denial, now) })
}
