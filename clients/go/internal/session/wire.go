// Package session is the way to the service: one stream, opened when first wanted, a bounded queue in
// front of it, the state that is pushed on it, and the outcomes on their way.
//
// It leaves out what a call is: the package above asks, waits and retries.
package session

import (
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// Reading is strict: an answer that says something unknown, or leaves out what it must say, is no
// decision. It is never mended by a default, since protobuf's default of a delay is "now".

// Why an answer decided nothing.
var (
	ErrNoVerdict     = errors.New("the answer has no verdict")
	ErrNoDelay       = errors.New("the grant does not say when")
	ErrBadDuration   = errors.New("a duration is negative or out of range")
	ErrBadPermit     = errors.New("the permit is longer than any permit")
	ErrUnknownReason = errors.New("the reason of the denial is unknown to this client")
	ErrUnknownState  = errors.New("the state of the breaker is unknown to this client")
)

const (
	longestSeconds = 315_576_000_000
	detailBytes    = 1024
	latencyMax     = 24 * 3600 * rules.Second
)

// Grant is the service's yes.
type Grant struct {
	Delay  rules.Nanos
	Permit []byte
	// TTL runs from the end of the delay; 0: it does not end.
	TTL     rules.Nanos
	Probe   bool
	Confirm bool
	// AttemptTimeout is 0 where none is known.
	AttemptTimeout rules.Nanos
	Epoch          uint64
}

// ReadAnswer reads a yes or a no.
func ReadAnswer(response *pb.AcquireResponse) (Grant, *rules.Denial, error) {
	if _, known := pb.BreakerState_name[int32(response.GetState())]; !known {
		return Grant{}, nil, ErrUnknownState
	}
	switch verdict := response.GetVerdict().(type) {
	case *pb.AcquireResponse_Grant:
		grant, err := readGrant(verdict.Grant, response.GetEpoch())
		return grant, nil, err
	case *pb.AcquireResponse_Denial:
		denial, err := readDenial(verdict.Denial)
		return Grant{}, denial, err
	default:
		return Grant{}, nil, ErrNoVerdict
	}
}

func readGrant(said *pb.Grant, epoch uint64) (Grant, error) {
	// Before all else: who retries without knowing when must not retry.
	if said.GetDelay() == nil {
		return Grant{}, ErrNoDelay
	}
	grant := Grant{Permit: said.GetPermit(), Probe: said.GetProbe(), Confirm: said.GetConfirm(), Epoch: epoch}
	if len(grant.Permit) > rules.PermitBytesMax {
		return Grant{}, ErrBadPermit
	}
	// Lives and limits of nothing cannot be meant, and are as if absent.
	for into, span := range map[*rules.Nanos]*durationpb.Duration{
		&grant.Delay: said.GetDelay(), &grant.TTL: said.GetPermitTtl(), &grant.AttemptTimeout: said.GetAttemptTimeout(),
	} {
		value, _, ok := readDuration(span)
		if !ok {
			return Grant{}, ErrBadDuration
		}
		*into = value
	}
	return grant, nil
}

func readDenial(said *pb.Denial) (*rules.Denial, error) {
	reason, known := reasons[said.GetReason()]
	if !known {
		return nil, ErrUnknownReason
	}
	wait, isSaid, ok := readDuration(said.GetRetryAfter())
	if !ok {
		return nil, ErrBadDuration
	}
	return &rules.Denial{Reason: reason, RetryAfter: wait, Final: !isSaid, Detail: Cut(said.GetDetail(), detailBytes)}, nil
}

var reasons = map[pb.DenialReason]rules.Reason{
	pb.DenialReason_DENIAL_REASON_FORCED_OPEN:        rules.ForcedOpen,
	pb.DenialReason_DENIAL_REASON_PUSHBACK:           rules.Pushback,
	pb.DenialReason_DENIAL_REASON_PUSHBACK_TOO_LONG:  rules.PushbackTooLong,
	pb.DenialReason_DENIAL_REASON_NOT_RETRYABLE:      rules.NotRetryable,
	pb.DenialReason_DENIAL_REASON_RETRIED_BELOW:      rules.RetriedBelow,
	pb.DenialReason_DENIAL_REASON_ATTEMPTS_EXHAUSTED: rules.AttemptsExhausted,
	pb.DenialReason_DENIAL_REASON_RETRY_UNSAFE:       rules.RetryUnsafe,
	pb.DenialReason_DENIAL_REASON_HEDGE_REFUSED:      rules.HedgeRefused,
	pb.DenialReason_DENIAL_REASON_HELD:               rules.Held,
	pb.DenialReason_DENIAL_REASON_BREAKER_OPEN:       rules.BreakerOpen,
	pb.DenialReason_DENIAL_REASON_PROBE_IN_PROGRESS:  rules.ProbeInProgress,
	pb.DenialReason_DENIAL_REASON_RECOVERING:         rules.Recovering,
	pb.DenialReason_DENIAL_REASON_CALLER_FAULT:       rules.CallerFault,
	pb.DenialReason_DENIAL_REASON_CALENDAR_FULL:      rules.CalendarFull,
	pb.DenialReason_DENIAL_REASON_RATE_LIMITED:       rules.RateLimited,
	pb.DenialReason_DENIAL_REASON_DEADLINE:           rules.Deadline,
	pb.DenialReason_DENIAL_REASON_BUDGET_EXHAUSTED:   rules.BudgetExhausted,
	pb.DenialReason_DENIAL_REASON_DUPLICATE:          rules.Duplicate,
	pb.DenialReason_DENIAL_REASON_PERMIT_VOID:        rules.PermitVoid,
}

// readDuration: absent is said to be absent and ok; out of range is not ok.
func readDuration(said *durationpb.Duration) (span rules.Nanos, isSaid, ok bool) {
	if said == nil {
		return 0, false, true
	}
	seconds, nanos := said.GetSeconds(), said.GetNanos()
	if seconds < 0 || seconds > longestSeconds || nanos < 0 || nanos >= 1e9 {
		return 0, true, false
	}
	return rules.Second.Mul(uint64(seconds)).Add(rules.Nanos(nanos)), true, true
}

// WriteDuration writes a span as long as the wire can say.
func WriteDuration(span rules.Nanos) *durationpb.Duration {
	return &durationpb.Duration{Seconds: int64(span / rules.Second), Nanos: int32(span % rules.Second)}
}

// WriteOutcome writes how an attempt ended.
func WriteOutcome(outcome *rules.Outcome) *pb.Outcome {
	written := &pb.Outcome{
		Kind:                    pb.OutcomeKind(outcome.Kind),
		DoNotRetry:              outcome.DoNotRetry,
		RetriedBelow:            outcome.RetriedBelow,
		StatusCode:              outcome.StatusCode,
		PushbackRestartsBackoff: outcome.RestartsBackoff,
	}
	if outcome.HasLatency {
		written.Latency = WriteDuration(min(outcome.Latency, latencyMax))
	}
	if outcome.HasPushback {
		written.Pushback = WriteDuration(outcome.Pushback)
	}
	return written
}

// Cut shortens a text to so many bytes at most, at a character.
func Cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	end := 0
	for i := range text {
		if i > bytes {
			break
		}
		end = i
	}
	return text[:end]
}

// ReadSpan reads a span; absent is zero. False: it is negative or out of range.
func ReadSpan(said *durationpb.Duration) (rules.Nanos, bool) {
	span, _, ok := readDuration(said)
	return span, ok
}
