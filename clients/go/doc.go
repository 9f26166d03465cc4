// Package holdoff asks holdoff, a service that coordinates retries and circuit breakers for whole
// fleets, before a call: may I call this dependency, may I retry it, and when? It retries when it is
// told, and goes on without the service when that is away.
//
//	client, err := holdoff.New(holdoff.WithService("checkout"))
//	…
//	err = client.Call(ctx, "payments", func(ctx context.Context, _ holdoff.Attempt) error {
//		return charge(ctx, order)
//	}, holdoff.Idempotent())
//
// That makes the call at once where the service has pushed that first attempts go, and otherwise asks
// whether it may be made and waits if it is told to. It reports how the call ended, and retries it as
// long as the fleet's breaker, budget and calendar allow. The context's deadline is the call's. Where
// it gives up, the error wraps the last real error, and a [*Stopped] in it says why there was no
// further attempt; a [*Denied] is that of a call that was never made.
//
// [Do] is the same for functions that return a value. [Transport] guards an HTTP client,
// [UnaryClientInterceptor] and [StreamClientInterceptor] a gRPC one. [Client.Acquire] asks and reports
// as two steps. [Client.Supervise] restarts a task, [Client.Check] runs a health check when it is due.
package holdoff
