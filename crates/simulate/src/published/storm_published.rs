//! What an independent simulation found of the storm, over 20 runs.

use crate::Strategy;

/// What the dependency does for ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It stops, and keeps what is queued.
    Stall,
    /// It loses what is sent.
    Blackhole,
}

/// Attempts while it is down, the fullest second after in capacities, T99 in seconds (infinite:
/// not in two minutes), and the share of later operations that failed, in per cent.
pub type Known = [f64; 4];

#[rustfmt::skip]
const KNOWN: [(Kind, Strategy, u32, Known); 64] = [
    (Kind::Stall, Strategy::NoRetry, 10, [8_059.0, 0.87, 10.0, 8.3]),
    (Kind::Stall, Strategy::None, 10, [23_983.0, 2.96, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Exponential, 10, [23_735.0, 2.98, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::FullJitter, 10, [23_750.0, 2.91, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Breaker, 10, [6_016.0, 0.87, 4.0, 2.5]),
    (Kind::Stall, Strategy::Bucket, 10, [8_067.0, 0.87, 10.0, 8.3]),
    (Kind::Stall, Strategy::Grpc, 10, [8_032.0, 0.87, 11.0, 8.6]),
    (Kind::Stall, Strategy::Aws, 10, [8_354.0, 0.87, 11.0, 8.6]),
    (Kind::Stall, Strategy::NoRetry, 100, [8_018.0, 0.87, 11.0, 8.4]),
    (Kind::Stall, Strategy::None, 100, [23_992.0, 2.98, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Exponential, 100, [23_567.0, 3.00, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::FullJitter, 100, [23_800.0, 2.94, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Breaker, 100, [6_015.0, 0.87, 4.0, 2.6]),
    (Kind::Stall, Strategy::Bucket, 100, [8_991.0, 0.88, 11.0, 8.3]),
    (Kind::Stall, Strategy::Grpc, 100, [8_376.0, 0.87, 10.0, 8.1]),
    (Kind::Stall, Strategy::Aws, 100, [11_463.0, 0.87, 11.0, 8.6]),
    (Kind::Stall, Strategy::NoRetry, 1_000, [7_989.0, 0.87, 10.0, 8.4]),
    (Kind::Stall, Strategy::None, 1_000, [24_028.0, 2.97, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Exponential, 1_000, [23_681.0, 2.97, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::FullJitter, 1_000, [23_813.0, 2.97, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Breaker, 1_000, [16_316.0, 0.87, 13.0, 5.7]),
    (Kind::Stall, Strategy::Bucket, 1_000, [17_640.0, 0.91, 12.0, 9.6]),
    (Kind::Stall, Strategy::Grpc, 1_000, [11_361.0, 0.87, 11.0, 8.4]),
    (Kind::Stall, Strategy::Aws, 1_000, [23_747.0, 2.94, 33.0, 27.3]),
    (Kind::Stall, Strategy::NoRetry, 10_000, [8_005.0, 0.88, 10.0, 8.1]),
    (Kind::Stall, Strategy::None, 10_000, [23_976.0, 2.93, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Exponential, 10_000, [23_657.0, 2.99, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::FullJitter, 10_000, [23_831.0, 2.94, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Breaker, 10_000, [23_780.0, 2.91, f64::INFINITY, 100.0]),
    (Kind::Stall, Strategy::Bucket, 10_000, [23_835.0, 2.94, 111.0, 92.4]),
    (Kind::Stall, Strategy::Grpc, 10_000, [20_921.0, 2.04, 51.0, 42.2]),
    (Kind::Stall, Strategy::Aws, 10_000, [23_802.0, 2.91, f64::INFINITY, 100.0]),
    (Kind::Blackhole, Strategy::NoRetry, 10, [8_059.0, 0.87, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::None, 10, [21_587.0, 3.43, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Exponential, 10, [21_352.0, 3.42, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::FullJitter, 10, [21_436.0, 3.32, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Breaker, 10, [7_024.0, 0.87, 6.0, 4.2]),
    (Kind::Blackhole, Strategy::Bucket, 10, [8_067.0, 0.89, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::Grpc, 10, [8_032.0, 0.87, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::Aws, 10, [8_354.0, 1.05, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::NoRetry, 100, [8_018.0, 0.87, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::None, 100, [21_621.0, 3.45, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Exponential, 100, [21_284.0, 3.46, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::FullJitter, 100, [21_449.0, 3.32, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Breaker, 100, [6_968.0, 0.88, 6.0, 4.1]),
    (Kind::Blackhole, Strategy::Bucket, 100, [8_990.0, 0.88, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::Grpc, 100, [8_376.0, 0.87, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::Aws, 100, [11_482.0, 1.01, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::NoRetry, 1_000, [7_989.0, 0.87, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::None, 1_000, [21_616.0, 3.49, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Exponential, 1_000, [21_303.0, 3.41, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::FullJitter, 1_000, [21_419.0, 3.32, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Breaker, 1_000, [18_129.0, 0.94, 9.0, 2.2]),
    (Kind::Blackhole, Strategy::Bucket, 1_000, [17_330.0, 1.06, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::Grpc, 1_000, [11_621.0, 0.88, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::Aws, 1_000, [21_482.0, 3.31, 35.0, 28.2]),
    (Kind::Blackhole, Strategy::NoRetry, 10_000, [8_005.0, 0.88, 0.0, 0.0]),
    (Kind::Blackhole, Strategy::None, 10_000, [21_598.0, 3.49, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Exponential, 10_000, [21_285.0, 3.42, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::FullJitter, 10_000, [21_388.0, 3.33, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Breaker, 10_000, [21_492.0, 3.37, f64::INFINITY, 99.4]),
    (Kind::Blackhole, Strategy::Bucket, 10_000, [21_407.0, 3.35, 112.0, 92.5]),
    (Kind::Blackhole, Strategy::Grpc, 10_000, [19_809.0, 1.98, 0.0, 8.5]),
    (Kind::Blackhole, Strategy::Aws, 10_000, [21_374.0, 3.34, f64::INFINITY, 99.4]),
];

/// What is known of this strategy in a fleet of this size.
pub fn known(kind: Kind, strategy: Strategy, clients: u32) -> Option<Known> {
    let row = KNOWN
        .iter()
        .find(|row| row.0 == kind && row.1 == strategy && row.2 == clients);
    row.map(|row| row.3)
}
