// The smallest use: a call that is guarded. Runs with a service (holdoff serve) and without one.
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
	client, err := holdoff.New(holdoff.WithService("checkout"), holdoff.WithEndpoints(*endpoint))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err = client.Call(ctx, "payments", func(ctx context.Context, attempt holdoff.Attempt) error {
		by := "the service"
		if attempt.IsLocal {
			by = "this process"
		}
		fmt.Printf("attempt %d, granted by %s\n", attempt.Number, by)
		return charge(ctx, attempt.Number)
	}, holdoff.Idempotent())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("charged")
}

// charge stands for a call that fails now and then.
func charge(_ context.Context, attempt int) error {
	if attempt == 1 {
		return errors.New("503 Service Unavailable")
	}
	return nil
}
