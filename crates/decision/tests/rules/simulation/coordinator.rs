//! The coordinator as the service has it: a record that the rules change, permits that only
//! their own run can read, numbered tallies, a disk that is written a little later, and starts
//! with what the disk has. `src/coordinator` without its wire and its locks.

use std::collections::{BTreeMap, HashMap, VecDeque};

use holdoff_decision::{
    Answer, Ask, Context, MadeUnder, Nanos, Outcome, Permit, PermitKind, Policy, Previous,
    Priority, Question, Record, Reported, Restart, Tally, Time, acquire,
    breaker::{Cause, Phase},
    budget::Budget,
    operate::{self, Checkpoint, checkpoint, restore},
    record::{Change, Override, OverrideKind},
    report, tally,
};

use super::{
    Without,
    messages::{Asking, Made, Ticket, Wanted},
    scenario::Keeps,
};

pub struct Coordinator {
    pub record: Record,
    pub run: u64,
    pub key: u64,
    /// When this run began, where it is known that it is not the first one.
    pub restarted: Option<Restart>,
    /// There was a run before, and this one has found nothing of it and was shown nothing.
    pub is_unaware: bool,
    started: Time,
    pub pauses_until: Time,
    pub is_down: bool,
    pub next_start_keeps: Keeps,
    pub disk: Disk,
    sequences: HashMap<u64, u64>,
    /// Leases by serial, for the mutation that forgets them.
    leases: BTreeMap<u64, Time>,
}

/// A breaker on its way to the disk.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub due: Time,
    /// A closed one has no entry.
    breaker: Option<(Checkpoint, Time)>,
}

#[derive(Default)]
pub struct Disk {
    breaker: Option<(Checkpoint, Time)>,
    order: Option<Override>,
    waiting: VecDeque<Written>,
    pub stalls_until: Time,
}

/// What a transition was.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    pub epoch: u64,
    pub cause: Cause,
}

impl Coordinator {
    pub fn new() -> Self {
        Self {
            record: Record::new(1, Time::ORIGIN),
            run: 1,
            key: 1,
            restarted: None,
            is_unaware: false,
            started: Time::ORIGIN,
            pauses_until: Time::ORIGIN,
            is_down: false,
            next_start_keeps: Keeps::TheDirectory,
            disk: Disk::default(),
            sequences: HashMap::new(),
            leases: BTreeMap::new(),
        }
    }

    pub fn acquire(
        &mut self,
        policy: &Policy,
        asking: &Asking,
        context: &Context,
        without: Without,
    ) -> Answer {
        let question = self.question(&asking.wanted, context.now, without);
        let ask = Ask {
            question,
            caller: asking.instance,
            service: 0,
            call: asking.call,
            idempotent: asking.idempotent,
            time_left: asking.time_left,
            priority: Priority::Normal,
            cost: 1,
        };
        let answer = acquire(policy, &mut self.record, &ask, context);
        if let Ok(grant) = answer.verdict.as_ref()
            && grant.probe
        {
            let permit = &grant.permit;
            self.leases.insert(permit.serial, permit.expires);
            if without == Without::Reclaim {
                let breaker = &mut self.record.breaker;
                breaker.end_lease(permit.serial, context.now);
                breaker.lease(permit.serial, Time::MAX, context.now);
            }
        }
        answer
    }

    fn question(&self, wanted: &Wanted, now: Time, without: Without) -> Question {
        match *wanted {
            Wanted::First => Question::First,
            Wanted::Retry {
                attempt,
                made,
                outcome,
            } => {
                let made_under = match made {
                    Made::Pushed { epoch } => MadeUnder::Epoch(epoch),
                    Made::Ticket(ticket) => match self.read(&ticket, without) {
                        Ok(permit) => MadeUnder::Permit(permit),
                        Err(Reported::Unknown) => MadeUnder::Unknown,
                        Err(_) => MadeUnder::EarlierRun(ticket.permit),
                    },
                };
                let previous = Previous {
                    made_under,
                    outcome,
                };
                Question::Retry { attempt, previous }
            }
            Wanted::Confirm(ticket) => {
                let void = Permit {
                    serial: u64::MAX,
                    expires: now,
                    kind: PermitKind::Call,
                    ..ticket.permit
                };
                Question::Confirm(self.read(&ticket, without).unwrap_or(void))
            }
        }
    }

    /// The permit behind the bytes, or what is said of those of another run.
    pub fn read(&self, ticket: &Ticket, without: Without) -> Result<Permit, Reported> {
        if without == Without::BootEpoch || (ticket.run, ticket.key) == (self.run, self.key) {
            Ok(ticket.permit)
        } else if ticket.key == self.key {
            Err(Reported::StaleEpoch)
        } else {
            Err(Reported::Unknown)
        }
    }

    /// A permit of another run shows that there was one.
    pub fn is_shown(&mut self, ticket: &Ticket, without: Without) {
        if self.is_unaware && (ticket.run, ticket.key) != (self.run, self.key) {
            self.is_unaware = false;
            self.restarted = self.restart(false, without);
        }
    }

    fn restart(&self, is_on_record: bool, without: Without) -> Option<Restart> {
        let spared = match without {
            Without::Quarantine => true,
            Without::QuarantineOfTheEmpty => !is_on_record,
            _ => false,
        };
        (!spared).then_some(Restart {
            at: self.started,
            is_on_record,
        })
    }

    pub fn report(
        &mut self,
        policy: &Policy,
        permit: Permit,
        outcome: &Outcome,
        instance: u64,
        context: &Context,
        without: Without,
    ) -> Reported {
        let tickets = self.record.tickets.clone();
        let permit = match without {
            Without::Fencing => Permit {
                epoch: self.record.breaker.epoch,
                ..permit
            },
            _ => permit,
        };
        let reported = report(
            policy,
            &mut self.record,
            &permit,
            outcome,
            instance,
            context,
        );
        if without == Without::CountingOnce {
            self.record.tickets = tickets;
        }
        reported
    }

    /// What a report that does not count may not change.
    pub fn state(&self) -> (Phase, u64, u32, Time, u32) {
        let breaker = &self.record.breaker;
        let past = breaker.past();
        (
            breaker.phase,
            breaker.epoch,
            past.probe_successes,
            past.open_until,
            past.level,
        )
    }

    /// `None`: this number was noted before.
    pub fn tally(
        &mut self,
        policy: &Policy,
        instance: u64,
        sequence: u64,
        counts: &Tally,
        context: &Context,
    ) -> Option<Reported> {
        let highest = self.sequences.entry(instance).or_default();
        if sequence <= *highest {
            return None;
        }
        *highest = sequence;
        Some(tally(policy, &mut self.record, counts, instance, context))
    }

    /// Takes what has changed, and hands the breaker to the disk.
    pub fn changes(&mut self, now: Time, delay: Nanos, without: Without) -> Vec<Transition> {
        if !self.record.has_changes() {
            return Vec::new();
        }
        let changes = self.record.take_changes();
        let transitions: Vec<Transition> = changes
            .iter()
            .filter_map(|change| match *change {
                Change::Transition { epoch, cause, .. } => Some(Transition { epoch, cause }),
                Change::Held(_) | Change::Caller(_) => None,
            })
            .collect();
        if without == Without::LeasesThatOutliveTransitions
            && self.record.breaker.phase == Phase::Open
        {
            for serial in std::mem::take(&mut self.leases).into_keys() {
                self.record.breaker.end_lease(serial, now);
            }
        }
        if without == Without::BudgetsThatOutliveTransitions {
            self.record.budget = Budget::default();
        }
        let kept = checkpoint(&self.record, now);
        let earlier = self.disk.waiting.back().map_or(now, |last| last.due);
        self.disk.waiting.push_back(Written {
            due: earlier.max(now).max(self.disk.stalls_until) + delay,
            breaker: (kept.phase != Phase::Closed).then_some((kept, now)),
        });
        transitions
    }

    /// When the newest of what waits will have been written.
    pub fn written_at(&self) -> Option<Time> {
        self.disk.waiting.back().map(|last| last.due)
    }

    pub fn order(&mut self, kind: OverrideKind, expires: Option<Time>, now: Time) {
        let order = Override {
            kind,
            owner: "operator".into(),
            reason: String::new(),
            set_at: now,
            expires,
        };
        self.disk.order = Some(order.clone());
        operate::set_override(&mut self.record, order, now);
    }

    pub fn clear_order(&mut self, now: Time) {
        self.disk.order = None;
        operate::clear_override(&mut self.record, now);
    }

    /// Checkpoints that wait are void.
    pub fn reset(&mut self, now: Time) {
        self.disk.breaker = None;
        self.disk.waiting.clear();
        operate::reset(&mut self.record, now);
    }

    /// A new run, with what the disk has.
    pub fn start(&mut self, now: Time, without: Without) {
        self.is_down = false;
        if without != Without::BootsThatRise {
            self.run += 1;
        }
        self.sequences.clear();
        self.leases.clear();
        self.disk.waiting.clear();
        let lost = self.next_start_keeps == Keeps::Nothing;
        if lost {
            self.key += 1;
            self.disk = Disk::default();
        }
        let kept = self
            .disk
            .breaker
            .filter(|_| without != Without::DurableTrips);
        self.record = match kept {
            None => Record::new(1, now),
            Some((kept, at)) => {
                let left = kept.left.saturating_sub(now.since(at));
                restore(&Checkpoint { left, ..kept }, now)
            }
        };
        let ended = |order: &Override| order.expires.is_some_and(|end| now >= end);
        if let Some(order) = self
            .disk
            .order
            .clone()
            .filter(|order| !ended(order) && without != Without::DurableOrders)
        {
            self.record.put_order(order);
            self.record.breaker.past_mut().cause = Cause::Override;
        }
        self.started = now;
        self.is_unaware = lost;
        self.restarted = match lost {
            true => None,
            false => self.restart(true, without),
        };
    }
}

impl Disk {
    /// Writes what is due.
    pub fn write(&mut self, now: Time) {
        while let Some(first) = self.waiting.front().filter(|first| first.due <= now) {
            self.breaker = first.breaker;
            self.waiting.pop_front();
        }
    }

    /// The end of the open period that is written down.
    pub fn open_until(&self) -> Time {
        self.breaker
            .map_or(Time::ORIGIN, |(kept, at)| at + kept.left)
    }
}
