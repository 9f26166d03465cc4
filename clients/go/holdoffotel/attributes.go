package holdoffotel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// No attribute holds a name that callers choose: the cardinality is fixed.

func decided(decision, verdict string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("decision", decision), attribute.String("verdict", verdict))
}

func result(result string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("result", result))
}
