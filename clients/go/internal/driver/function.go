package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdoff/holdoff/clients/go"
)

// What the user's function does at one run, and how its results are read.

type entry struct {
	OK       *string           `json:"ok"`
	Error    string            `json:"error"`
	Get      string            `json:"get"`
	HTTP     int               `json:"http"`
	Headers  map[string]string `json:"headers"`
	GRPC     *uint32           `json:"grpc"`
	Trailers map[string]string `json:"trailers"`
	TakesMS  *int              `json:"takes_ms"`
}

type outcome struct {
	Kind         string `json:"kind"`
	PushbackMS   *int   `json:"pushback_ms"`
	DoNotRetry   bool   `json:"do_not_retry"`
	RetriedBelow bool   `json:"retried_below"`
	StatusCode   uint32 `json:"status_code"`
}

// failure of the user's function.
type failure struct{ entry entry }

func (f failure) Error() string {
	switch {
	case f.entry.HTTP != 0:
		return fmt.Sprintf("http %d", f.entry.HTTP)
	case f.entry.GRPC != nil:
		return fmt.Sprintf("grpc %d", *f.entry.GRPC)
	default:
		return f.entry.Error
	}
}

func (e entry) run(ctx context.Context, takesMS int, attempt holdoff.Attempt) (string, error) {
	select {
	case <-time.After(millis(or(e.TakesMS, takesMS))):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	switch {
	case e.OK != nil:
		return *e.OK, nil
	case e.Get != "":
		return get(ctx, e.Get, attempt)
	default:
		return "", failure{e}
	}
}

func read(_ any, err error) holdoff.Outcome {
	var f failure
	switch {
	case !errors.As(err, &f):
		return holdoff.ClassifyError(err)
	case f.entry.HTTP != 0:
		header := http.Header{}
		for name, value := range f.entry.Headers {
			header.Set(name, value)
		}
		return holdoff.ClassifyHTTP(f.entry.HTTP, header)
	case f.entry.GRPC != nil:
		trailer := metadata.New(f.entry.Trailers)
		return holdoff.ClassifyGRPC(status.Error(codes.Code(*f.entry.GRPC), "scripted"), trailer)
	default:
		return holdoff.ClassifyError(errors.New(f.entry.Error))
	}
}

func (o *outcome) read() holdoff.Outcome {
	kinds := map[string]func() holdoff.Outcome{
		"success": holdoff.Success, "failure": holdoff.Failure, "timeout": holdoff.TimedOut, "not_sent": holdoff.NotSent,
		"throttled": holdoff.Throttled, "rejected": holdoff.Rejected, "ignored": holdoff.Ignored, "cancelled": holdoff.Cancelled,
	}
	told := kinds[o.Kind]().WithStatusCode(o.StatusCode)
	if o.PushbackMS != nil {
		told = told.WithPushback(millis(*o.PushbackMS))
	}
	if o.DoNotRetry {
		told = told.WithDoNotRetry()
	}
	if o.RetriedBelow {
		told = told.WithRetriedBelow()
	}
	return told
}
