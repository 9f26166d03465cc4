//! Random draws of the published experiments, from one seed each.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};

/// A sequence of draws that its seed decides.
pub struct Draws(Pcg64Mcg);

impl Draws {
    pub fn seeded(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// By Box and Muller; the second of the pair is not kept.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        mean + deviation * radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// One of `0..count`; 0 where there is none.
    pub fn index(&mut self, count: usize) -> usize {
        ((self.unit() * count as f64) as usize).min(count.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_deviation_they_are_asked_for() {
        let mut draws = Draws::seeded(1);
        let (mut normal, mut squares, mut exponential) = (0.0, 0.0, 0.0);
        for _ in 0..100_000 {
            let drawn = draws.normal(10.0, 2.0);
            normal += drawn / 1e5;
            squares += (drawn - 10.0) * (drawn - 10.0) / 1e5;
            exponential += draws.exponential(3.0) / 1e5;
        }
        // Four standard errors of each.
        assert!((normal - 10.0).abs() < 4.0 * 2.0 / 316.0, "{normal}");
        assert!((squares - 4.0).abs() < 4.0 * 5.7 / 316.0, "{squares}");
        assert!(
            (exponential - 3.0).abs() < 4.0 * 3.0 / 316.0,
            "{exponential}"
        );
    }
}
