//! Questions of proxies. A proxy holds the call in its hands, so it passes at once or not at
//! all; it may ask about several dependencies of one call, of which all grant or none is charged;
//! and it may not tell how the call ended.
//!
//! An attempt that waits nowhere is the rule's own (`time_left` of nothing but the attempt), and
//! so is a retry that runs at once or is refused: a hedge. Where nobody will report, the permit
//! is settled as it is given, or silence would count as a timeout; a probe's lease is kept until
//! it ends, so that no more than `probes` are out.

use std::sync::Arc;

use bytes::Bytes;
use holdoff_decision::{
    Answer, Ask, Context, Denial, DenialReason, Grant, Nanos, Outcome, OutcomeKind, Policy,
    Priority, Question, Record, State, acquire, permit::Facts, policy::Rate, rate::Left, report,
    report::NOBODY,
};

use super::{Caller, Coordinator, Inquiry, Key, Refusal, Subject, Who};
use crate::{
    candidate::Happening,
    permit::DependencyId,
    store::{Slot, Store, by_fleet, by_here},
};

/// One call of one dependency that a proxy holds.
#[derive(Clone, Debug)]
pub struct Passage<'a> {
    pub key: Key<'a>,
    pub caller: Caller<'a>,
    /// From 1; those above 1 ask the budget.
    pub attempt: u32,
    /// What it takes from the rate; 0: it passes while no more than the burst is taken.
    pub cost: u32,
    /// Instead of the policy's rate.
    pub limit: Option<Rate>,
    pub reporting: Reporting,
}

/// Whether the proxy tells how a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reporting {
    Never,
    AtTheEnd,
}

/// The answer to one passage.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The permit of a call that passes and is charged, where it can be reported.
    pub verdict: Result<Option<Bytes>, Denial>,
    pub state: State,
    /// Of the rate that applies, where one does.
    pub allowance: Option<Allowance>,
}

/// A rate and what is left of it.
#[derive(Clone, Debug)]
pub struct Allowance {
    pub rate: Rate,
    pub left: Left,
}

/// What is counted against a rate without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    Taken(u32),
    GivenBack(u32),
}

/// What a passage would be answered.
struct Look {
    answer: Answer,
    ask: Ask,
    allowance: Option<Allowance>,
}

impl Look {
    /// Without a permit: nothing was taken.
    fn passed(self) -> Passed {
        Passed {
            verdict: self.answer.verdict.map(|_| None),
            state: self.answer.state,
            allowance: self.allowance,
        }
    }
}

/// What was taken for a passage.
struct Taken {
    answer: Answer,
    id: DependencyId,
    /// Its permit is still out.
    unreported: bool,
    allowance: Option<Allowance>,
}

/// What applies to a passage: the policy, and who asks.
struct Terms {
    policy: Arc<Policy>,
    ask: Ask,
}

impl<S: Store> Coordinator<S> {
    /// The dependency that a descriptor of Envoy stands for; the name may hold what no name
    /// may. `None`: the namespace has rules, and none of them is for it.
    ///
    /// # Errors
    /// Where there is no such namespace.
    pub fn dependency_of(
        &self,
        namespace: &str,
        entries: &[(&str, &str)],
    ) -> Result<Option<String>, Refusal> {
        let in_force = self.policies.in_force();
        match in_force.set.namespace(namespace) {
            Some(settings) => Ok(settings.dependency_of(entries)),
            None => Err(Refusal::UnknownNamespace(namespace.to_owned())),
        }
    }

    /// Answers all passages of one call: all pass and are charged, or none is charged. They are
    /// of different dependencies.
    ///
    /// # Errors
    /// Nothing was decided and nothing is charged; see [`Refusal`].
    pub async fn pass(&self, passages: &[Passage<'_>]) -> Result<Vec<Passed>, Refusal> {
        let context = self.context();
        if passages.len() > 1 {
            let looked = self.look_at_all(passages, &context).await?;
            if looked.iter().any(|look| look.answer.verdict.is_err()) {
                let all = passages.iter().zip(&looked);
                for (passage, look) in all.filter(|(_, look)| look.answer.verdict.is_err()) {
                    self.count_passage(passage, &look.answer, &look.ask, &context);
                }
                return Ok(looked.into_iter().map(Look::passed).collect());
            }
        }
        let mut taken = Vec::with_capacity(passages.len());
        for passage in passages {
            let one = self.take(passage, &context).await;
            let passes = one.as_ref().is_ok_and(|one| one.answer.verdict.is_ok());
            if !passes && !taken.is_empty() {
                // Somebody was faster since all were looked at.
                self.undo(passages, &taken, &context).await;
                let denied = self.passed(one?);
                let looked = self.look_at_all(passages, &context).await?;
                let mut passed: Vec<Passed> = looked.into_iter().map(Look::passed).collect();
                // Also where there is room again by now: nothing was taken.
                if let Some(place) = passed.get_mut(taken.len()) {
                    *place = denied;
                }
                return Ok(passed);
            }
            taken.push(one?);
        }
        Ok(taken.into_iter().map(|one| self.passed(one)).collect())
    }

    /// Counts hits against a dependency's rate, whether there is room or not.
    ///
    /// # Errors
    /// Nothing was counted; see [`Refusal`].
    pub async fn count_hits(
        &self,
        key: Key<'_>,
        caller: Caller<'_>,
        hits: Hits,
        limit: Option<&Rate>,
    ) -> Result<Option<Allowance>, Refusal> {
        let now = self.clock.now();
        self.transact(self.id(key), key, now, by_fleet, |slot| {
            if self.policies.bypasses(&slot.policy) {
                return None;
            }
            let rate = limit.or(slot.policy.rate.as_ref())?.clone();
            let service = self.service(&rate, caller);
            match hits {
                Hits::Taken(cost) => slot.record.charge_rate(&rate, service, cost, now),
                Hits::GivenBack(cost) => slot.record.refund_rate(&rate, service, cost),
            }
            let left = slot.record.rate_left(&rate, service, now);
            Some(Allowance { rate, left })
        })
        .await
    }

    /// What each would be answered; nothing is charged and no permit is given.
    async fn look_at_all(
        &self,
        passages: &[Passage<'_>],
        context: &Context,
    ) -> Result<Vec<Look>, Refusal> {
        let mut looked = Vec::with_capacity(passages.len());
        for passage in passages {
            looked.push(self.look(passage, context).await?);
        }
        Ok(looked)
    }

    async fn look(&self, passage: &Passage<'_>, context: &Context) -> Result<Look, Refusal> {
        let id = self.id(passage.key);
        self.transact(id, passage.key, context.now, by_here, |slot| {
            let terms = self.terms(passage, slot);
            let mut record = self.copy(slot, context);
            let mut answer = acquire(&terms.policy, &mut record, &terms.ask, context);
            let record = self.copy(slot, context);
            answer.verdict = in_plain_words(&terms, &record, &answer, context);
            count_denial(slot, &answer);
            Look {
                answer,
                ask: terms.ask,
                allowance: allowance(&terms, &record, context),
            }
        })
        .await
    }

    async fn take(&self, passage: &Passage<'_>, context: &Context) -> Result<Taken, Refusal> {
        let id = self.id(passage.key);
        let taken = self
            .transact(id, passage.key, context.now, by_fleet, |slot| {
                let terms = self.terms(passage, slot);
                if self.policies.bypasses(&slot.policy) {
                    let mut blank = self.copy(slot, context);
                    let answer = acquire(&terms.policy, &mut blank, &terms.ask, context);
                    return (answer, terms.ask, false, None);
                }
                let before = self.before(slot, terms.ask.caller, context);
                let mut answer = acquire(&terms.policy, &mut slot.record, &terms.ask, context);
                if let Some(before) = before {
                    let asked = (&terms.ask, passage.caller);
                    self.observe_asked(id, slot, asked, &answer, &before, context);
                }
                let kept = answer.verdict.map(|grant| {
                    let kept = passage.reporting == Reporting::AtTheEnd || grant.probe;
                    if !kept {
                        self.end(id, slot, &grant, OutcomeKind::Ignored, &terms, context);
                    }
                    kept
                });
                answer.verdict = in_plain_words(&terms, &slot.record, &answer, context);
                count_denial(slot, &answer);
                self.tell_changes(id, slot, Who::Caller(passage.caller), context.now);
                let allowance = allowance(&terms, &slot.record, context);
                (answer, terms.ask, kept.unwrap_or(false), allowance)
            })
            .await;
        let (answer, ask, unreported, allowance) = taken?;
        self.count_passage(passage, &answer, &ask, context);
        Ok(Taken {
            answer,
            id,
            unreported,
            allowance,
        })
    }

    fn count_passage(&self, passage: &Passage<'_>, answer: &Answer, ask: &Ask, context: &Context) {
        self.count_answer(answer, ask);
        let inquiry = Inquiry {
            key: passage.key,
            caller: passage.caller,
            subject: match passage.attempt {
                0 | 1 => Subject::First,
                attempt => Subject::Hedge { attempt },
            },
            call_id: "",
            idempotent: ask.idempotent,
            time_left: ask.time_left,
            cost: ask.cost,
            priority: ask.priority,
        };
        let id = self.id(passage.key);
        (self.traffic).answered(id, ask.caller, &inquiry, answer, context.now);
    }

    /// Gives back what was taken. A retry's token is not: it was promised.
    async fn undo(&self, passages: &[Passage<'_>], taken: &[Taken], context: &Context) {
        for (passage, taken) in passages.iter().zip(taken) {
            let Ok(grant) = taken.answer.verdict else {
                continue;
            };
            let undone = self.transact(taken.id, passage.key, context.now, by_fleet, |slot| {
                if self.policies.bypasses(&slot.policy) {
                    return;
                }
                let terms = self.terms(passage, slot);
                if let Some(rate) = &terms.policy.rate {
                    slot.record
                        .refund_rate(rate, terms.ask.service, passage.cost);
                }
                if taken.unreported {
                    self.end(
                        taken.id,
                        slot,
                        &grant,
                        OutcomeKind::Cancelled,
                        &terms,
                        context,
                    );
                }
            });
            // A record that cannot be had now has nothing to be given back.
            let _ = undone.await;
        }
    }

    /// Settles a permit that nobody will report, or that was not used.
    fn end(
        &self,
        id: DependencyId,
        slot: &mut Slot,
        grant: &Grant,
        kind: OutcomeKind,
        terms: &Terms,
        context: &Context,
    ) {
        let (outcome, reporter) = (Outcome::of(kind), NOBODY);
        let before = self.before(slot, reporter, context);
        let result = report(
            &terms.policy,
            &mut slot.record,
            &grant.permit,
            &outcome,
            reporter,
            context,
        );
        if let Some(before) = before {
            let happening = Happening::Reported {
                permit: grant.permit,
                outcome,
                reporter,
                result,
            };
            self.observe(id, slot, happening, &before, context);
        }
    }

    fn terms(&self, passage: &Passage<'_>, slot: &Slot) -> Terms {
        let policy = match &passage.limit {
            Some(rate) if !self.policies.bypasses(&slot.policy) => Arc::new(Policy {
                rate: Some(rate.clone()),
                ..Policy::clone(&slot.policy)
            }),
            Some(_) | None => Arc::clone(&slot.policy),
        };
        let service = policy
            .rate
            .as_ref()
            .map(|rate| self.service(rate, passage.caller));
        let question = match passage.attempt {
            0 | 1 => Question::First,
            attempt => Question::Hedge { attempt },
        };
        Terms {
            ask: Ask {
                question,
                caller: self.instance(passage.caller),
                service: service.unwrap_or_default(),
                call: None,
                idempotent: true,
                time_left: Some(policy.retry.min_attempt_time.saturating_add(Nanos(1))),
                priority: Priority::Normal,
                cost: passage.cost,
            },
            policy,
        }
    }

    fn service(&self, rate: &Rate, caller: Caller<'_>) -> u64 {
        match rate.per_caller {
            true => self.permits.hash(caller.service),
            false => 0,
        }
    }

    /// A record to look at; in a bypassed namespace one that knows nothing.
    fn copy(&self, slot: &Slot, context: &Context) -> Record {
        match self.policies.bypasses(&slot.policy) {
            true => Record::new(slot.record.breaker.epoch, context.now),
            false => slot.record.clone(),
        }
    }

    fn passed(&self, taken: Taken) -> Passed {
        let permit = |grant: Grant| {
            let unreported = taken.unreported;
            unreported.then(|| self.permits.write(taken.id, &grant.permit))
        };
        Passed {
            verdict: taken.answer.verdict.map(permit),
            state: taken.answer.state,
            allowance: taken.allowance,
        }
    }
}

/// By the reason that is told.
fn count_denial(slot: &mut Slot, answer: &Answer) {
    if let Err(denial) = &answer.verdict {
        slot.note_denial(denial.reason);
    }
}

fn allowance(terms: &Terms, record: &Record, context: &Context) -> Option<Allowance> {
    let rate = terms.policy.rate.clone()?;
    let left = record.rate_left(&rate, terms.ask.service, context.now);
    Some(Allowance { rate, left })
}

/// The verdict with the reason that a caller knows who could wait: a hedge is only told that it
/// is refused, and what would be delayed that its time is too short.
fn in_plain_words(
    terms: &Terms,
    record: &Record,
    answer: &Answer,
    context: &Context,
) -> Result<Grant, Denial> {
    let denial = match answer.verdict {
        Ok(grant) => return Ok(grant),
        Err(denial) => denial,
    };
    Err(match (denial.reason, denial.facts) {
        (DenialReason::HedgeRefused, Facts::Attempts { .. }) => Denial {
            reason: DenialReason::AttemptsExhausted,
            ..denial
        },
        (DenialReason::HedgeRefused, _) => {
            let first = Ask {
                question: Question::First,
                ..terms.ask
            };
            let asked = acquire(&terms.policy, &mut record.clone(), &first, context);
            match asked.verdict {
                Err(why) => with_its_time(why, answer.state),
                Ok(_) => denial,
            }
        }
        _ => with_its_time(denial, answer.state),
    })
}

fn with_its_time(denial: Denial, state: State) -> Denial {
    match (denial.reason, denial.facts) {
        (DenialReason::Deadline, Facts::Deadline { delay, .. }) => Denial {
            reason: match state {
                State::Recovering => DenialReason::Recovering,
                State::Closed
                | State::Open
                | State::HalfOpen
                | State::ForcedOpen
                | State::ForcedClosed => DenialReason::RateLimited,
            },
            retry_after: Some(delay),
            facts: Facts::Left(delay),
        },
        _ => denial,
    }
}
