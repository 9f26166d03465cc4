//! What a breaker that has never tripped does not need, unless the policy asks for it: in one
//! allocation that is made on use and freed when nothing is left in it.
//!
//! A closed breaker under the adaptive detector reads none of it for a success.

use super::{Breaker, Cause, last_second::LastSecond};
use crate::{Time, bytes::fields, evidence::Reporters, window::Window};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    past: Past,
    pub leases: Vec<Lease>,
    /// From the first failure until all is quiet.
    pub reporters: Option<Box<Reporters>>,
    /// Under `applies_to: auto`.
    pub last_second: Option<LastSecond>,
    /// Under `detect: window`; the detector is then as new.
    pub window: Option<Box<Window>>,
}

/// What transitions leave behind; a new breaker has none of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Of the last transition.
    pub cause: Cause,
    /// Open: when the first probe may go.
    pub open_until: Time,
    /// Trips in a row: how often the open period has been multiplied.
    pub level: u32,
    pub probe_successes: u32,
    pub trips: u32,
}

/// A probe that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub serial: u64,
    pub ends: Time,
}

fields!(Past {
    cause,
    open_until,
    level,
    probe_successes,
    trips
});
fields!(Lease { serial, ends });

impl Default for Past {
    fn default() -> Self {
        Self {
            cause: Cause::New,
            open_until: Time::ORIGIN,
            level: 0,
            probe_successes: 0,
            trips: 0,
        }
    }
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.past == Past::default()
            && self.leases.is_empty()
            && self.reporters.is_none()
            && self.last_second.is_none()
            && self.window.is_none()
    }
}

impl Breaker {
    pub fn past(&self) -> Past {
        (self.rare.as_ref()).map_or_else(Past::default, |rare| rare.past)
    }

    /// Allocates.
    pub fn past_mut(&mut self) -> &mut Past {
        &mut self.rare_mut().past
    }

    /// The next open period is a first one again.
    pub fn forget_level(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.past.level = 0;
        }
    }

    pub(super) fn leases(&self) -> &[Lease] {
        self.rare.as_ref().map_or(&[], |rare| &rare.leases)
    }

    pub(super) fn window(&self) -> Option<&Window> {
        self.rare.as_ref()?.window.as_deref()
    }

    pub(super) fn reporters(&self) -> Option<&Reporters> {
        self.rare.as_ref()?.reporters.as_deref()
    }

    pub(super) fn reporters_mut(&mut self) -> Option<&mut Reporters> {
        self.rare.as_mut()?.reporters.as_deref_mut()
    }

    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Forgets some of it, and frees the allocation when nothing is left in it.
    pub(super) fn forget_rare(&mut self, forget: impl FnOnce(&mut Rare)) {
        if let Some(rare) = &mut self.rare {
            forget(rare);
            if rare.is_empty() {
                self.rare = None;
            }
        }
    }
}
