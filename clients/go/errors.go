package holdoff

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/session"
)

// Reason is why an attempt may not be made, by its name on the wire.
type Reason string

// The reasons. The last four are the client's own.
const (
	ReasonForcedOpen        = Reason(rules.ForcedOpen)        // an operator holds the breaker open
	ReasonPushback          = Reason(rules.Pushback)          // the dependency said: do not retry
	ReasonPushbackTooLong   = Reason(rules.PushbackTooLong)   // the dependency asked for too long a wait
	ReasonNotRetryable      = Reason(rules.NotRetryable)      // a retry cannot mend it
	ReasonRetriedBelow      = Reason(rules.RetriedBelow)      // a layer below retried already
	ReasonAttemptsExhausted = Reason(rules.AttemptsExhausted) // no attempt left
	ReasonRetryUnsafe       = Reason(rules.RetryUnsafe)       // it may have been executed, and twice may do harm
	ReasonHedgeRefused      = Reason(rules.HedgeRefused)      // a hedge that may not run
	ReasonHeld              = Reason(rules.Held)              // the dependency asked the fleet to wait
	ReasonBreakerOpen       = Reason(rules.BreakerOpen)       // the breaker is open
	ReasonProbeInProgress   = Reason(rules.ProbeInProgress)   // half-open, and all probes are out
	ReasonRecovering        = Reason(rules.Recovering)        // closed a moment ago, and its share is taken
	ReasonCallerFault       = Reason(rules.CallerFault)       // this instance fails while others do not
	ReasonCalendarFull      = Reason(rules.CalendarFull)      // no place in the calendar of retries
	ReasonRateLimited       = Reason(rules.RateLimited)       // the rate limit has no room
	ReasonDeadline          = Reason(rules.Deadline)          // it cannot be made in the time that is left
	ReasonBudgetExhausted   = Reason(rules.BudgetExhausted)   // no more retries may be made now
	ReasonDuplicate         = Reason(rules.Duplicate)         // the permit before was used already
	ReasonPermitVoid        = Reason(rules.PermitVoid)        // the permit is void

	ReasonNoDecision = Reason(rules.NoDecision) // nothing was decided, and the client denies then
	ReasonUnreadable = Reason(rules.Unreadable) // a retry granted without saying when; never taken as "now"
	ReasonCancelled  = Reason(rules.Canceled)   // the context was cancelled
	ReasonBadName    = Reason("BAD_NAME")       // no dependency has such a name
)

// By is who said no.
type By string

// Who may.
const (
	ByFleet  By = "FLEET"  // the service, for all callers
	ByLocal  By = "LOCAL"  // this process, by the same rules over what it knows itself
	ByCaller By = "CALLER" // the caller's own limits, or what it said about the call
)

// Denial is a no.
type Denial struct {
	Reason Reason
	By     By
	// RetryAfter says when asking again makes sense, unless the denial is final.
	RetryAfter time.Duration
	// Final: asking again makes no sense.
	Final bool
	// Detail is a sentence with the numbers, for people. It may be empty.
	Detail string
}

func (d Denial) String() string {
	text := string(d.Reason)
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	if !d.Final {
		text += fmt.Sprintf(" (ask again in %v)", d.RetryAfter.Round(time.Millisecond))
	}
	return text
}

// Denied is the error of a call that was never made.
type Denied struct {
	Denial
	cause error
}

func (d *Denied) Error() string { return "holdoff: not called: " + d.String() }

// Unwrap is the context's error where that is the reason.
func (d *Denied) Unwrap() error { return d.cause }

// Outcome of a guarded call around this one: it was never made, which says nothing.
func (d *Denied) Outcome() Outcome { return Ignored() }

// GRPCStatus lets a denied call end like any other RPC.
func (d *Denied) GRPCStatus() *status.Status { return status.New(grpcCode(d.Reason), d.Error()) }

// Stopped is the error of a call that was made and given up. It wraps the last real error, which
// [errors.Is] and [errors.As] reach; where there is none, since all attempts were cut off by a time
// limit, it is [context.DeadlineExceeded].
type Stopped struct {
	Denial
	// Attempts that were made.
	Attempts int
	// Last is the error of the last attempt that returned one. Nil: all were cut off by a time limit.
	Last  error
	cause error
}

func (s *Stopped) Error() string {
	if s.Last == nil {
		return fmt.Sprintf("holdoff: gave up after attempt %d: %v", s.Attempts, s.Denial)
	}
	return fmt.Sprintf("%v (gave up after attempt %d: %v)", s.Last, s.Attempts, s.Denial)
}

// Unwrap is the last real error, and the context's error where that is the reason.
func (s *Stopped) Unwrap() []error {
	errs := make([]error, 0, 2)
	for _, err := range []error{s.Last, s.cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if s.Timeout() && s.cause == nil {
		errs = append(errs, context.DeadlineExceeded)
	}
	return errs
}

// Timeout: all attempts were cut off by a time limit. So a [*url.Error] and a [net.Error] ask.
func (s *Stopped) Timeout() bool { return s.Last == nil && s.Reason != ReasonCancelled }

// Outcome of a guarded call around this one: that of the last real error, and retried below where there
// was more than one attempt, so that retries do not multiply.
func (s *Stopped) Outcome() Outcome { return s.outcome(ClassifyError) }

func (s *Stopped) outcome(ofLast func(error) Outcome) (outcome Outcome) {
	switch {
	case s.Last != nil:
		outcome = ofLast(s.Last)
	case s.Timeout():
		outcome = TimedOut()
	default:
		outcome = Cancelled()
	}
	outcome.told.RetriedBelow = outcome.told.RetriedBelow || s.Attempts > 1
	return outcome
}

// GRPCStatus is that of the last real error, where it has one.
func (s *Stopped) GRPCStatus() *status.Status {
	var last interface{ GRPCStatus() *status.Status }
	if errors.As(s.Last, &last) {
		return last.GRPCStatus()
	}
	if s.Last != nil {
		return status.New(codes.Unknown, s.Error())
	}
	if s.Timeout() {
		return status.New(codes.DeadlineExceeded, s.Error())
	}
	return status.New(grpcCode(s.Reason), s.Error())
}

func grpcCode(reason Reason) codes.Code {
	switch reason {
	case ReasonDeadline:
		return codes.DeadlineExceeded
	case ReasonCancelled:
		return codes.Canceled
	case ReasonRateLimited:
		return codes.ResourceExhausted
	case ReasonBadName:
		return codes.InvalidArgument
	default:
		return codes.Unavailable
	}
}

func denied(by By, told *rules.Denial) *Denied {
	d := &Denied{Denial: Denial{
		Reason: Reason(told.Reason), By: by, RetryAfter: told.RetryAfter.Duration(), Final: told.Final, Detail: told.Detail,
	}}
	if d.Reason == ReasonDeadline {
		d.cause = context.DeadlineExceeded
	}
	return d
}

// final is a denial that nothing changes.
func final(by By, reason Reason, detail string) *Denied {
	return denied(by, &rules.Denial{Reason: rules.Reason(reason), Final: true, Detail: detail})
}

func (d *Denied) rules() *rules.Denial {
	return &rules.Denial{Reason: rules.Reason(d.Reason), RetryAfter: rules.NanosOf(d.RetryAfter), Final: d.Final, Detail: d.Detail}
}

// badName is the denial of a name that no dependency has. A bypass takes any.
func (c *Client) badName(dependency string) *Denied {
	isBypassed := c.link == nil && !c.isTesting
	if isBypassed || isName(dependency) {
		return nil
	}
	return final(ByCaller, ReasonBadName, fmt.Sprintf("dependency %q: %s", session.Cut(dependency, 80), allowedName))
}

// ended is the denial of a context that has.
func ended(ctx context.Context) *Denied {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		d := final(ByCaller, ReasonDeadline, "the caller's deadline has passed")
		d.cause = context.Cause(ctx)
		return d
	}
	d := final(ByCaller, ReasonCancelled, "")
	d.cause = context.Cause(ctx)
	return d
}
