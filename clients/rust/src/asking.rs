//! One question about one attempt: what needs no service, then what the service has pushed,
//! then the service, then what this process knows itself.
//!
//! The service is not asked what follows from the caller's own words: its limit of attempts,
//! its deadline, an unsafe call that may have been executed, an outcome that a retry cannot
//! mend. So a wrong answer cannot make a caller do harm, either. The order is the service's.

mod call_id;
pub(crate) mod held_back;
pub(crate) mod on_state;
mod previous;
pub(crate) mod settled;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use holdoff_decision as decision;
use tokio::time::Instant;

use self::{call_id::CallId, previous::Previous};
use crate::{
    client::{Client, Mode, OnNoDecision},
    counters::add,
    denied::{DenialReason, Denied, DeniedBy},
    link::NoAnswer,
    local::{self, Strictness},
    outcome::Outcome,
    permit::{Permit, Terms},
    proto,
    pushed::{OnState, Sought},
    question::{Question, Safety},
    wire::{self, Answer, Unreadable},
};

/// A question that can be asked again.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    pub(crate) client: Client,
    pub(crate) question: Arc<Question>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) attempt: u32,
    pub(crate) is_hedge: bool,
    call_id: CallId,
    previous: Option<Arc<Previous>>,
    /// The dependency has told an attempt of this call not to retry.
    hedges_are_over: Arc<AtomicBool>,
}

/// Under what an attempt is made.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    /// A permit of the service.
    Fleet(Bytes),
    /// No permit: the service has let first attempts go.
    OnState(OnState),
    /// A decision of this process.
    Local {
        permit: decision::Permit,
        /// The epoch that the service had pushed when the attempt began; 0: none.
        begun_in: u64,
    },
}

/// Why the service decided nothing.
enum NoDecision {
    Unasked,
    Unanswered(NoAnswer),
    Unreadable(Unreadable),
}

impl Asking {
    pub(crate) fn first(client: Client, question: Question) -> Self {
        Self {
            deadline: question
                .deadline
                .and_then(|left| Instant::now().checked_add(left)),
            call_id: CallId::new(question.call_id.as_ref()),
            client,
            question: Arc::new(question),
            attempt: 1,
            is_hedge: false,
            previous: None,
            hedges_are_over: Arc::default(),
        }
    }

    /// About the attempt after this one, which ended so.
    pub(crate) fn next(&self, made: Made, outcome: Outcome) -> Self {
        self.note_outcome(&outcome);
        Self {
            attempt: self.attempt.saturating_add(1),
            is_hedge: false,
            previous: Some(Arc::new(Previous::new(
                self.client.clone(),
                Arc::clone(&self.question.dependency),
                made,
                outcome,
            ))),
            ..self.clone()
        }
    }

    /// About a second copy of this attempt.
    pub(crate) fn hedge(&self) -> Self {
        Self {
            is_hedge: true,
            previous: None,
            ..self.clone()
        }
    }

    /// As a call of its own, unless the caller has named it.
    pub(crate) fn rename(&mut self) {
        self.call_id = CallId::new(self.question.call_id.as_ref());
    }

    pub(crate) fn note_outcome(&self, outcome: &Outcome) {
        if outcome.do_not_retry {
            self.hedges_are_over.store(true, Relaxed);
        }
    }

    /// `None`: there is no deadline.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    pub(crate) async fn ask(&self) -> Result<Permit, Denied> {
        if let Err(denied) = self.settled() {
            self.tell();
            return Err(denied);
        }
        if let Some(settled) = self.on_pushed_state() {
            return settled;
        }
        let held = self.hold_back().await?;
        if let Err(denied) = settled::time(self.time_left()) {
            self.tell();
            return Err(denied);
        }
        let asked_at = Instant::now();
        match self.ask_fleet(None).await {
            Ok(Answer::Grant(granted)) => {
                self.told();
                let local = &self.client.inner().local;
                local.let_go(&self.question.dependency, self.client.inner().clock.time());
                let terms = Terms::from(granted).less(held);
                Permit::try_new(self.clone(), terms, asked_at)
            }
            Ok(Answer::Denial(denied)) => {
                self.told();
                self.remember(&denied);
                Err(denied)
            }
            Err(no) => {
                self.tell_after(&no);
                match no {
                    NoDecision::Unreadable(why @ Unreadable::NoDelay) if self.is_extra() => {
                        Err(unreadable(why))
                    }
                    NoDecision::Unreadable(_) | NoDecision::Unanswered(_) | NoDecision::Unasked => {
                        self.ask_nobody(asked_at, held)
                    }
                }
            }
        }
    }

    /// Whether a granted attempt may still be made, just before it is. `None`: nobody says
    /// that it may not.
    pub(crate) async fn confirm(&self, made: &Made) -> Result<Option<Terms>, Denied> {
        let permit = match made {
            Made::Fleet(permit) => permit,
            // It was granted no delay, so that there is nothing to confirm.
            Made::OnState(_) => return Ok(None),
            Made::Local { permit, .. } => {
                let question = decision::Question::Confirm(*permit);
                return self.decide_here(question).map(Some);
            }
        };
        match self.ask_fleet(Some(permit)).await {
            Ok(Answer::Grant(granted)) => Ok(Some(granted.into())),
            Ok(Answer::Denial(denied)) => {
                self.remember(&denied);
                Err(denied)
            }
            Err(NoDecision::Unreadable(why @ Unreadable::NoDelay)) => Err(unreadable(why)),
            Err(NoDecision::Unreadable(_) | NoDecision::Unanswered(_) | NoDecision::Unasked) => {
                match self.client.inner().on_no_decision {
                    OnNoDecision::Local | OnNoDecision::Allow => Ok(None),
                    OnNoDecision::Deny => Err(undecided()),
                }
            }
        }
    }

    /// A retry or a hedge: what nobody needs for the call to be made at all.
    fn is_extra(&self) -> bool {
        self.sought() == Sought::Extra
    }

    pub(crate) fn sought(&self) -> Sought {
        match self.attempt > 1 || self.is_hedge {
            true => Sought::Extra,
            false => Sought::First,
        }
    }

    /// What follows from the caller's own words.
    fn settled(&self) -> Result<(), Denied> {
        let is_unsafe = self.question.safety == Safety::Unsafe;
        if !matches!(self.client.inner().mode, Mode::Bypass) {
            settled::name(&self.question)?;
        }
        settled::time(self.time_left())?;
        if self.is_hedge && (is_unsafe || self.hedges_are_over.load(Relaxed)) {
            let detail = "it may do harm, or the dependency said: do not retry";
            return Err(Denied::caller(DenialReason::HedgeRefused, detail));
        }
        match &self.previous {
            Some(previous) => settled::retry(&self.question, self.attempt, &previous.outcome),
            None => Ok(()),
        }
    }

    async fn ask_fleet(&self, confirm: Option<&Bytes>) -> Result<Answer, NoDecision> {
        let inner = self.client.inner();
        let Mode::Fleet(link) = &inner.mode else {
            return Err(NoDecision::Unasked);
        };
        let answer = link.ask(self.request(confirm), inner.timeout).await;
        let answer = answer
            .map_err(NoDecision::Unanswered)
            .and_then(|response| wire::read_answer(response).map_err(NoDecision::Unreadable));
        match &answer {
            Ok(_) => add(&inner.counting.answered, 1),
            Err(no) => {
                add(&inner.counting.no_decision, 1);
                tracing::debug!(dependency = &*self.question.dependency, %no, "no decision");
            }
        }
        answer
    }

    fn request(&self, confirm: Option<&Bytes>) -> proto::AcquireRequest {
        let previous = match (confirm, &self.previous) {
            (None, Some(previous)) => Some(previous.on_the_wire()),
            (Some(_), _) | (None, None) => None,
        };
        proto::AcquireRequest {
            dependency: self.question.dependency.to_string(),
            attempt: self.attempt,
            safety: wire::write_safety(self.question.safety),
            time_left: self.time_left().map(wire::write_duration),
            previous,
            confirm: confirm.cloned().unwrap_or_default(),
            priority: wire::write_priority(self.question.priority),
            hedge: self.is_hedge,
            cost: self.question.cost,
            call_id: self.call_id.to_string(),
            // The stream's own stand for these.
            namespace: String::new(),
            caller: None,
        }
    }

    /// Decides without the service.
    fn ask_nobody(&self, asked_at: Instant, held: Duration) -> Result<Permit, Denied> {
        let question = match (&self.previous, self.is_hedge) {
            (_, true) => decision::Question::Hedge {
                attempt: self.attempt,
            },
            (None, false) => decision::Question::First,
            (Some(previous), false) => decision::Question::Retry {
                attempt: self.attempt,
                previous: previous.here(self.attempt),
            },
        };
        if let Some(denied) = self.refused_alone() {
            self.note_here(question);
            return Err(denied);
        }
        let terms = self.decide_here(question)?.less(held);
        Permit::try_new(self.clone(), terms, asked_at)
    }

    fn decide_here(&self, question: decision::Question) -> Result<Terms, Denied> {
        let asked = self.asked_here(question).ok_or_else(undecided)?;
        self.decide(&asked)
    }

    fn decide(&self, asked: &local::Asked) -> Result<Terms, Denied> {
        let inner = self.client.inner();
        let dependency = &self.question.dependency;
        let answer = inner
            .local
            .ask(dependency, asked, inner.clock.time(), local::sample());
        let counter = match &answer {
            Ok(_) => &inner.counting.local_grants,
            Err(_) => &inner.counting.local_denials,
        };
        add(counter, 1);
        let mut terms = Terms::from(answer?);
        if matches!(inner.mode, Mode::Testing) {
            terms.delay = Duration::ZERO;
        }
        Ok(terms)
    }

    /// `None`: this process must not decide either.
    fn asked_here(&self, question: decision::Question) -> Option<local::Asked> {
        let inner = self.client.inner();
        let strictness = match (&inner.mode, inner.on_no_decision) {
            (Mode::Bypass | Mode::Testing, _) => Strictness::RetriesOnly,
            (Mode::Fleet(_), OnNoDecision::Local) => Strictness::All,
            (Mode::Fleet(_), OnNoDecision::Allow) => Strictness::RetriesOnly,
            (Mode::Fleet(_), OnNoDecision::Deny) => return None,
        };
        Some(local::Asked {
            kept: inner.kept(&self.question.dependency),
            question,
            idempotent: self.question.safety != Safety::Unsafe,
            time_left: self.time_left().map(Into::into),
            cost: self.question.cost,
            priority: self.question.priority.into(),
            strictness,
        })
    }

    fn remember(&self, denied: &Denied) {
        let inner = self.client.inner();
        let dependency = &self.question.dependency;
        inner.local.remember(dependency, denied, inner.clock.time());
    }

    fn tell(&self) {
        if let Some(previous) = &self.previous {
            previous.tell();
        }
    }

    /// Nothing was decided. The outcome of an attempt without a permit cannot be told twice,
    /// so that it is not told again where the question may have arrived.
    fn tell_after(&self, no: &NoDecision) {
        let may_have_arrived = match no {
            NoDecision::Unreadable(_) => true,
            NoDecision::Unanswered(no) => may_have_arrived(no),
            NoDecision::Unasked => false,
        };
        if let Some(previous) = &self.previous {
            if may_have_arrived {
                previous.may_be_told();
            }
            previous.tell_unasked();
        }
    }

    /// The service has taken the outcome with the question.
    fn told(&self) {
        if let Some(previous) = &self.previous {
            previous.told_to_fleet();
        }
    }
}

impl std::fmt::Display for NoDecision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unasked => f.write_str("not asked"),
            Self::Unanswered(why) => why.fmt(f),
            Self::Unreadable(why) => why.fmt(f),
        }
    }
}

/// Whether the service may have taken a question that it did not answer.
fn may_have_arrived(no: &NoAnswer) -> bool {
    match no {
        NoAnswer::Late | NoAnswer::Lost => true,
        NoAnswer::Away | NoAnswer::Busy | NoAnswer::Failed(..) => false,
    }
}

fn unreadable(why: Unreadable) -> Denied {
    Denied::new(DeniedBy::Fleet, DenialReason::Unreadable, why.to_string())
}

fn undecided() -> Denied {
    let detail = "the service did not decide, and on_no_decision is deny";
    Denied::new(DeniedBy::Local, DenialReason::NoDecision, detail)
}
