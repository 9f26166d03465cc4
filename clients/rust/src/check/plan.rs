//! Reads a plan, strictly: one that says something unknown, or leaves out what it must say, is
//! no plan. A delay that is absent is not "now".

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

use super::{Finding, Verdict};
use crate::{proto, wire};

/// A period and its offset are at most so long together.
const DELAY_MAX: Duration = Duration::from_secs(2 * 24 * 3600);
const PERIOD_MAX: Duration = Duration::from_secs(24 * 3600);
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// What the service plans.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    pub(super) next: Next,
    pub(super) verdict: Verdict,
    /// Of the policy. `None`: not said.
    pub(super) period: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    Run {
        delay: Duration,
        timeout: Duration,
        permit: Bytes,
    },
    Shared {
        verdict: Verdict,
        age: Option<Duration>,
        ask_again: Duration,
    },
}

/// Why an answer plans nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Odd {
    #[error("the answer has no plan")]
    NoPlan,
    #[error("the plan does not say when")]
    NoTime,
    #[error("a duration of the plan is out of range")]
    BadDuration,
    #[error("the permit is longer than any permit")]
    BadPermit,
    #[error("the verdict is unknown to this client")]
    UnknownVerdict,
}

pub(super) fn read(response: proto::PlanCheckResponse) -> Result<Planned, Odd> {
    use proto::plan_check_response::Plan;
    let next = match response.plan.ok_or(Odd::NoPlan)? {
        Plan::Run(run) if run.permit.len() > wire::PERMIT_BYTES_MAX => return Err(Odd::BadPermit),
        Plan::Run(run) => Next::Run {
            delay: span(run.delay, DELAY_MAX)?.ok_or(Odd::NoTime)?,
            timeout: some_time(run.timeout, TIMEOUT_MAX)?.ok_or(Odd::NoTime)?,
            // A copy: the original would keep the whole message alive.
            permit: Bytes::copy_from_slice(&run.permit),
        },
        Plan::Shared(shared) => Next::Shared {
            verdict: verdict(shared.verdict)?,
            age: span(shared.age, Duration::MAX)?,
            ask_again: span(shared.ask_again, DELAY_MAX)?.ok_or(Odd::NoTime)?,
        },
    };
    Ok(Planned {
        next,
        verdict: verdict(response.verdict)?,
        period: some_time(response.period, PERIOD_MAX)?,
    })
}

impl Planned {
    /// What is told where others check.
    pub(super) fn shared(&self) -> Option<Finding> {
        match self.next {
            Next::Run { .. } => None,
            Next::Shared {
                verdict,
                age,
                ask_again,
            } => Some(Finding::Shared {
                verdict,
                age,
                ask_again,
            }),
        }
    }
}

fn verdict(value: i32) -> Result<Verdict, Odd> {
    match proto::CheckVerdict::try_from(value) {
        Ok(proto::CheckVerdict::Healthy) => Ok(Verdict::Healthy),
        Ok(proto::CheckVerdict::Unhealthy) => Ok(Verdict::Unhealthy),
        Ok(proto::CheckVerdict::Unknown) => Ok(Verdict::Unknown),
        Ok(proto::CheckVerdict::Unspecified) | Err(_) => Err(Odd::UnknownVerdict),
    }
}

/// `Ok(None)`: absent.
fn span(said: Option<prost_types::Duration>, max: Duration) -> Result<Option<Duration>, Odd> {
    match wire::read_duration(said).map_err(|_| Odd::BadDuration)? {
        Some(span) if span > max => Err(Odd::BadDuration),
        span => Ok(span),
    }
}

fn some_time(said: Option<prost_types::Duration>, max: Duration) -> Result<Option<Duration>, Odd> {
    match span(said, max)? {
        Some(Duration::ZERO) => Err(Odd::BadDuration),
        span => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::plan_check_response::Plan;

    fn secs(seconds: i64) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos: 0 })
    }

    fn run() -> proto::CheckRun {
        proto::CheckRun {
            delay: secs(0),
            permit: "permit".into(),
            timeout: secs(2),
        }
    }

    fn shared() -> proto::CheckShared {
        proto::CheckShared {
            verdict: 1,
            age: None,
            ask_again: secs(30),
        }
    }

    fn read_plan(plan: Plan) -> Result<Planned, Odd> {
        read(proto::PlanCheckResponse {
            plan: Some(plan),
            verdict: 3,
            period: secs(30),
        })
    }

    #[test]
    fn a_plan_without_a_time_is_no_plan_and_never_now() {
        assert!(read_plan(Plan::Run(run())).is_ok());
        assert!(read_plan(Plan::Shared(shared())).is_ok());
        let no_delay = proto::CheckRun {
            delay: None,
            ..run()
        };
        let no_timeout = proto::CheckRun {
            timeout: None,
            ..run()
        };
        for odd in [no_delay, no_timeout] {
            assert_eq!(read_plan(Plan::Run(odd)), Err(Odd::NoTime));
        }
        let odd = proto::CheckShared {
            ask_again: None,
            ..shared()
        };
        assert_eq!(read_plan(Plan::Shared(odd)), Err(Odd::NoTime));
        let empty = proto::PlanCheckResponse::default();
        assert_eq!(read(empty), Err(Odd::NoPlan));
    }

    #[test]
    fn what_is_out_of_range_or_unknown_is_no_plan() {
        for span in [secs(-1), secs(i64::MAX), secs(200_000)] {
            let delay = proto::CheckRun {
                delay: span,
                ..run()
            };
            assert_eq!(read_plan(Plan::Run(delay)), Err(Odd::BadDuration));
        }
        for span in [secs(0), secs(3_601)] {
            let timeout = proto::CheckRun {
                timeout: span,
                ..run()
            };
            assert_eq!(read_plan(Plan::Run(timeout)), Err(Odd::BadDuration));
        }
        let permit = proto::CheckRun {
            permit: vec![0; 1 << 20].into(),
            ..run()
        };
        assert_eq!(read_plan(Plan::Run(permit)), Err(Odd::BadPermit));
        for verdict in [0, 4, -1] {
            let odd = proto::CheckShared {
                verdict,
                ..shared()
            };
            assert_eq!(read_plan(Plan::Shared(odd)), Err(Odd::UnknownVerdict));
        }
    }
}
