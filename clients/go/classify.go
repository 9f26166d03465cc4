package holdoff

import (
	"context"
	"errors"
	"net"
	"net/http"
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
//	connection refused, network or host unreachable,
//	a name that does not resolve                        not sent
//	a timeout of any layer                              timeout
//	context.Canceled                                    cancelled
//	anything else                                       failure
//
// A connection that broke is a failure and not "not sent": the request may have arrived.
func ClassifyError(err error) Outcome {
	if err == nil {
		return Success()
	}
	return classifyFailure(err)
}

func classifyFailure(err error) Outcome {
	var told interface{ Outcome() Outcome }
	var stopped *Stopped
	var denied *Denied
	var code interface{ GRPCStatus() *status.Status }
	var name *net.DNSError
	switch {
	case errors.As(err, &told):
		return told.Outcome()
	case errors.As(err, &stopped) && stopped.Last != nil:
		outcome := ClassifyError(stopped.Last)
		outcome.told.RetriedBelow = outcome.told.RetriedBelow || stopped.Attempts > 1
		return outcome
	case errors.As(err, &denied):
		return Ignored()
	case errors.As(err, &code):
		return ClassifyGRPC(code.GRPCStatus().Err(), nil)
	case errors.Is(err, context.Canceled):
		return Cancelled()
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return NotSent()
	case errors.As(err, &name):
		return NotSent()
	case isTimeout(err):
		return TimedOut()
	default:
		return Failure()
	}
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
		return ClassifyHTTP(response.StatusCode, response.Header)
	}
	return ClassifyError(err)
}
