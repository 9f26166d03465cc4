package holdoff

import (
	"context"
	"errors"
	"math"
	"time"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
)

const (
	checkPeriod  = 30 * time.Second
	checkTimeout = 2 * time.Second
	// apartMin: whatever is planned, runs and questions are so far apart.
	apartMin = 10 * time.Millisecond
	// planTimeoutMax: an answer is waited for no longer than this, or a tenth of the period.
	planTimeoutMax = time.Second
	// lookAgain: without an answer, the service is looked for again after so long at most.
	lookAgain   = time.Minute
	testingRuns = 3
)

// Verdict is what all checkers together have found.
type Verdict string

// The verdicts.
const (
	Healthy        Verdict = "healthy"
	Unhealthy      Verdict = "unhealthy"
	VerdictUnknown Verdict = "unknown" // nobody has checked yet
)

// Finding is what a checker learns: [CheckRan], [CheckShared], [CheckNotPlanned] or [CheckAway].
type Finding interface{ isFinding() }

// CheckRan: a run of its own has ended.
type CheckRan struct {
	// Err is nil where the dependency answered as it should, in time.
	Err error
	// TimedOut: it was given up.
	TimedOut bool
	Took     time.Duration
	// IsLocal: not planned by the service, which does not learn of it.
	IsLocal bool
	// Fleet is what all checkers together have found; empty where the service does not say.
	Fleet Verdict
}

// CheckShared: others check.
type CheckShared struct {
	Verdict Verdict
	// Age of the verdict; not known where nobody has checked yet.
	Age      time.Duration
	HasAge   bool
	AskAgain time.Duration
}

// CheckNotPlanned: the service plans no checks of this dependency; they go on without. Told once, until
// it plans again.
type CheckNotPlanned struct{ Why string }

// CheckAway: the service does not answer; checks go on without. Told once, until it answers.
type CheckAway struct{ Why string }

func (CheckRan) isFinding()        {}
func (CheckShared) isFinding()     {}
func (CheckNotPlanned) isFinding() {}
func (CheckAway) isFinding()       {}

// Checked is what was done until the end.
type Checked struct {
	// Runs of its own that have ended.
	Runs uint64
	// LastErr is that of the last one.
	LastErr error
}

// CheckOption is a setting of [Client.Check].
type CheckOption func(*checker)

// CheckPeriod is the time between two runs while the service has planned none: 30 s unless said.
func CheckPeriod(period time.Duration) CheckOption {
	return func(c *checker) { c.period = max(period, apartMin) }
}

// CheckTimeout is how long a run may take while the service has planned none: 2 s unless said.
func CheckTimeout(timeout time.Duration) CheckOption {
	return func(c *checker) { c.timeout = timeout }
}

// CheckRuns ends after so many own runs: never unless said.
func CheckRuns(runs uint64) CheckOption { return func(c *checker) { c.runs = runs } }

// OnFinding is told each finding; no further check is made before it returns.
func OnFinding(told func(Finding)) CheckOption { return func(c *checker) { c.told = told } }

// Check runs a health check again and again, when the service says: spread over the fleet, or left to
// others whose verdict is told instead. Where a policy plans no checks, and without the service, it
// runs on the grid that it was given last, or a hash of dependency and instance: give [WithInstance] a
// name that stays, and a restarted checker keeps its place.
//
// The check's context ends at its timeout, which counts as unhealthy. One run at a time, until the
// context ends. A name that no dependency has is the LastErr of no run at all. A client for tests makes three runs at most, and does not wait between them.
func (c *Client) Check(ctx context.Context, dependency string, check func(context.Context) error, options ...CheckOption) Checked {
	if denial := c.badName(dependency); denial != nil {
		return Checked{LastErr: denial}
	}
	ch := &checker{
		client: c, dependency: dependency, check: check,
		period: checkPeriod, timeout: checkTimeout, runs: math.MaxUint64, told: func(Finding) {},
	}
	for _, option := range options {
		option(ch)
	}
	if c.isTesting {
		ch.runs = min(ch.runs, testingRuns)
	}
	ch.schedule = newSchedule(ch)
	return ch.run(ctx)
}

type checker struct {
	client     *Client
	dependency string
	check      func(context.Context) error
	period     time.Duration
	timeout    time.Duration
	runs       uint64
	told       func(Finding)

	schedule schedule
	// result is to be handed over with the next question. Once: asked again without it, the service
	// repeats its plan.
	result *pb.CheckResult
	// ran is to be told with the next plan.
	ran *CheckRan
	// without: it was told that there are no plans.
	without   string
	notBefore time.Time
}

func (c *checker) run(ctx context.Context) (checked Checked) {
	for ctx.Err() == nil {
		planned, err := c.ask(ctx)
		if c.ran != nil {
			c.ran.Fleet = planned.verdict
			c.told(*c.ran)
			c.ran = nil
		}
		if checked.Runs >= c.runs || ctx.Err() != nil {
			break
		}
		c.note(planned, err)
		at, isRun := c.next(&planned, err)
		if !c.waitUntil(ctx, at) {
			break
		}
		if !isRun {
			continue
		}
		ran := c.once(ctx, &planned)
		if ctx.Err() != nil {
			break
		}
		checked.Runs++
		checked.LastErr = ran.Err
		c.ran = ran
	}
	return checked
}

func (c *checker) waitUntil(ctx context.Context, at time.Time) bool {
	if c.client.isTesting {
		return ctx.Err() == nil
	}
	if at.Before(c.notBefore) {
		at = c.notBefore
	}
	waited := pause(ctx, time.Until(at))
	c.notBefore = time.Now().Add(apartMin)
	return waited
}

// once is one run, within its time.
func (c *checker) once(ctx context.Context, planned *plan) *CheckRan {
	ctx, cancel := context.WithTimeout(ctx, planned.timeout)
	defer cancel()
	begun := time.Now()
	err := c.check(ctx)
	isLate := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if isLate && err == nil {
		err = context.DeadlineExceeded
	}
	verdict := pb.CheckVerdict_CHECK_VERDICT_HEALTHY
	if err != nil {
		verdict = pb.CheckVerdict_CHECK_VERDICT_UNHEALTHY
	}
	if planned.isOfFleet {
		c.result = &pb.CheckResult{Permit: planned.permit, Verdict: verdict}
	}
	return &CheckRan{Err: err, TimedOut: isLate, Took: time.Since(begun), IsLocal: !planned.isOfFleet}
}
