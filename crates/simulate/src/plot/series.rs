//! What is drawn in a chart: lines through points, and named stretches of its x axis.

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Plain,
    /// The one to look at: thicker.
    Emphasised,
    /// A bound or a setting, not a measurement.
    Dashed,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub style: Style,
}

impl Series {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    pub fn of(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            points: points.into_iter().collect(),
            ..Self::new(name)
        }
    }

    pub fn dashed(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            style: Style::Dashed,
            ..Self::of(name, points)
        }
    }

    #[must_use]
    pub fn emphasised(mut self) -> Self {
        self.style = Style::Emphasised;
        self
    }

    pub fn push(&mut self, x: f64, y: f64) {
        self.points.push((x, y));
    }
}

/// A stretch of the x axis. Bands of one name have one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    pub name: String,
    pub from: f64,
    pub to: f64,
}

impl Band {
    pub fn new(name: impl Into<String>, from: f64, to: f64) -> Self {
        Self {
            name: name.into(),
            from,
            to,
        }
    }
}
