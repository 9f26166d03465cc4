// Everything a guarded call can do: no hop while all is well, HTTP statuses and Retry-After, a
// deadline, waiting when the answer is no, a fallback, and the error of a call that was given up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/holdoff/holdoff/clients/go"
)

func main() {
	endpoint := flag.String("endpoint", "http://127.0.0.1:7460", "where the service is")
	flag.Parse()
	client, err := holdoff.New(
		holdoff.WithEndpoints(*endpoint),
		holdoff.WithService("checkout"),
		holdoff.WithTimeout(50*time.Millisecond),
		holdoff.WithFollow("catalogue"),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	fmt.Println("-- while the dependency is well, calls ask nothing")
	connecting, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	client.Connect(connecting)
	cancel()
	for range 1000 {
		err := client.Call(ctx, "catalogue", func(context.Context, holdoff.Attempt) error { return nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	counters := client.Counters()
	fmt.Printf("1000 calls: %d without a hop, %d asked, %d decided here\n",
		counters.PushedGrants, counters.Answered, counters.LocalGrants)

	fmt.Println("-- a response with Retry-After is waited for")
	server := httptest.NewServer(throttledOnce())
	defer server.Close()
	guarded := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &holdoff.Transport{
			Client:     client,
			Dependency: func(*http.Request) string { return "inventory" },
			Options:    []holdoff.CallOption{holdoff.WaitWhenDenied()},
		},
	}
	response, err := guarded.Get(server.URL + "/items")
	if err != nil {
		log.Fatal(err)
	}
	_ = response.Body.Close()
	fmt.Println("status", response.StatusCode)

	fmt.Println("-- an unsafe call that may have been executed is not repeated")
	err = client.Call(ctx, "payments", func(context.Context, holdoff.Attempt) error { return errReset })
	fmt.Println(err)
	fmt.Println("the last real error is in it:", errors.Is(err, errReset))
	var stopped *holdoff.Stopped
	if errors.As(err, &stopped) {
		fmt.Println("why there was no retry:", stopped.Reason)
	}

	fmt.Println("-- a fallback where the call is given up")
	price, err := holdoff.DoOr(ctx, client, "prices",
		func(context.Context, holdoff.Attempt) (int, error) { return 0, errors.New("no route") },
		func(context.Context, error) (int, error) { return 42, nil })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a price from the cache:", price)
}

var errReset = errors.New("connection reset")

func throttledOnce() http.Handler {
	var requests atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempt := requests.Add(1)
		fmt.Println("attempt", attempt, r.Method, r.URL.Path)
		if attempt == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
}
