//! Policies: what operators write, as the rules read it.
//!
//! Lowest layer first:
//!
//! - `duration`, `value`, `written`, `name`: single values and their text
//! - `fields`: the one table of all fields; everything below walks it
//! - `envoy`: which of Envoy's descriptors is which dependency
//! - `tree`: YAML with its places; `raw`: a file or an entry as typed settings
//! - `layers`: built-in, defaults, entry; `validate`, `schedule`: what must not go together
//! - `set`, `load`, `blame`: all policies at one instant, checked whole, found by name
//! - `traffic`: what is known of the calls that a policy is for
//! - `explain`, `schema`, `feasibility`: shown, described, doubted
//! - [`files`], [`watch`]: where they come from, and when they change
//!
//! Nothing here knows of the store or the wire. A set never changes: what reloads builds a
//! new one and swaps it, or says everything that is wrong and changes nothing.

mod blame;
pub mod duration;
mod envoy;
mod explain;
mod feasibility;
mod fields;
pub mod files;
mod finding;
mod layers;
mod load;
mod name;
mod raw;
mod schedule;
mod schema;
mod set;
mod traffic;
mod tree;
mod validate;
mod value;
pub mod watch;
mod written;

pub use blame::API;
pub use duration::written as as_written;
pub use explain::{Change, EntryView, Explained, diff, to_yaml};
pub use feasibility::{CODES, attempts_that_fit, check, check_while};
pub use finding::{Finding, Proposed, Severity};
pub use name::{ALLOWED as NAMES_ALLOWED, NAME_MAX_BYTES, is_name};
pub use schedule::{feasible, worst_case};
pub use schema::schema;
pub use set::{DEFAULT_NAMESPACE, ItemOrigin, Named, NamespacePolicy, Overlay, PolicySet, Source};
pub use traffic::{FACTS, Facts, Traffic, listed};
pub use tree::Place;

#[cfg(test)]
mod tests;
