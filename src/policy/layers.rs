//! One policy from its layers: built-in, below the namespace's defaults, below the one
//! entry that wins. Field by field, and for each field which layer it came from.

use holdoff_decision::Nanos;
use holdoff_decision::Policy;
use holdoff_decision::policy::{Detect, Rate, Window, WindowSize};

use super::fields::{self, FIELDS};
use super::raw::{Entry, Setting};
use super::tree::Place;
use super::value::Value;

/// A policy and the origin of each of its fields.
pub struct Resolved {
    pub policy: Policy,
    /// As long as [`FIELDS`].
    pub origins: Vec<Origin>,
}

/// Where a value came from. A later one is nearer to the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    BuiltIn,
    /// Not given: it goes with another field, which was.
    Follows(&'static str),
    /// The layer, from 0, and the place in that layer's file.
    Layer {
        depth: usize,
        place: Place,
    },
}

/// Lays the entries over the built-in policy, the last one on top.
pub fn resolve(layers: &[&Entry]) -> Resolved {
    let mut resolved = Resolved {
        policy: Policy::default(),
        origins: vec![Origin::BuiltIn; FIELDS.len()],
    };
    for (depth, entry) in layers.iter().enumerate() {
        resolved.lay(depth, entry);
    }
    resolved.follow();
    resolved
}

impl Resolved {
    /// The origin of a field that exists.
    pub fn origin(&self, section: &str, name: &str) -> Origin {
        fields::position(section, name).map_or(Origin::BuiltIn, |field| self.origins[field])
    }

    fn lay(&mut self, depth: usize, entry: &Entry) {
        let adaptive_below = self.is_told_adaptive();
        for setting in &entry.settings {
            let field = &FIELDS[setting.field];
            if field.name.is_empty() && setting.value == Value::Word("off") {
                self.forget(field.section);
            }
            (field.set)(&mut self.policy, setting.value);
            self.origins[setting.field] = Origin::Layer {
                depth,
                place: setting.place,
            };
        }
        self.detect(depth, entry, adaptive_below);
    }

    /// What switches a section off also undoes what lower layers said in it.
    fn forget(&mut self, section: &str) {
        for (origin, field) in self.origins.iter_mut().zip(FIELDS) {
            if field.section == section {
                *origin = Origin::BuiltIn;
            }
        }
    }

    /// The detector that an entry means without saying so: one with thresholds means
    /// `window`; one that says `adaptive` does not mean a lower layer's `slow_after`.
    fn detect(&mut self, depth: usize, entry: &Entry, adaptive_below: bool) {
        let (Some(detect), Some(slow)) = (
            fields::position("breaker", "detect"),
            fields::position("breaker", "slow_after"),
        ) else {
            return;
        };
        let slow_after = entry.find(slow);
        if let Some(told) = entry.find(detect) {
            let meant = slow_after.is_some() || self.policy.breaker.slow_counts_as_failure;
            if told.value == Value::Word("adaptive") && !meant {
                self.policy.breaker.slow_after = Nanos::ZERO;
                self.origins[slow] = Origin::BuiltIn;
            }
            return;
        }
        let is_slow =
            |setting: &&Setting| setting.value != Value::Span(Nanos::ZERO) && !adaptive_below;
        let threshold = entry
            .settings
            .iter()
            .find(|setting| FIELDS[setting.field].of_window());
        if let Some(means_window) = threshold.or(slow_after.filter(is_slow)) {
            (FIELDS[detect].set)(&mut self.policy, Value::Word("window"));
            self.origins[detect] = Origin::Layer {
                depth,
                place: means_window.place,
            };
        }
    }

    fn is_told_adaptive(&self) -> bool {
        self.origin("breaker", "detect") != Origin::BuiltIn
            && self.policy.breaker.detect == Detect::Adaptive
    }

    /// Fields that nobody gave and that go with another.
    fn follow(&mut self) {
        let breaker = &mut self.policy.breaker;
        if breaker.open_for > breaker.open_max
            && let Some(field) = self.not_given("breaker", "open_max")
        {
            self.policy.breaker.open_max = self.policy.breaker.open_for;
            self.origins[field] = Origin::Follows("open_for");
        }
        if let Detect::Window(window) = &self.policy.breaker.detect
            && let WindowSize::Calls(calls) = window.size
            && window.min_calls > calls
            && let Some(field) = self.not_given("breaker", "min_calls")
        {
            let shrunk = Window {
                min_calls: calls,
                ..window.clone()
            };
            self.policy.breaker.detect = Detect::Window(shrunk);
            self.origins[field] = Origin::Follows("window");
        }
        let field = self.not_given("rate", "burst");
        if let (Some(rate), Some(field)) = (&mut self.policy.rate, field) {
            rate.burst = usual_burst(rate);
            self.origins[field] = Origin::Follows("per_second");
        }
    }

    fn not_given(&self, section: &str, name: &str) -> Option<usize> {
        fields::position(section, name).filter(|&field| self.origins[field] == Origin::BuiltIn)
    }
}

/// What a limit gives in a tenth of a second, but at least one call.
fn usual_burst(rate: &Rate) -> u32 {
    (rate.per_second / 10.0).ceil().max(1.0) as u32
}
