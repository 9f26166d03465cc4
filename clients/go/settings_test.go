package holdoff

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go/internal/scripted"
	"github.com/holdoff/holdoff/clients/go/internal/vectors"
)

// What a client takes, and what it says to what it does not take.

func TestVectorsSettings(t *testing.T) {
	type vector struct {
		vectors.Named
		Endpoint *string `json:"endpoint"`
		Text     *string `json:"text"`
		Request  *struct {
			Method  string      `json:"method"`
			URL     string      `json:"url"`
			Headers [][2]string `json:"headers"`
		} `json:"request"`
		Expected struct {
			Address *struct {
				Host      string `json:"host"`
				Port      int    `json:"port"`
				Encrypted bool   `json:"encrypted"`
			} `json:"address"`
			Taken      bool   `json:"taken"`
			Dependency string `json:"dependency"`
			Safety     string `json:"safety"`
		} `json:"expected"`
	}
	vectors.Each(t, "settings", 103, func(t *testing.T, v vector) {
		switch {
		case v.Endpoint != nil:
			host, port, isEncrypted, isAddress := readAddress(*v.Endpoint)
			address := v.Expected.Address
			if isAddress != (address != nil) || isAddress && (host != address.Host || port != address.Port || isEncrypted != address.Encrypted) {
				t.Errorf("%q, %d, %v, %v", host, port, isEncrypted, isAddress)
			}
			if _, err := New(WithEndpoints(*v.Endpoint)); (err == nil) != isAddress {
				t.Error(err)
			}
		case v.Text != nil:
			if taken := isName(*v.Text); taken != v.Expected.Taken {
				t.Error(taken)
			}
		default:
			request, err := http.NewRequest(v.Request.Method, v.Request.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, header := range v.Request.Headers {
				request.Header.Set(header[0], header[1])
			}
			q := newQuestion("")
			for _, option := range requestOptions(request) {
				option(&q)
			}
			safety := map[safety]string{unsafeToRepeat: "unsafe", idempotent: "idempotent", keyed: "keyed"}[q.safety]
			if name := nameOf(request.URL); name != v.Expected.Dependency || safety != v.Expected.Safety {
				t.Errorf("%s, %s", name, safety)
			}
		}
	})
}

func TestAnEndpointThatIsNoneIsRefusedWithItsValueAndWithoutItsPassword(t *testing.T) {
	for endpoint, said := range map[string]string{
		"log":                   "holdoff: endpoint `log`: it must be http://host:port, https://host:port or host:port",
		"http://me:secret@h:1":  "holdoff: endpoint `…@h:1`: ",
		strings.Repeat("x", 99): "holdoff: endpoint `" + strings.Repeat("x", 80) + "`: ",
	} {
		if _, err := New(WithEndpoints("h:1", endpoint)); err == nil || !strings.HasPrefix(err.Error(), said) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
	if _, err := New(WithNamespace("a b")); err == nil || !strings.Contains(err.Error(), `namespace "a b": it must be 1 to 200`) {
		t.Error(err)
	}
}

func TestTheEnvironmentNamesTheEndpointAndTheTokenWhereNoOptionDoes(t *testing.T) {
	service := (&scripted.Service{}).Start(t)
	t.Setenv("HOLDOFF_SERVER", "http://"+service.Address)
	t.Setenv("HOLDOFF_TOKEN", "told")
	client, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if !client.Connect(t.Context()) {
		t.Error("the variable is not read")
	}
	if token := service.Token(); token != "Bearer told" {
		t.Error(token)
	}
	other := (&scripted.Service{}).Start(t)
	said, err := New(WithEndpoints(other.Address), WithToken("other"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = said.Close() }()
	if !said.Connect(t.Context()) || other.Token() != "Bearer other" {
		t.Error("the options do not win")
	}
	t.Setenv("HOLDOFF_SERVER", "log")
	if _, err := New(); err == nil || !strings.HasPrefix(err.Error(), "holdoff: HOLDOFF_SERVER `log`: ") {
		t.Error(err)
	}
	t.Setenv("HOLDOFF_SERVER", "")
	if _, err := New(); err != nil {
		t.Error(err)
	}
}

func TestABadNameIsAnErrorAtOnceThatNamesIt(t *testing.T) {
	never := func(context.Context, Attempt) error {
		t.Error("it ran")
		return nil
	}
	client, err := New(WithEndpoints("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Client{client, NewTesting()} {
		_, acquired := c.Acquire(t.Context(), "pay ments")
		checked := c.Check(t.Context(), "pay ments", func(context.Context) error { return never(t.Context(), Attempt{}) })
		for how, err := range map[string]error{
			"Call":      c.Call(t.Context(), "pay ments", never),
			"Acquire":   acquired,
			"Supervise": c.Supervise(t.Context(), "pay ments", never),
			"Check":     checked.LastErr,
		} {
			var denied *Denied
			if !errors.As(err, &denied) || denied.Reason != ReasonBadName || denied.By != ByCaller || !strings.Contains(err.Error(), `"pay ments"`) {
				t.Errorf("%s: %v", how, err)
			}
		}
		if asked := c.Counters().Asked; asked != 0 || checked.Runs != 0 {
			t.Errorf("%d questions, %d checks", asked, checked.Runs)
		}
	}
	t.Setenv("HOLDOFF_BYPASS", "1")
	bypassed, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := bypassed.Call(t.Context(), "pay ments", func(context.Context, Attempt) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestWhereAllAttemptsWereCutOffTheErrorIsATimeout(t *testing.T) {
	slow := func(ctx context.Context, _ Attempt) error {
		<-ctx.Done()
		return ctx.Err()
	}
	err := NewTesting().Call(t.Context(), "payments", slow, Idempotent(), AttemptTimeout(5*time.Millisecond))
	var stopped *Stopped
	if !errors.As(err, &stopped) || stopped.Attempts != 3 || stopped.Reason != ReasonAttemptsExhausted {
		t.Fatal(err)
	}
	var timeout net.Error = &url.Error{Err: err}
	if !errors.Is(err, context.DeadlineExceeded) || !stopped.Timeout() || !timeout.Timeout() {
		t.Error("it is no timeout")
	}
	if code := status.Code(err); code != codes.DeadlineExceeded {
		t.Error(code)
	}
	failed := NewTesting().Call(t.Context(), "payments", func(context.Context, Attempt) error { return errFell }, Idempotent())
	if errors.Is(failed, context.DeadlineExceeded) || !errors.As(failed, &stopped) || stopped.Timeout() {
		t.Error("a failure is a timeout")
	}
}
