//! First attempts on pushed state: made or refused without a question, and told afterwards.
//!
//! What is let go is the fleet's only while the service is at hand: there a failure is told
//! with the question about its retry, and all else by the tally. While it is lost the question
//! is decided here, so all else must be counted here too, or this process would see failures
//! alone. So what is let go then is decided here from its beginning.

use std::sync::Arc;

use holdoff_decision::{self as decision, policy::MaxAttempts};
use tokio::{runtime::Handle, time::Instant};

use super::{Asking, Made, call_id::CallId, may_have_arrived, undecided};
use crate::{
    client::{Client, Mode},
    counters::add,
    denied::Denied,
    link::Link,
    local::Strictness,
    outcome::{Outcome, OutcomeKind},
    permit::{Permit, Terms},
    proto,
    pushed::{OnState, Sought, Word},
    question::Safety,
    wire,
};

impl Asking {
    /// `None`: the service is to be asked.
    pub(super) fn on_pushed_state(&self) -> Option<Result<Permit, Denied>> {
        if self.is_extra() {
            return None;
        }
        let inner = self.client.inner();
        let Mode::Fleet(link) = &inner.mode else {
            return None;
        };
        match link.shared().pushed.word(&self.question.dependency) {
            Word::Go(_) if inner.is_alone() => Some(self.let_go_alone(link)),
            Word::Go(on) => {
                add(&inner.counting.pushed_grants, 1);
                let terms = Terms::at_once(Made::OnState(on));
                Some(Permit::try_new(self.clone(), terms, Instant::now()))
            }
            Word::Refuse(denied) => {
                add(&inner.counting.pushed_denials, 1);
                Some(Err(denied))
            }
            Word::Ask => None,
        }
    }

    /// The service has let first attempts go and is lost since: this process's own record says
    /// whether they still go. What the service denied besides binds none of them, as it binds
    /// none while it is at hand. Nothing is asked or waited for, but the service is looked for:
    /// no question does that while all go well.
    fn let_go_alone(&self, link: &Link) -> Result<Permit, Denied> {
        link.seek();
        let asked_at = Instant::now();
        let question = decision::Question::First;
        let mut asked = self.asked_here(question).ok_or_else(undecided)?;
        asked.strictness = Strictness::OwnRecord;
        Permit::try_new(self.clone(), self.decide(&asked)?, asked_at)
    }

    /// The service gives no answer, and does not need to: what it has pushed still stands.
    /// More attempts than the policy allows are refused for that, since it is final.
    pub(super) fn refused_alone(&self) -> Option<Denied> {
        let inner = self.client.inner();
        let Mode::Fleet(link) = &inner.mode else {
            return None;
        };
        let pushed = &link.shared().pushed;
        let dependency = &self.question.dependency;
        let sought = self.sought();
        let denied = pushed.refused_alone(dependency, sought, None)?;
        let policies = pushed.kept(dependency)?.policies;
        let allowed = match (policies.all.retry.max_attempts, sought) {
            (MaxAttempts::Limited(allowed), Sought::Extra) => allowed,
            (MaxAttempts::Limited(_), Sought::First) | (MaxAttempts::Unlimited, _) => u32::MAX,
        };
        if self.attempt > allowed {
            return None;
        }
        add(&inner.counting.pushed_denials, 1);
        Some(denied)
    }

    /// What the attempt before showed counts for this process, whoever has answered.
    pub(super) fn note_here(&self, question: decision::Question) {
        if let Some(asked) = self.asked_here(question) {
            let inner = self.client.inner();
            let dependency = &self.question.dependency;
            inner.local.note(dependency, &asked, inner.clock.time());
        }
    }
}

/// Tells how an attempt on pushed state ended that no question has told of. It is tallied;
/// but a tally has no place for a wait that the dependency asked for, and that may hold the
/// whole fleet. Such an outcome goes with a question about a retry that is sure to be denied.
pub(crate) fn tell(
    client: &Client,
    link: &Link,
    dependency: &Arc<str>,
    on: OnState,
    outcome: &Outcome,
) {
    let may_hold = outcome.pushback.is_some() && outcome.kind != OutcomeKind::Success;
    let runtime = Handle::try_current().ok().filter(|_| may_hold);
    let reports = &link.shared().reports;
    match runtime {
        None => reports.tally(dependency, on, outcome),
        Some(runtime) => {
            reports.begin_telling();
            let asked = ask_in_vain(client.clone(), dependency.clone(), on, outcome.clone());
            runtime.spawn(asked);
        }
    }
}

async fn ask_in_vain(client: Client, dependency: Arc<str>, on: OnState, outcome: Outcome) {
    let inner = client.inner();
    let Mode::Fleet(link) = &inner.mode else {
        return;
    };
    let request = proto::AcquireRequest {
        dependency: dependency.to_string(),
        attempt: 2,
        // Only what certainly was not sent could be granted, and that is given back.
        safety: wire::write_safety(Safety::Unsafe),
        previous: Some(proto::Previous {
            made_under: Some(proto::previous::MadeUnder::Epoch(on.epoch)),
            outcome: Some(wire::write_outcome(&outcome)),
        }),
        call_id: CallId::new(None).to_string(),
        ..Default::default()
    };
    let shared = link.shared();
    match link.ask(request, inner.timeout).await {
        Ok(response) => shared.give_back(response),
        Err(no) if may_have_arrived(&no) => {}
        Err(_) => shared.reports.tally(&dependency, on, &outcome),
    }
    shared.reports.end_telling();
}
