//! What the coordinator does with what it hears, and what must be true of it.

use holdoff_decision::{
    Answer, DenialReason, Grant, Nanos, Outcome, Policy, Reported, State, Time,
    breaker::{Cause, Phase},
    policy::AppliesTo,
    record::OverrideKind,
    standing::{FirstAttempts, GO_VALID_FOR, standing_of},
};

use super::{
    Without,
    messages::{Asking, Down, Event, Made, Ticket, Up, Wanted},
    scenario::malice,
    truth::Harm,
    world::{Failure, World},
};

impl World {
    pub fn coordinator_hears(&mut self, client: usize, up: Up) -> Result<(), Failure> {
        match up {
            Up::Ask(asking) => self.hears_ask(client, &asking),
            Up::Report {
                instance,
                ticket,
                outcome,
            } => self.hears_report(instance, &ticket, &outcome),
            Up::Tally {
                instance,
                sequence,
                tally,
            } => {
                let context = self.context();
                let policy = &self.scenario.policy;
                self.coordinator.record.advance(policy, &context);
                let before = self.coordinator.state();
                let key = instance * 1_000 + client as u64;
                let reported = self
                    .coordinator
                    .tally(policy, key, sequence, &tally, &context);
                if reported.is_some() {
                    self.truth.deposit(tally.first_attempts, self.now);
                }
                let counts = reported == Some(Reported::Ok) && tally.epoch == before.1;
                if !counts && before != self.coordinator.state() {
                    return self.fails(Harm::StaleCounted, format!("{tally:?}"));
                }
                self.trace(|_| format!("client {client} tallies {tally:?}: {reported:?}"));
                self.follow()
            }
        }
    }

    fn hears_ask(&mut self, client: usize, asking: &Asking) -> Result<(), Failure> {
        let handed_back = match asking.wanted {
            Wanted::First => None,
            Wanted::Retry { made, .. } => match made {
                Made::Ticket(ticket) => Some(ticket),
                Made::Pushed { .. } => None,
            },
            Wanted::Confirm(ticket) => Some(ticket),
        };
        if let Some(ticket) = handed_back {
            self.coordinator.is_shown(&ticket, self.without);
        }
        let context = self.context();
        let (policy, epoch) = (&self.scenario.policy, self.coordinator.record.breaker.epoch);
        let answer = self
            .coordinator
            .acquire(policy, asking, &context, self.without);
        self.trace(|_| format!("client {client} asks {asking:?} at epoch {epoch}: {answer:?}"));
        let opens_at = self.truth.open_until;
        self.follow()?;
        if let (Wanted::Retry { made, .. }, Some(reported)) = (asking.wanted, answer.previous) {
            self.previous_was(asking, &made, reported)?;
        }
        match &answer.verdict {
            Ok(grant) => self.was_granted(client, asking, &answer, grant, opens_at)?,
            Err(denial) => {
                self.seen.refusals += 1;
                let confirms = matches!(asking.wanted, Wanted::Confirm(_));
                if confirms && denial.reason != DenialReason::PermitVoid {
                    self.truth.refund(asking.token);
                }
            }
        }
        self.send_down(
            client,
            Down::Answer {
                life: asking.life,
                step: asking.step,
                sent: asking.sent,
                verdict: answer.verdict,
                run: self.coordinator.run,
                key: self.coordinator.key,
            },
        );
        // An `Acquire` subscribes.
        if asking.session {
            self.push(client);
        }
        Ok(())
    }

    fn previous_was(
        &mut self,
        asking: &Asking,
        made: &Made,
        reported: Reported,
    ) -> Result<(), Failure> {
        match made {
            Made::Ticket(ticket) => self.was_reported(ticket, reported),
            Made::Pushed { .. } => {
                let first = matches!(asking.wanted, Wanted::Retry { attempt: 2, .. });
                if reported != Reported::Duplicate && first {
                    self.truth.deposit(1, self.now);
                }
                Ok(())
            }
        }
    }

    /// Invariants 3, 5 and the coordinator's own half of 2.
    fn was_granted(
        &mut self,
        client: usize,
        asking: &Asking,
        answer: &Answer,
        grant: &Grant,
        opens_at: Time,
    ) -> Result<(), Failure> {
        let (run, now) = (self.coordinator.run, self.now);
        if !self.granted.insert((run, grant.permit.serial)) {
            return Ok(());
        }
        let policy = self.scenario.policy.clone();
        let order = self
            .order
            .filter(|(_, end)| end.is_none_or(|end| now < end));
        let order = order.map(|(kind, _)| kind);
        if order == Some(OverrideKind::ForceOpen) {
            return self.fails(Harm::ForcedOpenGrant, format!("{asking:?} {answer:?}"));
        }
        let first = match asking.wanted {
            Wanted::First => true,
            Wanted::Confirm(ticket) => ticket.permit.retry == 0,
            Wanted::Retry { .. } => false,
        };
        let spared = first && policy.breaker.applies_to != AppliesTo::All;
        let early = now < self.truth.open_until || grant.probe && now < opens_at;
        // Who forces it closed skips the breaker.
        if early && order.is_none() && (grant.probe || !spared) {
            let until = self.truth.open_until.max(opens_at);
            return self.fails(
                Harm::EarlyGrant,
                format!("open until {until:?}: {answer:?}"),
            );
        }
        if grant.probe {
            self.seen.probes += 1;
            if self.coordinator.is_unaware {
                self.seen.unaware_probes += 1;
                self.unaware.insert((run, grant.permit.serial));
            }
            if now < self.scenario.healed && self.draws.happens(self.scenario.malice) {
                let lease = policy.breaker.probe_lease;
                let fault = malice(&mut self.draws, client, lease);
                let soon = self.draws.millis(0, 50);
                self.later(now + soon, Event::Fault(fault));
            }
        }
        let out = self.coordinator.record.breaker.probes_out(now);
        if out > policy.breaker.probes {
            return self.fails(Harm::TooManyProbes, format!("{out} leases"));
        }
        match asking.wanted {
            Wanted::First => self.truth.deposit(1, now),
            Wanted::Confirm(_) => self.seen.confirmed += 1,
            Wanted::Retry { .. } => {
                self.seen.retries += 1;
                let floor = self.floor_counts(&policy);
                let (granted, allowed) = self.truth.withdraw(&policy, asking.token, floor, now);
                if granted > allowed {
                    return self.fails(Harm::OverBudget, format!("{granted} of {allowed}"));
                }
            }
        }
        Ok(())
    }

    /// A restart never raises a budget: for one `ttl` the floor counts as spent. One that finds
    /// nothing begins anew.
    fn floor_counts(&self, policy: &Policy) -> bool {
        match self.without {
            Without::Quarantine | Without::QuarantineOfTheEmpty => true,
            _ => {
                let start = self.coordinator.restarted;
                start.is_none_or(|start| {
                    !start.is_on_record || self.now >= start.at + policy.budget.ttl
                })
            }
        }
    }

    fn hears_report(
        &mut self,
        instance: u64,
        ticket: &Ticket,
        outcome: &Outcome,
    ) -> Result<(), Failure> {
        self.coordinator.is_shown(ticket, self.without);
        let context = self.context();
        let policy = &self.scenario.policy;
        let coordinator = &mut self.coordinator;
        // What time alone brings about is not the report's doing.
        coordinator.record.advance(policy, &context);
        let before = coordinator.state();
        let reported = match coordinator.read(ticket, self.without) {
            Ok(permit) => {
                coordinator.report(policy, permit, outcome, instance, &context, self.without)
            }
            Err(reported) => reported,
        };
        let after = coordinator.state();
        self.trace(|_| format!("report of {ticket:?}, {:?}: {reported:?}", outcome.kind));
        let of_now = ticket.permit.epoch == before.1
            && (ticket.run, ticket.key) == (self.coordinator.run, self.coordinator.key);
        if before != after && (!of_now || reported != Reported::Ok) {
            return self.fails(
                Harm::StaleCounted,
                format!("{ticket:?} made {before:?} {after:?}"),
            );
        }
        self.was_reported(ticket, reported)?;
        self.follow()
    }

    /// Invariant 7: at most once.
    fn was_reported(&mut self, ticket: &Ticket, reported: Reported) -> Result<(), Failure> {
        match reported {
            Reported::Ok => {
                if !self.truth.counts(ticket.run, ticket.permit.serial) {
                    return self.fails(Harm::CountedTwice, format!("{ticket:?}"));
                }
            }
            Reported::Duplicate => self.seen.duplicates += 1,
            Reported::StaleEpoch | Reported::Expired => self.seen.stale += 1,
            Reported::Unknown => {}
        }
        Ok(())
    }

    /// Notes what has changed, and has it written.
    pub fn follow(&mut self) -> Result<(), Failure> {
        let delay = self.draws.millis(1, 15);
        let transitions = self.coordinator.changes(self.now, delay, self.without);
        if transitions.is_empty() {
            return Ok(());
        }
        let (now, policy) = (self.now, &self.scenario.policy);
        let breaker = &self.coordinator.record.breaker;
        let (phase, ends, period) = (
            breaker.phase,
            breaker.past().open_until,
            policy.breaker.open_for,
        );
        for transition in &transitions {
            self.trace(|_| format!("epoch {}: {:?}", transition.epoch, transition.cause));
            // The end of a ramp raises nothing.
            let raises = transition.cause != Cause::Recovered;
            if raises && !self.truth.rises(self.coordinator.run, transition.epoch) {
                return self.fails(Harm::EpochFell, format!("{transition:?}"));
            }
        }
        match phase {
            Phase::Open => {
                self.seen.trips += 1;
                self.truth.open_until = ends;
                if ends < now + period {
                    return self.fails(Harm::EarlyGrant, format!("opened until {ends:?} only"));
                }
            }
            Phase::HalfOpen => {
                if now < self.truth.open_until {
                    let until = self.truth.open_until;
                    return self.fails(Harm::EarlyGrant, format!("half-open before {until:?}"));
                }
                self.truth.open_until = Time::ORIGIN;
            }
            Phase::Closed => self.truth.open_until = Time::ORIGIN,
        }
        if let Some(at) = self.coordinator.written_at() {
            self.later(at, Event::Written);
        }
        Ok(())
    }

    pub fn push_all(&mut self) {
        (0..self.clients.len()).for_each(|client| self.push(client));
    }

    /// Tells one session what its first attempts may do.
    pub fn push(&mut self, client: usize) {
        if !self.clients[client].session {
            return;
        }
        let context = self.context();
        let mut standing = standing_of(
            &self.scenario.policy,
            &self.coordinator.record,
            self.clients[client].instance,
            &context,
        );
        let spares =
            !(self.coordinator.record.breaker).binds_first_attempts(&self.scenario.policy.breaker);
        if self.without == Without::AskingForSparedProbes
            && spares
            && standing.state == State::HalfOpen
        {
            standing.first_attempts = FirstAttempts::Go;
            standing.valid_for = GO_VALID_FOR;
        }
        self.pushes += 1;
        let number = self.pushes;
        self.send_down(client, Down::Push { number, standing });
    }

    pub fn client_hears(&mut self, client: usize, down: Down) -> Result<(), Failure> {
        match down {
            Down::Push { number, standing } => {
                let now = self.now;
                self.clients[client].hears(number, standing, now);
                Ok(())
            }
            Down::Answer {
                life,
                step,
                sent,
                verdict,
                run,
                key,
            } => {
                let it = &self.clients[client];
                if (it.life, it.step) != (life, step) {
                    return Ok(());
                }
                match verdict {
                    Ok(grant) => {
                        let permit = grant.permit;
                        self.is_granted(client, Ticket { permit, run, key }, grant, sent)
                    }
                    Err(denial) => {
                        self.is_denied(client, denial.retry_after.unwrap_or(Nanos::ZERO));
                        Ok(())
                    }
                }
            }
        }
    }
}
