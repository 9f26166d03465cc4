//! The figures of the adaptive detector: how soon it trips, and how seldom for nothing.
//! `cargo test -p holdoff-decision --test rules figures -- --nocapture` prints them.

use holdoff_decision::{Time, detector::Detector};

struct Draws(u64);

impl Draws {
    /// splitmix64: the next draw in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn fails(&mut self, share: f64) -> bool {
        self.next() < share
    }
}

fn step(detector: &mut Detector, failed: bool) -> bool {
    detector.record(u32::from(!failed), u32::from(failed), Time(1))
}

/// The mean number of samples to a trip, after so many healthy ones of which 1 % fail.
fn mean_samples(share: f64, healthy: u32, runs: u32) -> f64 {
    let mut total = 0_u64;
    let mut draws = Draws(u64::from(runs));
    for _ in 0..runs {
        let mut detector = Detector::default();
        for _ in 0..healthy {
            let failed = draws.fails(0.01);
            step(&mut detector, failed);
        }
        let mut samples = 1;
        while !step(&mut detector, draws.fails(share)) {
            samples += 1;
        }
        total += samples;
    }
    total as f64 / f64::from(runs)
}

fn false_trips(share: f64, samples: u32) -> u32 {
    let mut detector = Detector::default();
    let mut draws = Draws(u64::from(samples));
    let mut trips = 0;
    for _ in 0..samples {
        if step(&mut detector, draws.fails(share)) {
            trips += 1;
            detector.clear();
        }
    }
    trips
}

#[test]
fn figures_samples_to_trip() {
    for (share, bound) in [(1.0, 5.0), (0.5, 11.1), (0.3, 27.4), (0.2, 70.0)] {
        let mean = mean_samples(share, 200, 20_000);
        println!(
            "{:3.0} % failures: {mean:.2} samples to trip",
            share * 100.0
        );
        assert!(mean <= bound, "{share}: {mean}");
    }
}

#[test]
fn figures_false_trips() {
    for (share, samples, bound) in [
        (0.01, 3_000_000, 0),
        (0.02, 3_000_000, 0),
        (0.05, 1_000_000, 16),
        (0.1, 1_000_000, 1_000),
    ] {
        let trips = false_trips(share, samples);
        println!(
            "{:3.0} % failures: {trips} false trips in {samples}",
            share * 100.0
        );
        assert!(trips <= bound, "{share}: {trips}");
    }
}

#[test]
fn figures_learning_does_not_slow_detection() {
    for (share, bound) in [(1.0, 5.0), (0.5, 11.6)] {
        let mean = mean_samples(share, 20_000, 300);
        println!(
            "{:3.0} % failures after 20,000 healthy: {mean:.2}",
            share * 100.0
        );
        assert!(mean <= bound, "{share}: {mean}");
    }
}
