//! The strategies that can be compared, by name; one file each.
//!
//! All but [`holdoff`] are minds of clients that know only what they have seen ([`alone`]).

pub(crate) mod alone;
pub(crate) mod aws;
pub(crate) mod backoff;
pub(crate) mod breaker;
pub(crate) mod bucket;
pub(crate) mod grpc;
pub(crate) mod holdoff;
pub(crate) mod sre;

use serde::{Deserialize, Serialize};

/// What a client does about failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Never retries.
    NoRetry,
    /// Retries at once.
    None,
    /// Retries after a fixed second.
    Fixed,
    /// Exponential backoff without jitter.
    Exponential,
    /// Exponential backoff with full jitter.
    FullJitter,
    /// Exponential backoff, half of it drawn.
    EqualJitter,
    /// Full jitter, and a breaker in each client, with a fixed cool-down.
    Breaker,
    /// The same with a cool-down of half to one and a half times.
    BreakerJittered,
    /// Full jitter, and a bucket of retry tokens in each client.
    Bucket,
    /// Full jitter, and the retry throttling of gRPC (A6).
    Grpc,
    /// The retry quota of the AWS SDKs of 2026.
    Aws,
    /// Full jitter, and the client-side adaptive throttling of the SRE book.
    Sre,
    /// Clients with sessions to one coordinator.
    Holdoff,
}

impl Strategy {
    pub const ALL: [Self; 13] = [
        Self::NoRetry,
        Self::None,
        Self::Fixed,
        Self::Exponential,
        Self::FullJitter,
        Self::EqualJitter,
        Self::Breaker,
        Self::BreakerJittered,
        Self::Bucket,
        Self::Grpc,
        Self::Aws,
        Self::Sre,
        Self::Holdoff,
    ];

    /// As scenarios and the command line write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRetry => "no_retry",
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Exponential => "exponential",
            Self::FullJitter => "full_jitter",
            Self::EqualJitter => "equal_jitter",
            Self::Breaker => "breaker",
            Self::BreakerJittered => "breaker_jittered",
            Self::Bucket => "bucket",
            Self::Grpc => "grpc",
            Self::Aws => "aws",
            Self::Sre => "sre",
            Self::Holdoff => "holdoff",
        }
    }

    /// As people read it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoRetry => "no retries",
            Self::None => "retries at once",
            Self::Fixed => "fixed 1 s",
            Self::Exponential => "exponential, no jitter",
            Self::FullJitter => "full jitter",
            Self::EqualJitter => "equal jitter",
            Self::Breaker => "full jitter + breaker per client",
            Self::BreakerJittered => "full jitter + jittered breaker per client",
            Self::Bucket => "full jitter + token bucket per client",
            Self::Grpc => "gRPC retry throttling (A6)",
            Self::Aws => "AWS SDK retry quota (2026)",
            Self::Sre => "full jitter + SRE client throttling",
            Self::Holdoff => "holdoff",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}
