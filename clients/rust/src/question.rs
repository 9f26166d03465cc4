//! What a caller says about a call before it makes it.

use std::{sync::Arc, time::Duration};

use holdoff_decision as decision;

/// Attempts a call may have where its caller names no limit of its own.
pub(crate) const ATTEMPTS: u32 = 10;

/// Whether an attempt may be made again after it may have been executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Safety {
    /// Executing it twice does harm: retried only when it certainly was not sent.
    #[default]
    Unsafe,
    /// Executing it twice is the same as once.
    Idempotent,
    /// It carries a key by which the dependency tells a repetition.
    Keyed,
}

/// Which callers go first when there is not room for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Can wait.
    Low,
    /// The usual.
    #[default]
    Normal,
    /// A person waits for it.
    High,
}

impl From<Priority> for decision::Priority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Low => Self::Low,
            Priority::Normal => Self::Normal,
            Priority::High => Self::High,
        }
    }
}

/// May this call be made?
///
/// A name alone is a question: `client.acquire("payments")`.
#[derive(Clone, Debug)]
pub struct Question {
    pub(crate) dependency: Arc<str>,
    pub(crate) safety: Safety,
    pub(crate) priority: Priority,
    pub(crate) cost: u32,
    pub(crate) call_id: Option<Arc<str>>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) max_attempts: u32,
    pub(crate) attempt_timeout: Option<Duration>,
}

impl Question {
    /// About a call to `dependency`: 1 to 200 bytes of ASCII letters, digits and
    /// `. _ / : @ -`. A call with another name is refused at once, as [`BadName`].
    ///
    /// [`BadName`]: crate::DenialReason::BadName
    pub fn new(dependency: impl Into<Arc<str>>) -> Self {
        Self {
            dependency: dependency.into(),
            safety: Safety::default(),
            priority: Priority::default(),
            cost: 0,
            call_id: None,
            deadline: None,
            max_attempts: ATTEMPTS,
            attempt_timeout: None,
        }
    }

    /// May it be executed twice? [`Safety::Unsafe`] unless said.
    #[must_use]
    pub fn safety(mut self, safety: Safety) -> Self {
        self.safety = safety;
        self
    }

    /// Who goes first.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// How long the caller waits in all, delays and attempts together, counted from the
    /// first question.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The caller's own limit, the first call included: 10 unless said, `u32::MAX` for a
    /// supervisor that never gives up. The service may allow fewer.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// Gives one attempt up, as timed out, after so long.
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = Some(timeout);
        self
    }

    /// What it takes from a rate limit; 1 unless said.
    #[must_use]
    pub fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// A name of this call of at most 128 bytes; drawn at random unless said.
    #[must_use]
    pub fn call_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.call_id = Some(id.into());
        self
    }

    /// Whether the service would take the name.
    pub(crate) fn is_well_named(&self) -> bool {
        is_name(&self.dependency)
    }
}

/// What a name may be, for messages.
pub(crate) const NAMES: &str = "1 to 200 ASCII letters, digits and . _ / : @ -";

/// Whether it can be the name of a dependency.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@-".contains(&byte);
    (1..=200).contains(&name.len()) && name.bytes().all(allowed)
}

impl<N: Into<Arc<str>>> From<N> for Question {
    fn from(dependency: N) -> Self {
        Self::new(dependency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_service_would_refuse_is_known_beforehand() {
        for good in ["payments", "openai:gpt:account-7", "a/b.c_d@e"] {
            assert!(Question::new(good).is_well_named(), "{good}");
        }
        for bad in [String::new(), "a b".into(), "ä".into(), "x".repeat(201)] {
            assert!(!Question::new(bad.as_str()).is_well_named(), "{bad}");
        }
    }
}
