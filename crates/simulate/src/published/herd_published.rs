//! What an independent simulation found of the herd: means of counts, medians of times, over
//! 20 runs (10 of 10,000 clients, 3 of 100,000, 2 of clients that retry at once).

use crate::Strategy;

/// One strategy in one fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Calls while the dependency was down.
    pub down: f64,
    /// The fullest second after, in capacities.
    pub peak: f64,
    pub peak_100ms: f64,
    /// Seconds; infinite: not within two minutes.
    pub recovers: f64,
    pub wasted: f64,
    pub runs: u32,
}

#[rustfmt::skip]
const KNOWN: [(Strategy, u32, Known); 28] = [
    (Strategy::None, 100, Known { down: 297_995.0, peak: 50.78, peak_100ms: 357.68, recovers: f64::INFINITY, wasted: 357_920.0, runs: 2 }),
    (Strategy::None, 1_000, Known { down: 2_980_037.0, peak: 54.45, peak_100ms: 366.88, recovers: f64::INFINITY, wasted: 3_580_278.0, runs: 2 }),
    (Strategy::None, 10_000, Known { down: 30_500_196.0, peak: 54.80, peak_100ms: 367.77, recovers: f64::INFINITY, wasted: 36_502_362.0, runs: 2 }),
    (Strategy::None, 100_000, Known { down: 286_501_541.0, peak: 54.82, peak_100ms: 367.79, recovers: f64::INFINITY, wasted: 346_524_263.0, runs: 2 }),
    (Strategy::Fixed, 100, Known { down: 2_903.0, peak: 4.96, peak_100ms: 40.12, recovers: 10.30, wasted: 3_333.0, runs: 20 }),
    (Strategy::Fixed, 1_000, Known { down: 29_033.0, peak: 4.97, peak_100ms: 40.38, recovers: 10.20, wasted: 33_448.0, runs: 20 }),
    (Strategy::Fixed, 10_000, Known { down: 295_100.0, peak: 4.94, peak_100ms: 40.43, recovers: 10.10, wasted: 339_068.0, runs: 10 }),
    (Strategy::Fixed, 100_000, Known { down: 2_828_403.0, peak: 4.88, peak_100ms: 40.01, recovers: 9.90, wasted: 3_250_649.0, runs: 3 }),
    (Strategy::Exponential, 100, Known { down: 795.0, peak: 5.03, peak_100ms: 44.42, recovers: f64::INFINITY, wasted: 1_171.0, runs: 20 }),
    (Strategy::Exponential, 1_000, Known { down: 7_950.0, peak: 5.03, peak_100ms: 44.74, recovers: f64::INFINITY, wasted: 11_813.0, runs: 20 }),
    (Strategy::Exponential, 10_000, Known { down: 80_000.0, peak: 5.04, peak_100ms: 44.88, recovers: f64::INFINITY, wasted: 118_809.0, runs: 10 }),
    (Strategy::Exponential, 100_000, Known { down: 800_000.0, peak: 5.03, peak_100ms: 44.88, recovers: f64::INFINITY, wasted: 1_188_991.0, runs: 3 }),
    (Strategy::FullJitter, 100, Known { down: 939.0, peak: 1.08, peak_100ms: 2.90, recovers: 17.70, wasted: 939.0, runs: 20 }),
    (Strategy::FullJitter, 1_000, Known { down: 9_347.0, peak: 0.74, peak_100ms: 1.13, recovers: 18.00, wasted: 9_348.0, runs: 20 }),
    (Strategy::FullJitter, 10_000, Known { down: 94_088.0, peak: 0.65, peak_100ms: 0.76, recovers: 18.10, wasted: 94_094.0, runs: 10 }),
    (Strategy::FullJitter, 100_000, Known { down: 927_507.0, peak: 0.63, peak_100ms: 0.66, recovers: 18.10, wasted: 927_556.0, runs: 3 }),
    (Strategy::Breaker, 100, Known { down: 638.0, peak: 4.89, peak_100ms: 8.82, recovers: 52.10, wasted: 830.0, runs: 20 }),
    (Strategy::Breaker, 1_000, Known { down: 6_381.0, peak: 4.86, peak_100ms: 6.86, recovers: 48.70, wasted: 8_162.0, runs: 20 }),
    (Strategy::Breaker, 10_000, Known { down: 64_543.0, peak: 4.82, peak_100ms: 6.51, recovers: 45.70, wasted: 81_962.0, runs: 10 }),
    (Strategy::Breaker, 100_000, Known { down: 633_333.0, peak: 4.90, peak_100ms: 6.37, recovers: 45.70, wasted: 811_441.0, runs: 3 }),
    (Strategy::BreakerJittered, 100, Known { down: 646.0, peak: 1.15, peak_100ms: 2.85, recovers: 13.60, wasted: 646.0, runs: 20 }),
    (Strategy::BreakerJittered, 1_000, Known { down: 6_438.0, peak: 0.84, peak_100ms: 1.22, recovers: 13.50, wasted: 6_439.0, runs: 20 }),
    (Strategy::BreakerJittered, 10_000, Known { down: 64_860.0, peak: 0.77, peak_100ms: 0.86, recovers: 13.70, wasted: 64_866.0, runs: 10 }),
    (Strategy::BreakerJittered, 100_000, Known { down: 636_363.0, peak: 0.76, peak_100ms: 0.81, recovers: 13.60, wasted: 636_417.0, runs: 3 }),
    (Strategy::Bucket, 100, Known { down: 936.0, peak: 1.09, peak_100ms: 2.85, recovers: 17.70, wasted: 937.0, runs: 20 }),
    (Strategy::Bucket, 1_000, Known { down: 9_352.0, peak: 0.73, peak_100ms: 1.17, recovers: 17.90, wasted: 9_353.0, runs: 20 }),
    (Strategy::Bucket, 10_000, Known { down: 93_997.0, peak: 0.66, peak_100ms: 0.82, recovers: 18.10, wasted: 94_002.0, runs: 10 }),
    (Strategy::Bucket, 100_000, Known { down: 926_949.0, peak: 0.64, peak_100ms: 0.84, recovers: 18.10, wasted: 927_005.0, runs: 3 }),
];

/// What is known of this strategy in a fleet of this size.
pub fn known(strategy: Strategy, clients: u32) -> Option<Known> {
    let row = KNOWN
        .iter()
        .find(|row| row.0 == strategy && row.1 == clients);
    row.map(|row| row.2)
}
