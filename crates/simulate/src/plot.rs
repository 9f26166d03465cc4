//! Line charts as SVG: the same text for the same data, no script, no font file, no link.
//!
//! The axes, ticks and lines are those of `plotters`. Beside it stands what a document needs:
//! a name for readers that do not see it, and colours that follow the reader's light or dark
//! scheme. A chart brings its own ground with it, so it is readable on any page.

mod draw;
mod series;

pub use series::{Band, Series, Style};

/// A chart that has been drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Of its file, without an ending.
    pub name: &'static str,
    /// What it shows, for those who do not see it.
    pub alt: String,
    pub svg: String,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    #[default]
    Linear,
    /// By powers of ten; what is not above zero is not drawn.
    Log,
}

/// One axis. Its range is that of the data where none is given.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// With its unit.
    pub label: String,
    pub scale: Scale,
    pub range: Option<(f64, f64)>,
}

impl Axis {
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            ..Self::default()
        }
    }

    pub fn log(label: impl Into<String>) -> Self {
        Self {
            scale: Scale::Log,
            ..Self::linear(label)
        }
    }

    #[must_use]
    pub fn within(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }
}

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    pub name: &'static str,
    /// What is to be seen in it, not what it is of.
    pub title: String,
    pub alt: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Stretches of the x axis.
    pub bands: Vec<Band>,
    /// Pixels.
    pub size: (u32, u32),
    /// Of them, for the names beside it.
    pub legend: u32,
}

impl Default for Chart {
    fn default() -> Self {
        Self {
            name: "plot",
            title: String::new(),
            alt: String::new(),
            x: Axis::default(),
            y: Axis::default(),
            series: Vec::new(),
            bands: Vec::new(),
            size: (820, 420),
            legend: 210,
        }
    }
}

impl Chart {
    pub fn draw(&self) -> Plot {
        Plot {
            name: self.name,
            alt: self.alt.clone(),
            svg: draw::svg(self),
        }
    }
}

/// From where to where the x axis reaches in a drawing of this width and with such a legend, so
/// that others can stand below it.
pub fn span_of_x(width: u32, legend: u32) -> (f64, f64) {
    draw::span_of_x(width, legend)
}

/// Text that stands for itself in HTML and SVG, also within quotes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c => safe.push(c),
        }
    }
    safe
}

/// Without what no XML may hold, whatever its escape.
fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "<script>alert('t')</script>".into(),
            alt: "a \"quoted\" & <b>".into(),
            x: Axis::linear("x </text> s"),
            y: Axis::log("calls"),
            series: vec![
                Series::of(
                    "<img onerror=x>",
                    [(0.0, 1.0), (1.0, 100.0), (2.0, f64::INFINITY)],
                ),
                Series::dashed("zero is not on a log axis", [(0.0, 0.0), (2.0, 10.0)]),
            ],
            bands: vec![Band::new("open & shut", 0.5, 1.5)],
            ..Chart::default()
        }
    }

    #[test]
    fn the_same_data_give_the_same_text() {
        assert_eq!(chart().draw(), chart().draw());
    }

    #[test]
    fn text_in_a_chart_stands_for_itself() {
        let svg = chart().draw().svg;
        for raw in ["<script", "<img", "</text> s", "<b>", "\"quoted\""] {
            assert!(!svg.contains(raw), "{raw} in {svg}");
        }
        assert!(
            svg.contains("aria-label=\"a &quot;quoted&quot; &amp; &lt;b&gt;\""),
            "{svg}"
        );
    }

    #[test]
    fn a_chart_without_data_is_still_one() {
        let svg = Chart::default().draw().svg;
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{svg}"
        );
        let one = Chart {
            series: vec![Series::of("one point", [(3.0, 3.0)])],
            ..Chart::default()
        };
        assert!(one.draw().svg.contains("one point"));
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let svg = chart().draw().svg;
        let without_namespace = svg.replace("http://www.w3.org/2000/svg", "");
        for link in ["http", "href", "url(", "@import", "<script"] {
            assert!(!without_namespace.contains(link), "{link}");
        }
    }
}
