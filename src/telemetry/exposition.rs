//! Families in the text format of Prometheus (version 0.0.4).
//!
//! Written here and not by opentelemetry-prometheus; docs/adr/0006 says why.

use std::fmt::Write;

use super::{
    Family, Metric, Value,
    family::Labels,
    histogram::{Times, bounds},
};

/// What Prometheus is told that this is.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All families, one after the other. A family without a series is left out.
pub fn exposition(families: &[Family]) -> String {
    let mut text = String::with_capacity(64 * 1024);
    for family in families.iter().filter(|family| !family.series.is_empty()) {
        let Metric {
            name, help, kind, ..
        } = family.metric;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.word());
        for (labels, value) in &family.series {
            line(&mut text, family.metric, labels, value);
        }
    }
    text
}

fn line(text: &mut String, metric: &Metric, labels: &Labels, value: &Value) {
    let name = metric.name;
    let _ = match value {
        Value::Whole(value) => {
            text.push_str(name);
            braces(text, metric, labels, None);
            writeln!(text, " {value}")
        }
        Value::Number(value) => {
            text.push_str(name);
            braces(text, metric, labels, None);
            writeln!(text, " {value}")
        }
        Value::Times(times) => {
            histogram(text, metric, labels, times);
            Ok(())
        }
    };
}

fn histogram(text: &mut String, metric: &Metric, labels: &Labels, times: &Times) {
    let name = metric.name;
    let ends = bounds().map(|end| end.to_string());
    let ends = ends.iter().map(String::as_str).chain(["+Inf"]);
    let mut below = 0_u64;
    for (end, count) in ends.zip(times.counts) {
        below += count;
        let _ = write!(text, "{name}_bucket");
        braces(text, metric, labels, Some(end));
        let _ = writeln!(text, " {below}");
    }
    for (part, value) in [("sum", times.sum_seconds), ("count", below as f64)] {
        let _ = write!(text, "{name}_{part}");
        braces(text, metric, labels, None);
        let _ = writeln!(text, " {value}");
    }
}

fn braces(text: &mut String, metric: &Metric, labels: &Labels, end: Option<&str>) {
    let named = metric.labels.iter().copied().zip(labels.iter());
    let pairs = named.map(|(name, value)| (name, &**value));
    let mut open = '{';
    for (name, value) in pairs.chain(end.map(|end| ("le", end))) {
        text.push(open);
        open = ',';
        let _ = write!(text, "{name}=\"");
        escape(text, value);
        text.push('"');
    }
    if open == ',' {
        text.push('}');
    }
}

fn escape(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            letter => text.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::table, *};

    #[test]
    fn a_label_cannot_end_its_line() {
        let hostile = "a\"} 1\nholdoff_up 1\\";
        let family = Family::of(
            &table::DEPENDENCY_DENIALS,
            [(["default".to_owned(), hostile.to_owned()], 7)],
        );
        let text = exposition(&[family]);
        let line = text.lines().last().unwrap();
        assert_eq!(
            line,
            r#"holdoff_dependency_denials_total{namespace="default",dependency="a\"} 1\nholdoff_up 1\\"} 7"#
        );
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn the_buckets_of_a_histogram_add_up() {
        let mut cells = [0; super::super::histogram::CELLS];
        for nanos in [1, 25_000, 25_001, u64::MAX] {
            cells[super::super::histogram::bucket(nanos)] += 1;
        }
        let times = Times::read(|cell| cells[cell]);
        let text = exposition(&[Family::alone(&table::GRANT_DELAY, Value::Times(times))]);
        for line in [
            "holdoff_grant_delay_seconds_bucket{le=\"0.000025\"} 2",
            "holdoff_grant_delay_seconds_bucket{le=\"0.00005\"} 3",
            "holdoff_grant_delay_seconds_bucket{le=\"60\"} 3",
            "holdoff_grant_delay_seconds_bucket{le=\"+Inf\"} 4",
            "holdoff_grant_delay_seconds_count 4",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
    }
}
