package main

import (
	"context"
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
