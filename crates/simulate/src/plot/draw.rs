//! A chart as SVG text, by `plotters`.
//!
//! Legends stand in a column of their own to the right, since one inside of the axes always
//! lies over some line. Colours are those of Okabe and Ito, which those who see few colours
//! tell apart; grid and axes are half grey, which both schemes show.

use std::ops::Range;

use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    prelude::*,
};

use super::{Axis, Chart, Scale, Series, Style, escaped, printable};

/// The first is kept for what is emphasised.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x1f, 0x83, 0xc4),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe0, 0x9a, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x9a, 0x6f, 0xd0),
    RGBColor(0x8a, 0x8f, 0x1e),
];
/// Of two that are emphasised.
const SECOND: RGBColor = RGBColor(0x8a, 0x5c, 0xf0);
const BANDS: [RGBColor; 4] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xe0, 0x9a, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x9a, 0x6f, 0xd0),
];
const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);
const INK: RGBColor = RGBColor(0x22, 0x22, 0x26);
const MARGIN: u32 = 8;
const LABELS_OF_Y: u32 = 64;
const STYLE: &str = "<style>.plot .ground{fill:#ffffff}.plot text{fill:#222226}\
    @media(prefers-color-scheme:dark){.plot .ground{fill:#1b1b1f}.plot text{fill:#e4e4e8}}</style>";

type Failed<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// As [`axes`] leaves it.
pub(super) fn span_of_x(width: u32, legend: u32) -> (f64, f64) {
    let left = MARGIN + LABELS_OF_Y;
    (
        f64::from(left),
        f64::from(width.saturating_sub(legend + MARGIN)),
    )
}

/// The chart as one SVG element.
pub(super) fn svg(chart: &Chart) -> String {
    let mut drawn = String::new();
    if let Err(error) = onto(&mut drawn, chart) {
        drawn = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\"><text y=\"20\">{}</text></svg>",
            escaped(&format!("this chart could not be drawn: {error}"))
        );
    }
    let label = escaped(&chart.alt);
    let opening = format!(
        "<svg class=\"plot\" role=\"img\" aria-label=\"{label}\" font-family=\"sans-serif\" "
    );
    let named = drawn.replacen("<svg ", &opening, 1);
    let (width, height) = chart.size;
    let ground = format!("<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>");
    match named.find('>') {
        Some(end) => {
            let (head, rest) = named.split_at(end + 1);
            format!("{head}\n{STYLE}\n{ground}{rest}")
        }
        None => named,
    }
}

fn onto(text: &mut String, chart: &Chart) -> Result<(), Failed<'static>> {
    let root = SVGBackend::with_string(text, chart.size).into_drawing_area();
    let title = ("sans-serif", 20).into_font().color(&INK);
    // plotters centres titles; they begin at the left here, where the eye does.
    root.draw(&Text::new(printable(&chart.title), (14, 12), title))
        .map_err(as_static)?;
    let (_, below) = root.split_vertically(38);
    let (left, right) = below.split_horizontally(chart.size.0.saturating_sub(chart.legend));
    let (x, y) = (
        range(&chart.x, chart, |point| point.0),
        range(&chart.y, chart, |point| point.1),
    );
    let drawn = match (chart.x.scale, chart.y.scale) {
        (Scale::Linear, Scale::Linear) => axes(&left, chart, x, y),
        (Scale::Linear, Scale::Log) => axes(&left, chart, x, y.log_scale()),
        (Scale::Log, Scale::Linear) => axes(&left, chart, x.log_scale(), y),
        (Scale::Log, Scale::Log) => axes(&left, chart, x.log_scale(), y.log_scale()),
    };
    drawn.map_err(as_static)?;
    legend(&right, chart).map_err(as_static)?;
    root.present().map_err(as_static)
}

fn as_static(error: Failed<'_>) -> Failed<'static> {
    match error {
        DrawingAreaErrorKind::BackendError(error) => DrawingAreaErrorKind::BackendError(error),
        DrawingAreaErrorKind::SharingError => DrawingAreaErrorKind::SharingError,
        DrawingAreaErrorKind::LayoutError => DrawingAreaErrorKind::LayoutError,
    }
}

fn axes<'a, X, Y>(area: &Area<'a>, chart: &Chart, x: X, y: Y) -> Result<(), Failed<'a>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let font = ("sans-serif", 15).into_font().color(&INK);
    let mut context = ChartBuilder::on(area)
        .margin(MARGIN)
        .x_label_area_size(44)
        .y_label_area_size(LABELS_OF_Y)
        .build_cartesian_2d(x, y)?;
    let (low, high) = range_of_y(chart);
    for (at, band) in chart.bands.iter().enumerate() {
        let tint = band_colour(chart, at).mix(0.16).filled();
        let corners = [(band.from, low), (band.to, high)];
        context.draw_series([Rectangle::new(corners, tint)])?;
    }
    context
        .configure_mesh()
        .x_desc(printable(&chart.x.label))
        .y_desc(printable(&chart.y.label))
        .axis_desc_style(font.clone())
        .label_style(font)
        .axis_style(GREY)
        .bold_line_style(GREY.mix(0.3))
        .light_line_style(GREY.mix(0.0))
        .x_label_formatter(&|value| tick(*value, chart.x.scale))
        .y_label_formatter(&|value| tick(*value, chart.y.scale))
        .draw()?;
    for (at, series) in chart.series.iter().enumerate() {
        let points: Vec<_> = visible(chart, series).collect();
        let stroke = stroke(chart, at, series.style);
        match series.style {
            Style::Dashed => context.draw_series(DashedLineSeries::new(points, 6, 5, stroke))?,
            Style::Plain | Style::Emphasised => {
                // Few points are measurements of their own.
                if points.len() <= 24 {
                    let dots = points
                        .iter()
                        .map(|at| Circle::new(*at, 3, stroke.color.filled()));
                    context.draw_series(dots.collect::<Vec<_>>())?;
                }
                context.draw_series(LineSeries::new(points, stroke))?
            }
        };
    }
    Ok(())
}

fn legend<'a>(area: &Area<'a>, chart: &Chart) -> Result<(), Failed<'a>> {
    let font = || ("sans-serif", 15).into_font().color(&INK);
    let mut y = 16;
    for (at, series) in chart.series.iter().enumerate() {
        let stroke = stroke(chart, at, series.style);
        let pieces: &[(i32, i32)] = match series.style {
            Style::Dashed => &[(4, 10), (15, 21)],
            Style::Plain | Style::Emphasised => &[(4, 21)],
        };
        for (from, to) in pieces {
            area.draw(&PathElement::new(vec![(*from, y), (*to, y)], stroke))?;
        }
        area.draw(&Text::new(printable(&series.name), (28, y - 6), font()))?;
        y += 21;
    }
    let mut shown: Vec<&str> = Vec::new();
    for (at, band) in chart.bands.iter().enumerate() {
        if shown.contains(&band.name.as_str()) {
            continue;
        }
        shown.push(&band.name);
        let tint = band_colour(chart, at).mix(0.35).filled();
        area.draw(&Rectangle::new([(4, y - 7), (21, y + 6)], tint))?;
        area.draw(&Text::new(printable(&band.name), (28, y - 6), font()))?;
        y += 21;
    }
    Ok(())
}

fn stroke(chart: &Chart, at: usize, style: Style) -> ShapeStyle {
    let plain = chart
        .series
        .iter()
        .take(at)
        .filter(|series| series.style == style)
        .count();
    let (colour, width) = match style {
        Style::Plain => (COLOURS[1 + plain % (COLOURS.len() - 1)], 2),
        // The second is told from the first by its colour, not by its width.
        Style::Emphasised => ([COLOURS[0], SECOND][plain % 2], 4),
        Style::Dashed => (GREY, 2),
    };
    ShapeStyle::from(colour).stroke_width(width)
}

/// By the first band of the same name.
fn band_colour(chart: &Chart, at: usize) -> RGBColor {
    let mut names: Vec<&str> = Vec::new();
    for band in chart.bands.iter().take(at + 1) {
        if !names.contains(&band.name.as_str()) {
            names.push(&band.name);
        }
    }
    let name = chart.bands.get(at).map_or("", |band| band.name.as_str());
    let first = names
        .iter()
        .position(|known| *known == name)
        .unwrap_or_default();
    BANDS[first % BANDS.len()]
}

fn visible<'a>(chart: &'a Chart, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
    let shows = |scale, value: f64| value.is_finite() && (scale == Scale::Linear || value > 0.0);
    let points = series.points.iter().copied();
    points.filter(move |(x, y)| shows(chart.x.scale, *x) && shows(chart.y.scale, *y))
}

fn range_of_y(chart: &Chart) -> (f64, f64) {
    let range = range(&chart.y, chart, |point| point.1);
    (range.start, range.end)
}

/// The range given, else that of the data with a little room; never an empty one.
fn range(axis: &Axis, chart: &Chart, pick: fn((f64, f64)) -> f64) -> Range<f64> {
    if let Some((low, high)) = axis.range {
        return low..high;
    }
    let values = chart
        .series
        .iter()
        .flat_map(|series| visible(chart, series))
        .map(pick);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match axis.scale {
        _ if low > high => 1.0..10.0,
        Scale::Log => low / 1.2..high * 1.4,
        Scale::Linear => {
            let bottom = low.min(0.0);
            let room = (high - bottom).max(1e-9) * 0.05;
            bottom..high + room
        }
    }
}

/// At most four digits, then thousands and millions by letter. Where ticks crowd towards the next
/// power of ten only 1, 2 and 5 have their number.
fn tick(value: f64, scale: Scale) -> String {
    let leading = value / 10_f64.powf(value.abs().max(f64::MIN_POSITIVE).log10().floor());
    let numbered = [1.0, 2.0, 5.0, 10.0]
        .iter()
        .any(|it| (leading - it).abs() < 1e-6);
    if scale == Scale::Log && !numbered {
        return String::new();
    }
    let digits = |value: f64| {
        let text = format!("{value:.3}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        text.to_owned()
    };
    match value.abs() {
        size if size >= 1e6 => format!("{}M", digits(value / 1e6)),
        size if size >= 1e4 => format!("{}k", digits(value / 1e3)),
        size if size > 0.0 && size < 1e-3 => format!("{value:.0e}"),
        _ => digits(value),
    }
}
