//! How a call ended that went through Envoy: by the status that its caller got, and by Envoy's
//! response flags where those say more.

use holdoff_decision::{Nanos, Outcome, OutcomeKind, pushback::parse_retry_after};

/// What Envoy tells at the end of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// 0: there was no response.
    pub code: u16,
    /// `%RESPONSE_FLAGS%`: short names with commas between them.
    pub flags: &'a str,
    pub took: Option<Nanos>,
    pub retry_after: Option<&'a str>,
    pub wall_unix_secs: u64,
}

/// The first that is among the flags decides.
const FLAGS: [(&str, OutcomeKind); 23] = [
    // The caller went away.
    ("DC", OutcomeKind::Cancelled),
    ("DR", OutcomeKind::Cancelled),
    // No upstream was reached.
    ("UF", OutcomeKind::NotSent),
    ("UH", OutcomeKind::NotSent),
    ("DF", OutcomeKind::NotSent),
    // The upstream was too slow.
    ("UT", OutcomeKind::Timeout),
    ("SI", OutcomeKind::Timeout),
    ("DT", OutcomeKind::Timeout),
    ("UMSDR", OutcomeKind::Timeout),
    // The upstream broke off.
    ("UC", OutcomeKind::Failure),
    ("UR", OutcomeKind::Failure),
    ("UPE", OutcomeKind::Failure),
    ("LH", OutcomeKind::Failure),
    // Envoy itself answered: it says nothing of the upstream.
    ("NR", OutcomeKind::Ignored),
    ("NC", OutcomeKind::Ignored),
    ("UO", OutcomeKind::Ignored),
    ("RL", OutcomeKind::Ignored),
    ("RLSE", OutcomeKind::Ignored),
    ("UAEX", OutcomeKind::Ignored),
    ("FI", OutcomeKind::Ignored),
    ("OM", OutcomeKind::Ignored),
    ("DPE", OutcomeKind::Ignored),
    ("IH", OutcomeKind::Ignored),
];

impl Told<'_> {
    /// In the terms of holdoff.
    pub fn outcome(&self) -> Outcome {
        let mut flags = self.flags.split(',');
        let by_flag = FLAGS
            .iter()
            .find(|(flag, _)| flags.clone().any(|set| set.trim() == *flag));
        let kind = match by_flag {
            Some((_, kind)) => *kind,
            None => by_code(self.code),
        };
        let may_push_back = by_flag.is_none() && matches!(self.code, 408 | 429 | 500..);
        let asked = self.retry_after.filter(|_| may_push_back);
        let has_flags = flags.any(|set| !set.is_empty());
        Outcome {
            latency: self.took.filter(|_| self.code > 0 || has_flags),
            pushback: asked.and_then(|text| parse_retry_after(text, None, self.wall_unix_secs)),
            ..Outcome::of(kind)
        }
    }
}

/// As the client libraries see HTTP statuses.
fn by_code(code: u16) -> OutcomeKind {
    match code {
        0 => OutcomeKind::Cancelled,
        1..=199 => OutcomeKind::Ignored,
        200..=399 => OutcomeKind::Success,
        408 | 504 => OutcomeKind::Timeout,
        421 | 425 => OutcomeKind::Failure,
        429 => OutcomeKind::Throttled,
        501 | 505 => OutcomeKind::Rejected,
        400..=499 => OutcomeKind::Rejected,
        500.. => OutcomeKind::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: u16, flags: &str, retry_after: Option<&str>) -> Outcome {
        let told = Told {
            code,
            flags,
            took: Some(Nanos::from_millis(20)),
            retry_after,
            wall_unix_secs: 0,
        };
        told.outcome()
    }

    #[test]
    fn the_status_decides_unless_a_flag_says_more() {
        use OutcomeKind as K;
        for (code, flags, kind) in [
            (200, "", K::Success),
            (302, "", K::Success),
            (404, "", K::Rejected),
            (429, "", K::Throttled),
            (500, "", K::Failure),
            (501, "", K::Rejected),
            (504, "", K::Timeout),
            (0, "", K::Cancelled),
            (503, "URX", K::Failure),
            (503, "URX,UF", K::NotSent),
            (503, "UF", K::NotSent),
            (503, "UO", K::Ignored),
            (503, "UC", K::Failure),
            (504, "UT", K::Timeout),
            (404, "NR", K::Ignored),
            (0, "DC", K::Cancelled),
            (200, "DC", K::Cancelled),
        ] {
            assert_eq!(told(code, flags, None).kind, kind, "{code} {flags}");
        }
    }

    #[test]
    fn retry_after_counts_where_the_upstream_said_it() {
        let seven = Some(Nanos::from_secs(7));
        assert_eq!(told(429, "", Some("7")).pushback, seven);
        assert_eq!(told(503, "URX", Some("7")).pushback, seven);
        assert_eq!(told(503, "UF", Some("7")).pushback, None);
        assert_eq!(told(200, "", Some("7")).pushback, None);
        assert_eq!(told(429, "", Some("soon")).pushback, None);
    }
}
