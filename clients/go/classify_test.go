package holdoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go"
)

// direct is the error of a request that is not redirected.
func direct(t *testing.T, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := new(http.Transport).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("it was answered")
	}
	return err
}

func of(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, errno)}
}

// told is an error with an outcome of its own.
type told struct{ error }

func (told) Outcome() holdoff.Outcome { return holdoff.Rejected() }

func TestErrorsOfConnectionsAreRead(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-late.Done()
	refused := direct(t, "http://"+nowhere(t))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":                                {nil, "success"},
		"broke":                               {io.ErrUnexpectedEOF, "failure"},
		"late":                                {late.Err(), "timeout"},
		"cancelled":                           {context.Canceled, "cancelled"},
		"its own outcome":                     {told{refused}, "rejected"},
		"refused":                             {refused, "not_sent"},
		"refused, wrapped":                    {fmt.Errorf("charge: %w", refused), "not_sent"},
		"refused, by one of two addresses":    {direct(t, "http://localhost:1"), "not_sent"},
		"not resolved":                        {direct(t, "http://no-such-host.invalid"), "not_sent"},
		"network unreachable":                 {of("dial", syscall.ENETUNREACH), "not_sent"},
		"host unreachable":                    {of("dial", syscall.EHOSTUNREACH), "not_sent"},
		"the proxy refused":                   {&net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused}, "not_sent"},
		"refused on one that stood":           {of("read", syscall.ECONNREFUSED), "failure"},
		"unreachable on one that stood":       {of("write", syscall.EHOSTUNREACH), "failure"},
		"read while dialing":                  {&net.OpError{Op: "dial", Err: of("read", syscall.ECONNREFUSED)}, "failure"},
		"refused, by nobody knows what":       {syscall.ECONNREFUSED, "failure"},
		"not resolved, by nobody knows what":  {&net.DNSError{Err: "no such host", IsNotFound: true}, "failure"},
		"reset, and then the second refused":  {errors.Join(of("read", syscall.ECONNRESET), refused), "failure"},
		"two causes in one":                   {fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, refused), "failure"},
		"perhaps after a redirect":            {&url.Error{Op: "Post", URL: "http://x", Err: refused}, "failure"},
		"a status that says so":               {status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`), "failure"},
		"guarded below, and perhaps redirect": {&url.Error{Op: "Post", URL: "http://x", Err: &holdoff.Stopped{Attempts: 1, Last: refused}}, "failure"},
		"reset, and then guarded below":       {errors.Join(of("read", syscall.ECONNRESET), &holdoff.Stopped{Attempts: 1, Last: refused}), "failure"},
	} {
		if outcome := holdoff.ClassifyError(c.err); outcome.String() != c.want {
			t.Errorf("%s: %v is %v, expected %s", name, c.err, outcome, c.want)
		}
	}
}

func TestACallThatIsGuardedBelowIsReadByItsLastErrorAndAsRetriedBelow(t *testing.T) {
	refused := direct(t, "http://"+nowhere(t))
	for name, c := range map[string]struct {
		err  error
		want holdoff.Outcome
	}{
		"once":                {&holdoff.Stopped{Attempts: 1, Last: refused}, holdoff.NotSent()},
		"twice":               {&holdoff.Stopped{Attempts: 2, Last: errBoom}, holdoff.Failure().WithRetriedBelow()},
		"wrapped":             {fmt.Errorf("charge: %w", &holdoff.Stopped{Attempts: 2, Last: errBoom}), holdoff.Failure().WithRetriedBelow()},
		"beside the real one": {errors.Join(errBoom, &holdoff.Stopped{Attempts: 2, Last: errBoom}), holdoff.Failure().WithRetriedBelow()},
		"its own outcome":     {&holdoff.Stopped{Attempts: 2, Last: told{errBoom}}, holdoff.Rejected().WithRetriedBelow()},
		"around it an own":    {told{&holdoff.Stopped{Attempts: 2, Last: errBoom}}, holdoff.Rejected()},
		"all cut off":         {&holdoff.Stopped{Attempts: 3}, holdoff.TimedOut().WithRetriedBelow()},
		"cancelled":           {&holdoff.Stopped{Denial: holdoff.Denial{Reason: holdoff.ReasonCancelled}, Attempts: 1}, holdoff.Cancelled()},
		"denied":              {&holdoff.Denied{Denial: holdoff.Denial{Reason: holdoff.ReasonDeadline}}, holdoff.Ignored()},
	} {
		if outcome := holdoff.ClassifyError(c.err); outcome != c.want {
			t.Errorf("%s: %+v, expected %+v", name, outcome, c.want)
		}
	}
	below := holdoff.NewTesting().Call(t.Context(), "below", func(context.Context, holdoff.Attempt) error { return context.DeadlineExceeded }, holdoff.Idempotent())
	if outcome := holdoff.ClassifyError(below); outcome != holdoff.TimedOut().WithRetriedBelow() {
		t.Errorf("%+v", outcome)
	}
}
