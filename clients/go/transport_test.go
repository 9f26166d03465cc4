package holdoff_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdoff/holdoff/clients/go"
	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

// answering with these statuses, the last one for ever, and checking each body.
func answering(t *testing.T, body string, statuses ...int) (url string, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read, err := io.ReadAll(r.Body)
		if err != nil || string(read) != body {
			t.Errorf("body %q, %v", read, err)
		}
		i := min(int(requests.Add(1)), len(statuses)) - 1
		w.WriteHeader(statuses[i])
		_, _ = io.WriteString(w, http.StatusText(statuses[i]))
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

func guarded(client *holdoff.Client) *http.Client {
	return &http.Client{Transport: &holdoff.Transport{Client: client}}
}

func TestARequestIsRepeatedWhereItsMethodAndBodyAllow(t *testing.T) {
	for name, c := range map[string]struct {
		method, body, key string
		plainReader       bool
		requests          int32
	}{
		"GET":                           {method: "GET", requests: 2},
		"PUT with a body":               {method: "PUT", body: "x", requests: 2},
		"POST":                          {method: "POST", body: "x", requests: 1},
		"POST with a key":               {method: "POST", body: "x", key: "k1", requests: 2},
		"PUT whose body is read away":   {method: "PUT", body: "x", plainReader: true, requests: 1},
		"DELETE without a body":         {method: "DELETE", requests: 2},
		"PATCH, which is no idempotent": {method: "PATCH", body: "x", requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := answering(t, c.body, 503, 200)
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			if c.plainReader {
				body = io.MultiReader(body)
			}
			request, err := http.NewRequestWithContext(t.Context(), c.method, url, body)
			if err != nil {
				t.Fatal(err)
			}
			if c.key != "" {
				request.Header.Set("Idempotency-Key", c.key)
			}
			response, err := guarded(holdoff.NewTesting()).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			want := map[bool]int{true: 200, false: 503}[c.requests > 1]
			if requests.Load() != c.requests || response.StatusCode != want {
				t.Errorf("%d requests, status %d", requests.Load(), response.StatusCode)
			}
		})
	}
}

func TestTheLastResponseIsTheCallersWhateverItsStatus(t *testing.T) {
	url, requests := answering(t, "", 503)
	client := guarded(holdoff.NewTesting())
	// With one connection, a response that is not read away would block the next attempt.
	client.Transport.(*holdoff.Transport).Base = &http.Transport{MaxConnsPerHost: 1}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "Service Unavailable" || response.StatusCode != 503 || requests.Load() != 3 {
		t.Errorf("%q, %v, %d requests", body, err, requests.Load())
	}
}

type closing struct {
	io.Reader
	isClosed atomic.Bool
}

func (c *closing) Close() error { c.isClosed.Store(true); return nil }

func TestADeniedRequestClosesItsBody(t *testing.T) {
	client := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		return scripted.Denied(pb.DenialReason_DENIAL_REASON_BREAKER_OPEN, time.Second)
	}})
	body := &closing{Reader: strings.NewReader("x")}
	request, err := http.NewRequestWithContext(t.Context(), "PUT", "http://127.0.0.1:1", body)
	if err != nil {
		t.Fatal(err)
	}
	_, err = guarded(client).Do(request)
	var denied *holdoff.Denied
	if !errors.As(err, &denied) || denied.Reason != holdoff.ReasonBreakerOpen || !body.isClosed.Load() {
		t.Errorf("%v, closed: %v", err, body.isClosed.Load())
	}
}

func TestARefusedConnectionWasNotSentAndEvenAnUnsafeRequestIsRepeated(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	_, err = guarded(holdoff.NewTesting()).Post("http://"+listener.Addr().String(), "text/plain", strings.NewReader("x"))
	var stopped *holdoff.Stopped
	if !errors.As(err, &stopped) || stopped.Attempts != 3 {
		t.Errorf("%v", err)
	}
	if outcome := holdoff.ClassifyError(err); outcome.String() != "not_sent" {
		t.Errorf("%v", outcome)
	}
}

func TestAResponseIsReadBehindTheAttemptsTimeout(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(30 * time.Millisecond)
		_, _ = io.WriteString(w, "second")
	}))
	defer server.Close()
	client := &http.Client{Transport: &holdoff.Transport{Client: holdoff.NewTesting(), Options: []holdoff.CallOption{holdoff.AttemptTimeout(5 * time.Second)}}}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "first second" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestErrorsOfConnectionsAreRead(t *testing.T) {
	var resolver net.Resolver
	_, unresolved := resolver.LookupHost(t.Context(), "no-such-host.invalid")
	late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-late.Done()
	below := holdoff.NewTesting().Call(t.Context(), "below", func(context.Context, holdoff.Attempt) error { return context.DeadlineExceeded }, holdoff.Idempotent())
	if outcome := holdoff.ClassifyError(below); outcome != holdoff.TimedOut().WithRetriedBelow() {
		t.Errorf("%+v", outcome)
	}
	for want, err := range map[string]error{
		"success":   nil,
		"failure":   io.ErrUnexpectedEOF,
		"timeout":   late.Err(),
		"cancelled": context.Canceled,
		"not_sent":  unresolved,
	} {
		if outcome := holdoff.ClassifyError(err); outcome.String() != want {
			t.Errorf("%v is %v, expected %s", err, outcome, want)
		}
	}
}
