//! How many instances were heard of lately, in a few words of memory: three bits for each
//! of them, in two generations that alternate.
//!
//! ```text
//! count = x / 3, rounded up      x of the m bits are set
//! ```
//!
//! It is never more than there are, and less where bits coincide: two instances look like
//! one in 1 of 4,960 cases (m = 32) or 1 of 22 million (m = 512), 10 look like 7 at m = 32
//! and 100 like 76 at m = 512. It is full at 11 or 171. It forgets after one to two
//! generations.
//!
//! Why not linear counting, `-(m / 3) * ln(1 - x / m)`, which is right on average: it is too
//! high as often as too low, and a quorum of more instances than are active could never be
//! met. Why not the exact set: a dependency has thousands of callers, and only "one, a few
//! or many" is asked.

use crate::{
    Nanos, Time,
    bytes::{Bytes, Corrupt, Reader},
};

/// Generations that a clock may go back.
const BACK_MAX: u16 = 8;

/// `WORDS` times 16 bits for each generation.
#[derive(Clone, Copy, Debug)]
pub struct Sketch<const WORDS: usize> {
    bits: [[u16; WORDS]; 2],
    generation: u16,
}

impl<const WORDS: usize> Default for Sketch<WORDS> {
    fn default() -> Self {
        Self {
            bits: [[0; WORDS]; 2],
            generation: 0,
        }
    }
}

impl<const WORDS: usize> Bytes for Sketch<WORDS> {
    fn write(&self, out: &mut Vec<u8>) {
        self.bits.iter().for_each(|bits| bits.write(out));
        self.generation.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        Ok(Self {
            bits: [Bytes::read(from)?, Bytes::read(from)?],
            generation: Bytes::read(from)?,
        })
    }
}

impl<const WORDS: usize> Sketch<WORDS> {
    const BITS: u32 = WORDS as u32 * 16;

    /// Notes that `name` was heard of, in generations of `length`.
    pub fn note(&mut self, name: u64, length: Nanos, now: Time) {
        self.turn(length, now);
        let current = &mut self.bits[(self.generation % 2) as usize];
        for bit in Self::bits_of(name) {
            current[(bit / 16) as usize] |= 1 << (bit % 16);
        }
    }

    /// How many were heard of within one to two generations. Changes nothing.
    pub fn count(&self, length: Nanos, now: Time) -> u32 {
        let bits = self.held(length, now);
        let set: u32 = bits.iter().map(|word| word.count_ones()).sum();
        set.div_ceil(3)
    }

    /// How many besides these, whose bits are not counted.
    pub fn count_others(&self, names: impl Iterator<Item = u64>, length: Nanos, now: Time) -> u32 {
        let mut bits = self.held(length, now);
        for bit in names.flat_map(Self::bits_of) {
            bits[(bit / 16) as usize] &= !(1 << (bit % 16));
        }
        let set: u32 = bits.iter().map(|word| word.count_ones()).sum();
        set.div_ceil(3)
    }

    /// The three bits of a name. A draw that repeats one takes the next bit.
    fn bits_of(name: u64) -> [u32; 3] {
        let (mut rest, mut set) = (mixed(name), [Self::BITS; 3]);
        for at in 0..set.len() {
            let mut bit = (rest % u64::from(Self::BITS)) as u32;
            while set.contains(&bit) {
                bit = (bit + 1) % Self::BITS;
            }
            set[at] = bit;
            rest /= u64::from(Self::BITS);
        }
        set
    }

    fn held(&self, length: Nanos, now: Time) -> [u16; WORDS] {
        let passed = self.passed(length, now);
        let newest = (self.generation % 2) as usize;
        std::array::from_fn(|word| match passed {
            0 => self.bits[0][word] | self.bits[1][word],
            1 => self.bits[newest][word],
            _ => 0,
        })
    }

    fn turn(&mut self, length: Nanos, now: Time) {
        let passed = self.passed(length, now);
        self.generation = self.generation.wrapping_add(passed);
        match passed {
            0 => {}
            1 => self.bits[(self.generation % 2) as usize] = [0; WORDS],
            _ => self.bits = [[0; WORDS]; 2],
        }
    }

    /// Generations since the last. They are numbered modulo 65,536, to be small: what was
    /// noted a day and a half ago (of 2 s each) may be taken for new, which only counts too
    /// many. A clock that goes back a little stays in the generation that it has reached.
    fn passed(&self, length: Nanos, now: Time) -> u16 {
        let number = (now.0 / length.0.max(1)) as u16;
        let passed = number.wrapping_sub(self.generation);
        if passed > u16::MAX - BACK_MAX {
            0
        } else {
            passed
        }
    }
}

/// Spreads names that differ in a few bits over all of them (splitmix64).
pub(crate) fn mixed(name: u64) -> u64 {
    let mut z = name.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Nanos = Nanos::from_secs(2);

    fn counted<const WORDS: usize>(names: std::ops::Range<u64>) -> u32 {
        let mut sketch = Sketch::<WORDS>::default();
        names.for_each(|name| sketch.note(name, LENGTH, Time(1)));
        sketch.count(LENGTH, Time(1))
    }

    #[test]
    fn none_and_one_are_exact_and_two_nearly() {
        assert_eq!(counted::<2>(0..0), 0);
        for first in (0..100_000).step_by(10) {
            assert_eq!(counted::<2>(first..first + 1), 1);
        }
        let ones = (0..100_000)
            .step_by(10)
            .filter(|first| counted::<2>(*first..first + 2) < 2)
            .count();
        assert!(ones <= 5, "{ones} of 10,000 pairs look like one");
    }

    #[test]
    fn it_is_never_too_high_and_as_low_as_the_text_says() {
        let mean = |count: fn(u64) -> u32, names: u32| {
            let counts = (0..1000).map(|round| count(round * 1000));
            let all: u32 = counts.inspect(|count| assert!(*count <= names)).sum();
            f64::from(all) / 1000.0
        };
        let small = mean(|first| counted::<2>(first..first + 10), 10);
        let large = mean(|first| counted::<32>(first..first + 100), 100);
        assert!((small - 7.0).abs() < 0.5, "{small} of 10");
        assert!((large - 76.0).abs() < 1.0, "{large} of 100");
        assert_eq!(
            (counted::<2>(0..1000), counted::<32>(0..100_000)),
            (11, 171)
        );
    }

    #[test]
    fn it_forgets_after_one_to_two_generations() {
        let mut sketch = Sketch::<2>::default();
        sketch.note(1, LENGTH, Time(3_999_999_999));
        assert_eq!(sketch.count(LENGTH, Time(4_000_000_000)), 1);
        sketch.note(2, LENGTH, Time(4_000_000_000));
        assert_eq!(sketch.count(LENGTH, Time(5_999_999_999)), 2);
        assert_eq!(sketch.count(LENGTH, Time(6_000_000_000)), 1);
        assert_eq!(sketch.count(LENGTH, Time(8_000_000_000)), 0);
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nothing() {
        let mut sketch = Sketch::<2>::default();
        sketch.note(1, LENGTH, Time(9_000_000_000));
        sketch.note(2, LENGTH, Time(1));
        assert_eq!(sketch.count(LENGTH, Time(1)), 2);
    }
}
