//! A metric with its values, as both ways out take it.

use std::borrow::Cow;

use super::{Metric, histogram::Times};

/// The values of a label in the order of the metric's labels.
pub type Labels = Vec<Cow<'static, str>>;

/// One metric and all its series.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub metric: &'static Metric,
    pub series: Vec<(Labels, Value)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Whole(u64),
    Number(f64),
    Times(Times),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl Family {
    /// The one series of a metric without labels.
    pub fn alone(metric: &'static Metric, value: impl Into<Value>) -> Self {
        Self {
            metric,
            series: vec![(Vec::new(), value.into())],
        }
    }

    pub fn of<Label, const LABELS: usize, V>(
        metric: &'static Metric,
        series: impl IntoIterator<Item = ([Label; LABELS], V)>,
    ) -> Self
    where
        Label: Into<Cow<'static, str>>,
        V: Into<Value>,
    {
        let series = series.into_iter();
        let series = series.map(|(labels, value)| {
            let labels = labels.into_iter().map(Into::into).collect();
            (labels, value.into())
        });
        Self {
            metric,
            series: series.collect(),
        }
    }
}
