//! Numbers that look random and are the same on every machine: one stream for each client and
//! purpose, so that what one strategy draws changes nothing about how long another thinks.

use rand::Rng;
use rand_pcg::Pcg32;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// When operations begin.
    Life,
    /// How long messages take, and which are lost.
    Network,
    /// What a client draws: jitter, chance.
    Choice,
    /// What the coordinator draws, and the ways to it.
    Coordinator,
    /// Which calls the dependency fails.
    Dependency,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct Stream(Pcg32);

impl Stream {
    pub fn new(seed: u64, client: u32, purpose: Purpose) -> Self {
        let stream = u64::from(client) << 8 | purpose as u64;
        // Streams of neighbouring numbers must not begin alike.
        let mut rng = Pcg32::new(mixed(seed ^ mixed(stream)), stream);
        rng.next_u32();
        Self(rng)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    /// Uniform between two lengths of time, in nanoseconds.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + (most.saturating_sub(least) as f64 * self.unit()) as u64
    }

    /// Exponentially distributed around a mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        (-(1.0 - self.unit()).ln() * mean as f64) as u64
    }

    /// True with this probability. Draws nothing where that is certain.
    pub fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }
}

/// A number that depends on nothing but its arguments, uniform in [0, 1).
pub fn fixed_unit(seed: u64, who: u64, what: u64) -> f64 {
    (mixed(seed ^ mixed(who ^ mixed(what))) >> 11) as f64 / (1_u64 << 53) as f64
}

/// The finisher of splitmix64.
pub fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_client_and_purpose_give_the_same_numbers_and_others_do_not() {
        let first = |seed, client, purpose| Stream::new(seed, client, purpose).unit();
        let it = first(1, 2, Purpose::Life);
        assert_eq!(it, first(1, 2, Purpose::Life));
        assert_ne!(it, first(2, 2, Purpose::Life));
        assert_ne!(it, first(1, 3, Purpose::Life));
        assert_ne!(it, first(1, 2, Purpose::Choice));
    }

    #[test]
    fn the_first_numbers_of_neighbouring_clients_are_uniform() {
        let mut tenths = [0_u32; 10];
        for client in 0..10_000 {
            let unit = Stream::new(7, client, Purpose::Network).unit();
            tenths[(unit * 10.0) as usize] += 1;
        }
        assert!(
            tenths.iter().all(|it| (850..1_150).contains(it)),
            "{tenths:?}"
        );
    }

    #[test]
    fn exponential_waits_have_the_mean_that_was_asked_for() {
        let mut stream = Stream::new(1, 1, Purpose::Life);
        let sum: u64 = (0..20_000).map(|_| stream.exponential(1_000_000)).sum();
        assert!((970_000..1_030_000).contains(&(sum / 20_000)));
    }
}
