//! What the log says about the service being away: once when it goes, once when it is back.
//!
//! A client that is alone is not ill, so that nothing is said per call; but somebody should
//! look, so that a service which is refused, killed or silent is a warning with its address.

use std::{
    fmt::Display,
    sync::{Mutex, PoisonError},
};

use crate::counters::Seldom;

/// How it is away, as far as the log has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// No connection stands.
    Unreachable,
    /// One may stand, but no answers come.
    Silent,
}

#[derive(Debug)]
pub(super) struct Standing {
    told: Mutex<Told>,
    warned: Seldom,
}

impl Standing {
    pub(super) fn new() -> Self {
        Self {
            told: Mutex::new(Told::Nothing),
            warned: Seldom::default(),
        }
    }

    pub(super) fn unreachable(&self, endpoint: &str, why: impl Display) {
        if self.is_first(Told::Unreachable) {
            tracing::warn!(endpoint, %why, "holdoff is not reachable; deciding locally until it is");
        }
    }

    pub(super) fn silent(&self, endpoint: &str, why: impl Display) {
        if self.is_first(Told::Silent) {
            tracing::warn!(endpoint, %why, "holdoff does not answer; deciding locally for a while");
        }
    }

    /// A stream is taken: that ends what was told of a connection, but not of answers.
    pub(super) fn connected(&self, endpoint: impl FnOnce() -> String) {
        self.back(endpoint, |told| told == Told::Unreachable);
    }

    pub(super) fn answered(&self, endpoint: impl FnOnce() -> String) {
        self.back(endpoint, |told| told != Told::Nothing);
    }

    fn is_first(&self, how: Told) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = *told == Told::Nothing && self.warned.now();
        if is_first {
            *told = how;
        }
        is_first
    }

    fn back(&self, endpoint: impl FnOnce() -> String, ends: impl Fn(Told) -> bool) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if ends(*told) {
            *told = Told::Nothing;
            tracing::info!(endpoint = endpoint(), "holdoff answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_absence_is_told_once_and_its_end_only_where_it_was_told() {
        let standing = Standing::new();
        let told = || *standing.told.lock().unwrap();
        standing.unreachable("e", "why");
        standing.silent("e", "why");
        assert_eq!(told(), Told::Unreachable);
        standing.connected(String::new);
        assert_eq!(told(), Told::Nothing);
        standing.unreachable("e", "again, within the minute");
        assert_eq!(told(), Told::Nothing);
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        standing.silent("e", "why");
        standing.connected(String::new);
        assert_eq!(told(), Told::Silent, "a stream is no answer");
        standing.answered(String::new);
        assert_eq!(told(), Told::Nothing);
    }
}
