// Package holdoffotel tells OpenTelemetry what a holdoff client does. It is apart from the client, so
// that who measures in another way does not get OpenTelemetry with it.
package holdoffotel

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/holdoff/holdoff/clients/go"
)

// Name is that of the meter to give to [Register].
const Name = "github.com/holdoff/holdoff/clients/go"

// Register observes a client's counters until the registration is ended:
//
//	holdoff.client.attempts          by decision (pushed, asked, local) and verdict (granted, denied)
//	holdoff.client.no_decision       questions that the service did not decide
//	holdoff.client.reports           by result (taken, dropped)
//	holdoff.client.connections
//
// An attempt that was asked for has the verdict "answered": the service counts the rest.
func Register(client *holdoff.Client, meter metric.Meter) (metric.Registration, error) {
	var made instruments
	for _, instrument := range []struct {
		into                    *metric.Int64ObservableCounter
		name, unit, description string
	}{
		{&made.attempts, "holdoff.client.attempts", "{attempt}", "Attempts, by who decided them and how."},
		{&made.noDecision, "holdoff.client.no_decision", "{question}", "Questions that the service did not decide."},
		{&made.reports, "holdoff.client.reports", "{report}", "Outcomes told to the service; a tally of many is one."},
		{&made.connections, "holdoff.client.connections", "{connection}", "Connections made."},
	} {
		counter, err := meter.Int64ObservableCounter(instrument.name, metric.WithUnit(instrument.unit), metric.WithDescription(instrument.description))
		if err != nil {
			return nil, err
		}
		*instrument.into = counter
	}
	return meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		made.observe(observer, client.Counters())
		return nil
	}, made.attempts, made.noDecision, made.reports, made.connections)
}

type instruments struct {
	attempts, noDecision, reports, connections metric.Int64ObservableCounter
}

func (i *instruments) observe(observer metric.Observer, counters holdoff.Counters) {
	for _, attempts := range []struct {
		decision, verdict string
		count             uint64
	}{
		{"pushed", "granted", counters.PushedGrants},
		{"pushed", "denied", counters.PushedDenials},
		{"asked", "answered", counters.Answered},
		{"local", "granted", counters.LocalGrants},
		{"local", "denied", counters.LocalDenials},
	} {
		observer.ObserveInt64(i.attempts, int64(attempts.count), decided(attempts.decision, attempts.verdict))
	}
	observer.ObserveInt64(i.noDecision, int64(counters.NoDecision))
	observer.ObserveInt64(i.reports, int64(counters.Reported), result("taken"))
	observer.ObserveInt64(i.reports, int64(counters.ReportsDropped), result("dropped"))
	observer.ObserveInt64(i.connections, int64(counters.Connections))
}
