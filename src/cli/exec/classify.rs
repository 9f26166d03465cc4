//! What the end of a command says about the dependency it called.
//!
//! Only curl's codes are known by number; there is no convention that others follow, so
//! for any other command a zero is a success and the rest a failure. Where an HTTP status
//! was seen and the rule looks at it, it says more than an exit code does.

use holdoff_client::OutcomeKind;

/// How a command ended, as far as it can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Exited(u8),
    /// By this signal, which was not ours.
    Signalled(u8),
    /// It was stopped at its time limit.
    TimedOut,
    /// It was stopped since the caller gave up.
    Cancelled,
}

/// How exit codes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Rule {
    /// The success codes are a success, all others a failure.
    #[default]
    Exit,
    /// As curl means them; with an HTTP status, as that says.
    Curl,
    /// The HTTP status alone decides where one was seen, also when the exit code is 0.
    Http,
}

/// The outcome of one attempt.
pub fn classify(
    rule: Rule,
    ending: Ending,
    status: Option<u16>,
    success_codes: &[u8],
) -> OutcomeKind {
    let code = match ending {
        Ending::TimedOut => return OutcomeKind::Timeout,
        Ending::Cancelled => return OutcomeKind::Cancelled,
        Ending::Signalled(_) => return OutcomeKind::Failure,
        Ending::Exited(code) => code,
    };
    let success = success_codes.contains(&code);
    match (rule, status) {
        (Rule::Http, Some(status)) => http(status),
        // curl without -f ends with 0 whatever the status is; what it could not finish
        // (a connection lost in the body of a 200) its own code says.
        (Rule::Curl, Some(status)) if success || code == 22 => http(status),
        (Rule::Curl, _) if !success => curl(code),
        (Rule::Exit | Rule::Curl | Rule::Http, _) if success => OutcomeKind::Success,
        (Rule::Exit | Rule::Curl | Rule::Http, _) => OutcomeKind::Failure,
    }
}

/// What an HTTP status says.
///
/// | status | outcome |
/// |---|---|
/// | 1xx, 2xx, 3xx | success |
/// | 408 | timeout |
/// | 429 | throttled |
/// | 421, 425 | not sent: the server says that it did not process it |
/// | other 4xx | rejected |
/// | 501, 505 | rejected: it will never do this |
/// | 504 | timeout |
/// | other 5xx, and what is no status | failure |
pub fn http(status: u16) -> OutcomeKind {
    match status {
        100..=399 => OutcomeKind::Success,
        408 | 504 => OutcomeKind::Timeout,
        421 | 425 => OutcomeKind::NotSent,
        429 => OutcomeKind::Throttled,
        400..=499 | 501 | 505 => OutcomeKind::Rejected,
        _ => OutcomeKind::Failure,
    }
}

/// What an exit code of curl says, where no HTTP status is known.
///
/// | codes | outcome |
/// |---|---|
/// | 5, 6, 7 (no name, no connection), 97 (the proxy's handshake) | not sent |
/// | 28 | timeout |
/// | 23, 42 (ended on this side) | ignored |
/// | those that say that the command line, this machine, the certificate or the request is wrong | rejected |
/// | all others, among them 22 (any 4xx or 5xx), 35, 52, 55, 56 (broken connections) | failure |
pub fn curl(code: u8) -> OutcomeKind {
    match code {
        0 => OutcomeKind::Success,
        5 | 6 | 7 | 97 => OutcomeKind::NotSent,
        28 => OutcomeKind::Timeout,
        23 | 42 => OutcomeKind::Ignored,
        1..=4
        | 9
        | 26
        | 27
        | 37
        | 41
        | 43
        | 45
        | 47
        | 48
        | 51
        | 58
        | 59
        | 60
        | 63
        | 66
        | 67
        | 68
        | 69
        | 77
        | 78
        | 82
        | 83
        | 90
        | 91 => OutcomeKind::Rejected,
        _ => OutcomeKind::Failure,
    }
}

#[cfg(test)]
mod tests {
    use OutcomeKind as K;

    use super::*;

    #[test]
    fn curl_codes_say_what_curl_means() {
        let table = [
            (K::Success, vec![0]),
            (K::NotSent, vec![5, 6, 7, 97]),
            (K::Timeout, vec![28]),
            (K::Failure, vec![22, 35, 52, 55, 56, 16, 18, 92, 255]),
            (K::Rejected, vec![1, 2, 3, 4, 26, 60, 67, 78]),
            (K::Ignored, vec![23, 42]),
        ];
        for (kind, codes) in table {
            for code in codes {
                assert_eq!(
                    classify(Rule::Curl, Ending::Exited(code), None, &[0]),
                    kind,
                    "{code}"
                );
            }
        }
    }

    #[test]
    fn a_status_says_more_than_curls_22() {
        let seen = |code, status| classify(Rule::Curl, Ending::Exited(code), Some(status), &[0]);
        assert_eq!(seen(22, 429), K::Throttled);
        assert_eq!(seen(22, 404), K::Rejected);
        assert_eq!(seen(22, 503), K::Failure);
        assert_eq!(seen(0, 503), K::Failure, "curl without -f");
        assert_eq!(seen(56, 200), K::Failure, "cut off in the body of a 200");
        assert_eq!(seen(28, 200), K::Timeout);
    }

    #[test]
    fn http_looks_at_the_status_first() {
        let seen = |code, status| classify(Rule::Http, Ending::Exited(code), status, &[0]);
        assert_eq!(seen(8, Some(200)), K::Success);
        assert_eq!(seen(0, Some(500)), K::Failure);
        assert_eq!(seen(0, None), K::Success);
        assert_eq!(seen(8, None), K::Failure);
        assert_eq!([http(408), http(504)], [K::Timeout, K::Timeout]);
        assert_eq!([http(421), http(425)], [K::NotSent, K::NotSent]);
        assert_eq!([http(501), http(505)], [K::Rejected, K::Rejected]);
        assert_eq!(
            [http(204), http(304), http(999)],
            [K::Success, K::Success, K::Failure]
        );
    }

    #[test]
    fn other_commands_succeed_by_their_success_codes_alone() {
        let ended = |code| classify(Rule::Exit, Ending::Exited(code), Some(500), &[0, 3]);
        assert_eq!(
            [ended(0), ended(3), ended(1)],
            [K::Success, K::Success, K::Failure]
        );
        for rule in [Rule::Exit, Rule::Curl, Rule::Http] {
            let of = |ending| classify(rule, ending, Some(200), &[0]);
            assert_eq!(of(Ending::Signalled(11)), K::Failure);
            assert_eq!(of(Ending::TimedOut), K::Timeout);
            assert_eq!(of(Ending::Cancelled), K::Cancelled);
        }
    }
}
