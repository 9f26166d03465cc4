//! The state that the service pushes: the latest per dependency.
//!
//! It is kept as it came, unknown enum values included, so that nothing is lost between
//! versions. Acting on it (first attempts without a question, failing fast without a hop)
//! needs a subscription, which this client does not make yet.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::proto;

/// A client subscribes to what it calls; more than this was not asked for.
const DEPENDENCIES_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Pushed {
    latest: Mutex<HashMap<String, proto::Update>>,
}

impl Pushed {
    pub(crate) fn store(&self, update: proto::Update) {
        if update.dependency.len() > NAME_BYTES_MAX {
            return;
        }
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.len() < DEPENDENCIES_MAX || latest.contains_key(&update.dependency) {
            latest.insert(update.dependency.clone(), update);
        }
    }

    /// Forgets all: a new stream begins with the whole state.
    pub(crate) fn clear(&self) {
        self.latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    pub(crate) fn epoch(&self, dependency: &str) -> Option<u64> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.get(dependency).map(|update| update.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_update_holds_whatever_its_enum_values_are() {
        let pushed = Pushed::default();
        for epoch in [3, 4] {
            pushed.store(proto::Update {
                dependency: "payments".into(),
                epoch,
                state: 99,
                first_attempts: -7,
                ..Default::default()
            });
        }
        assert_eq!(pushed.epoch("payments"), Some(4));
        pushed.clear();
        assert_eq!(pushed.epoch("payments"), None);
    }
}
