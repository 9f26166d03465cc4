//! The rules against their contract: behaviour cases by their ids, laws as properties, an
//! exhaustive walk of a small world, and the vectors that all languages share.

mod alone;
mod breaker_cases;
mod budget_cases;
mod calendar_cases;
mod calendar_properties;
mod check_cases;
mod confirming;
mod decision_cases;
mod detector_figures;
mod evidence_cases;
mod evidence_parts;
mod exhaustive;
mod fleet;
mod properties;
mod ramp_cases;
mod ramp_herd;
mod replicas;
mod report_cases;
mod silence_and_tallies;
mod simulation;
mod vectors;
