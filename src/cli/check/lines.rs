//! What `holdoff check` prints, one line a finding. Pure.

use std::time::Duration;

use holdoff_client::{Finding, Verdict};
use serde_json::json;

use super::super::{
    escape::{escape, escape_json},
    exec::heard::Heard,
    output::{Ink, Tone},
    span,
};

/// A finding, and when.
pub struct Seen<'a> {
    pub at: jiff::Timestamp,
    pub dependency: &'a str,
    /// With which the command ended last.
    pub code: Option<u8>,
    pub finding: &'a Finding,
}

impl Seen<'_> {
    /// What is no finding about the dependency, for standard error.
    pub fn notice(&self, heard: &Heard) -> Option<String> {
        match self.finding {
            Finding::NotPlanned { why } => {
                Some(format!("going on without a plan: {}", escape(why)))
            }
            Finding::Away { why } => Some(heard.notice(Some(why))),
            _ => None,
        }
    }

    /// `2026-11-30 19:15:43Z  payments  healthy in 12 ms; fleet: healthy`.
    pub fn line(&self, ink: Ink) -> String {
        let at = self.at.strftime("%Y-%m-%d %H:%M:%SZ");
        let (tone, text) = match self.finding {
            Finding::Ran {
                healthy,
                timed_out,
                took,
                is_local,
                fleet,
            } => {
                let took = span::human(*took);
                let text = match (healthy, timed_out, self.code) {
                    (true, _, _) => format!("healthy in {took}"),
                    (false, true, _) => format!("unhealthy: given up after {took}"),
                    (false, false, Some(code)) => format!("unhealthy in {took} (exit {code})"),
                    (false, false, None) => format!("unhealthy in {took}"),
                };
                let own = if *is_local { "; not planned" } else { "" };
                let fleet = fleet.map_or("not told", word);
                let tone = if *healthy { Tone::Good } else { Tone::Bad };
                (tone, format!("{text}; fleet: {fleet}{own}"))
            }
            Finding::Shared {
                verdict,
                age,
                ask_again,
            } => {
                let age = age.map_or_else(String::new, |age| format!(" {} ago", span::human(age)));
                let next = span::human(*ask_again);
                let verdict = word(*verdict);
                let text = format!("left to others; fleet: {verdict}{age}; asking again in {next}");
                (Tone::Quiet, text)
            }
            other => (Tone::Watch, format!("{other:?}")),
        };
        format!(
            "{at}  {}  {}\n",
            escape(self.dependency),
            ink.paint(tone, &text)
        )
    }

    /// The same for programs.
    pub fn json(&self) -> String {
        let common = json!({"time": self.at.to_string(), "dependency": self.dependency});
        let more = match self.finding {
            Finding::Ran {
                healthy,
                timed_out,
                took,
                is_local,
                fleet,
            } => json!({
                "kind": "ran",
                "verdict": if *healthy { "healthy" } else { "unhealthy" },
                "timedOut": timed_out,
                "exitCode": if *timed_out { None } else { self.code },
                "took": seconds(*took),
                "planned": !is_local,
                "fleet": fleet.map(word),
            }),
            Finding::Shared {
                verdict,
                age,
                ask_again,
            } => json!({
                "kind": "shared",
                "fleet": word(*verdict),
                "age": age.map(seconds),
                "askAgain": seconds(*ask_again),
            }),
            _ => json!({}),
        };
        let mut all = common;
        if let (Some(all), serde_json::Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        escape_json(&all.to_string()).into_owned() + "\n"
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unknown => "unknown",
        Verdict::Healthy => "healthy",
        Verdict::Unhealthy => "unhealthy",
    }
}

/// As protobuf's JSON has it.
fn seconds(span: Duration) -> String {
    format!("{:.3}s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(finding: &Finding) -> Seen<'_> {
        Seen {
            at: jiff::Timestamp::new(1_796_066_143, 0).unwrap(),
            dependency: "payments",
            code: Some(7),
            finding,
        }
    }

    fn ran(healthy: bool, timed_out: bool, fleet: Option<Verdict>) -> Finding {
        Finding::Ran {
            healthy,
            timed_out,
            took: Duration::from_millis(12),
            is_local: fleet.is_none(),
            fleet,
        }
    }

    #[test]
    fn a_finding_is_one_line() {
        let line = |finding| seen(&finding).line(Ink::Plain);
        let shared = Finding::Shared {
            verdict: Verdict::Unhealthy,
            age: Some(Duration::from_secs(3)),
            ask_again: Duration::from_secs(27),
        };
        let lines = [
            ran(true, false, Some(Verdict::Healthy)),
            ran(false, false, Some(Verdict::Unknown)),
            ran(false, true, None),
            shared,
        ]
        .map(line)
        .concat();
        assert_eq!(
            lines,
            "\
2026-11-30 19:15:43Z  payments  healthy in 12 ms; fleet: healthy
2026-11-30 19:15:43Z  payments  unhealthy in 12 ms (exit 7); fleet: unknown
2026-11-30 19:15:43Z  payments  unhealthy: given up after 12 ms; fleet: not told; not planned
2026-11-30 19:15:43Z  payments  left to others; fleet: unhealthy 3.0 s ago; asking again in 27 s
"
        );
    }

    #[test]
    fn for_programs_it_is_one_object_a_line() {
        let read = |finding: Finding| -> serde_json::Value {
            let text = seen(&finding).json();
            assert_eq!(text.matches('\n').count(), 1);
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(
            read(ran(false, false, Some(Verdict::Healthy))),
            json!({
                "time": "2026-11-30T19:15:43Z", "dependency": "payments", "kind": "ran",
                "verdict": "unhealthy", "timedOut": false, "exitCode": 7, "took": "0.012s",
                "planned": true, "fleet": "healthy",
            })
        );
        let shared = Finding::Shared {
            verdict: Verdict::Unknown,
            age: None,
            ask_again: Duration::from_secs(30),
        };
        let shared = read(shared);
        assert_eq!(
            (&shared["age"], &shared["askAgain"]),
            (&json!(null), &json!("30.000s"))
        );
    }

    #[test]
    fn what_is_no_finding_about_the_dependency_is_no_line_of_output() {
        let away = Finding::Away {
            why: "not connected\u{1b}[2J".into(),
        };
        let notice = seen(&away).notice(&Heard::default()).unwrap();
        assert!(notice.ends_with("not connected\\u{1b}[2J"), "{notice}");
        let ran = ran(true, false, None);
        assert_eq!(seen(&ran).notice(&Heard::default()), None);
    }
}
