// Ask and report as two steps, for callers that run their attempts themselves.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/holdoff/holdoff/clients/go"
)

func main() {
	endpoint := flag.String("endpoint", "http://127.0.0.1:7460", "where the service is")
	flag.Parse()
	client, err := holdoff.New(holdoff.WithService("worker"), holdoff.WithEndpoints(*endpoint))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()

	connecting, connected := context.WithTimeout(ctx, 200*time.Millisecond)
	fmt.Println("the service is there:", client.Connect(connecting))
	connected()
	if err := find(ctx, client); err != nil {
		log.Fatal(err)
	}
	client.Flush(ctx)
	fmt.Printf("%+v\n", client.Counters())
}

func find(ctx context.Context, client *holdoff.Client) error {
	permit, err := client.Acquire(ctx, "search", holdoff.Idempotent())
	if err != nil {
		return err
	}
	// Of the last permit: it does nothing after a report.
	defer func() { permit.Release() }()
	for {
		fmt.Printf("attempt %d in %v\n", permit.Attempt(), permit.Delay().Round(time.Millisecond))
		if err := permit.Wait(ctx); err != nil {
			return err
		}
		found, err := search(permit.Attempt())
		if err == nil {
			fmt.Println("found", found)
			permit.Report(holdoff.Success().WithLatency(12 * time.Millisecond))
			return nil
		}
		fmt.Println(err)
		next, err := permit.Retry(ctx, holdoff.TimedOut())
		if err != nil {
			fmt.Println("no further attempt:", err)
			return nil
		}
		permit = next
	}
}

func search(attempt int) (string, error) {
	if attempt < 3 {
		return "", errors.New("no answer in time")
	}
	return "a needle", nil
}
