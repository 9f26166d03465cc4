package holdoff_test

import (
	"context"
	"errors"
	"io"
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

// redirecting each request to the address.
func redirecting(t *testing.T, status int, to string) (url string, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, to, status)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

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
	_, err := guarded(holdoff.NewTesting()).Post("http://"+nowhere(t), "text/plain", strings.NewReader("x"))
	var stopped *holdoff.Stopped
	if !errors.As(err, &stopped) || stopped.Attempts != 3 {
		t.Errorf("%v", err)
	}
}

func TestARedirectToADeadHostDoesNotRepeatTheUnsafeRequestThatWasAnsweredByIt(t *testing.T) {
	for _, status := range []int{http.StatusSeeOther, http.StatusTemporaryRedirect} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			url, requests := redirecting(t, status, "http://"+nowhere(t))
			_, err := guarded(holdoff.NewTesting()).Post(url, "text/plain", strings.NewReader("x"))
			var stopped *holdoff.Stopped
			if !errors.As(err, &stopped) || stopped.Attempts != 3 || requests.Load() != 1 {
				t.Errorf("%v, %d requests", err, requests.Load())
			}
		})
	}
}

func TestWhereAnHTTPClientMayHaveFollowedARedirectARefusedConnectionIsNoProofThatNothingWasSent(t *testing.T) {
	url, requests := redirecting(t, http.StatusTemporaryRedirect, "http://"+nowhere(t))
	for name, below := range map[string]*http.Client{"plain": http.DefaultClient, "guarded below": guarded(holdoff.NewTesting())} {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			_, err := holdoff.Do(t.Context(), holdoff.NewTesting(), "payments", func(context.Context, holdoff.Attempt) (*http.Response, error) {
				return below.Post(url, "text/plain", strings.NewReader("x"))
			})
			if err == nil || requests.Load() != 1 {
				t.Errorf("%v, %d requests", err, requests.Load())
			}
		})
	}
}

func TestARequestThatIsGuardedBelowIsNotRetriedAgain(t *testing.T) {
	url, requests := answering(t, "", 503)
	denying := clientOf(t, &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		return scripted.Denied(pb.DenialReason_DENIAL_REASON_BREAKER_OPEN, time.Second)
	}})
	for name, c := range map[string]struct {
		below    *holdoff.Client
		url      string
		requests int32
		kind     string
	}{
		"answered with a status": {holdoff.NewTesting(), url, 3, "failure"},
		"refused":                {holdoff.NewTesting(), "http://" + nowhere(t), 0, "not_sent"},
		"denied":                 {denying, url, 0, "ignored"},
	} {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			attempts := 0
			counted := roundTripper(func(request *http.Request) (*http.Response, error) {
				attempts++
				return (&holdoff.Transport{Client: c.below}).RoundTrip(request)
			})
			transport := &holdoff.Transport{Client: holdoff.NewTesting(), Base: counted}
			request, err := http.NewRequestWithContext(t.Context(), "GET", c.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if response != nil {
				_ = response.Body.Close()
			}
			if attempts != 1 || requests.Load() != c.requests {
				t.Errorf("%d attempts, %d requests", attempts, requests.Load())
			}
			var stopped *holdoff.Stopped
			if err != nil && (!errors.As(err, &stopped) || holdoff.ClassifyError(stopped.Last).String() != c.kind) {
				t.Errorf("%v", err)
			}
			if c.kind != "ignored" && stopped != nil && stopped.Reason != holdoff.ReasonRetriedBelow {
				t.Errorf("%v", stopped.Reason)
			}
		})
	}
}

func TestAResponseThatWasRetriedBelowAnHTTPClientIsNotRetriedAgain(t *testing.T) {
	url, requests := answering(t, "", 503)
	below := guarded(holdoff.NewTesting())
	below.Timeout = time.Minute // it wraps the body
	response, err := holdoff.Do(t.Context(), holdoff.NewTesting(), "payments", func(context.Context, holdoff.Attempt) (*http.Response, error) {
		return below.Get(url)
	}, holdoff.Idempotent())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if requests.Load() != 3 || response.StatusCode != 503 {
		t.Errorf("%d requests, status %d", requests.Load(), response.StatusCode)
	}
}

// stalling answers the first request with this status and a body that begins and stalls, the others with
// 200.
func stalling(t *testing.T, status int) string {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAFailedResponseWhoseBodyStallsHoldsUpNeitherItsCallerNorThePermitOfTheNextAttempt(t *testing.T) {
	var grantedAt time.Time
	service := &scripted.Service{Answer: func(*pb.AcquireRequest) *pb.AcquireResponse {
		grantedAt = time.Now()
		return scripted.Granted(0)
	}}
	client := guarded(clientOf(t, service))
	response, err := client.Get(stalling(t, 503))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if held := time.Since(grantedAt); response.StatusCode != 200 || held > slack {
		t.Errorf("status %d, the permit waited for %v", response.StatusCode, held)
	}
}

func TestTheHeadOfAResponseThatIsNotRepeatedIsNotWaitedFor(t *testing.T) {
	begun := time.Now()
	response, err := guarded(holdoff.NewTesting()).Post(stalling(t, 503), "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, 6)
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first " || response.StatusCode != 503 {
		t.Errorf("%q, %v, status %d", first, err, response.StatusCode)
	}
	if took := time.Since(begun); took > slack {
		t.Errorf("%v", took)
	}
}

func TestTheLastResponseIsWholeWhateverItsLength(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(503)
		_, _ = io.WriteString(w, long[:100_000])
		_ = http.NewResponseController(w).Flush()
		time.Sleep(100 * time.Millisecond)
		_, _ = io.WriteString(w, long[100_000:])
	}))
	defer server.Close()
	// The service has the last word: nobody knows before that it is no.
	client := clientOf(t, &scripted.Service{Answer: func(request *pb.AcquireRequest) *pb.AcquireResponse {
		if request.GetAttempt() > 1 {
			return scripted.Denied(pb.DenialReason_DENIAL_REASON_BUDGET_EXHAUSTED, time.Second)
		}
		return scripted.Granted(0)
	}})
	response, err := guarded(client).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != long {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestAnUpgradedConnectionIsTheCallers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	}))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "echo")
	response, err := guarded(holdoff.NewTesting()).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	upgraded, is := response.Body.(io.ReadWriter)
	if !is || response.StatusCode != 101 {
		t.Fatalf("status %d, %T", response.StatusCode, response.Body)
	}
	_, _ = io.WriteString(upgraded, "hello\n")
	if said, err := io.ReadAll(upgraded); err != nil || string(said) != "hello\n" {
		t.Errorf("%q, %v", said, err)
	}
}

func TestAnyHostThatARequestMayCallHasAName(t *testing.T) {
	for url, name := range map[string]string{
		"http://b\u00fccher.de":         "xn--bcher-kva.de",
		"https://B\u00dcCHER.de:8443/x": "xn--bcher-kva.de:8443",
		"http://b%C3%BCcher.de":         "xn--bcher-kva.de",
		"http://[fe80::1%25eth0]:8080":  "fe80::1eth0:8080",
		"http://my_service":             "my_service",
		"http://a!b":                    "ab",
	} {
		var asked string
		client := clientOf(t, &scripted.Service{Answer: func(request *pb.AcquireRequest) *pb.AcquireResponse {
			asked = request.GetDependency()
			return scripted.Granted(0)
		}})
		answered := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		request, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&holdoff.Transport{Client: client, Base: answered}).RoundTrip(request)
		if err != nil || asked != name {
			t.Errorf("%s: %q, %v", url, asked, err)
		}
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
