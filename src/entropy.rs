//! The only random numbers that the service draws: from the operating system, anew in each
//! process. A fixed seed is for tests; no setting and no policy can choose one.

use std::sync::{Mutex, PoisonError};

use holdoff_decision::Sample;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Where random numbers come from.
#[derive(Debug)]
pub enum Entropy {
    System,
    Seeded(Box<Mutex<StdRng>>),
}

impl Entropy {
    /// The same numbers in every run, for tests.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Box::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    pub fn bits(&self) -> u64 {
        match self {
            Self::System => rand::rng().next_u64(),
            Self::Seeded(rng) => rng
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next_u64(),
        }
    }

    /// Two draws from one number: a delay of a minute is placed to 14 ns.
    pub fn sample(&self) -> Sample {
        const UNIT: f64 = 1.0 / (1_u64 << 32) as f64;
        let bits = self.bits();
        Sample {
            jitter: (bits >> 32) as f64 * UNIT,
            spread: (bits & 0xFFFF_FFFF) as f64 * UNIT,
        }
    }

    pub fn key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.bits().to_le_bytes());
        key[8..].copy_from_slice(&self.bits().to_le_bytes());
        key
    }
}
