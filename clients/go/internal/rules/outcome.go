package rules

// Kind is how an attempt ended. The numbers are the wire's.
type Kind uint8

// The kinds.
const (
	Success Kind = iota + 1
	Failure
	Timeout
	NotSent
	Throttled
	Rejected
	Ignored
	Cancelled
)

var kindNames = [...]string{"", "success", "failure", "timeout", "not_sent", "throttled", "rejected", "ignored", "cancelled"}

func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// Outcome is what is known of an attempt that ended.
type Outcome struct {
	Kind Kind
	// Latency is known where HasLatency says so.
	Latency    Nanos
	HasLatency bool
	// Pushback is the wait that the dependency asked for, where HasPushback says so: a pushback of
	// zero is one.
	Pushback    Nanos
	HasPushback bool
	// RestartsBackoff: the pushback came by gRPC.
	RestartsBackoff bool
	DoNotRetry      bool
	RetriedBelow    bool
	StatusCode      uint32
}

// Urgent: the service should hear of it at once rather than with the next batch.
func (o *Outcome) Urgent() bool {
	switch o.Kind {
	case Failure, Timeout, NotSent, Throttled:
		return true
	default:
		return false
	}
}

// Reason is why an attempt was denied, by its name on the wire.
type Reason string

// The reasons of the wire, in the order of its numbers from 1, and three of the client's own.
const (
	ForcedOpen        Reason = "FORCED_OPEN"
	Pushback          Reason = "PUSHBACK"
	PushbackTooLong   Reason = "PUSHBACK_TOO_LONG"
	NotRetryable      Reason = "NOT_RETRYABLE"
	RetriedBelow      Reason = "RETRIED_BELOW"
	AttemptsExhausted Reason = "ATTEMPTS_EXHAUSTED"
	RetryUnsafe       Reason = "RETRY_UNSAFE"
	HedgeRefused      Reason = "HEDGE_REFUSED"
	Held              Reason = "HELD"
	BreakerOpen       Reason = "BREAKER_OPEN"
	ProbeInProgress   Reason = "PROBE_IN_PROGRESS"
	Recovering        Reason = "RECOVERING"
	CallerFault       Reason = "CALLER_FAULT"
	CalendarFull      Reason = "CALENDAR_FULL"
	RateLimited       Reason = "RATE_LIMITED"
	Deadline          Reason = "DEADLINE"
	BudgetExhausted   Reason = "BUDGET_EXHAUSTED"
	Duplicate         Reason = "DUPLICATE"
	PermitVoid        Reason = "PERMIT_VOID"

	NoDecision Reason = "NO_DECISION"
	Unreadable Reason = "UNREADABLE"
	Canceled   Reason = "CANCELLED"
)

// Denial is a no.
type Denial struct {
	Reason Reason
	// RetryAfter says when asking again makes sense, unless the denial is final.
	RetryAfter Nanos
	Final      bool
	Detail     string
}

// Unlimited attempts.
const Unlimited = 0

// OwnWords is the reason for which nobody is asked about a retry: it follows from what the caller
// said and from how the attempt before ended. Empty: somebody is asked. The order is the service's.
func OwnWords(previous *Outcome, attempt, maxAttempts uint32, safe bool) Reason {
	switch {
	case previous.DoNotRetry:
		return Pushback
	case !previous.Urgent():
		return NotRetryable
	case previous.RetriedBelow:
		return RetriedBelow
	case maxAttempts != Unlimited && attempt > maxAttempts:
		return AttemptsExhausted
	case !safe && previous.Kind != NotSent:
		return RetryUnsafe
	default:
		return ""
	}
}
