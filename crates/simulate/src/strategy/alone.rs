//! Clients that go by what they themselves have seen: what all strategies but `holdoff` are.

use super::{Strategy, aws, backoff, breaker, bucket, grpc, sre};
use crate::{measure::End, random::Stream, scenario::Scenario};

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Go,
    /// Goes after so long.
    After(u64),
    /// Asks again after so long.
    AskAfter(u64),
    /// Gives the attempt up.
    Refused,
    /// An answer will come.
    Pending,
}

/// One question to a client's own mind.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Which client; those of each layer have numbers of their own.
    pub who: usize,
    /// 1 for the first.
    pub attempt: u32,
    /// It was told to ask again.
    pub again: bool,
    /// How the attempt before ended.
    pub last: End,
    pub now: u64,
}

/// The end of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub who: usize,
    pub attempt: u32,
    pub end: End,
    pub sent: u64,
    pub now: u64,
}

/// The minds of all clients under one strategy.
pub trait Alone: Send {
    fn ask(&mut self, asked: &Asked, random: &mut Stream) -> Decision;

    /// An attempt has ended. True: with that this client's breaker opened.
    fn ended(&mut self, _ended: &Ended, _random: &mut Stream) -> bool {
        false
    }

    /// A client starts anew.
    fn forget(&mut self, _who: usize) {}

    /// Clients whose own breaker is not closed.
    fn open(&self) -> u32 {
        0
    }
}

/// The minds of `count` clients; nothing is known to them yet. `None`: the strategy is not one of
/// those.
pub fn minds(strategy: Strategy, scenario: &Scenario, count: usize) -> Option<Box<dyn Alone>> {
    let baselines = &scenario.baselines;
    let waits = scenario.operation.persistent;
    let curve = |kind| backoff::Backoff::new(kind, baselines);
    Some(match strategy {
        Strategy::NoRetry => Box::new(curve(backoff::Kind::Never)),
        Strategy::None => Box::new(curve(backoff::Kind::AtOnce)),
        Strategy::Fixed => Box::new(curve(backoff::Kind::Second)),
        Strategy::Exponential => Box::new(curve(backoff::Kind::Ceiling)),
        Strategy::FullJitter => Box::new(curve(backoff::Kind::FullJitter)),
        Strategy::EqualJitter => Box::new(curve(backoff::Kind::EqualJitter)),
        Strategy::Breaker => Box::new(breaker::Breakers::new(
            baselines,
            breaker::CoolDown::Fixed,
            waits,
            count,
        )),
        Strategy::BreakerJittered => Box::new(breaker::Breakers::new(
            baselines,
            breaker::CoolDown::Jittered,
            waits,
            count,
        )),
        Strategy::Bucket => Box::new(bucket::Buckets::new(baselines, waits, count)),
        Strategy::Grpc => Box::new(grpc::Throttles::new(baselines, waits, count)),
        Strategy::Aws => Box::new(aws::Quotas::new(baselines, waits, count)),
        Strategy::Sre => Box::new(sre::Throttles::new(baselines, waits, count)),
        Strategy::Holdoff => return None,
    })
}
