//! The invariants under random stories: any policy, any events in any order, permits that
//! are used, used twice, lost, stale or forged, and a clock that sometimes goes backwards.

mod carried;
mod events;
mod single_rules;
mod stories;
mod totality;
