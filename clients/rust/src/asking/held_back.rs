//! A huge fleet that fails at one instant does not ask at one instant.
//!
//! The question after a failure of an attempt made on pushed state is held back by a time of
//! its own, where the service knows of so many clients that it could not answer all of them
//! before they give up.
//! Those whom a trip reaches meanwhile need not ask any more. A retry is later for it only
//! where its delay is shorter: the one that is granted began with the failure.
//!
//! Only the first question is held back; one that is asked again was told when. None is
//! while the service is known to be away: nobody waits for whom nobody asks.

use std::{pin::pin, time::Duration};

use holdoff_decision::Nanos;
use tokio::time::Instant;

use super::Asking;
use crate::{client::Mode, counters::add, denied::Denied, entropy};

/// So many ask at once.
const AT_ONCE: u32 = 5_000;
/// For each client more.
const EACH: Duration = Duration::from_micros(10);
const MOST: Duration = Duration::from_secs(1);

/// Uniform up to 10 us for each client above 5,000, a second and the time `left` at most;
/// `unit` is uniform in [0, 1).
///
/// | clients | longest |
/// |---|---|
/// | 5,000 | 0 |
/// | 10,000 | 50 ms |
/// | 100,000 | 950 ms |
/// | 105,000 and more | 1 s |
pub(crate) fn held_back(known_clients: u32, left: Option<Duration>, unit: f64) -> Duration {
    let more = known_clients.saturating_sub(AT_ONCE);
    let most = EACH.saturating_mul(more).min(MOST);
    let most = left.map_or(most, |left| most.min(left));
    Nanos::from(most).scaled(unit).into()
}

impl Asking {
    /// Holds the question back where it has to be. How long it did.
    ///
    /// # Errors
    /// The service has pushed meanwhile that nobody is let through.
    pub(super) async fn hold_back(&self) -> Result<Duration, Denied> {
        let inner = self.client.inner();
        let (Some(previous), Mode::Fleet(link)) = (&self.previous, &inner.mode) else {
            return Ok(Duration::ZERO);
        };
        let pushed = &link.shared().pushed;
        let dependency = &self.question.dependency;
        let clients = pushed.known_clients(dependency);
        if clients <= AT_ONCE || !link.shared().is_at_hand() {
            return Ok(Duration::ZERO);
        }
        let Some(epoch) = previous.epoch_to_hold_back() else {
            return Ok(Duration::ZERO);
        };
        let begun = Instant::now();
        let until = begun + held_back(clients, self.time_left(), entropy::unit());
        loop {
            let mut trip = pin!(pushed.trip());
            trip.as_mut().enable();
            if let Some(denied) = pushed.refused_since(dependency, epoch) {
                add(&inner.counting.pushed_denials, 1);
                previous.is_late();
                return Err(denied);
            }
            tokio::select! {
                () = tokio::time::sleep_until(until) => return Ok(begun.elapsed()),
                () = trip => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_of_five_thousand_asks_at_once_and_a_larger_one_within_a_second() {
        let longest = |clients| held_back(clients, None, 1.0).as_micros();
        let clients = [0, 5_000, 5_001, 10_000, 100_000, 105_000, u32::MAX];
        let expected = [0, 0, 10, 50_000, 950_000, 1_000_000, 1_000_000];
        assert_eq!(clients.map(longest), expected);
    }

    #[test]
    fn nobody_is_held_back_beyond_the_time_that_is_left() {
        let left = Some(Duration::from_millis(10));
        assert_eq!(held_back(100_000, left, 0.5), Duration::from_millis(5));
        assert_eq!(
            held_back(100_000, Some(Duration::ZERO), 0.9),
            Duration::ZERO
        );
    }
}
