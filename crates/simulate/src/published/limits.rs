//! What no policy can beat, in the scenario of the herd: N clients that wait, a dependency that
//! serves C calls a second, an outage of D seconds.
//!
//! | | bound |
//! |---|---|
//! | calls while it is down, one coordinator | K + D / P: those that show the outage, and a probe every P |
//! | the same, uncoordinated | q N D / T: result of renewal theory, for any policy by which a share q has noticed the recovery after T |
//! | until nearly all are served | closed loop with think time Z, below |
//! | load after recovery | the capacity: less takes longer, more is rejected |
//!
//! With a = C Z / N, of the clients a share w(t) waits, t after the recovery, when the dependency
//! is kept at a share `filled` of its capacity:
//!
//! ```text
//! w(t) = 1 - a + a exp(-t / Z)
//! ```
//!
//! Operations count as late that are pending for more than `late`; at most 1 % of the clients may
//! have one. So it is over `late` after w has come down to what is served within `late`, and 1 %.

/// Failures that open a breaker where everything fails.
pub const EVIDENCE: f64 = 5.0;

/// A herd.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Herd {
    pub clients: f64,
    /// Calls a second.
    pub capacity: f64,
    pub think_s: f64,
    /// Seconds after which a pending operation is late.
    pub late_s: f64,
}

impl Herd {
    /// Seconds from recovery until at most 1 % of the clients are late; `filled` is the share of
    /// the capacity that is used meanwhile.
    pub fn recovers_in(&self, filled: f64) -> f64 {
        let a = filled * self.capacity * self.think_s / self.clients;
        let served_in_time = filled * self.capacity * self.late_s / self.clients;
        let waiting = a - 1.0 + served_in_time + 0.01;
        self.late_s + self.think_s * (a / waiting).ln()
    }

    /// Calls during an outage of one coordinator that probes every so many seconds.
    pub fn calls_of_a_coordinator(outage_s: f64, probe_every_s: f64) -> f64 {
        EVIDENCE + outage_s / probe_every_s
    }

    /// The least calls during an outage of any uncoordinated policy that recovers so soon.
    pub fn calls_of_any_other(&self, outage_s: f64, recovers_in_s: f64) -> f64 {
        0.99 * self.clients * outage_s / recovers_in_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERD: Herd = Herd {
        clients: 10_000.0,
        capacity: 2_000.0,
        think_s: 10.0,
        late_s: 1.0,
    };

    #[test]
    fn the_derived_limits_are_those_published() {
        assert!(
            (HERD.recovers_in(1.0) - 6.03).abs() < 0.01,
            "{}",
            HERD.recovers_in(1.0)
        );
        assert!(
            (HERD.recovers_in(0.95) - 6.47).abs() < 0.01,
            "{}",
            HERD.recovers_in(0.95)
        );
        let others = HERD.calls_of_any_other(30.0, 7.3);
        assert!((others - 40_685.0).abs() < 5.0, "{others}");
    }
}
