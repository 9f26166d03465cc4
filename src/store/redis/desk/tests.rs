//! A desk against a store that the test plays.

use holdoff_decision::{
    Nanos, Record,
    breaker::{Cause, Phase},
    record::{Override, OverrideKind},
};

use super::*;
use crate::store::tests::a_slot;

const NOW: Time = Time(1_700_000_000_000_000_000);
const LIFETIMES: Lifetimes = Lifetimes {
    usual_ms: 1_000,
    protected_ms: 9_000,
};

fn make(highest: u64) -> Result<Slot, StoreError> {
    let mut slot = a_slot("default", "payments");
    slot.record.breaker.epoch = highest + 1;
    Ok(slot)
}

fn count(slot: &mut Slot) {
    slot.record.breaker.past_mut().trips += 1;
}

fn bytes_of(slot: &Slot) -> Vec<u8> {
    let mut bytes = Vec::new();
    stored::write(slot, &mut bytes);
    bytes
}

fn version(text: &str) -> Version {
    Some(text.into())
}

fn version_of(text: &str) -> Version {
    version(text)
}

/// A desk that holds a record of this version.
fn held(at: &str) -> Desk {
    let mut desk = Desk::default();
    desk.join(make, |_| ()).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    let bytes = bytes_of(&make(0).unwrap());
    let version = at.into();
    desk.land(Ok(Outcome::Other { version, bytes }), NOW);
    desk
}

fn trips(desk: &Desk) -> u32 {
    desk.slot().unwrap().record.breaker.past().trips
}

#[test]
fn what_is_not_known_is_asked_for_before_anything_is_made() {
    let mut desk = Desk::default();
    let mut joined = desk.join(make, count).unwrap();
    assert!(joined.before.is_none());
    let asked = desk.depart(LIFETIMES, NOW).unwrap();
    assert_eq!((asked.act, asked.expected), (Act::Look, version("?")));
    desk.land(Ok(Outcome::Absent { highest_epoch: 6 }), NOW);
    assert_eq!(joined.landing.try_recv(), Ok(Landing::Again));

    let mut joined = desk.join(make, count).unwrap();
    assert_eq!(joined.before.unwrap().record.breaker.epoch, 7);
    let put = desk.depart(LIFETIMES, NOW).unwrap();
    assert_eq!((put.expected, put.epoch), (None, 7));
    desk.land(Ok(Outcome::Done(version("10"))), NOW);
    assert_eq!(joined.landing.try_recv(), Ok(Landing::Swapped));
    assert_eq!((trips(&desk), desk.version()), (1, version("10")));
}

#[test]
fn one_swap_is_on_its_way_and_all_who_come_meanwhile_share_the_next() {
    let mut desk = held("10");
    let mut first = desk.join(make, count).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    let mut others: Vec<Joined> = (0..50).map(|_| desk.join(make, count).unwrap()).collect();
    assert_eq!(desk.depart(LIFETIMES, NOW), None, "one at a time");
    assert_eq!(
        others[0]
            .before
            .as_ref()
            .unwrap()
            .record
            .breaker
            .past()
            .trips,
        1
    );
    desk.land(Ok(Outcome::Done(version("11"))), NOW);
    assert_eq!(first.landing.try_recv(), Ok(Landing::Swapped));
    let next = desk.depart(LIFETIMES, NOW).unwrap();
    assert_eq!(next.expected, version("11"));
    desk.land(Ok(Outcome::Done(version("12"))), NOW);
    for (at, other) in others.iter_mut().enumerate() {
        assert_eq!(other.landing.try_recv(), Ok(Landing::Swapped));
        let before = other.before.as_ref().unwrap();
        assert_eq!(before.record.breaker.past().trips, 1 + at as u32);
    }
    assert_eq!(trips(&desk), 51);
    assert!(desk.is_idle());
}

#[test]
fn whoever_built_on_another_version_begins_again_with_what_is_there() {
    let mut desk = held("10");
    let mut first = desk.join(make, count).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    let mut second = desk.join(make, count).unwrap();
    let mut theirs = make(0).unwrap();
    theirs.record.breaker.past_mut().trips = 40;
    let bytes = bytes_of(&theirs);
    let version = "15".into();
    desk.land(Ok(Outcome::Other { version, bytes }), NOW);
    assert_eq!(first.landing.try_recv(), Ok(Landing::Again));
    assert_eq!(second.landing.try_recv(), Ok(Landing::Again));
    assert_eq!(trips(&desk), 40);
    assert!(desk.is_idle());
}

#[test]
fn what_changes_nothing_is_compared_and_not_written() {
    let mut desk = held("10");
    let mut looked = desk.join(make, |_| ()).unwrap();
    let look = desk.depart(LIFETIMES, NOW).unwrap();
    assert_eq!((look.act, look.expected), (Act::Look, version("10")));
    desk.land(Ok(Outcome::Done(version("10"))), NOW);
    assert_eq!(looked.landing.try_recv(), Ok(Landing::Swapped));
}

#[test]
fn after_silence_the_store_is_asked_before_the_copy_is_built_on() {
    let mut desk = held("10");
    let mut lost = desk.join(make, count).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    let away = StoreError::Unavailable("away".to_owned());
    desk.land(Err(away.clone()), NOW);
    assert_eq!(lost.landing.try_recv(), Ok(Landing::Doubtful(away)));
    assert_eq!(trips(&desk), 0, "nothing is known to have happened");
    let mut next = desk.join(make, count).unwrap();
    assert!(next.before.is_none());
    let look = desk.depart(LIFETIMES, NOW).unwrap();
    assert_eq!((look.act, look.expected), (Act::Look, version("10")));
    desk.land(Ok(Outcome::Done(version("10"))), NOW);
    assert_eq!(next.landing.try_recv(), Ok(Landing::Again));
    assert!(desk.join(make, count).unwrap().before.is_some());
}

#[test]
fn a_lost_record_comes_back_from_the_copy_unless_it_may_have_been_dropped() {
    let idle = NOW + Nanos::from_secs(400);
    for (is_held, now, kept) in [(false, NOW, true), (false, idle, false), (true, idle, true)] {
        let mut desk = held("10");
        if is_held {
            let hold = |slot: &mut Slot| slot.record.hold_until(Time::MAX);
            desk.join(make, hold).unwrap();
            let put = desk.depart(LIFETIMES, NOW).unwrap();
            assert!(matches!(
                put.act,
                Act::Put {
                    kept_for_ms: 9_000,
                    ..
                }
            ));
            desk.land(Ok(Outcome::Done(version("11"))), NOW);
        }
        desk.join(make, count).unwrap();
        desk.depart(LIFETIMES, now).unwrap();
        desk.land(Ok(Outcome::Absent { highest_epoch: 30 }), now);
        assert_eq!(desk.slot().is_some(), kept);
        desk.join(make, count).unwrap();
        let put = desk.depart(LIFETIMES, now).unwrap();
        assert_eq!(put.expected, None);
        assert_eq!(put.epoch, if kept { 1 } else { 31 });
    }
}

#[test]
fn an_older_version_means_that_the_store_has_lost_writes_and_the_copy_has_not() {
    let mut desk = held("10");
    desk.join(make, count).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    desk.land(Ok(Outcome::Done(version("20"))), NOW);
    desk.join(make, count).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    let bytes = bytes_of(&make(0).unwrap());
    let older = "10".into();
    desk.land(
        Ok(Outcome::Other {
            version: older,
            bytes,
        }),
        NOW,
    );
    assert_eq!((trips(&desk), desk.version()), (1, version("10")));
}

/// Also what nobody needs to be kept from: others may hold the older.
#[test]
fn a_copy_that_is_newer_than_what_the_store_has_is_put_back_whatever_it_is() {
    for path in [Path::Strict, Path::Leased(1)] {
        for is_asked_again in [false, true] {
            for loses in [false, true] {
                let how = format!("{path:?} asked again {is_asked_again}, loses {loses}");
                let mut desk = protected(path, Protected::Forced);
                let older = bytes_of(desk.slot().unwrap());
                let mut released = make(0).unwrap();
                Protected::Forced.put(&mut released);
                holdoff_decision::operate::clear_override(&mut released.record, NOW);
                desk.overhear("20", &bytes_of(&released), NOW);
                desk.doubt();
                desk.join(make, |_| ()).unwrap();
                desk.depart(LIFETIMES, NOW).unwrap();
                let other = Outcome::Other {
                    version: "10".into(),
                    bytes: older,
                };
                desk.land(Ok(other), NOW);
                if loses {
                    assert!(desk.depart(LIFETIMES, NOW).is_some(), "{how}");
                    desk.stay(StoreError::Unavailable("away".into()), NOW);
                }
                if loses || is_asked_again {
                    desk.drop_draft();
                    desk.doubt();
                    desk.join(make, |_| ()).unwrap();
                    assert_eq!(desk.depart(LIFETIMES, NOW).unwrap().act, Act::Look, "{how}");
                    desk.land(Ok(Outcome::Done(version_of("10"))), NOW);
                }
                let put = desk.depart(LIFETIMES, NOW).expect(&how);
                assert_eq!(put.expected, version_of("10"), "{how}");
                let Act::Put { bytes, .. } = put.act else {
                    panic!("{how}: {:?}", put.act);
                };
                assert!(
                    !Protected::Forced.holds(&stored::read(&bytes).unwrap()),
                    "{how}"
                );
                desk.land(Ok(Outcome::Done(version_of("21"))), NOW);
                desk.put_back(NOW);
                assert!(desk.is_idle(), "{how}");
            }
        }
    }
}

/// What no replica may do without.
#[derive(Clone, Copy, Debug)]
enum Protected {
    Forced,
    Open,
    Held,
}

impl Protected {
    fn put(self, slot: &mut Slot) {
        let record = &mut slot.record;
        match self {
            Self::Forced => {
                let order = Override {
                    kind: OverrideKind::ForceOpen,
                    owner: "ada".to_owned(),
                    reason: "drill".to_owned(),
                    set_at: NOW,
                    expires: None,
                };
                holdoff_decision::operate::set_override(record, order, NOW);
            }
            Self::Open => {
                let breaker = &mut record.breaker;
                (breaker.phase, breaker.epoch) = (Phase::Open, breaker.epoch + 1);
                breaker.past_mut().cause = Cause::Restored;
                breaker.past_mut().open_until = Time::MAX;
            }
            Self::Held => record.hold_until(Time::MAX),
        }
    }

    fn holds(self, slot: &Slot) -> bool {
        match self {
            Self::Forced => slot.record.order().is_some(),
            Self::Open => slot.record.breaker.phase == Phase::Open,
            Self::Held => slot.record.held_until() == Time::MAX,
        }
    }
}

/// How a copy meets what others have begun in an emptied store.
#[derive(Clone, Copy, Debug)]
enum Meets {
    Look,
    Message,
    /// Its own is on its way by then.
    PutBack,
}

fn protected(path: Path, what: Protected) -> Desk {
    let mut desk = Desk::new(path);
    desk.join(make, |_| ()).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    let mut slot = make(0).unwrap();
    what.put(&mut slot);
    let bytes = bytes_of(&slot);
    let version = "10".into();
    desk.land(Ok(Outcome::Other { version, bytes }), NOW);
    desk
}

/// Epoch, version, and whether it was noticed before that the store was emptied.
fn all_beginnings() -> impl Iterator<Item = (u64, &'static str, bool)> {
    let of_epoch = |epoch| ["5", "20"].map(|at| [(epoch, at, true), (epoch, at, false)]);
    (1..=5).flat_map(of_epoch).flatten()
}

fn begun_anew(epoch: u64) -> Slot {
    let mut slot = make(epoch - 1).unwrap();
    slot.record = Record::new(epoch, NOW + Nanos::from_secs(1));
    slot
}

/// A replica that never knew the record was asked first, in a shard in which others have put back any
/// epoch.
#[test]
fn what_an_emptied_store_has_lost_and_nobody_may_do_without_is_put_over_what_was_begun_anew() {
    let now = NOW + Nanos::from_secs(2);
    for path in [Path::Strict, Path::Leased(1)] {
        for what in [Protected::Forced, Protected::Open, Protected::Held] {
            for meets in [Meets::Look, Meets::Message, Meets::PutBack] {
                for (epoch, at, is_noticed) in all_beginnings() {
                    let how = format!("{path:?} {what:?} {meets:?} {epoch} {at} {is_noticed}");
                    let mut desk = protected(path, what);
                    if is_noticed {
                        desk.mark_lost();
                    }
                    desk.doubt();
                    let (version, bytes) = (at.into(), bytes_of(&begun_anew(epoch)));
                    let other = Outcome::Other { version, bytes };
                    match meets {
                        // What is older than the copy is heard of by nobody.
                        Meets::Message if at == "5" => continue,
                        Meets::Message => {
                            desk.overhear(at, &bytes_of(&begun_anew(epoch)), now);
                        }
                        Meets::Look => {
                            desk.join(make, |_| ()).unwrap();
                            desk.depart(LIFETIMES, now).unwrap();
                            desk.land(Ok(other), now);
                        }
                        Meets::PutBack => {
                            desk.join(make, |_| ()).unwrap();
                            desk.depart(LIFETIMES, now).unwrap();
                            desk.land(Ok(Outcome::Absent { highest_epoch: 0 }), now);
                            let put = desk.depart(LIFETIMES, now).expect(&how);
                            assert_eq!(put.expected, None, "{how}");
                            desk.land(Ok(other), now);
                        }
                    }
                    let put = desk.depart(LIFETIMES, now).expect(&how);
                    assert_eq!(put.expected, version_of(at), "{how}");
                    assert!(put.epoch > epoch, "{how}: {}", put.epoch);
                    let Act::Put { bytes, .. } = put.act else {
                        panic!("{how}: {:?}", put.act);
                    };
                    assert!(what.holds(&stored::read(&bytes).unwrap()), "{how}");
                    desk.land(Ok(Outcome::Done(version_of("21"))), now);
                    desk.put_back(now);
                    assert!(desk.is_idle(), "{how}: the store has it");
                    assert!(what.holds(desk.slot().unwrap()), "{how}");
                }
            }
        }
    }
}

/// Of two that put the same back one is first; and what was ended since by somebody stays ended.
#[test]
fn what_others_have_put_back_or_ended_is_not_put_over() {
    let now = NOW + Nanos::from_secs(2);
    for path in [Path::Strict, Path::Leased(1)] {
        for what in [Protected::Forced, Protected::Open, Protected::Held] {
            for (is_noticed, is_ended) in
                [(true, false), (false, false), (false, true), (true, true)]
            {
                let how = format!("{path:?} {what:?} noticed {is_noticed}, ended {is_ended}");
                let mut desk = protected(path, what);
                if is_noticed {
                    desk.mark_lost();
                }
                let mut theirs = make(0).unwrap();
                what.put(&mut theirs);
                if is_ended {
                    match what {
                        Protected::Forced => {
                            holdoff_decision::operate::clear_override(&mut theirs.record, now);
                        }
                        Protected::Open => {
                            theirs.record.breaker.close(Cause::ProbesSucceeded(1), now);
                        }
                        Protected::Held => theirs.record.hold_until(Time::ORIGIN),
                    }
                }
                desk.overhear("20", &bytes_of(&theirs), now);
                desk.put_back(now);
                assert!(desk.is_idle(), "{how}");
                assert_eq!(desk.version(), version_of("20"), "{how}");
                assert_eq!(what.holds(desk.slot().unwrap()), !is_ended, "{how}");
            }
        }
    }
}

#[test]
fn what_the_store_has_after_all_is_not_put_back() {
    let mut desk = protected(Path::Strict, Protected::Forced);
    desk.mark_lost();
    desk.join(make, |_| ()).unwrap();
    assert_eq!(desk.depart(LIFETIMES, NOW).unwrap().act, Act::Look);
    desk.land(Ok(Outcome::Done(version_of("10"))), NOW);
    desk.put_back(NOW);
    assert!(desk.is_idle());
}

#[test]
fn what_a_caller_changed_that_has_gone_is_told_with_the_next() {
    let mut desk = held("10");
    let trip = |slot: &mut Slot| {
        holdoff_decision::operate::reset(&mut slot.record, NOW);
    };
    let gone = desk.join(make, trip).unwrap();
    assert!(!desk.slot().unwrap().record.has_changes());
    drop(gone.landing);
    desk.depart(LIFETIMES, NOW).unwrap();
    desk.land(Ok(Outcome::Done(version("11"))), NOW);
    let left = desk.slot_mut().unwrap().record.take_changes();
    assert_eq!(left.len(), 1);
}

#[test]
fn bytes_that_cannot_be_read_fail_those_who_wait_and_nobody_else() {
    let mut desk = held("10");
    let mut waits = desk.join(make, count).unwrap();
    desk.depart(LIFETIMES, NOW).unwrap();
    let (version, bytes) = ("11".into(), vec![9, 9]);
    desk.land(Ok(Outcome::Other { version, bytes }), NOW);
    assert!(matches!(waits.landing.try_recv(), Ok(Landing::Failed(_))));
}
