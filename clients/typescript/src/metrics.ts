// The client's counters as metrics of OpenTelemetry, whose API is an optional peer of this package.
// They are read when an exporter asks, so that a call costs no more for them.

import { type Attributes, type MeterProvider, metrics, type ObservableResult } from "@opentelemetry/api";
import type { Client } from "./client.js";
import type { Counters } from "./counters.js";

export interface MetricsOptions {
  /** The global one unless said. */
  readonly meterProvider?: MeterProvider;
  /** Attributes of all values. */
  readonly attributes?: Attributes;
}

interface Series {
  readonly counter: keyof Counters;
  readonly attributes: Attributes;
}

/** A name, its unit, what it says, and the counters that it is made of. */
type Metric = readonly [name: string, unit: string, description: string, series: readonly Series[]];

const METRICS: readonly Metric[] = [
  [
    "holdoff.client.decisions",
    "{decision}",
    "Attempts granted and denied, by whom. The service's own answers are not split",
    [
      { counter: "answered", attributes: { "holdoff.by": "service" } },
      { counter: "pushedGrants", attributes: { "holdoff.by": "pushed", "holdoff.answer": "granted" } },
      { counter: "pushedDenials", attributes: { "holdoff.by": "pushed", "holdoff.answer": "denied" } },
      { counter: "localGrants", attributes: { "holdoff.by": "local", "holdoff.answer": "granted" } },
      { counter: "localDenials", attributes: { "holdoff.by": "local", "holdoff.answer": "denied" } },
    ],
  ],
  [
    "holdoff.client.no_decisions",
    "{question}",
    "Questions that the service did not decide: late, lost, failed or unreadable",
    [{ counter: "noDecision", attributes: {} }],
  ],
  [
    "holdoff.client.reports",
    "{entry}",
    "Outcomes that the service took, and those that were lost",
    [
      { counter: "reported", attributes: { "holdoff.taken": true } },
      { counter: "reportsDropped", attributes: { "holdoff.taken": false } },
    ],
  ],
  [
    "holdoff.client.connections",
    "{connection}",
    "Connections made to the service",
    [{ counter: "connections", attributes: {} }],
  ],
];

/** Publishes the counters of a client, until the returned function is called. */
export function instrument(client: Client, options: MetricsOptions = {}): () => void {
  const meter = (options.meterProvider ?? metrics).getMeter("@holdoff/client");
  const stops = METRICS.map(([name, unit, description, series]) => {
    const metric = meter.createObservableCounter(name, { unit, description });
    const observe = (result: ObservableResult) => {
      const { counters } = client;
      for (const { counter, attributes } of series) {
        result.observe(counters[counter], { ...options.attributes, ...attributes });
      }
    };
    metric.addCallback(observe);
    return () => metric.removeCallback(observe);
  });
  return () => {
    for (const stop of stops) stop();
  };
}
