//! One command to the store, as long as its guard allows: whoever asks waits for so long at most, and
//! what came of it is counted.

use std::{pin::Pin, time::Duration};

use super::{
    Act, By, Call, Counted, Ended, Guard, NOT_ASKED, Pass, Reply, SHARD_KEPT, SHARDS, Shared,
    StoreError, Tells, Version, keys::Place, millis, script,
};
use crate::permit::DependencyId;

const START_TRIES: u32 = 3;
const START_AGAIN_AFTER: Duration = Duration::from_millis(300);

type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Asks at the start, when nothing can be decided alone yet: a store that is slow for a moment is
/// asked again, as often as its guard allows.
///
/// # Errors
/// Of the last try.
pub async fn patiently<'a, T>(asks: impl Fn() -> Asked<'a, T>) -> Result<T, StoreError> {
    for _ in 1..START_TRIES {
        if let Ok(answer) = asks().await {
            return Ok(answer);
        }
        tokio::time::sleep(START_AGAIN_AFTER).await;
    }
    asks().await
}

impl Shared {
    pub fn is_away(&self) -> bool {
        self.guards.iter().any(Guard::is_open)
    }

    pub fn guard(&self, shard: u64) -> &Guard {
        &self.guards[(shard % self.guards.len() as u64) as usize]
    }

    pub fn guard_of(&self, id: DependencyId) -> &Guard {
        self.guard(id.0 % SHARDS)
    }

    /// Asks the store once.
    pub async fn ask(
        &self,
        place: &Place,
        expected: &Version,
        act: &Act,
        epoch: u64,
    ) -> Result<Reply, StoreError> {
        let tells = Tells::Nothing;
        self.ask_and_tell(place, expected, act, epoch, tells).await
    }

    /// The same; what is changed is told to the others.
    pub async fn ask_and_tell(
        &self,
        place: &Place,
        expected: &Version,
        act: &Act,
        epoch: u64,
        tells: Tells,
    ) -> Result<Reply, StoreError> {
        let call = Call {
            place,
            expected,
            act,
            epoch,
            shard_kept_for_ms: millis(SHARD_KEPT),
            by: self.number,
            tells,
        };
        let (counted, done) = match act {
            Act::Look => (Counted::Look, Ended::Read),
            Act::Put { .. } => (Counted::Swap, Ended::Answered),
            Act::Drop => (Counted::Drop, Ended::Answered),
        };
        let asked = async {
            self.counts.add(counted);
            call.run(&self.link).await
        };
        let guard = self.guard(place.number);
        self.guarded(guard, By::Question, done, asked).await
    }

    /// Waits for an answer of the store, as long as its guard allows.
    pub async fn guarded<T>(
        &self,
        guard: &Guard,
        by: By,
        done: Ended,
        asked: impl Future<Output = ::redis::RedisResult<T>>,
    ) -> Result<T, StoreError> {
        let away = |why: String| StoreError::Unavailable(why);
        let pass = guard
            .enter(by, self.clock.own())
            .ok_or_else(|| away(format!("{NOT_ASKED}: it did not answer lately")))?;
        let was_open = guard.is_open();
        let within = match pass {
            Pass::Call => guard.patience(self.timing.answer_within),
            Pass::Probe(_) => self.timing.answer_within,
        };
        let answer = tokio::time::timeout(within, asked).await;
        let ended = match &answer {
            Ok(Ok(_)) => done,
            Ok(Err(error)) if script::is_refusal(error) => Ended::Read,
            Ok(Err(_)) | Err(_) => Ended::Failed,
        };
        guard.leave(pass, ended, self.clock.own());
        if ended == Ended::Failed && guard.is_open() {
            self.link.nothing_came().await;
        }
        let answer = match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.is_connection_refusal() => {
                Err(away(format!("{NOT_ASKED}: {error}")))
            }
            Ok(Err(error)) => Err(away(error.to_string())),
            Err(_) => Err(away(format!("no answer within {within:?}"))),
        };
        if let Err(why) = &answer
            && guard.is_open()
            && !was_open
        {
            tracing::warn!("{why}");
        }
        answer
    }
}
