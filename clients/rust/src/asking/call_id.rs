//! The name of a call, the same for all of its attempts. It is written only where a question
//! is asked: most calls on pushed state never need it.

use std::{fmt, sync::Arc};

use crate::entropy;

#[derive(Clone, Debug)]
pub(super) enum CallId {
    Given(Arc<str>),
    Drawn(u64),
}

impl CallId {
    pub(super) fn new(given: Option<&Arc<str>>) -> Self {
        match given {
            Some(given) => Self::Given(Arc::clone(given)),
            None => Self::Drawn(entropy::number()),
        }
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(given) => f.write_str(given),
            Self::Drawn(number) => write!(f, "{number:016x}"),
        }
    }
}
