package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdoff/holdoff/clients/go"
)

// get really calls.
func get(ctx context.Context, url string, attempt holdoff.Attempt) (string, error) {
	probe := 0
	if attempt.IsProbe {
		probe = 1
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?attempt=%d&probe=%d", url, attempt.Number, probe), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", failure{entry{Error: err.Error()}}
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return "", failure{entry{HTTP: response.StatusCode}}
	}
	return "got", nil
}

// request goes through the client's transport. Nothing is sent: the scenario denies it.
func (p *player) request(s step) (result, error) {
	request, err := http.NewRequest(s.Method, s.URL, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range s.Headers {
		request.Header.Set(name, value)
	}
	_, err = (&holdoff.Transport{Client: p.client, Base: unsent{}}).RoundTrip(request)
	var denied *holdoff.Denied
	if !errors.As(err, &denied) {
		return nil, fmt.Errorf("it was not denied: %w", err)
	}
	shown := stopped(denied.Denial)
	shown["value"], shown["error"], shown["runs"] = nil, nil, 0
	return shown, nil
}

type unsent struct{}

func (unsent) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("it was sent") }
