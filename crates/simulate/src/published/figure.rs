//! One measured figure, what it is compared with, and how far apart the two may lie.
//!
//! A figure that reproduces a published one may differ from it by four standard errors of the
//! difference and half of the last published digit:
//!
//! ```text
//! |ours - published| <= 4 sd sqrt(1/our runs + 1/their runs) + half a step
//! ```
//!
//! `sd` is the deviation of our own runs, since what is reproduced is the same experiment. Four
//! of them: of some two hundred figures in all, none is to fail by chance alone (one in 16,000
//! each). Where a source does not say how many runs it took, it is given one.

use std::fmt;

use crate::plot::Plot;

/// How much is run: little for tests, all of it for the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    Quick,
    Full,
}

impl Effort {
    pub fn of<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// The mean over independent runs, and their deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    pub mean: f64,
    squares: f64,
    pub runs: u32,
}

impl Measured {
    /// A figure that no draw decides.
    pub fn exactly(value: f64) -> Self {
        Self {
            mean: value,
            squares: 0.0,
            runs: 1,
        }
    }

    /// A count of rare events in one run: its deviation is its root.
    pub fn count(events: f64) -> Self {
        Self {
            squares: events.max(1.0),
            ..Self::exactly(events)
        }
    }

    /// The median, of an even number the lower middle one; infinite where most are. Its deviation
    /// is that of a mean times 1.25, over those that are finite.
    pub fn median(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let middle = values.len().saturating_sub(1) / 2;
        let spread: Self = values
            .iter()
            .copied()
            .filter(|value| value.is_finite())
            .collect();
        Self {
            mean: values.get(middle).copied().unwrap_or(f64::INFINITY),
            squares: spread.squares * 1.25 * 1.25,
            runs: spread.runs,
        }
    }

    pub fn add(&mut self, value: f64) {
        self.runs += 1;
        let off = value - self.mean;
        self.mean += off / f64::from(self.runs);
        self.squares += off * (value - self.mean);
    }

    /// The deviation of one run; 0 where there was but one, unless it is a count.
    pub fn deviation(&self) -> f64 {
        match self.runs {
            0 | 1 => self.squares.sqrt(),
            runs => (self.squares / f64::from(runs - 1)).sqrt(),
        }
    }
}

impl FromIterator<f64> for Measured {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut measured = Self::default();
        values.into_iter().for_each(|value| measured.add(value));
        measured
    }
}

/// A figure of somebody else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    pub value: f64,
    /// The step of its last digit.
    pub step: f64,
    /// The runs that it is the mean of.
    pub runs: u32,
}

impl Published {
    pub const fn new(value: f64, step: f64, runs: u32) -> Self {
        Self { value, step, runs }
    }
}

/// What a figure stands beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compared {
    Nothing,
    /// Another strategy, or another setting: shown, and no more.
    Beside(Published),
    /// The same experiment: it has to come out the same.
    Reproduces(Published),
    /// What holdoff must reach.
    AtMost(f64),
    AtLeast(f64),
}

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub ours: Measured,
    pub compared: Compared,
    /// Digits after the point.
    pub digits: usize,
}

impl Figure {
    pub fn new(ours: Measured, compared: Compared, digits: usize) -> Self {
        Self {
            ours,
            compared,
            digits,
        }
    }

    /// The relative difference to the published figure, where there is one.
    pub fn difference(&self) -> Option<f64> {
        match self.compared {
            Compared::Beside(published) | Compared::Reproduces(published) => {
                Some(self.ours.mean / published.value - 1.0).filter(|part| part.is_finite())
            }
            Compared::Nothing | Compared::AtMost(_) | Compared::AtLeast(_) => None,
        }
    }

    /// How far from the published figure this may lie.
    pub fn tolerance(&self, published: &Published) -> f64 {
        let runs = 1.0 / f64::from(self.ours.runs.max(1)) + 1.0 / f64::from(published.runs.max(1));
        4.0 * self.ours.deviation() * runs.sqrt() + published.step / 2.0
    }

    /// Whether it is what it has to be. A figure that is only shown always is.
    pub fn holds(&self) -> bool {
        match self.compared {
            Compared::Nothing | Compared::Beside(_) => true,
            Compared::Reproduces(published) if published.value.is_finite() => {
                (self.ours.mean - published.value).abs() <= self.tolerance(&published)
            }
            // What never happened there must not happen here.
            Compared::Reproduces(_) => !self.ours.mean.is_finite(),
            Compared::AtMost(bound) => self.ours.mean <= bound,
            Compared::AtLeast(bound) => self.ours.mean >= bound,
        }
    }
}

/// `797 (798)`: ours, and what it is compared with. One that does not hold is marked.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: f64| number(value, self.digits);
        write!(f, "{}", shown(self.ours.mean))?;
        match self.compared {
            Compared::Nothing => {}
            Compared::Beside(other) | Compared::Reproduces(other) => {
                write!(f, " ({})", shown(other.value))?;
            }
            Compared::AtMost(bound) => write!(f, " (≤ {})", shown(bound))?,
            Compared::AtLeast(bound) => write!(f, " (≥ {})", shown(bound))?,
        }
        match self.holds() {
            true => Ok(()),
            false => write!(f, " **missed**"),
        }
    }
}

/// Digits in groups of three; an infinite one is `never`.
pub fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "never".into();
    }
    let plain = format!("{value:.digits$}");
    let (sign, plain) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", plain.as_str()),
    };
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

/// Figures in rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub title: String,
    /// What the rows are.
    pub corner: &'static str,
    pub columns: Vec<String>,
    pub rows: Vec<(String, Vec<Option<Figure>>)>,
}

impl Table {
    pub fn new(title: impl Into<String>, corner: &'static str) -> Self {
        Self {
            title: title.into(),
            corner,
            ..Self::default()
        }
    }

    #[must_use]
    pub fn columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    pub fn row(&mut self, label: impl Into<String>, figures: Vec<Option<Figure>>) {
        self.rows.push((label.into(), figures));
    }

    /// Every figure with its row and column.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &str, &Figure)> {
        self.rows.iter().flat_map(|(row, figures)| {
            let columns = self.columns.iter();
            let cells = columns.zip(figures);
            cells.filter_map(|(column, cell)| Some((row.as_str(), column.as_str(), cell.as_ref()?)))
        })
    }

    /// The figures that are not what they have to be, in words.
    pub fn missed(&self) -> Vec<String> {
        let missed = self.figures().filter(|(_, _, figure)| !figure.holds());
        let title = &self.title;
        missed
            .map(|(row, column, figure)| format!("{title}: {row}, {column}: {figure}"))
            .collect()
    }

    pub fn markdown(&self) -> String {
        let mut text = format!("| {} |", self.corner);
        self.columns
            .iter()
            .for_each(|column| text += &format!(" {column} |"));
        text += "\n|---|";
        self.columns.iter().for_each(|_| text += "--:|");
        for (label, figures) in &self.rows {
            text += &format!("\n| {label} |");
            for figure in figures {
                let shown = figure.map_or_else(|| "–".into(), |figure| figure.to_string());
                text += &format!(" {shown} |");
            }
        }
        text + "\n"
    }

    /// How near the reproduced figures came, in a sentence; `None`: there are none.
    pub fn agreement(&self) -> Option<String> {
        let reproduced = self
            .figures()
            .filter(|(_, _, figure)| matches!(figure.compared, Compared::Reproduces(_)));
        let reproduced: Vec<_> = reproduced.collect();
        let largest = reproduced
            .iter()
            .filter_map(|(row, column, figure)| Some((row, column, figure.difference()?)))
            .max_by(|one, other| one.2.abs().total_cmp(&other.2.abs()))?;
        let within = reproduced
            .iter()
            .filter(|(_, _, figure)| figure.holds())
            .count();
        Some(format!(
            "{within} of {} published figures reproduced within sampling error; largest difference {:+.1} % ({}, {}).",
            reproduced.len(),
            largest.2 * 100.0,
            largest.0,
            largest.1
        ))
    }
}

/// One experiment: its tables, its plots and what they say.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The marker under which its tables stand in the documentation.
    pub name: &'static str,
    pub title: &'static str,
    pub tables: Vec<Table>,
    pub plots: Vec<Plot>,
    /// Sentences that figures decide, so that none outlives them.
    pub readings: Vec<String>,
}

impl Section {
    pub fn missed(&self) -> Vec<String> {
        self.tables.iter().flat_map(Table::missed).collect()
    }

    /// Its tables and readings, without its title.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            text += &format!("**{}**\n\n{}\n", table.title, table.markdown());
            if let Some(agreement) = table.agreement() {
                text += &format!("{agreement}\n\n");
            }
        }
        for reading in &self.readings {
            text += &format!("- {reading}\n");
        }
        if !self.readings.is_empty() {
            text.push('\n');
        }
        for plot in &self.plots {
            text += &format!("![{}](plots/{}.svg)\n\n", plot.alt, plot.name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_and_its_deviation_are_those_of_the_runs() {
        let measured: Measured = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
            .into_iter()
            .collect();
        assert_eq!(measured.mean, 5.0);
        assert!((measured.deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_figure_holds_up_to_four_standard_errors_and_half_a_digit() {
        let ours: Measured = (0..100)
            .map(|run| if run % 2 == 0 { 9.0 } else { 11.0 })
            .collect();
        let error = 4.0 * ours.deviation() * (0.02_f64).sqrt() + 0.05;
        for (value, holds) in [(10.0 + error - 1e-9, true), (10.0 + error + 1e-9, false)] {
            let published = Compared::Reproduces(Published::new(value, 0.1, 100));
            assert_eq!(Figure::new(ours, published, 1).holds(), holds, "{value}");
        }
    }

    #[test]
    fn a_missed_figure_is_marked_and_named() {
        let mut table = Table::new("calls", "policy").columns(["N = 1"]);
        let missed = Figure::new(Measured::exactly(3.0), Compared::AtMost(2.0), 1);
        table.row("full", vec![Some(missed)]);
        assert_eq!(
            table.missed(),
            ["calls: full, N = 1: 3.0 (≤ 2.0) **missed**"]
        );
        assert!(table.markdown().contains("**missed**"));
    }

    #[test]
    fn what_never_happens_is_reproduced_by_what_never_happens() {
        let never = Compared::Reproduces(Published::new(f64::INFINITY, 0.1, 20));
        let ours = Measured::median(vec![3.0, f64::INFINITY, f64::INFINITY]);
        assert!(Figure::new(ours, never, 1).holds());
        assert!(!Figure::new(Measured::exactly(3.0), never, 1).holds());
        assert_eq!(Measured::median(vec![9.0, 1.0, 4.0, 2.0]).mean, 2.0);
    }

    #[test]
    fn digits_are_grouped() {
        let shown = [1_234_567.0, 999.0, -1_000.26, f64::INFINITY].map(|n| number(n, 1));
        assert_eq!(shown, ["1,234,567.0", "999.0", "-1,000.3", "never"]);
    }
}
