package holdoff

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// Classifier reads a result of the caller's own call as an outcome. The result is what the function of
// [Do] returned, nil where it returns none.
type Classifier func(result any, err error) Outcome

// ClassifyError reads an error by the first cause that tells:
//
//	nil                                                 success
//	an error with a method Outcome() Outcome            that
//	a guarded call below ([*Stopped])                   by its last error, and as retried below
//	a guarded call below that was denied                ignored
//	a gRPC status                                       by its code, as [ClassifyGRPC]
//	context.Canceled                                    cancelled
//	a connection that could not be made: refused,
//	network or host unreachable, a name that does
//	not resolve ([*net.OpError] of a dial)              not sent
//	a timeout of any layer                              timeout
//	anything else                                       failure
//
// "Not sent" is said only where the call certainly did not run, since it lets even an unsafe one be
// repeated. So these are failures: a connection that broke, or was told "refused" while it stood; what
// [errors.Join] holds, since another attempt may have left it; and the error of a [http.Client] (a
// [*url.Error]), which may have followed a redirect. [Transport] guards each hop, and knows.
func ClassifyError(err error) Outcome {
	if err == nil {
		return Success()
	}
	return classifyFailure(err)
}

func classifyFailure(err error) Outcome {
	var told teller
	var code interface{ GRPCStatus() *status.Status }
	switch {
	case errors.As(err, &told):
		return toldBy(told, err, ClassifyError)
	case errors.As(err, &code):
		return ClassifyGRPC(code.GRPCStatus().Err(), nil)
	case errors.Is(err, context.Canceled):
		return Cancelled()
	case isUnconnected(err):
		return NotSent()
	case isTimeout(err):
		return TimedOut()
	default:
		return Failure()
	}
}

// teller is an error that tells its own outcome, as those of guarded calls do.
type teller interface {
	error
	Outcome() Outcome
}

// toldBy is what was found in the error.
func toldBy(told teller, in error, ofLast func(error) Outcome) Outcome {
	stopped, is := told.(*Stopped)
	if !is {
		return told.Outcome()
	}
	outcome := stopped.outcome(ofLast)
	if outcome.told.Kind == rules.NotSent && !isCause(stopped, in) {
		outcome.told.Kind = rules.Failure
	}
	return outcome
}

// causes are those of an error as far as they are of this attempt, and all there was of it: not what
// [errors.Join] holds, and not what a [http.Client] came upon.
func causes(err error) iter.Seq[error] {
	return func(yield func(error) bool) {
		for ; err != nil; err = errors.Unwrap(err) {
			if _, is := err.(*url.Error); is || !yield(err) {
				return
			}
		}
	}
}

func isCause(stopped *Stopped, err error) bool {
	for cause := range causes(err) {
		if cause == error(stopped) {
			return true
		}
	}
	return false
}

// isUnconnected: the connection of this attempt could not be made. A [net.Dialer] that tries several
// addresses at once returns the error of the first one, and net/http passes it on.
func isUnconnected(err error) bool {
	isDial := false
	for cause := range causes(err) {
		switch of := cause.(type) {
		case *net.OpError:
			isDial = of.Op == "dial"
		case *net.DNSError:
			return isDial
		case syscall.Errno:
			return isDial && (of == syscall.ECONNREFUSED || of == syscall.ENETUNREACH || of == syscall.EHOSTUNREACH)
		}
	}
	return false
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout())
}

// ClassifyHTTP reads a status and its headers, with Retry-After as a pushback where it can be read:
//
//	below 200                                ignored
//	200 to 399                               success
//	408, 504                                 timeout
//	421, 425, other 5xx and above            failure
//	429                                      throttled
//	other 4xx, 501, 505                      rejected
//
// Retry-After counts on 408, 429 and from 500 on. It is whole seconds or one of the three date forms,
// counted from the response's Date where it has one; anything else is ignored.
func ClassifyHTTP(status int, header http.Header) Outcome {
	return Outcome{rules.HTTPOutcome(status, header.Values("Retry-After"), header.Values("Date"), time.Now().Unix())}
}

// ClassifyGRPC reads a status, with grpc-retry-pushback-ms of the trailers where it is there:
//
//	OK                                       success
//	DEADLINE_EXCEEDED                        timeout
//	CANCELLED                                cancelled
//	RESOURCE_EXHAUSTED                       throttled
//	UNAVAILABLE, UNKNOWN, INTERNAL, DATA_LOSS    failure
//	all others                               rejected
//
// A pushback in whole milliseconds is waited for, and restarts the backoff; a negative, an unreadable
// or a repeated one means "do not retry".
func ClassifyGRPC(err error, trailer metadata.MD) Outcome {
	return Outcome{rules.GRPCOutcome(uint32(status.Code(err)), trailer.Get("grpc-retry-pushback-ms"))}
}

// classify is the classifier where none is said.
func classify(response *http.Response, err error) Outcome {
	if err == nil && response != nil {
		outcome := ClassifyHTTP(response.StatusCode, response.Header)
		outcome.told.RetriedBelow = wasRetried(response)
		return outcome
	}
	return ClassifyError(err)
}
