package holdoff

import (
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// Outcome is how an attempt ended.
type Outcome struct {
	told rules.Outcome
}

// Success: it worked.
func Success() Outcome { return of(rules.Success) }

// Failure: it failed, and a later attempt may work.
func Failure() Outcome { return of(rules.Failure) }

// TimedOut: no answer came in time; it may have been executed.
func TimedOut() Outcome { return of(rules.Timeout) }

// NotSent: the dependency certainly never began it.
func NotSent() Outcome { return of(rules.NotSent) }

// Throttled: the dependency asked for less.
func Throttled() Outcome { return of(rules.Throttled) }

// Rejected: the request itself was wrong, and trying again changes nothing.
func Rejected() Outcome { return of(rules.Rejected) }

// Ignored: it says nothing about the dependency.
func Ignored() Outcome { return of(rules.Ignored) }

// Cancelled: the caller gave it up.
func Cancelled() Outcome { return of(rules.Cancelled) }

func of(kind rules.Kind) Outcome { return Outcome{rules.Outcome{Kind: kind}} }

// WithLatency says how long it took. [Client.Call] measures it where this is not said.
func (o Outcome) WithLatency(took time.Duration) Outcome {
	o.told.Latency, o.told.HasLatency = rules.NanosOf(took), true
	return o
}

// WithPushback says that the dependency asked for so long a wait, as HTTP's Retry-After does.
func (o Outcome) WithPushback(wait time.Duration) Outcome {
	o.told.Pushback, o.told.HasPushback = rules.NanosOf(wait), true
	return o
}

// WithGRPCPushback says that the dependency asked for so long a wait by gRPC, after which the backoff
// starts at its first delay again.
func (o Outcome) WithGRPCPushback(wait time.Duration) Outcome {
	o = o.WithPushback(wait)
	o.told.RestartsBackoff = true
	return o
}

// WithDoNotRetry says that the dependency forbade a retry.
func (o Outcome) WithDoNotRetry() Outcome {
	o.told.DoNotRetry = true
	return o
}

// WithRetriedBelow says that a layer between the caller and the fault has retried already.
func (o Outcome) WithRetriedBelow() Outcome {
	o.told.RetriedBelow = true
	return o
}

// WithStatusCode says the HTTP status or gRPC code, for people.
func (o Outcome) WithStatusCode(code uint32) Outcome {
	o.told.StatusCode = code
	return o
}

// IsSuccess: it worked.
func (o Outcome) IsSuccess() bool { return o.told.Kind == rules.Success }

// String is the kind, as "not_sent".
func (o Outcome) String() string { return o.told.Kind.String() }
