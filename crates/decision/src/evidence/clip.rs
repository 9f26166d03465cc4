//! What is left of a window when no instance counts for more than its share.
//!
//! A trip needs a ratio r of failed calls. With a share s an instance's failures count as at
//! most `q * calls` of the calls that count, `q = s * r`; what is above is in neither part of
//! the fraction. So one instance that always fails makes a ratio of q at most, which is
//! below r, however much it calls; and where the rest fails too, nothing holds a trip back.
//! The number of calls that a ratio needs is filled by one instance to its share at most.

/// Calls of which some were bad, and how bad each known instance was.
#[derive(Clone, Debug)]
pub struct Pool {
    pub calls: u32,
    pub bad: u32,
    /// Bad calls of each instance, in any order.
    pub of_each: Vec<u32>,
}

impl Pool {
    /// Whether at least `ratio` of the calls were bad when none counts for more than
    /// `share`, and there are `calls_min` of them.
    pub fn reaches(&self, ratio: f64, calls_min: u32, share: f64) -> bool {
        let part = (share * f64::from(calls_min)).ceil();
        let above: f64 = self
            .of_each
            .iter()
            .map(|bad| (f64::from(*bad) - part).max(0.0))
            .sum();
        if f64::from(self.calls) - above < f64::from(calls_min) {
            return false;
        }
        let (calls, bad) = self.clipped(share * ratio);
        // All that count are bad, even where next to nothing does: there is no success.
        calls < 1e-6 || bad >= ratio * calls - 1e-9
    }

    /// The calls that count, and those of them that were bad.
    fn clipped(&self, part: f64) -> (f64, f64) {
        let mut of_each = self.of_each.clone();
        of_each.sort_unstable_by(|a, b| b.cmp(a));
        let mut rest = f64::from(self.calls);
        let (mut above, mut most, mut removed) = (0.0, 0.0, 0.0);
        for bad in of_each.into_iter().map(f64::from) {
            // With `above` instances at their most, m of c calls: m = part * c, and
            // c = rest + above * m.
            let left = 1.0 - part * above;
            most = if left > 0.0 {
                part * rest / left
            } else {
                f64::MAX
            };
            if bad <= most {
                break;
            }
            rest -= bad;
            removed += bad;
            above += 1.0;
            most = part * rest / (1.0 - part * above).max(f64::MIN_POSITIVE);
        }
        let kept = if above > 0.0 { above * most } else { 0.0 };
        (rest + kept, f64::from(self.bad) - removed + kept)
    }
}

/// How long a row of failures is, from each instance's part of it, when one adds `most`.
pub fn row(of_each: impl Iterator<Item = u32>, all: u32, most: u32) -> u32 {
    let (known, counted) = of_each.fold((0_u32, 0_u32), |(known, counted), row| {
        (
            known.saturating_add(row),
            counted.saturating_add(row.min(most)),
        )
    });
    // What is of instances that are not tracked any more counts in full.
    counted.saturating_add(all.saturating_sub(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(calls: u32, bad: u32, of_each: &[u32]) -> bool {
        let of_each = of_each.to_vec();
        Pool {
            calls,
            bad,
            of_each,
        }
        .reaches(0.5, 20, 0.5)
    }

    #[test]
    fn one_instance_never_makes_the_ratio_however_much_it_calls() {
        for lies in [10, 100, 1_000, 1_000_000] {
            for good in [1, 10, 1_000] {
                assert!(!reaches(lies + good, lies, &[lies]), "{lies} and {good}");
            }
        }
    }

    #[test]
    fn where_everything_fails_it_is_reached_however_uneven() {
        assert!(reaches(20, 20, &[10, 10]));
        assert!(reaches(1010, 1010, &[1000, 10]));
        assert!(reaches(20, 20, &[1; 20]));
        assert!(
            !reaches(20, 20, &[19, 1]),
            "one filled more than its share of 20 calls"
        );
    }

    #[test]
    fn an_even_fleet_is_judged_as_if_there_were_no_share() {
        assert!(reaches(20, 10, &[1; 10]));
        assert!(!reaches(20, 9, &[1; 9]));
        assert!(reaches(1000, 500, &[5; 100]));
    }

    #[test]
    fn what_is_above_its_part_is_in_neither_part_of_the_fraction() {
        let of_each = vec![90, 5];
        let pool = Pool {
            calls: 110,
            bad: 95,
            of_each,
        };
        // 20 other calls, and 6.67 of 26.67 of the one that is above.
        let (calls, bad) = pool.clipped(0.25);
        assert!(
            (calls - 26.667).abs() < 0.01 && (bad - 11.667).abs() < 0.01,
            "{calls} {bad}"
        );
    }

    #[test]
    fn a_row_counts_each_instance_to_its_most() {
        assert_eq!(row([4, 1].into_iter(), 5, 3), 4);
        assert_eq!(row([3, 3].into_iter(), 6, 3), 6);
        assert_eq!(
            row([1].into_iter(), 9, 3),
            9,
            "8 of instances that are not known"
        );
    }
}
