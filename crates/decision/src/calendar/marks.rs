//! Which slots are known to be full, so that a search steps over all of them at once.
//!
//! A bitmap in three levels: a word of the lowest marks 64 slots, a word of the next marks
//! 64 words that are all ones, and so on. A search looks at one word a level on its way up
//! and one on its way down; only beyond 262,144 full slots does it walk along the top.
//! Words are kept where a bit is set and nowhere else. One bitmap for each priority.
//!
//! Why not a chain of "next free" links: it is cut where a place comes back, and cannot be
//! mended without looking at what lies before it.

use std::collections::BTreeMap;

use super::grid::Priority;

const LEVELS: usize = 3;
const WORD: u32 = 6;

#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    levels: [BTreeMap<u64, [u64; 3]>; LEVELS],
    /// Words that searches have looked at.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<u64>,
}

impl Marks {
    /// Marks the slots `first..=last`. Whole words are marked a level up, so a long range
    /// costs little and takes no room.
    pub fn mark(&mut self, first: u64, last: u64, priority: Priority) {
        let mut at = first;
        while at <= last {
            let left = last - at;
            let level = match () {
                () if at.is_multiple_of(4096) && left >= 4095 => 2,
                () if at.is_multiple_of(64) && left >= 63 => 1,
                () => 0,
            };
            let shift = WORD * level as u32;
            let (number, many) = match level {
                0 => (at, left.min(63 - (at & 63))),
                _ => (at >> shift, 0),
            };
            let ones = u64::MAX >> (63 - many);
            self.set(level, number >> WORD, ones << (number & 63), priority);
            match at.checked_add((many + 1) << shift) {
                Some(next) => at = next,
                None => return,
            }
        }
    }

    /// Sets bits of one word, and the bits of the words that are all ones by that.
    fn set(&mut self, lowest: usize, mut at: u64, mut bits: u64, priority: Priority) {
        for level in self.levels.iter_mut().skip(lowest) {
            let word = &mut level.entry(at).or_default()[priority.index()];
            *word |= bits;
            if *word != u64::MAX {
                return;
            }
            bits = 1 << (at & 63);
            at >>= WORD;
        }
    }

    /// Takes the marks of one slot away, for every priority; perhaps those of its
    /// neighbours, where whole words were marked at once.
    pub fn clear(&mut self, slot: u64) {
        let mut at = slot;
        for level in &mut self.levels {
            let bit = 1 << (at & 63);
            at >>= WORD;
            if let Some(words) = level.get_mut(&at) {
                for word in words.iter_mut() {
                    *word &= !bit;
                }
                if *words == [0; 3] {
                    level.remove(&at);
                }
            }
        }
    }

    /// The first slot from `from` to `to` that is not marked.
    pub fn next(&self, from: u64, to: u64, priority: Priority) -> Option<u64> {
        let mut level = 0;
        let mut at = from;
        loop {
            // The first bit from `at` on, in its word, that is not set.
            let clear = !self.word(level, at >> WORD, priority) >> (at & 63);
            let limit = to >> (WORD * level as u32);
            if clear != 0 {
                at += u64::from(clear.trailing_zeros());
                if at > limit {
                    return None;
                }
                if level == 0 {
                    return Some(at);
                }
                level -= 1;
                at <<= WORD;
            } else {
                // What lies beyond the word, a level up; along the top from word to word.
                let beyond = (at >> WORD).checked_add(1)?;
                if level + 1 < LEVELS {
                    level += 1;
                    at = beyond;
                } else {
                    at = beyond.checked_mul(64)?;
                }
                if at > to >> (WORD * level as u32) {
                    return None;
                }
            }
        }
    }

    pub fn forget_all(&mut self) {
        for level in &mut self.levels {
            level.clear();
        }
    }

    /// Forgets the words whose slots all lie before `slot`.
    pub fn forget_before(&mut self, slot: u64) {
        let mut at = slot;
        for level in &mut self.levels {
            at >>= WORD;
            while level.first_key_value().is_some_and(|(key, _)| *key < at) {
                level.pop_first();
            }
        }
    }

    fn word(&self, level: usize, at: u64, priority: Priority) -> u64 {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        let words = self.levels.get(level).and_then(|level| level.get(&at));
        let word = words.map_or(0, |words| words[priority.index()]);
        match word != u64::MAX && self.is_marked_above(level, at, priority) {
            true => u64::MAX,
            false => word,
        }
    }

    /// Whether a word was marked as a whole.
    fn is_marked_above(&self, level: usize, at: u64, priority: Priority) -> bool {
        let mut at = at;
        self.levels.iter().skip(level + 1).any(|level| {
            let bit = at & 63;
            at >>= WORD;
            let words = level.get(&at);
            words.is_some_and(|words| words[priority.index()] >> bit & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |below| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        }
    }

    #[test]
    fn a_search_finds_what_a_list_would() {
        for seed in 0..50 {
            let (mut marks, mut list) = (Marks::default(), BTreeSet::new());
            let mut draw = draws(seed);
            for _ in 0..100 {
                let first = draw(30_000);
                let last = first + draw(300) * draw(300) / 30;
                marks.mark(first, last, Priority::Low);
                list.extend(first..=last);
                let (from, to) = (draw(31_000), draw(31_000));
                let expected = (from..=to).find(|slot| !list.contains(slot));
                assert_eq!(marks.next(from, to, Priority::Low), expected);
                assert_eq!(marks.next(from, from, Priority::High), Some(from));
            }
        }
    }

    #[test]
    fn a_search_never_steps_over_a_slot_that_was_cleared() {
        for seed in 0..50 {
            let (mut marks, mut list) = (Marks::default(), BTreeSet::new());
            let mut draw = draws(seed);
            for step in 0..300 {
                let first = draw(9_000);
                let last = first + draw(500);
                if step % 3 == 0 {
                    marks.clear(first);
                    list.remove(&first);
                } else {
                    marks.mark(first, last, Priority::Normal);
                    list.extend(first..=last);
                }
                let from = draw(9_500);
                let first_free = (from..).find(|slot| !list.contains(slot)).unwrap();
                assert!(marks.next(from, 20_000, Priority::Normal).unwrap() <= first_free);
            }
        }
    }

    #[test]
    fn a_million_full_slots_are_stepped_over_in_a_dozen_looks() {
        let mut marks = Marks::default();
        for word in 0..1_000_000_u64 / 64 {
            marks.mark(word * 64, word * 64 + 63, Priority::High);
        }
        marks.looks.set(0);
        assert_eq!(marks.next(0, 2_000_000, Priority::High), Some(1_000_000));
        assert!(marks.looks.get() <= 12, "{}", marks.looks.get());
    }

    #[test]
    fn what_lies_behind_is_forgotten() {
        let mut marks = Marks::default();
        for slot in 0..10_000 {
            marks.mark(slot, slot, Priority::Low);
        }
        marks.forget_before(9_990);
        assert_eq!(marks.levels[0].len(), 1);
        assert_eq!(marks.next(9_990, 10_000, Priority::Low), Some(10_000));
    }

    #[test]
    fn the_end_of_all_numbers_ends_a_search() {
        let mut marks = Marks::default();
        marks.mark(u64::MAX, u64::MAX, Priority::Low);
        assert_eq!(marks.next(u64::MAX, u64::MAX, Priority::Low), None);
    }
}
