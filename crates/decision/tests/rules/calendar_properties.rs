//! The calendar beside a list of places, under rates, slot lengths and clocks that change.

use holdoff_decision::{
    Nanos, Priority, Time,
    calendar::{Calendar, Full, Pace, Wish},
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Reserve {
        ahead_ms: u64,
        priority: usize,
        caller: u64,
        unit: f64,
    },
    Release(usize),
    Rate(f64),
    Learned(f64),
    Slot(u64),
    Forward(u64),
    Backward(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let rate = || prop_oneof![0.05..30.0_f64, 30.0..3_000.0_f64];
    prop_oneof![
        30 => (0..400_u64, 0..3_usize, 0..5_u64, 0.0..1.0_f64).prop_map(
            |(ahead_ms, priority, caller, unit)| Event::Reserve { ahead_ms, priority, caller, unit }
        ),
        6 => any::<usize>().prop_map(Event::Release),
        1 => rate().prop_map(Event::Rate),
        1 => rate().prop_map(Event::Learned),
        1 => (1..300_u64).prop_map(Event::Slot),
        4 => (0..150_u64).prop_map(Event::Forward),
        1 => (0..200_u64).prop_map(Event::Backward),
    ]
}

struct Plan {
    calendar: Calendar,
    horizon: Nanos,
    slot: Nanos,
    pace: Pace,
    now: Time,
    /// Places that are promised and not given back.
    places: Vec<Time>,
    /// The latest time that was read.
    latest: Time,
    /// What a slot holds is known: its length has not changed.
    exact: bool,
}

impl Plan {
    fn run(&mut self, event: &Event) {
        self.latest = self.latest.max(self.now);
        match *event {
            Event::Reserve {
                ahead_ms,
                priority,
                caller,
                unit,
            } => self.reserve(&Wish {
                at: self.now + Nanos::from_millis(ahead_ms),
                horizon: self.horizon,
                priority: Priority::ALL[priority],
                caller,
                unit,
            }),
            Event::Release(of) if !self.places.is_empty() => {
                let at = self.places[of % self.places.len()];
                if at > self.latest {
                    self.places.swap_remove(of % self.places.len());
                    self.calendar.release(at);
                }
            }
            Event::Release(_) => {}
            Event::Rate(rate) => self.pace = Pace::Fixed((rate * 1e6) as u64),
            Event::Learned(rate) => self.pace = Pace::Learned((rate * 1e6) as u64),
            Event::Slot(millis) => {
                self.slot = Nanos::from_millis(millis);
                self.exact = false;
            }
            Event::Forward(millis) => self.now = self.now + Nanos::from_millis(millis),
            Event::Backward(millis) => {
                self.now = Time(self.now.0.saturating_sub(millis * 1_000_000));
            }
        }
        self.calendar.advance(self.now);
        self.calendar.adapt(self.slot, self.pace, self.now);
    }

    fn reserve(&mut self, wish: &Wish) {
        let found = self.calendar.find(wish);
        assert_eq!(self.calendar.find(wish), found, "finding promises nothing");
        let grid = self.calendar.grid();
        let slot_of = |at: &Time| at.0 / grid.slot().0;
        let promised = |slot: u64| self.places.iter().filter(|at| slot_of(at) == slot).count();
        let first = slot_of(&wish.at.max(self.latest));
        let last = slot_of(&(wish.at + wish.horizon));
        let free = (first..=last)
            .find(|slot| (promised(*slot) as u64) < grid.capacity(*slot, wish.priority));
        match found {
            Ok(place) => {
                let slot = slot_of(&place.at);
                assert!(place.at >= wish.at && slot <= last);
                assert!(
                    (promised(slot) as u64) < grid.capacity(slot, wish.priority),
                    "beyond the capacity of {slot}"
                );
                assert!(!self.exact || free == Some(slot), "not the first with room");
                self.calendar.take(place);
                self.places.push(place.at);
            }
            Err(Full::Horizon { wait, .. }) => {
                assert!(!self.exact || free.is_none(), "{free:?} has room");
                assert!(!wait.is_zero());
            }
            Err(Full::Caller { held, part, .. }) => assert!(held >= part && part >= 1),
        }
    }
}

proptest! {
    #[test]
    fn no_calendar_slot_is_promised_beyond_its_capacity(
        rate in prop_oneof![0.05..30.0_f64, 30.0..3_000.0_f64],
        slot in 1..300_u64,
        horizon in 1..3_000_u64,
        events in proptest::collection::vec(event(), 1..200),
    ) {
        let now = Time(7_000_000_000);
        let (slot, pace) = (Nanos::from_millis(slot), Pace::Fixed((rate * 1e6) as u64));
        let mut plan = Plan {
            calendar: Calendar::new(slot, pace, now),
            horizon: Nanos::from_millis(horizon),
            slot,
            pace,
            now,
            places: Vec::new(),
            latest: now,
            exact: true,
        };
        for event in &events {
            plan.run(event);
        }
        let latest = plan.latest.max(plan.now);
        let planned = plan.places.iter().filter(|at| **at > latest).count() as u64;
        prop_assert!(plan.calendar.planned() >= planned);
        plan.calendar.advance(Time(60_000_000_000));
        prop_assert!(plan.calendar.is_empty_at(Time(60_000_000_000)));
        prop_assert_eq!(plan.calendar.planned(), 0);
    }
}
