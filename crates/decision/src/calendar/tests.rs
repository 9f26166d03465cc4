use super::*;

const SLOT: Nanos = Nanos::from_millis(10);
const NOW: Time = Time(5_000_000_000);

fn calendar(per_second: u64) -> Calendar {
    Calendar::new(SLOT, Pace::Fixed(per_second * 1_000_000), NOW)
}

fn wish(at: Time) -> Wish {
    Wish {
        at,
        horizon: Nanos::from_secs(30),
        priority: Priority::High,
        caller: 1,
        unit: 0.5,
    }
}

fn reserve(calendar: &mut Calendar, wish: &Wish) -> Result<Time, Full> {
    let place = calendar.find(wish)?;
    calendar.take(place);
    Ok(place.at)
}

/// The number of the slot, counted from now.
fn slot(at: Time) -> u64 {
    at.since(NOW).0 / SLOT.0
}

#[test]
fn the_first_slot_with_room_is_given_and_then_the_next() {
    let mut calendar = calendar(200);
    let slots: Vec<u64> = (0..5)
        .map(|_| slot(reserve(&mut calendar, &wish(NOW)).unwrap()))
        .collect();
    assert_eq!(slots, [0, 0, 1, 1, 2]);
}

#[test]
fn a_place_lies_in_its_slot_and_never_before_the_wanted_time() {
    let mut calendar = calendar(100);
    let wanted = NOW + Nanos(7_000_000);
    for unit in [0.0, 0.3, 0.999_999_999_999, 1.0, f64::NAN] {
        let at = calendar
            .find(&Wish {
                unit,
                ..wish(wanted)
            })
            .unwrap()
            .at;
        assert!(at >= wanted && at < NOW + SLOT, "{unit}: {at:?}");
    }
}

#[test]
fn finding_promises_nothing() {
    let mut calendar = calendar(100);
    let first = calendar.find(&wish(NOW));
    assert_eq!(calendar.find(&wish(NOW)), first);
    assert_eq!(calendar.planned(), 0);
    assert!(calendar.is_empty_at(NOW));
}

#[test]
fn a_place_given_back_is_given_again() {
    let mut calendar = calendar(100);
    let places: Vec<Time> = (0..200)
        .map(|_| reserve(&mut calendar, &wish(NOW)).unwrap())
        .collect();
    calendar.release(places[70]);
    assert_eq!(calendar.planned(), 199);
    assert_eq!(slot(reserve(&mut calendar, &wish(NOW)).unwrap()), 70);
    assert_eq!(slot(reserve(&mut calendar, &wish(NOW)).unwrap()), 200);
}

#[test]
fn slots_behind_now_are_forgotten_and_never_promised_again() {
    let mut calendar = calendar(100);
    for _ in 0..300 {
        reserve(&mut calendar, &wish(NOW)).unwrap();
    }
    let later = NOW + Nanos::from_millis(1_505);
    calendar.advance(later);
    assert_eq!(calendar.planned(), 150);
    calendar.advance(NOW);
    assert_eq!(slot(reserve(&mut calendar, &wish(NOW)).unwrap()), 300);
    calendar.release(NOW);
    assert_eq!(calendar.planned(), 151);
    let end = NOW + Nanos::from_secs(10);
    calendar.advance(end);
    assert!(calendar.is_empty_at(end) && calendar.pages.is_empty());
    assert_eq!(calendar.held, [0; 64]);
    assert_eq!(
        slot(reserve(&mut calendar, &wish(NOW)).unwrap()),
        1_000,
        "the clock went back"
    );
}

#[test]
fn a_full_horizon_says_when_it_has_moved_and_lines_callers_up() {
    let mut calendar = calendar(100);
    let short = Wish {
        horizon: Nanos::from_millis(95),
        ..wish(NOW)
    };
    for _ in 0..10 {
        reserve(&mut calendar, &short).unwrap();
    }
    let full = Full::Horizon {
        planned: 10,
        horizon: short.horizon,
        wait: SLOT,
    };
    assert_eq!(calendar.find(&short), Err(full));
    let told: Vec<u64> = (0..9)
        .map(|_| calendar.line_up(SLOT, short.horizon, 0.0, NOW).0 / 1_000_000)
        .collect();
    assert_eq!(told, [10, 20, 30, 40, 50, 60, 70, 80, 90]);
    for unit in [0.0, 0.5, 0.99] {
        let spread = calendar.line_up(SLOT, short.horizon, unit, NOW);
        assert_eq!(spread, SLOT.saturating_add(short.horizon.scaled(unit)));
    }
}

#[test]
fn low_and_normal_leave_room_for_those_above_them() {
    let mut calendar = calendar(1_000);
    let of = |calendar: &mut Calendar, priority| {
        let wish = Wish {
            priority,
            horizon: Nanos::from_millis(99),
            ..wish(NOW)
        };
        (0..200)
            .take_while(|_| reserve(calendar, &wish).is_ok())
            .count()
    };
    assert_eq!(of(&mut calendar, Priority::Low), 70);
    assert_eq!(of(&mut calendar, Priority::Normal), 20);
    assert_eq!(of(&mut calendar, Priority::High), 10);
}

#[test]
fn low_is_not_starved_by_slots_of_one_place_or_less() {
    for per_second in [1, 10, 100] {
        let mut calendar = calendar(per_second);
        let low = Wish {
            priority: Priority::Low,
            ..wish(NOW)
        };
        let places = (0..10_000)
            .take_while(|_| reserve(&mut calendar, &low).is_ok())
            .count() as u64;
        assert!(
            places.abs_diff(per_second * 30 * 7 / 10) <= 1,
            "{per_second}: {places}"
        );
    }
}

#[test]
fn an_instance_holds_at_most_twice_its_fair_part() {
    let mut calendar = calendar(100);
    for caller in 2..6 {
        let other = Wish {
            caller,
            ..wish(NOW)
        };
        reserve(&mut calendar, &other).unwrap();
    }
    let mine = (0..3_000)
        .take_while(|_| reserve(&mut calendar, &wish(NOW)).is_ok())
        .count();
    assert_eq!(mine, 2 * 3_000 / 5);
    assert!(matches!(
        calendar.find(&wish(NOW)),
        Err(Full::Caller {
            held: 1_200,
            part: 1_200,
            ..
        })
    ));
    let other = Wish {
        caller: 2,
        ..wish(NOW)
    };
    assert!(reserve(&mut calendar, &other).is_ok());
    calendar.advance(NOW + Nanos::from_secs(1));
    assert!(reserve(&mut calendar, &wish(NOW)).is_ok());
}

#[test]
fn a_hundred_thousand_reservations_into_a_full_horizon_cost_four_looks_each() {
    for (per_second, priority) in [(1, 0), (10, 1), (200, 2), (20_000, 0)] {
        let mut calendar = calendar(per_second);
        let mut longest = 0;
        let mut granted = 0;
        for call in 0..100_000_u64 {
            let wish = Wish {
                priority: Priority::ALL[priority],
                ..wish(NOW + Nanos(call * 1_000))
            };
            let before = calendar.marks.looks.get();
            granted += u32::from(reserve(&mut calendar, &wish).is_ok());
            longest = longest.max(calendar.marks.looks.get() - before);
        }
        let each = calendar.marks.looks.get() as f64 / 100_000.0;
        println!(
            "{per_second}/s: {granted} of 100000 placed, {each:.2} looks each, {longest} at most"
        );
        assert!(each <= 4.0, "{per_second}/s: {each} looks each");
    }
}

#[test]
fn a_rate_that_rises_gives_more_and_one_that_falls_takes_nothing_back() {
    let mut calendar = calendar(100);
    let fill = |calendar: &mut Calendar| {
        let wish = Wish {
            horizon: Nanos::from_millis(995),
            ..wish(NOW)
        };
        (0..10_000)
            .take_while(|_| reserve(calendar, &wish).is_ok())
            .count()
    };
    assert_eq!(fill(&mut calendar), 100);
    calendar.adapt(SLOT, Pace::Fixed(300_000_000), NOW);
    assert_eq!(fill(&mut calendar), 200);
    calendar.adapt(SLOT, Pace::Fixed(200_000_000), NOW);
    assert_eq!(fill(&mut calendar), 0);
    assert_eq!(calendar.planned(), 300);
}

#[test]
fn a_learned_rate_is_taken_up_seldom() {
    let mut calendar = Calendar::new(SLOT, Pace::Learned(100_000_000), NOW);
    let rate = |calendar: &Calendar| calendar.grid().rate_micros() / 1_000_000;
    calendar.adapt(SLOT, Pace::Learned(200_000_000), NOW);
    assert_eq!(rate(&calendar), 100, "too soon");
    let later = NOW + Nanos::from_secs(2);
    calendar.adapt(SLOT, Pace::Learned(105_000_000), later);
    assert_eq!(rate(&calendar), 100, "too little");
    calendar.adapt(SLOT, Pace::Learned(120_000_000), later);
    assert_eq!(rate(&calendar), 120);
}

#[test]
fn another_slot_length_keeps_what_is_promised() {
    for millis in [1, 3, 10, 25, 1_000] {
        let slot = Nanos::from_millis(millis);
        let mut calendar = calendar(200);
        let promised: Vec<Time> = (0..400)
            .map(|_| reserve(&mut calendar, &wish(NOW)).unwrap())
            .collect();
        calendar.adapt(slot, Pace::Fixed(200_000_000), NOW);
        let after: Vec<Time> = (0..400)
            .map(|_| reserve(&mut calendar, &wish(NOW)).unwrap())
            .collect();
        let mut all: Vec<u64> = promised.iter().chain(&after).map(|at| at.0).collect();
        all.sort_unstable();
        for (first, at) in all.iter().enumerate() {
            let within = all[first..]
                .iter()
                .filter(|other| **other - at < 1_000_000_000);
            // 200 a second, and one slot's places at each edge.
            let edge = 2 * (millis / 5).max(2);
            assert!(within.count() as u64 <= 200 + edge + 2, "{millis} ms");
        }
        for at in promised {
            calendar.release(at);
        }
    }
}

#[test]
fn a_slot_length_that_would_cut_too_fine_waits() {
    let mut calendar = Calendar::new(Nanos::from_secs(10), Pace::Fixed(1_000_000), NOW);
    let far = wish(NOW + Nanos::from_secs(80_000));
    reserve(&mut calendar, &far).unwrap();
    calendar.adapt(Nanos(1), Pace::Fixed(1_000_000), NOW);
    assert_eq!(calendar.grid().slot(), Nanos::from_secs(10));
    calendar.adapt(Nanos::from_millis(100), Pace::Fixed(1_000_000), NOW);
    assert_eq!(calendar.grid().slot(), Nanos::from_millis(100));
}
