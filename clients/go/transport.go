package holdoff

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// Transport guards an HTTP client: each request is a call. What the client sees is the last response,
// whatever its status, or the error of a call that was given up, with a [*Stopped] or a [*Denied] in it.
//
//	client := &http.Client{Transport: &holdoff.Transport{Client: guard}}
//
// A request is keyed by a header Idempotency-Key, whatever its method, and otherwise idempotent by that
// (GET, HEAD, OPTIONS, TRACE, PUT, DELETE). It is repeated only where its body can be: it has none, or GetBody, as
// [http.NewRequest] sets it for the usual readers.
//
// The outcome is that of the response's head. Delays pass within the request's context; the Timeout of
// a http.Client is in it.
type Transport struct {
	Client *Client
	// Base makes the requests; [http.DefaultTransport] where it is nil.
	Base http.RoundTripper
	// Dependency names what a request calls; its URL's host where it is nil, and the port unless that is
	// the scheme's own. An international name is named as it is called (xn--…), and what no name has is
	// dropped.
	Dependency func(*http.Request) string
	// Options hold for each request, behind those of its method.
	Options []CallOption
}

// RoundTrip makes the request as a guarded call.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	options := append(requestOptions(request), t.Options...)
	isBodyGone := false
	response, err := Do(request.Context(), t.Client, t.dependency(request), func(ctx context.Context, attempt Attempt) (*http.Response, error) {
		again, err := repeated(ctx, request, attempt.Number)
		if err != nil {
			return nil, err
		}
		isBodyGone = true
		return t.base().RoundTrip(again)
	}, options...)
	if !isBodyGone && request.Body != nil {
		// Nobody else closes it.
		_ = request.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) dependency(request *http.Request) string {
	if t.Dependency == nil {
		return nameOf(request.URL)
	}
	return t.Dependency(request)
}

// nameOf a dependency: the clients of all languages name it so, and share its breaker.
func nameOf(url *url.URL) string {
	// An IPv6 address stands in brackets, which no name has.
	host, port := strings.ToLower(url.Hostname()), url.Port()
	if isInternational := strings.IndexFunc(host, isNotASCII) >= 0; isInternational {
		// As net/http dials it.
		if ascii, err := idna.Lookup.ToASCII(host); err == nil {
			host = ascii
		}
	}
	host = strings.Map(inNames, host)
	isUsual := port == "" || url.Scheme == "http" && port == "80" || url.Scheme == "https" && port == "443"
	if isUsual {
		return host
	}
	return host + ":" + port
}

func isNotASCII(r rune) bool { return r > unicode.MaxASCII }

// inNames drops what no name has, such as the mark of an IPv6 address's zone.
func inNames(r rune) rune {
	isLetter := 'a' <= r && r <= 'z'
	if isLetter || '0' <= r && r <= '9' || strings.ContainsRune("._:-", r) {
		return r
	}
	return -1
}

func requestOptions(request *http.Request) []CallOption {
	var options []CallOption
	switch {
	case request.Header.Get("Idempotency-Key") != "":
		options = append(options, setKeyed)
	case isIdempotent(request.Method):
		options = append(options, setIdempotent)
	}
	if hasBody(request) && request.GetBody == nil {
		options = append(options, MaxAttempts(1))
	}
	return options
}

func isIdempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	default:
		return false
	}
}

func hasBody(request *http.Request) bool {
	return request.Body != nil && request.Body != http.NoBody
}

// repeated is the request of one attempt. The original is never changed.
func repeated(ctx context.Context, request *http.Request, attempt int) (*http.Request, error) {
	again := request
	if ctx != request.Context() || attempt > 1 {
		again = request.WithContext(ctx)
	}
	if attempt > 1 && hasBody(request) {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return again, nil
}
