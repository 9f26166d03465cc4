package holdoff

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

const (
	// A period and its offset are at most so long together.
	planDelayMax   = 48 * time.Hour
	planPeriodMax  = 24 * time.Hour
	planTimeoutTop = time.Hour
)

// plan is when to check next, by whomever. The zero value has no verdict.
type plan struct {
	// isOfFleet: the service planned this run.
	isOfFleet bool
	permit    []byte
	delay     time.Duration
	timeout   time.Duration
	shared    *CheckShared
	verdict   Verdict
	period    time.Duration // 0: not said
}

// Why an answer plans nothing. Reading is strict: a delay that is absent is not "now".
var (
	errNoPlan      = errors.New("the answer has no plan, or one without a time")
	errBadPlan     = errors.New("a duration or the permit of the plan is out of range")
	errBadVerdict  = errors.New("the verdict is unknown to this client")
	verdictsOfWire = map[pb.CheckVerdict]Verdict{
		pb.CheckVerdict_CHECK_VERDICT_HEALTHY:   Healthy,
		pb.CheckVerdict_CHECK_VERDICT_UNHEALTHY: Unhealthy,
		pb.CheckVerdict_CHECK_VERDICT_UNKNOWN:   VerdictUnknown,
	}
)

func readPlan(said *pb.PlanCheckResponse) (plan, error) {
	read := spans{}
	planned := plan{period: read.atMost(said.GetPeriod(), planPeriodMax)}
	if said.GetPeriod() != nil && planned.period == 0 {
		return plan{}, errBadPlan
	}
	switch next := said.GetPlan().(type) {
	case *pb.PlanCheckResponse_Run:
		if next.Run.GetDelay() == nil || next.Run.GetTimeout() == nil {
			return plan{}, errNoPlan
		}
		planned.isOfFleet, planned.permit = true, next.Run.GetPermit()
		planned.delay = read.atMost(next.Run.GetDelay(), planDelayMax)
		planned.timeout = read.atMost(next.Run.GetTimeout(), planTimeoutTop)
		if planned.timeout == 0 || len(planned.permit) > rules.PermitBytesMax {
			return plan{}, errBadPlan
		}
	case *pb.PlanCheckResponse_Shared:
		if next.Shared.GetAskAgain() == nil {
			return plan{}, errNoPlan
		}
		verdict, known := verdictsOfWire[next.Shared.GetVerdict()]
		if !known {
			return plan{}, errBadVerdict
		}
		planned.shared = &CheckShared{
			Verdict:  verdict,
			Age:      read.atMost(next.Shared.GetAge(), rules.Forever.Duration()),
			HasAge:   next.Shared.GetAge() != nil,
			AskAgain: read.atMost(next.Shared.GetAskAgain(), planDelayMax),
		}
	default:
		return plan{}, errNoPlan
	}
	verdict, known := verdictsOfWire[said.GetVerdict()]
	if !known {
		return plan{}, errBadVerdict
	}
	planned.verdict = verdict
	if read.isBad {
		return plan{}, errBadPlan
	}
	return planned, nil
}

// spans reads several, and remembers whether one was out of range.
type spans struct{ isBad bool }

func (s *spans) atMost(said *durationpb.Duration, most time.Duration) time.Duration {
	span, ok := session.ReadSpan(said)
	if !ok || span.Duration() > most {
		s.isBad = true
	}
	return span.Duration()
}

// ask for the next plan. A nil error with a plan of the zero value: there is no service to miss.
func (c *checker) ask(ctx context.Context) (plan, error) {
	link := c.client.link
	if link == nil {
		return plan{}, nil
	}
	patience := max(min(c.schedule.period/10, planTimeoutMax), c.client.timeout)
	result := c.result
	c.result = nil
	said, err := link.PlanCheck(ctx, c.dependency, result, patience)
	if errors.Is(err, session.ErrAway) {
		// It was not sent.
		c.result = result
	}
	if err != nil {
		return plan{}, err
	}
	return readPlan(said)
}

func (c *checker) note(planned plan, err error) {
	var failed *session.Failed
	switch {
	case err == nil && c.client.link == nil:
	case err == nil:
		c.without = ""
		c.schedule.follow(&planned, time.Now())
		if planned.shared != nil {
			c.told(*planned.shared)
		}
	case errors.As(err, &failed) && isRefusal(failed.Code):
		c.schedule.period, c.schedule.timeout = c.period, c.timeout
		c.noteWithout("not planned", CheckNotPlanned{session.Cut(failed.Text, 200)})
	default:
		c.noteWithout("away", CheckAway{session.Cut(err.Error(), 200)})
	}
}

func (c *checker) noteWithout(why string, finding Finding) {
	if c.without == why {
		return
	}
	c.without = why
	c.client.log.Warn("health checks go on by themselves", "dependency", c.dependency, "finding", finding)
	c.told(finding)
}

// next is when to run, or to ask again.
func (c *checker) next(planned *plan, err error) (at time.Time, isRun bool) {
	now := time.Now()
	switch {
	case planned.isOfFleet:
		return now.Add(planned.delay), true
	case planned.shared != nil:
		return now.Add(planned.shared.AskAgain), false
	}
	planned.timeout = c.schedule.timeout
	at = c.schedule.after(now)
	if err != nil && at.Sub(now) > lookAgain {
		return now.Add(lookAgain), false
	}
	return at, true
}

// isRefusal: a service that is well says that it plans nothing here.
func isRefusal(code codes.Code) bool {
	switch code {
	case codes.FailedPrecondition, codes.Unimplemented, codes.InvalidArgument, codes.NotFound,
		codes.PermissionDenied, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

// schedule is when to check without the service: run k starts at anchor + k * period. The anchor is the
// time that the service planned last, so that a fleet that loses it stays as spread as it was. A run
// that is late or long takes the next time.
type schedule struct {
	anchor  time.Time
	period  time.Duration
	timeout time.Duration
}

// newSchedule is before any plan.
func newSchedule(c *checker) schedule {
	name := rand.Uint64()
	if link := c.client.link; link != nil {
		name = rules.CheckerName(c.dependency, link.Caller().GetService(), link.Caller().GetInstance())
	}
	phase := rules.PhaseOf(name, rules.NanosOf(c.period)).Duration()
	return schedule{anchor: time.Now().Add(phase), period: c.period, timeout: c.timeout}
}

func (s *schedule) follow(planned *plan, now time.Time) {
	if planned.period > 0 {
		s.period = planned.period
	}
	if planned.isOfFleet {
		s.anchor, s.timeout = now.Add(planned.delay), planned.timeout
	} else if planned.shared != nil {
		s.anchor = now.Add(planned.shared.AskAgain)
	}
}

// after is the first time after now.
func (s *schedule) after(now time.Time) time.Time {
	past := now.Sub(s.anchor)
	if past < 0 {
		return s.anchor
	}
	return s.anchor.Add((past/s.period + 1) * s.period)
}
