package holdoff

import (
	"context"
	"fmt"
	"math/rand/v2"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

// previous is how the attempt before ended. It is told once, at the latest when nobody asks any more.
type previous struct {
	made    made
	outcome rules.Outcome
	isTold  bool
	// wasHeldBack: the question with it was.
	wasHeldBack bool
	// isLate: the service has pushed a later state, so that its tally is in no hurry.
	isLate bool
	// isCountedHere: this process has counted a first attempt that the service had let go.
	isCountedHere bool
}

// tell says it by a report.
func (p *Permit) tell() {
	if before := p.previous; before != nil && !before.isTold {
		before.isTold = true
		before.isCountedHere = before.isCountedHere || p.client.countHere(p.question.dependency, &before.made, &before.outcome)
		if before.isLate && !before.outcome.HasPushback {
			p.client.link.Reports.TallyLate(before.made.onState, &before.outcome)
			return
		}
		p.client.report(p.question.dependency, &before.made, &before.outcome)
	}
}

// told: the service has taken it with a question. What was decided here is told here.
func (p *Permit) told() {
	if before := p.previous; before != nil {
		before.isTold = before.isTold || before.made.here == nil
		p.tell()
	}
}

// tellAfter: nothing was decided. Nothing tells an outcome without a permit from another one, so that
// it is not told again where the question may have arrived; a permit counts once whatever is said.
func (p *Permit) tellAfter(why error) {
	before := p.previous
	if before == nil {
		return
	}
	if before.made.onState != nil && mayHaveArrived(why) {
		before.isTold = true
	}
	p.tell()
}

func mayHaveArrived(why error) bool {
	switch why {
	case session.ErrNoVerdict, session.ErrNoDelay, session.ErrBadDuration, session.ErrBadPermit,
		session.ErrUnknownReason, session.ErrUnknownState:
		return true
	default:
		return session.MayHaveArrived(why)
	}
}

// onTheWire goes with the question about the attempt after it. An attempt without a permit of the
// service is told by an epoch: the one whose state it was made on, or the one last heard of when an
// attempt that was decided here began. So a call that has gone on alone is with the fleet again at its
// next question, and what failed before a transition does not count after it.
func (before *previous) onTheWire() *pb.Previous {
	told := &pb.Previous{Outcome: session.WriteOutcome(&before.outcome)}
	switch {
	case before.made.isFleet:
		told.MadeUnder = &pb.Previous_Permit{Permit: before.made.fleet}
	case before.made.onState != nil:
		told.MadeUnder = &pb.Previous_Epoch{Epoch: before.made.onState.Epoch}
	default:
		told.MadeUnder = &pb.Previous_Epoch{Epoch: before.made.begunIn}
	}
	return told
}

// report says how an attempt ended.
func (c *Client) report(dependency string, made *made, outcome *rules.Outcome) {
	switch {
	case made.here != nil:
		c.reportHere(dependency, made.here, *outcome)
	case c.link == nil:
	case made.isFleet:
		c.link.Reports.Push(made.fleet, outcome)
	case made.onState != nil:
		c.reportOnState(dependency, made.onState, outcome)
	}
}

// countHere counts an attempt on pushed state for this process too where the service was lost while it
// ran: of what is under way at that moment this process decides about the failures. The service has its
// tally all the same. False: the service was not lost.
func (c *Client) countHere(dependency string, made *made, outcome *rules.Outcome) bool {
	if made.onState == nil || !c.countsAlone() {
		return false
	}
	c.noteFirst(dependency, *outcome)
	return true
}

func (c *Client) noteFirst(dependency string, outcome rules.Outcome) {
	now := c.clock.Now()
	policy, _ := c.kept(dependency)
	ended := rules.Question{Attempt: 2, Previous: &outcome, Strictness: c.strictness()}
	c.local.with(dependency, now, func(l *rules.Local) { l.Note(policy, &ended, now) })
}

func (c *Client) reportHere(dependency string, permit *rules.Permit, outcome rules.Outcome) {
	now := c.clock.Now()
	policy, _ := c.kept(dependency)
	c.local.with(dependency, now, func(l *rules.Local) {
		l.Report(policy, permit, &outcome, c.strictness(), now)
	})
}

// reportOnState tallies. But a tally has no place for a wait that the dependency asked for, and that
// may hold the whole fleet: such an outcome goes with a question about a retry that is sure to be
// denied.
func (c *Client) reportOnState(dependency string, heard *session.Heard, outcome *rules.Outcome) {
	if !outcome.HasPushback || outcome.Kind == rules.Success {
		c.link.Reports.Tally(heard, outcome)
		return
	}
	c.link.Reports.BeginTelling()
	go c.askInVain(dependency, heard, *outcome)
}

func (c *Client) askInVain(dependency string, heard *session.Heard, outcome rules.Outcome) {
	defer c.link.Reports.EndTelling()
	response, err := c.link.Ask(context.Background(), &pb.AcquireRequest{
		Dependency: dependency,
		Attempt:    2,
		// Only what certainly was not sent could be granted, and that is given back.
		Safety: pb.Safety_SAFETY_UNSAFE,
		Previous: &pb.Previous{
			MadeUnder: &pb.Previous_Epoch{Epoch: heard.Epoch},
			Outcome:   session.WriteOutcome(&outcome),
		},
		CallId: fmt.Sprintf("%016x", rand.Uint64()),
	}, c.timeout)
	switch {
	case err == nil:
		c.link.GiveBack(response)
	case !mayHaveArrived(err):
		c.link.Reports.Tally(heard, &outcome)
	}
}
