// How code that makes guarded calls is tested: no service, no waiting, at most three attempts.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdoff/holdoff/clients/go"
)

var errUnavailable = errors.New("503")

// fetch is the code under test. In production it gets a client that knows a service.
func fetch(ctx context.Context, client *holdoff.Client, calls *int) (int, error) {
	return holdoff.Do(ctx, client, "rates", func(context.Context, holdoff.Attempt) (int, error) {
		*calls++
		if *calls < 3 {
			return 0, errUnavailable
		}
		return 7, nil
	}, holdoff.Idempotent())
}

func main() {
	client := holdoff.NewTesting()
	ctx := context.Background()
	begun := time.Now()

	calls := 0
	rate, err := fetch(ctx, client, &calls)
	fmt.Println("it recovers:", rate, err)
	fmt.Println("after", calls, "calls")

	err = client.Call(ctx, "rates", func(context.Context, holdoff.Attempt) error { return errUnavailable }, holdoff.Idempotent())
	fmt.Println("it gives up:", err)
	fmt.Println("without waiting:", time.Since(begun) < time.Second)
}
