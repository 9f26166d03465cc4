package holdoffotel_test

import (
	"context"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdoff/holdoff/clients/go"
	"github.com/holdoff/holdoff/clients/go/holdoffotel"
)

func TestWhatAClientCountsIsObserved(t *testing.T) {
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter(holdoffotel.Name)
	client := holdoff.NewTesting()
	registration, err := holdoffotel.Register(client, meter)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = registration.Unregister() }()
	for range 3 {
		if err := client.Call(t.Context(), "payments", func(context.Context, holdoff.Attempt) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	local := int64(-1)
	for _, observed := range collected.ScopeMetrics[0].Metrics {
		if observed.Name != "holdoff.client.attempts" {
			continue
		}
		for _, point := range observed.Data.(metricdata.Sum[int64]).DataPoints {
			decision, _ := point.Attributes.Value("decision")
			verdict, _ := point.Attributes.Value("verdict")
			if decision.AsString() == "local" && verdict.AsString() == "granted" {
				local = point.Value
			}
		}
	}
	if local != 3 || len(collected.ScopeMetrics[0].Metrics) != 4 {
		t.Errorf("%d local grants in %d metrics", local, len(collected.ScopeMetrics[0].Metrics))
	}
}
