//! All chance of a simulation: one seed, one story.

use holdoff_decision::{Nanos, Sample};

/// splitmix64.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// Neighbouring seeds tell unrelated stories.
    pub fn of_seed(seed: u64) -> Self {
        let mut draws = Self(seed.wrapping_mul(0xD134_2543_DE82_EF95));
        draws.next();
        draws
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// `bound` is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn happens(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// To the nanosecond, so that hardly anything happens at the same instant by design.
    pub fn millis(&mut self, low: u64, high: u64) -> Nanos {
        Nanos(self.from(low * 1_000_000, high * 1_000_000))
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    pub fn sample(&mut self) -> Sample {
        Sample {
            jitter: self.unit(),
            spread: self.unit(),
        }
    }
}
