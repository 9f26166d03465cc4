//! The laws of the simulator, and the figures that it must reach.

mod baselines;
mod bounds;
mod honesty;
mod sameness;
mod scenarios;
