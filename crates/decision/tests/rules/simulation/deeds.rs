//! What a client does: thinks, asks, waits, calls, reports.

use holdoff_decision::{Grant, Nanos, Outcome, OutcomeKind, Tally, Time};

use super::{
    Without,
    client::{Doing, Way},
    messages::{Asking, Event, Made, Ticket, Up, Wanted},
    scenario::{ATTEMPT_TIMEOUT, CALMER, HEALTHY_CALL_MS, OutageKind, RESEND_AFTER_MS, SENDS_MAX},
    truth::{Harm, Lease, usable},
    world::{Failure, World},
};

impl World {
    /// Until its next call.
    pub fn think(&mut self, client: usize) {
        let calm = if self.now < self.scenario.healed {
            1
        } else {
            CALMER
        };
        let wait = self.draws.millis(0, calm * self.scenario.think_ms);
        self.wait(client, None, wait);
    }

    fn wait(&mut self, client: usize, again: Option<Asking>, wait: Nanos) {
        self.turn(client, Doing::Waits { again }, self.now + wait);
    }

    fn turn(&mut self, client: usize, doing: Doing, wakes: Time) {
        let it = &mut self.clients[client];
        let step = it.turn(doing);
        let life = it.life;
        self.later(wakes, Event::Wake { client, life, step });
    }

    pub fn client_wakes(&mut self, client: usize) -> Result<(), Failure> {
        match self.clients[client].doing {
            Doing::Waits {
                again: Some(asking),
            } => self.ask(client, asking.wanted),
            Doing::Waits { again: None } => self.begins_call(client),
            Doing::Asks { asking, sends } if sends < SENDS_MAX => self.sends(client, asking, sends),
            // The service is away: the call is made, or not, as the client alone decides.
            Doing::Asks { .. } => self.think(client),
            Doing::Holds {
                ticket,
                grant,
                gives_up,
                confirmed,
            } => {
                if grant.confirm && !confirmed {
                    self.ask(client, Wanted::Confirm(ticket));
                } else {
                    return self.calls(client, Made::Ticket(ticket), gives_up);
                }
            }
            Doing::Calls { made, outcome } => self.call_ends(client, made, outcome),
        }
        Ok(())
    }

    fn begins_call(&mut self, client: usize) {
        self.clients[client].next_call(&mut self.draws);
        match self.clients[client].way(self.now) {
            Way::Asks => self.ask(client, Wanted::First),
            Way::Refuses => self.think(client),
            Way::Goes { epoch } => {
                self.seen.pushed_calls += 1;
                // It holds no probe, so nothing can fail.
                let _ = self.calls(client, Made::Pushed { epoch }, None);
            }
        }
    }

    fn ask(&mut self, client: usize, wanted: Wanted) {
        let tells_failure = matches!(wanted, Wanted::Retry { .. });
        if tells_failure {
            self.flush(client);
        }
        let it = &self.clients[client];
        let (life, call) = (it.life, it.call);
        let asking = Asking {
            life,
            step: 0,
            sent: self.now,
            instance: it.instance,
            call: it
                .has_ids
                .then_some(call.id << 16 | (client as u64) << 8 | u64::from(life)),
            token: (client, life, call.id, call.attempt),
            idempotent: call.idempotent,
            time_left: (call.id % 3 == 0).then_some(Nanos::from_secs(5)),
            wanted,
            session: it.session,
        };
        self.sends(client, asking, 0);
    }

    fn sends(&mut self, client: usize, asking: Asking, sends: u32) {
        let patience = self.draws.millis(RESEND_AFTER_MS.0, RESEND_AFTER_MS.1);
        // All sends are one step: any of their answers will do, each with its own time.
        let step = self.clients[client].step + 1;
        let asking = Asking {
            sent: self.now,
            step,
            ..asking
        };
        let doing = Doing::Asks {
            asking,
            sends: sends + 1,
        };
        self.turn(client, doing, self.now + patience);
        self.send_up(client, Up::Ask(asking));
    }

    pub fn is_denied(&mut self, client: usize, retry_after: Nanos) {
        let asked = match self.clients[client].doing {
            Doing::Asks { asking, .. } => Some(asking),
            Doing::Waits { .. } | Doing::Holds { .. } | Doing::Calls { .. } => None,
        };
        let again = asked.filter(|asking| {
            let confirms = matches!(asking.wanted, Wanted::Confirm(_));
            self.clients[client].patient && !retry_after.is_zero() && !confirms
        });
        match again {
            Some(_) => self.wait(client, again, retry_after),
            None => self.think(client),
        }
    }

    pub fn is_granted(
        &mut self,
        client: usize,
        ticket: Ticket,
        grant: Grant,
        sent: Time,
    ) -> Result<(), Failure> {
        let confirmed = match self.clients[client].doing {
            Doing::Asks { asking, .. } => matches!(asking.wanted, Wanted::Confirm(_)),
            Doing::Waits { .. } | Doing::Holds { .. } | Doing::Calls { .. } => false,
        };
        let gives_up = grant.probe.then(|| sent + usable(grant.permit_ttl));
        if let Some(gives_up) = gives_up {
            if self.now >= gives_up && self.without != Without::GivingUp {
                self.gives_up(client, ticket);
                return Ok(());
            }
            self.holds_probe(client, &ticket, gives_up.max(self.now))?;
        }
        let dawdles = match self.now < self.scenario.healed {
            true if self.draws.happens(self.scenario.dawdles) => self.draws.millis(1, 3_000),
            _ => Nanos::ZERO,
        };
        let doing = Doing::Holds {
            ticket,
            grant,
            gives_up,
            confirmed,
        };
        self.turn(client, doing, self.now + grant.delay + dawdles);
        Ok(())
    }

    /// Invariant 2, as the dependency would see it.
    fn holds_probe(&mut self, client: usize, ticket: &Ticket, until: Time) -> Result<(), Failure> {
        let lease = Lease {
            run: ticket.run,
            is_unaware: self.unaware.contains(&(ticket.run, ticket.permit.serial)),
        };
        let who = (client, self.clients[client].life);
        let held = self.truth.holds(who, lease, until, self.now);
        self.seen.probes_held = self.seen.probes_held.max(held as u64);
        let probes = self.scenario.policy.breaker.probes;
        if held > probes as usize {
            return self.fails(
                Harm::TooManyProbes,
                format!("client {client} is one of {held} that may probe, {probes} may"),
            );
        }
        Ok(())
    }

    fn gives_up(&mut self, client: usize, ticket: Ticket) {
        self.seen.given_up += 1;
        let life = self.clients[client].life;
        self.truth.gives_up(client, life);
        self.report(client, ticket, Outcome::of(OutcomeKind::Cancelled));
        self.think(client);
    }

    fn report(&mut self, client: usize, ticket: Ticket, outcome: Outcome) {
        let instance = self.clients[client].instance;
        self.send_up(
            client,
            Up::Report {
                instance,
                ticket,
                outcome,
            },
        );
    }

    /// The attempt itself. A probe ends, on the wire too, where its client gives it up.
    fn calls(&mut self, client: usize, made: Made, gives_up: Option<Time>) -> Result<(), Failure> {
        let (mut lasts, mut outcome) = self.attempt();
        if let (Some(gives_up), Made::Ticket(ticket)) = (gives_up, made) {
            if self.without != Without::GivingUp {
                let left = self.now.until(gives_up);
                if left.is_zero() {
                    self.gives_up(client, ticket);
                    return Ok(());
                }
                if lasts > left {
                    (lasts, outcome) = (left, timeout(left));
                }
            }
            self.holds_probe(client, &ticket, self.now + lasts)?;
        }
        self.trace(|_| format!("client {client} calls on {made:?} for {lasts}: {outcome:?}"));
        self.turn(client, Doing::Calls { made, outcome }, self.now + lasts);
        Ok(())
    }

    fn attempt(&mut self) -> (Nanos, Outcome) {
        let draws = &mut self.draws;
        let health = match self.scenario.health(self.now) {
            Some(OutageKind::Both) => Some(draws.one_of(&[OutageKind::Hangs, OutageKind::Refuses])),
            other => other,
        };
        let quick = match self.now < self.scenario.healed && draws.happens(0.05) {
            true => draws.millis(HEALTHY_CALL_MS, 2_000),
            false => draws.millis(1, HEALTHY_CALL_MS),
        };
        let fails = match health {
            None => false,
            Some(OutageKind::Flaps) => draws.happens(0.5),
            Some(_) => true,
        };
        let of = |kind| Outcome {
            latency: Some(quick),
            ..Outcome::of(kind)
        };
        match health {
            Some(OutageKind::Hangs) => (ATTEMPT_TIMEOUT, timeout(ATTEMPT_TIMEOUT)),
            Some(OutageKind::Throttles) => {
                let pushback = (draws.below(2) == 0).then(|| draws.millis(1, 2_500));
                let outcome = Outcome {
                    pushback,
                    ..of(OutcomeKind::Throttled)
                };
                (quick, outcome)
            }
            _ if fails => {
                let kind = draws.one_of(&[
                    OutcomeKind::Failure,
                    OutcomeKind::Failure,
                    OutcomeKind::NotSent,
                    OutcomeKind::Timeout,
                ]);
                (quick, of(kind))
            }
            _ if self.now < self.scenario.healed && draws.happens(0.02) => {
                let kinds = [
                    OutcomeKind::Rejected,
                    OutcomeKind::Ignored,
                    OutcomeKind::Cancelled,
                ];
                (quick, of(draws.one_of(&kinds)))
            }
            _ => (quick, of(OutcomeKind::Success)),
        }
    }

    fn call_ends(&mut self, client: usize, made: Made, outcome: Outcome) {
        let call = self.clients[client].call;
        let failed = match outcome.kind {
            OutcomeKind::Failure
            | OutcomeKind::Timeout
            | OutcomeKind::NotSent
            | OutcomeKind::Throttled => true,
            OutcomeKind::Success
            | OutcomeKind::Rejected
            | OutcomeKind::Ignored
            | OutcomeKind::Cancelled => false,
        };
        if failed && call.idempotent {
            let attempt = call.attempt + 1;
            self.clients[client].call.attempt = attempt;
            self.ask(
                client,
                Wanted::Retry {
                    attempt,
                    made,
                    outcome,
                },
            );
            return;
        }
        match made {
            Made::Ticket(ticket) => self.report(client, ticket, outcome),
            Made::Pushed { epoch } => self.tallies(client, epoch, outcome.kind),
        }
        self.think(client);
    }

    fn tallies(&mut self, client: usize, epoch: u64, kind: OutcomeKind) {
        let of_another = self.clients[client].tally.epoch != epoch;
        if of_another {
            self.flush(client);
        }
        let it = &mut self.clients[client];
        let first_of_many = it.tally == Tally::default();
        it.tally.epoch = epoch;
        it.tally.first_attempts += 1;
        match kind {
            OutcomeKind::Success => it.tally.successes += 1,
            OutcomeKind::Failure | OutcomeKind::NotSent => it.tally.failures += 1,
            OutcomeKind::Timeout => it.tally.timeouts += 1,
            OutcomeKind::Throttled => it.tally.throttled += 1,
            OutcomeKind::Rejected => it.tally.rejected += 1,
            OutcomeKind::Ignored | OutcomeKind::Cancelled => {}
        }
        let life = it.life;
        if kind != OutcomeKind::Success {
            self.flush(client);
        } else if first_of_many {
            let at = self.now + Nanos::from_millis(1_000);
            self.later(at, Event::Flush { client, life });
        }
    }

    /// Sends what it has tallied.
    pub fn flush(&mut self, client: usize) {
        let it = &mut self.clients[client];
        let tally = std::mem::take(&mut it.tally);
        if tally == Tally::default() {
            return;
        }
        it.sequence += 1;
        let (instance, sequence) = (it.instance, it.sequence);
        self.send_up(
            client,
            Up::Tally {
                instance,
                sequence,
                tally,
            },
        );
    }
}

fn timeout(after: Nanos) -> Outcome {
    Outcome {
        latency: Some(after),
        ..Outcome::of(OutcomeKind::Timeout)
    }
}
