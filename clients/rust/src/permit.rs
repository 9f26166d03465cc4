//! Permission for one attempt, in two steps: ask, then say how it ended.

use std::time::Duration;

use holdoff_decision as decision;
use tokio::time::Instant;

use crate::{
    asking::{Asking, Made},
    client::Mode,
    denied::{DenialReason, Denied},
    outcome::Outcome,
    pushed::Pushed,
    wire,
};

/// No delay that the service chose is waited for longer.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(600);
/// A probe is given up so long before its lease ends, or a tenth of it if that is more.
const MARGIN_MIN: Duration = Duration::from_millis(250);
/// Confirmations and renewals before one attempt; a service that wants more is ill.
const ROUNDS_MAX: u32 = 100;

/// Permission for one attempt. Dropped unreported, the attempt counts as cancelled.
#[derive(Debug)]
#[must_use = "dropped, it reports the attempt as cancelled"]
pub struct Permit {
    asking: Asking,
    /// `None`: reported, or void.
    made: Option<Made>,
    /// Taken before the question was sent, so that a lease never seems longer than it is.
    asked_at: Instant,
    usable_at: Instant,
    /// From `usable_at`. `None`: it does not end.
    lives: Option<Duration>,
    is_probe: bool,
    confirm: bool,
    suggested_timeout: Option<Duration>,
    /// In which the service granted it.
    epoch: Option<u64>,
    /// How long the machine had been suspended when it was granted.
    mark: Duration,
}

/// What was granted, by whomever.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) made: Made,
    pub(crate) delay: Duration,
    /// From the end of `delay`.
    pub(crate) lives: Option<Duration>,
    pub(crate) is_probe: bool,
    pub(crate) confirm: bool,
    pub(crate) suggested_timeout: Option<Duration>,
    /// In which the service granted it.
    pub(crate) epoch: Option<u64>,
}

impl Terms {
    /// No delay and no end.
    pub(crate) fn at_once(made: Made) -> Self {
        Self {
            made,
            delay: Duration::ZERO,
            lives: None,
            is_probe: false,
            confirm: false,
            suggested_timeout: None,
            epoch: None,
        }
    }

    /// So much of the delay has passed already.
    pub(crate) fn less(mut self, passed: Duration) -> Self {
        self.delay = self.delay.saturating_sub(passed);
        self
    }
}

impl From<wire::Granted> for Terms {
    fn from(granted: wire::Granted) -> Self {
        Self {
            made: Made::Fleet(granted.permit),
            delay: granted.delay,
            lives: granted.permit_ttl,
            is_probe: granted.probe,
            confirm: granted.confirm,
            suggested_timeout: granted.attempt_timeout,
            epoch: Some(granted.epoch),
        }
    }
}

impl From<decision::Grant> for Terms {
    fn from(grant: decision::Grant) -> Self {
        Self {
            made: Made::Local {
                permit: grant.permit,
                begun_in: 0,
            },
            delay: grant.delay.into(),
            lives: Some(grant.permit_ttl.into()),
            is_probe: grant.probe,
            confirm: grant.confirm,
            suggested_timeout: grant.attempt_timeout.map(Into::into),
            epoch: None,
        }
    }
}

impl Permit {
    /// A delay that does not fit the deadline is not shortened: the permit goes back.
    pub(crate) fn try_new(asking: Asking, terms: Terms, asked_at: Instant) -> Result<Self, Denied> {
        let mut permit = Self {
            made: Some(terms.made),
            asked_at,
            usable_at: Instant::now() + terms.delay.min(DELAY_MAX),
            lives: terms.lives,
            is_probe: terms.is_probe,
            confirm: terms.confirm,
            suggested_timeout: terms.suggested_timeout,
            epoch: terms.epoch,
            mark: asking.client.inner().clock.mark(),
            asking,
        };
        permit.fits(terms.delay)?;
        permit.begins();
        Ok(permit)
    }

    /// Which attempt it is for: 1 for the first call.
    pub fn attempt(&self) -> u32 {
        self.asking.attempt
    }

    /// How long to wait before the attempt, from now. [`Self::wait`] does it.
    pub fn delay(&self) -> Duration {
        self.usable_at.saturating_duration_since(Instant::now())
    }

    /// Whether the attempt tests a dependency that is thought broken.
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// How long it lives from the end of its delay. `None`: it does not end.
    pub(crate) fn lives(&self) -> Option<Duration> {
        self.lives
    }

    /// Whether it was granted without the service.
    pub fn is_local(&self) -> bool {
        matches!(self.made, Some(Made::Local { .. }))
    }

    /// A limit for the attempt that the service finds sensible; it does not bind.
    pub fn suggested_timeout(&self) -> Option<Duration> {
        self.suggested_timeout
    }

    /// How long the attempt may take from now: to the caller's deadline and limit, and for a
    /// probe to a margin before its lease ends. `None`: nothing limits it.
    pub fn limit(&self) -> Option<Duration> {
        [
            self.asking.question.attempt_timeout,
            self.asking.time_left(),
            self.lease_left(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Waits for the delay, and makes sure that the permit still holds then: drops it as soon
    /// as the service pushes that the breaker has tripped, and asks once more where the grant
    /// said so and no valid state is known, and after a suspend.
    ///
    /// # Errors
    /// It holds no more, or the deadline has passed.
    pub async fn wait(mut self) -> Result<Self, Denied> {
        for _ in 0..ROUNDS_MAX {
            self.sleep().await?;
            self.heed_suspend();
            self.fits(Duration::ZERO)?;
            if self.is_over() {
                // Returns this permit with the question.
                let again = self.asking.clone();
                drop(self);
                self = again.ask().await?;
                continue;
            }
            if !self.confirm || self.is_known_to_hold() {
                self.begins();
                return Ok(self);
            }
            self = self.confirmed().await?;
            if !self.confirm && self.delay().is_zero() {
                self.begins();
                return Ok(self);
            }
        }
        let detail = "the service went on to ask for confirmations";
        Err(Denied::caller(DenialReason::Unreadable, detail))
    }

    /// Says how the attempt ended. The call is over with it.
    pub fn report(mut self, outcome: Outcome) {
        self.asking.note_outcome(&outcome);
        self.report_now(&outcome);
    }

    /// Says how the attempt ended and asks for the next one.
    ///
    /// # Errors
    /// There is no next attempt.
    pub async fn retry(self, outcome: Outcome) -> Result<Self, Denied> {
        match self.next(outcome) {
            Some(asking) => asking.ask().await,
            None => Err(Denied::caller(DenialReason::PermitVoid, "")),
        }
    }

    /// Asks for a second copy of this attempt, which goes on meanwhile.
    ///
    /// # Errors
    /// There is none; the original is not touched.
    pub async fn hedge(&self) -> Result<Self, Denied> {
        self.asking.hedge().ask().await
    }

    /// `None`: it was reported already.
    pub(crate) fn next(mut self, outcome: Outcome) -> Option<Asking> {
        let made = self.made.take()?;
        Some(self.asking.next(made, outcome))
    }

    /// Until the end of the delay, or until the breaker trips.
    async fn sleep(&self) -> Result<(), Denied> {
        if self.delay().is_zero() {
            // A caller that never waits must not keep the runtime to itself.
            tokio::task::consume_budget().await;
            return Ok(());
        }
        let (Some(pushed), Some(epoch)) = (self.pushed(), self.epoch) else {
            tokio::time::sleep_until(self.usable_at).await;
            return Ok(());
        };
        let dependency = &self.asking.question.dependency;
        loop {
            let mut trip = std::pin::pin!(pushed.trip());
            trip.as_mut().enable();
            if let Some(denied) = pushed.tripped_since(dependency, epoch, self.attempt()) {
                return Err(denied);
            }
            tokio::select! {
                () = tokio::time::sleep_until(self.usable_at) => return Ok(()),
                () = trip => {}
            }
        }
    }

    /// What the service pushes stands for a confirmation.
    fn is_known_to_hold(&self) -> bool {
        let dependency = &self.asking.question.dependency;
        match (self.pushed(), self.epoch) {
            (Some(pushed), Some(epoch)) => pushed.stands_by(dependency, epoch),
            (Some(_) | None, _) => false,
        }
    }

    /// The attempt is made now, as far as is known here: what was decided locally belongs to
    /// the epoch that the service has pushed by now.
    fn begins(&mut self) {
        let last = (self.pushed()).and_then(|pushed| pushed.last(&self.asking.question.dependency));
        if let Some(Made::Local { begun_in, .. }) = &mut self.made {
            *begun_in = last.map_or(0, |on| on.epoch);
        }
    }

    fn pushed(&self) -> Option<&Pushed> {
        match &self.asking.client.inner().mode {
            Mode::Fleet(link) => Some(&link.shared().pushed),
            Mode::Bypass | Mode::Testing => None,
        }
    }

    async fn confirmed(mut self) -> Result<Self, Denied> {
        self.confirm = false;
        let Some(made) = &self.made else {
            return Ok(self);
        };
        if self.is_local()
            && let Some(denied) = self.refused_alone()
        {
            return Err(denied);
        }
        let asked_at = Instant::now();
        let terms = match self.asking.confirm(made).await {
            Ok(Some(terms)) => terms,
            Ok(None) => return self.refused_alone().map_or(Ok(self), Err),
            Err(denied) => {
                // A denied confirmation has made the permit void; one that was not decided
                // has left it to be given back.
                if !matches!(
                    denied.reason,
                    DenialReason::NoDecision | DenialReason::Unreadable
                ) {
                    self.made = None;
                }
                return Err(denied);
            }
        };
        let keeps_permit = matches!(&terms.made, Made::Fleet(permit) if permit.is_empty());
        if !keeps_permit {
            self.made = Some(terms.made);
        }
        self.asked_at = asked_at;
        self.usable_at = Instant::now() + terms.delay.min(DELAY_MAX);
        self.lives = terms.lives.or(self.lives);
        self.epoch = terms.epoch.or(self.epoch);
        self.is_probe = terms.is_probe;
        self.confirm = terms.confirm && !terms.delay.is_zero();
        self.fits(terms.delay)?;
        Ok(self)
    }

    /// A confirmation that nobody answers: what is pushed may say no, but not where it is older
    /// than the grant.
    fn refused_alone(&self) -> Option<Denied> {
        let asking = &self.asking;
        let dependency = &asking.question.dependency;
        let pushed = self.pushed()?;
        pushed.refused_alone(dependency, asking.sought(), self.epoch)
    }

    fn fits(&self, delay: Duration) -> Result<(), Denied> {
        fits(delay, self.asking.time_left())
    }

    /// The monotonic clock stood still while the machine slept: all ends come earlier.
    fn heed_suspend(&mut self) {
        let clock = &self.asking.client.inner().clock;
        let slept = clock.suspended_since(self.mark);
        if slept.is_zero() {
            return;
        }
        self.mark = clock.mark();
        let earlier = |instant: Instant| instant.checked_sub(slept).unwrap_or(instant);
        self.asking.deadline = self.asking.deadline.map(earlier);
        self.usable_at = earlier(self.usable_at);
        self.asked_at = earlier(self.asked_at);
    }

    fn is_over(&self) -> bool {
        let late = Instant::now().saturating_duration_since(self.usable_at);
        self.lives.is_some_and(|lives| late >= lives)
    }

    fn lease_left(&self) -> Option<Duration> {
        let lease = self.lives.filter(|_| self.is_probe)?;
        let ends = self.asked_at.checked_add(use_of(lease))?;
        Some(ends.saturating_duration_since(Instant::now()))
    }

    fn report_now(&mut self, outcome: &Outcome) {
        if let Some(made) = self.made.take() {
            let (client, question) = (&self.asking.client, &self.asking.question);
            client.count_here(&question.dependency, &made, outcome);
            client.report(&question.dependency, &made, outcome);
        }
    }
}

/// `None`: there is no deadline.
pub(crate) fn fits(delay: Duration, left: Option<Duration>) -> Result<(), Denied> {
    match left {
        Some(left) if delay >= left => Err(Denied::caller(
            DenialReason::Deadline,
            format!("it would begin in {delay:?}, and {left:?} are left"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// How long a probe with such a lease may take. A lease shorter than its margin must still
/// be usable, or nothing would recover.
pub(crate) fn use_of(lease: Duration) -> Duration {
    lease - MARGIN_MIN.max(lease / 10).min(lease / 2)
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.report_now(&Outcome::cancelled());
    }
}

#[cfg(test)]
mod tests;
