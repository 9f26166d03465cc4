package holdoff

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// Attempt is what a function is told about the attempt that it makes. The limit of the attempt is in
// its context.
type Attempt struct {
	// Number is 1 for the first.
	Number int
	// SuggestedTimeout is a limit that the service finds sensible; it does not bind. 0: none is known.
	SuggestedTimeout time.Duration
	// IsProbe: it tests a dependency that is thought broken.
	IsProbe bool
	// IsLocal: it was granted without the service.
	IsLocal bool
}

func (p *Permit) described() Attempt {
	return Attempt{Number: p.Attempt(), SuggestedTimeout: p.suggested, IsProbe: p.isProbe, IsLocal: p.IsLocal()}
}

// Call makes a call with all that belongs to it: question, delay, attempt, report, retry. The context
// given to the function ends at the attempt's limit, and the function must end with it; its error then
// counts as a timeout, or as cancelled. The error is a [*Stopped] that wraps the last real one, or a
// [*Denied] where no attempt was made.
func (c *Client) Call(ctx context.Context, dependency string, function func(context.Context, Attempt) error, options ...CallOption) error {
	_, err := Do(ctx, c, dependency, func(ctx context.Context, attempt Attempt) (struct{}, error) {
		return struct{}{}, function(ctx, attempt)
	}, options...)
	return err
}

// Do is [Client.Call] for a function that returns a value. A value that counts as a failure although
// its error is nil, as a *http.Response with status 503 does, is retried too, and returned as it is
// where there is no further attempt.
func Do[T any](ctx context.Context, c *Client, dependency string, function func(context.Context, Attempt) (T, error), options ...CallOption) (T, error) {
	p := newPermit(c, dependency, options)
	// A function that panics has not reported.
	defer p.Release()
	var last result[T]
	for attempts := 0; ; attempts++ {
		if denial := p.obtain(ctx); denial != nil {
			if attempts > 0 && c.log.Enabled(ctx, slog.LevelDebug) {
				c.log.DebugContext(ctx, "holdoff: gave a call up", "dependency", dependency, "attempts", attempts, "why", denial)
			}
			return last.stopped(denial, attempts)
		}
		last.settle()
		got, outcome := run(ctx, p, function)
		last.take(got)
		if outcome.Kind == rules.Success && last.isKnown && last.err == nil {
			p.report(&outcome)
			return last.value, nil
		}
		if p.mayRetry(&outcome) {
			last.prepare()
		}
		p.fell(&outcome)
	}
}

// DoOr is [Do], and where the call is given up, with or without an attempt, what the fallback makes of
// its error.
func DoOr[T any](ctx context.Context, c *Client, dependency string, function func(context.Context, Attempt) (T, error), fallback func(context.Context, error) (T, error), options ...CallOption) (T, error) {
	value, err := Do(ctx, c, dependency, function, options...)
	if err != nil {
		return fallback(ctx, err)
	}
	return value, nil
}

// result of an attempt. Not known: it was cut off.
type result[T any] struct {
	value   T
	err     error
	isKnown bool
}

// take keeps the last known one.
func (r *result[T]) take(next result[T]) {
	if next.isKnown {
		*r = next
	}
}

// prepare for a next attempt, which may be granted: a response leaves its connection, if it can at once.
func (r *result[T]) prepare() {
	if response := r.response(); response != nil {
		keep(response)
	}
}

// settle: the next attempt was granted.
func (r *result[T]) settle() {
	if response := r.response(); response != nil {
		leave(response)
	}
}

func (r *result[T]) response() *http.Response {
	response, _ := any(r.value).(*http.Response)
	return response
}

func (r *result[T]) stopped(denial *Denied, attempts int) (T, error) {
	switch {
	case attempts == 0:
		return r.value, denial
	case r.isKnown && r.err == nil:
		if response := r.response(); response != nil && attempts > 1 {
			tellRetried(response)
		}
		return r.value, nil
	default:
		return r.value, &Stopped{Denial: denial.Denial, Attempts: attempts, Last: r.err, cause: denial.cause}
	}
}

// run makes the attempt within its limit.
func run[T any](ctx context.Context, p *Permit, function func(context.Context, Attempt) (T, error)) (got result[T], outcome rules.Outcome) {
	limited, free := ctx, context.CancelFunc(nil)
	if limit, has := p.limit(); has {
		limited, free = context.WithDeadline(ctx, limit)
		defer func() { freeAfter(got.value, free) }()
	}
	begun := time.Now()
	got.value, got.err = function(limited, p.described())
	got.isKnown = true
	if got.err != nil && limited.Err() != nil {
		outcome, got.isKnown = cutOff(limited, got.err)
	} else {
		outcome = read(&p.question, got.value, got.err)
	}
	if !outcome.HasLatency {
		outcome.Latency, outcome.HasLatency = rules.NanosOf(time.Since(begun)), true
	}
	return got, outcome
}

// cutOff reads an error that came when the attempt's context had ended. True: it is not that
// context's.
func cutOff(ctx context.Context, err error) (outcome rules.Outcome, isReal bool) {
	isOwn := errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
	isDeadline := errors.Is(ctx.Err(), context.DeadlineExceeded)
	outcome = ClassifyError(err).told
	isEnd := isOwn || outcome.Kind == rules.Cancelled || outcome.Kind == rules.Timeout
	switch {
	case isEnd && isDeadline:
		outcome.Kind = rules.Timeout
	case isEnd:
		outcome.Kind = rules.Cancelled
	}
	return outcome, !isOwn
}

func read[T any](q *question, value T, err error) rules.Outcome {
	if q.classifier != nil {
		return q.classifier(any(value), err).told
	}
	response, _ := any(value).(*http.Response)
	return classify(response, err).told
}

// obtain makes the permit one that may be used now. One that was granted and did not hold is given
// back; the same question would be answered by the same, void grant, so that a first attempt is asked
// for under another name, and a retry ends the call.
func (p *Permit) obtain(ctx context.Context) *Denied {
	for {
		denial, wasGranted := p.ask(ctx), false
		if denial == nil {
			if denial = p.wait(ctx); denial == nil {
				return nil
			}
			p.Release()
			wasGranted = true
		}
		wait, again := rules.AskAgain(denial.rules(), timeLeft(ctx))
		if !again || !p.question.waits || p.client.isTesting || (wasGranted && p.isRetry()) {
			p.tell()
			return denial
		}
		timer := time.NewTimer(wait.Duration())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			p.tell()
			return ended(ctx)
		}
		if wasGranted {
			p.rename()
		}
	}
}
