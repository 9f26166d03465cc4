//! First attempts that were made on pushed state, and told in sums.
//!
//! Under the candidate a client would have held another state: where that says go, the sums are
//! taken as they are; where it says no, the calls would not have been made; where it says ask
//! (probes, a ramp, a rate), as many first attempts are asked for one by one, and the ends of
//! the sum are dealt out evenly among them.

use holdoff_decision::{
    Ask, Context, Outcome, OutcomeKind, Policy, Priority, Question, Reported, Tally, acquire,
    report,
    standing::{FirstAttempts, standing_of},
    tally,
};

use super::{
    judge::{ANOTHER_EPOCH, Judge},
    numbers::{Class, End},
};

/// First attempts of one tally that are asked for one by one; what is beyond them is taken as
/// the last of them was.
const ASKED_MAX: u32 = 256;

impl Judge {
    /// `live`: what the live policy made of it, and whether its clients were told to go.
    pub(super) fn tallied(
        &mut self,
        policy: &Policy,
        counts: &Tally,
        reporter: u64,
        live: (Reported, bool),
        context: &Context,
    ) {
        self.record.advance(policy, context);
        self.numbers
            .live
            .grant(Class::First, u64::from(counts.first_attempts));
        let (successes, failures) = ends(counts);
        self.numbers.live.end(End::Succeeded, successes);
        self.numbers.live.end(End::Failed, failures);
        let (result, went) = live;
        if result != Reported::Ok {
            // It was sent before the last change: what it was made on is not known.
            self.take_sum(policy, counts, ANOTHER_EPOCH, reporter, context);
            return;
        }
        let rest = match self.asks(policy, reporter, went, context) {
            true => self.ask_each(policy, counts, reporter, context),
            false => *counts,
        };
        match self.refusal_of_pushed(policy, reporter, went, context) {
            Some(reason) => {
                let (successes, failures) = ends(&rest);
                let refused = u64::from(rest.first_attempts);
                self.numbers.candidate.refuse(Class::First, refused);
                self.numbers.refuse(reason, Class::First, refused);
                self.numbers.end_refused(reason, End::Succeeded, successes);
                self.numbers.end_refused(reason, End::Failed, failures);
            }
            None => {
                let epoch = self.record.breaker.epoch;
                self.take_sum(policy, &rest, epoch, reporter, context);
            }
        }
    }

    fn asks(&self, policy: &Policy, reporter: u64, went: bool, context: &Context) -> bool {
        let standing = standing_of(policy, &self.record, reporter, context);
        went && standing.first_attempts == FirstAttempts::Ask
    }

    fn take_sum(
        &mut self,
        policy: &Policy,
        counts: &Tally,
        epoch: u64,
        reporter: u64,
        context: &Context,
    ) {
        let (successes, failures) = ends(counts);
        let candidate = &mut self.numbers.candidate;
        candidate.grant(Class::First, u64::from(counts.first_attempts));
        candidate.end(End::Succeeded, successes);
        candidate.end(End::Failed, failures);
        let own = Tally { epoch, ..*counts };
        tally(policy, &mut self.record, &own, reporter, context);
    }

    /// Asks for each first attempt, and returns what is left of the sum.
    fn ask_each(
        &mut self,
        policy: &Policy,
        counts: &Tally,
        reporter: u64,
        context: &Context,
    ) -> Tally {
        let mut rest = *counts;
        let mut deal = Deal::new(counts);
        for _ in 0..counts.first_attempts.min(ASKED_MAX) {
            rest.first_attempts -= 1;
            let outcome = deal.next(&mut rest);
            let end = outcome.map_or(End::Neither, End::of);
            let answer = acquire(policy, &mut self.record, &first(reporter), context);
            match answer.verdict {
                Ok(grant) => {
                    self.numbers.candidate.grant(Class::First, 1);
                    self.numbers.candidate.end(end, 1);
                    match outcome.map(Outcome::of) {
                        Some(outcome) => {
                            let permit = grant.permit;
                            report(
                                policy,
                                &mut self.record,
                                &permit,
                                &outcome,
                                reporter,
                                context,
                            );
                        }
                        None => self.let_unknown(&grant.permit),
                    }
                }
                Err(denial) => {
                    self.numbers.candidate.refuse(Class::First, 1);
                    self.numbers.refuse(denial.reason, Class::First, 1);
                    self.numbers.end_refused(denial.reason, end, 1);
                }
            }
        }
        rest
    }
}

/// Ends that say something about the dependency.
fn ends(counts: &Tally) -> (u64, u64) {
    let failures = [counts.failures, counts.timeouts, counts.throttled];
    let failures = failures.into_iter().map(u64::from).sum();
    (u64::from(counts.successes), failures)
}

fn first(caller: u64) -> Ask {
    Ask {
        question: Question::First,
        caller,
        service: 0,
        call: None,
        idempotent: true,
        time_left: None,
        priority: Priority::Normal,
        cost: 1,
    }
}

/// Deals the ends of a sum out evenly: after any number of them each kind has had its share,
/// to one.
struct Deal {
    all: [u64; 4],
    dealt: [u64; 4],
}

impl Deal {
    fn new(counts: &Tally) -> Self {
        let all = [
            counts.successes,
            counts.failures,
            counts.timeouts,
            counts.throttled,
        ];
        Self {
            all: all.map(u64::from),
            dealt: [0; 4],
        }
    }

    /// The next end, taken out of `rest`; `None`: none is left.
    fn next(&mut self, rest: &mut Tally) -> Option<OutcomeKind> {
        let (all, dealt): (u64, u64) = (self.all.iter().sum(), self.dealt.iter().sum());
        // How far each kind is behind its share after this one, times `all`.
        let behind =
            |kind: &usize| (self.all[*kind] * (dealt + 1)).saturating_sub(self.dealt[*kind] * all);
        let open = (0..4).filter(|kind| self.dealt[*kind] < self.all[*kind]);
        let kind = open.max_by_key(behind)?;
        self.dealt[kind] += 1;
        let (left, outcome) = match kind {
            0 => (&mut rest.successes, OutcomeKind::Success),
            1 => (&mut rest.failures, OutcomeKind::Failure),
            2 => (&mut rest.timeouts, OutcomeKind::Timeout),
            _ => (&mut rest.throttled, OutcomeKind::Throttled),
        };
        *left = left.saturating_sub(1);
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_sum_are_dealt_out_evenly_and_all_of_them() {
        let counts = Tally {
            successes: 6,
            failures: 3,
            ..Tally::default()
        };
        let (mut deal, mut rest) = (Deal::new(&counts), counts);
        let dealt: Vec<_> = std::iter::from_fn(|| deal.next(&mut rest)).collect();
        assert_eq!(dealt.len(), 9);
        assert_eq!(rest, Tally::default());
        let failed = |part: &[OutcomeKind]| {
            let failed = part.iter().filter(|kind| **kind == OutcomeKind::Failure);
            failed.count()
        };
        for three in dealt.chunks(3) {
            assert_eq!(failed(three), 1, "{dealt:?}");
        }
    }
}
