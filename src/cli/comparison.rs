//! How a candidate compares with the live policy, as text: for `policy shadow` and `replay`.

use holdoff_client::proto::{
    Candidate, ComparedSide, Comparison, DifferingAttempts, GetCandidateResponse,
};

use super::{
    escape::escape,
    events,
    output::{self, Ink, Tone},
    policy::entry_name,
    span, words,
};

/// What is tried, one line each.
pub fn candidates(ink: Ink, candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return "No candidates.\n".to_owned();
    }
    let rows = candidates.iter().map(|candidate| {
        let comparison = candidate.comparison.clone().unwrap_or_default();
        let refused = sum(&comparison.refused);
        let opened = comparison.candidate.map_or(0, |side| side.opened);
        let live = comparison.live.map_or(0, |side| side.opened);
        let cells = vec![
            entry_name(&candidate.namespace, &candidate.name),
            candidate.dependencies.to_string(),
            format!("{opened} (live {live})"),
            (refused.first_attempts + refused.retries).to_string(),
            refused.succeeded.to_string(),
            attempts(&sum(&comparison.let_through)).to_string(),
            escape(&candidate.problem).into_owned(),
        ];
        let tone = match candidate.problem.is_empty() {
            true => Tone::Neutral,
            false => Tone::Bad,
        };
        (tone, cells)
    });
    let headings = [
        "NAME",
        "DEPENDENCIES",
        "WOULD OPEN",
        "WOULD REFUSE",
        "OF THOSE SUCCEEDED",
        "WOULD LET THROUGH",
        "PROBLEM",
    ];
    output::table(ink, &headings, rows.collect())
}

/// One candidate, its sums and then dependency by dependency.
pub fn candidate(ink: Ink, answer: &GetCandidateResponse) -> String {
    let candidate = answer.candidate.clone().unwrap_or_default();
    let mut text = entry_name(&candidate.namespace, &candidate.name) + "\n";
    let left_out = match candidate.left_out {
        0 => String::new(),
        left_out => format!("{left_out}: too many are tried at once"),
    };
    text += &output::card(&[
        ("put by", escape(&candidate.owner).into_owned()),
        ("tried beside", candidate.dependencies.to_string()),
        ("not tried", left_out),
        ("problem", escape(&candidate.problem).into_owned()),
    ]);
    text += &compared(ink, &candidate.comparison.unwrap_or_default());
    let several = answer.dependencies.len() > 1;
    for one in &answer.dependencies {
        let comparison = one.comparison.clone().unwrap_or_default();
        let state = words::state(one.candidate_state);
        text += &format!("\n{}: would be {state}\n", escape(&one.dependency));
        text += &match several {
            true => compared(ink, &comparison),
            false => openings(&comparison),
        };
    }
    text
}

/// The two policies side by side, then what they did otherwise, by reason.
pub fn compared(ink: Ink, comparison: &Comparison) -> String {
    if comparison.since.is_none() {
        return "  nothing has happened yet\n".to_owned();
    }
    let none = ComparedSide::default();
    let live = comparison.live.as_ref().unwrap_or(&none);
    let own = comparison.candidate.as_ref().unwrap_or(&none);
    let row = |name: &str, live: u64, own: u64| {
        let tone = match live == own {
            true => Tone::Quiet,
            false => Tone::Neutral,
        };
        (
            tone,
            vec![name.to_owned(), live.to_string(), own.to_string()],
        )
    };
    let rows = vec![
        row("openings", live.opened, own.opened),
        row("openings again", live.reopened, own.reopened),
        row("first attempts", live.first_attempts, own.first_attempts),
        row(
            "first attempts refused",
            live.first_attempts_refused,
            own.first_attempts_refused,
        ),
        row("retries", live.retries, own.retries),
        row("retries refused", live.retries_refused, own.retries_refused),
        row("calls that succeeded", live.succeeded, own.succeeded),
        row("calls that failed", live.failed, own.failed),
    ];
    let mut text = output::table(ink, &["", "LIVE", "CANDIDATE"], rows);
    text += &reasons(
        ink,
        "\nOnly the candidate would have refused:\n",
        &comparison.refused,
        comparison.unknown_ends,
    );
    text += &reasons(
        ink,
        "\nOnly the live policy refused (how these would have ended is not known):\n",
        &comparison.let_through,
        0,
    );
    text += &delays(comparison);
    text + &openings(comparison)
}

fn reasons(ink: Ink, title: &str, by_reason: &[DifferingAttempts], unknown: u64) -> String {
    if by_reason.is_empty() {
        return String::new();
    }
    let made = by_reason.iter().any(|it| it.succeeded + it.failed > 0);
    let rows = by_reason.iter().map(|one| {
        let mut cells = vec![
            words::reason(one.reason),
            one.first_attempts.to_string(),
            one.retries.to_string(),
        ];
        if made {
            cells.extend([one.succeeded.to_string(), one.failed.to_string()]);
        }
        let tone = match one.succeeded {
            0 => Tone::Neutral,
            _ => Tone::Watch,
        };
        (tone, cells)
    });
    let headings = ["REASON", "FIRST ATTEMPTS", "RETRIES", "SUCCEEDED", "FAILED"];
    let headings = if made { &headings[..] } else { &headings[..3] };
    let mut text = title.to_owned() + &output::table(ink, headings, rows.collect());
    if unknown > 0 {
        text += &format!("  how {unknown} of them ended is not known\n");
    }
    text
}

fn delays(comparison: &Comparison) -> String {
    let by = |span: &Option<prost_types::Duration>| {
        span::human(span.as_ref().map(span::from_wire).unwrap_or_default())
    };
    let mut text = String::new();
    if comparison.later > 0 {
        text += &format!(
            "\n{} delays longer, by {} on average\n",
            comparison.later,
            by(&comparison.later_by)
        );
    }
    if comparison.sooner > 0 {
        text += &format!(
            "\n{} delays shorter, by {} on average\n",
            comparison.sooner,
            by(&comparison.sooner_by)
        );
    }
    text
}

fn openings(comparison: &Comparison) -> String {
    let of = |title: &str, side: &Option<ComparedSide>| {
        let openings = side.iter().flat_map(|side| &side.openings);
        let lines: String = openings
            .map(|opening| {
                let at = events::time(opening.time.as_ref());
                let again = if opening.again { " again" } else { "" };
                format!("  {at}{again}: {}\n", escape(&opening.detail))
            })
            .collect();
        match lines.is_empty() {
            true => String::new(),
            false => format!("\n{title}\n{lines}"),
        }
    };
    of("Opened:", &comparison.live) + &of("Would have opened:", &comparison.candidate)
}

fn attempts(differing: &DifferingAttempts) -> u64 {
    differing.first_attempts + differing.retries
}

fn sum(by_reason: &[DifferingAttempts]) -> DifferingAttempts {
    by_reason
        .iter()
        .fold(DifferingAttempts::default(), |sum, one| DifferingAttempts {
            reason: 0,
            first_attempts: sum.first_attempts + one.first_attempts,
            retries: sum.retries + one.retries,
            succeeded: sum.succeeded + one.succeeded,
            failed: sum.failed + one.failed,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison_of(refused: u64) -> Comparison {
        Comparison {
            since: Some(prost_types::Timestamp::default()),
            live: Some(ComparedSide {
                first_attempts: 100,
                succeeded: 60,
                failed: 40,
                ..ComparedSide::default()
            }),
            candidate: Some(ComparedSide {
                first_attempts: 100 - refused,
                first_attempts_refused: refused,
                opened: 1,
                ..ComparedSide::default()
            }),
            refused: vec![DifferingAttempts {
                reason: 11,
                first_attempts: refused,
                retries: 0,
                succeeded: 3,
                failed: 7,
            }],
            ..Comparison::default()
        }
    }

    #[test]
    fn what_would_be_refused_stands_beside_how_it_ended() {
        let text = compared(Ink::Plain, &comparison_of(10));
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let lines: Vec<_> = text.lines().map(words).collect();
        assert!(lines.contains(&words("openings 0 1")), "{text}");
        assert!(lines.contains(&words("first attempts 100 90")), "{text}");
        let reason = holdoff_client::proto::DenialReason::try_from(11).unwrap();
        let reason = reason.as_str_name().trim_start_matches("DENIAL_REASON_");
        assert!(
            lines.contains(&words(&format!("{reason} 10 0 3 7"))),
            "{text}"
        );
    }

    #[test]
    fn a_candidate_that_saw_nothing_says_so() {
        let text = compared(Ink::Plain, &Comparison::default());
        assert_eq!(text, "  nothing has happened yet\n");
        assert_eq!(candidates(Ink::Plain, &[]), "No candidates.\n");
    }
}
