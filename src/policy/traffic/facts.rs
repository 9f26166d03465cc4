//! The facts of one dependency: one table with names, ranges and meanings, which the flags,
//! the file, the wire and the documentation all read.

use holdoff_decision::{Nanos, Share};

use super::super::tree::Tree;
use super::super::value::{self, Form, Value};

/// What is known of the calls to a dependency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub calls_per_second: Option<f64>,
    pub clients: Option<u32>,
    pub capacity: Option<f64>,
    pub deadline: Option<Nanos>,
    pub attempt_time: Option<Nanos>,
    pub attempt_timeout: Option<Nanos>,
    pub recovery_goal: Option<Nanos>,
    pub failure_ratio: Option<Share>,
    pub checkers: Option<u32>,
    pub layers: Option<u32>,
}

/// One fact.
pub struct Fact {
    pub name: &'static str,
    pub form: Form,
    pub meaning: &'static str,
    set: fn(&mut Facts, Value),
    get: fn(&Facts) -> Option<Value>,
}

const DAY: Nanos = Nanos::from_secs(86_400);
const MS: Nanos = Nanos::from_millis(1);

macro_rules! fact {
    ($name:ident, $form:expr, $value:pat => $as:expr, $to:expr, $meaning:literal) => {
        Fact {
            name: stringify!($name),
            form: $form,
            meaning: $meaning,
            set: |facts, value| {
                if let $value = value {
                    facts.$name = $as;
                }
            },
            get: |facts| facts.$name.map($to),
        }
    };
}

/// All facts, in the order of the documentation.
pub static FACTS: &[Fact] = &[
    fact!(calls_per_second, Form::Number(1e-6, 1e9), Value::Number(n) => Some(n), Value::Number,
        "First attempts a second, of all callers together."),
    fact!(clients, Form::Count(1, 100_000_000), Value::Count(n) => Some(n), Value::Count,
        "Caller instances."),
    fact!(capacity, Form::Number(0.001, 1e9), Value::Number(n) => Some(n), Value::Number,
        "Calls a second that the dependency can serve."),
    fact!(deadline, Form::Span(MS, DAY), Value::Span(n) => Some(n), Value::Span,
        "How long a caller waits for a call with all of its attempts."),
    fact!(attempt_time, Form::Span(Nanos::ZERO, DAY), Value::Span(n) => Some(n), Value::Span,
        "How long an attempt usually takes."),
    fact!(attempt_timeout, Form::Span(MS, DAY), Value::Span(n) => Some(n), Value::Span,
        "How long an attempt may take before the caller gives it up."),
    fact!(recovery_goal, Form::Span(MS, DAY), Value::Span(n) => Some(n), Value::Span,
        "How soon all calls must pass again once the dependency works again."),
    fact!(failure_ratio, Form::Share(1, 1_000_000), Value::Number(n) => Share::from_ratio(n),
        |share| Value::Number(share.as_ratio()),
        "The share of attempts that fail in the outage that must be noticed; 1 where it is not given."),
    fact!(checkers, Form::Count(1, 1_000_000), Value::Count(n) => Some(n), Value::Count,
        "Instances that run health checks."),
    fact!(layers, Form::Count(1, 10), Value::Count(n) => Some(n), Value::Count,
        "Services in a row that retry, this one included."),
];

impl Facts {
    /// These facts, and where they say nothing those below.
    pub fn over(&self, below: &Self) -> Self {
        let mut all = below.clone();
        for fact in FACTS {
            if let Some(value) = (fact.get)(self) {
                (fact.set)(&mut all, value);
            }
        }
        all
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// States a fact as it is written: `20`, `1.5`, `200ms`.
    ///
    /// # Errors
    /// The value and what is allowed.
    pub fn give(&mut self, name: &str, text: &str) -> Result<(), String> {
        let tree = match text.trim().parse::<f64>() {
            Ok(number) => Tree::Number(number),
            Err(_) => Tree::Text(text.trim().to_owned()),
        };
        self.take(name, &tree)
    }

    pub(super) fn take(&mut self, name: &str, tree: &Tree) -> Result<(), String> {
        let Some(fact) = FACTS.iter().find(|fact| fact.name == name) else {
            let known: Vec<&str> = FACTS.iter().map(|fact| fact.name).collect();
            return Err(format!("unknown field; known here: {}", known.join(", ")));
        };
        match value::read(&[fact.form], tree) {
            Some(value) => {
                (fact.set)(self, value);
                Ok(())
            }
            None => Err(format!(
                "{} is not allowed; {}",
                tree.shown(),
                value::allowed(&[fact.form])
            )),
        }
    }

    /// Each fact that is known, as it is written.
    pub fn written(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        FACTS
            .iter()
            .filter_map(|fact| Some((fact.name, (fact.get)(self)?.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_is_read_in_its_range_and_written_back() {
        let mut facts = Facts::default();
        for (name, text) in [
            ("calls_per_second", "0.5"),
            ("clients", "20"),
            ("capacity", "100"),
            ("deadline", "2s"),
            ("attempt_time", "50ms"),
            ("attempt_timeout", "1s"),
            ("recovery_goal", "1m"),
            ("failure_ratio", "0.25"),
            ("checkers", "3"),
            ("layers", "2"),
        ] {
            facts.give(name, text).unwrap();
            assert!(
                facts.written().any(|row| row == (name, text.to_owned())),
                "{name}"
            );
        }
        assert_eq!(facts.written().count(), FACTS.len());
        assert_eq!(Facts::default().over(&facts), facts);
        assert_eq!(facts.over(&Facts::default()), facts);
    }

    #[test]
    fn what_is_out_of_range_names_the_value_and_the_range() {
        let mut facts = Facts::default();
        let mut refusal = |name, text| facts.give(name, text).unwrap_err();
        assert_eq!(refusal("clients", "0"), "0 is not allowed; 1 to 100000000");
        assert_eq!(
            refusal("failure_ratio", "1.5"),
            "1.5 is not allowed; 0.000001 to 1"
        );
        assert_eq!(
            refusal("deadline", "2"),
            "2 is not allowed; a duration from 1ms to 24h, such as 150ms, 2s or 1m30s"
        );
        assert!(
            refusal("calls_per_second", "NaN").ends_with("is not allowed; 0.000001 to 1000000000")
        );
        assert!(refusal("callers", "1").starts_with("unknown field; known here: calls_per_second"));
        assert!(facts.is_empty());
    }
}
