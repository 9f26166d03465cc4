//! The last ten minutes of a dependency as SVG, by `plotters`, shown by the page as images: in
//! an image no script runs and no style reaches the page, whatever a text in it says.
//!
//! The page writes title and legend itself, in the words and sizes of its other text. Lines
//! differ by their strokes too, for those who see few colours.

use axum::{
    Extension,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use holdoff_decision::{State as Breaker, Time};
use plotters::{coord::Shift, prelude::*};
use serde::Deserialize;

use super::{
    Dashboard,
    act::Refused,
    asked::{Asked, Asks, bad},
    detail::{PARTS, Rates},
    words,
};
use crate::{
    access::{Principal, Role},
    clock,
    coordinator::{Ahead, Point, Shown},
    store::Store,
};

/// What is shown of the past, in minutes.
const MINUTES: f64 = 10.0;
const HEIGHT: u32 = 170;
const HEIGHT_OF_STATES: u32 = 66;
const WIDTHS: std::ops::RangeInclusive<u32> = 240..=1_600;
/// A word needs so much room in a band.
const LETTER: f64 = 8.0;

/// Which chart, how wide, and on what.
#[derive(Debug, Deserialize)]
pub struct Wanted {
    #[serde(default)]
    namespace: String,
    dependency: String,
    width: u32,
    #[serde(default)]
    theme: Theme,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Theme {
    #[default]
    Light,
    Dark,
}

/// A stretch of one state, in minutes before now.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from: f64,
    to: f64,
    state: Breaker,
}

struct Line {
    points: Vec<(f64, f64)>,
    colour: RGBColor,
    stroke: Stroke,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stroke {
    Plain,
    Dashed,
    Dotted,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// # Errors
/// Bad names, an unknown chart or dependency.
pub async fn chart<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
    Asks(wanted): Asks<Wanted>,
) -> Result<Response, Refused> {
    let asked = Asked {
        namespace: wanted.namespace,
        dependency: wanted.dependency,
    };
    let (asked, theme) = (asked.checked()?, wanted.theme);
    dashboard.authorize(&principal, Role::Viewer, &asked.namespace)?;
    if !WIDTHS.contains(&wanted.width) {
        return Err(bad("width", &wanted.width.to_string(), "240 to 1600"));
    }
    let inner = &dashboard.inner;
    let shown = inner.coordinator.get(asked.key()).await?;
    let points = inner.coordinator.histories().points(asked.key());
    let size = |height| (wanted.width, height);
    let drawn = match name.as_str() {
        "states.svg" => {
            let (past, _) = inner.coordinator.events().listen(|event| {
                event.dependency == asked.dependency && event.namespace == asked.namespace
            });
            let moves = past.iter().filter_map(|event| {
                let (from, to) = event.states?;
                Some((ago(clock::of_wall(event.time), shown.now), from, to))
            });
            let started = ago(inner.coordinator.started(), shown.now);
            let stretches = stretches(&moves.collect::<Vec<_>>(), &shown, started);
            svg(size(HEIGHT_OF_STATES), |area| {
                states(area, &stretches, theme)
            })
        }
        "calendar.svg" => {
            let ahead = inner.coordinator.planned(asked.key(), PARTS).await;
            svg(size(HEIGHT), |area| calendar(area, ahead.as_ref(), theme))
        }
        name => {
            let (lines, unit) = lines(name, &points, shown.now, theme).ok_or_else(|| {
                let problem = "there is no such chart; states, traffic, failing, budget, calendar";
                Refused::new(StatusCode::NOT_FOUND, problem.to_owned())
            })?;
            svg(size(HEIGHT), |area| plot(area, &lines, unit, theme))
        }
    };
    Ok(([(header::CONTENT_TYPE, "image/svg+xml")], drawn).into_response())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Number,
    Share,
}

fn lines(name: &str, points: &[Point], now: Time, theme: Theme) -> Option<(Vec<Line>, Unit)> {
    let rates = |of: fn(&Rates) -> f64| -> Vec<(f64, f64)> {
        let pairs = points.windows(2);
        pairs
            .map(|pair| {
                (
                    ago(pair[1].at, now),
                    of(&Rates::between(&pair[0], &pair[1])),
                )
            })
            .collect()
    };
    let values = |of: fn(&Point) -> f64| -> Vec<(f64, f64)> {
        points
            .iter()
            .map(|point| (ago(point.at, now), of(point)))
            .collect()
    };
    let [blue, orange, red] = palette(theme);
    let line = |points, colour, stroke| Line {
        points,
        colour,
        stroke,
    };
    match name {
        "traffic.svg" => Some((
            vec![
                line(rates(|it| it.first_attempts), blue, Stroke::Plain),
                line(rates(|it| it.retries), orange, Stroke::Dashed),
                line(rates(|it| it.refused), red, Stroke::Dotted),
            ],
            Unit::Number,
        )),
        "failing.svg" => Some((
            vec![
                line(values(|it| f64::from(it.failing)), red, Stroke::Plain),
                line(values(|it| f64::from(it.slow)), orange, Stroke::Dashed),
            ],
            Unit::Share,
        )),
        "budget.svg" => Some((
            vec![
                line(values(|it| f64::from(it.allowed)), blue, Stroke::Dashed),
                line(values(|it| f64::from(it.left)), blue, Stroke::Plain),
            ],
            Unit::Number,
        )),
        _ => None,
    }
}

/// The states of the last ten minutes, oldest first, from the moves between them.
fn stretches(moves: &[(f64, Breaker, Breaker)], shown: &Shown, started: f64) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let since = -shown.view.in_state_for.as_secs_f64() / 60.0;
    // Before the first move nothing is known but what it moved from.
    let mut at = match moves.first() {
        Some(_) => started.max(-MINUTES),
        None => since.max(-MINUTES),
    };
    let mut state = moves.first().map_or(shown.view.state, |(_, from, _)| *from);
    for (when, _, to) in moves {
        let when = when.clamp(-MINUTES, 0.0);
        if when > at {
            stretches.push(Stretch {
                from: at,
                to: when,
                state,
            });
        }
        (at, state) = (at.max(when), *to);
    }
    // What time alone has brought about since is no move.
    if state != shown.view.state && since > at {
        stretches.push(Stretch {
            from: at,
            to: since,
            state,
        });
        at = since;
    }
    stretches.push(Stretch {
        from: at,
        to: 0.0,
        state: shown.view.state,
    });
    stretches
}

fn svg(size: (u32, u32), draw: impl Fn(&Area<'_>) -> Drawn<'static>) -> String {
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)
    };
    match drawn {
        Ok(()) => text,
        Err(error) => {
            tracing::warn!("a chart could not be drawn: {error}");
            "<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_owned()
        }
    }
}

fn plot(area: &Area<'_>, lines: &[Line], unit: Unit, theme: Theme) -> Drawn<'static> {
    let highest = lines.iter().flat_map(|line| &line.points);
    let highest = highest.map(|point| point.1).fold(0.0, f64::max);
    let top = match unit {
        Unit::Share => 1.0,
        Unit::Number => (highest * 1.15).max(1.0),
    };
    let label = |value: &f64| match unit {
        Unit::Share => format!("{:.0} %", value * 100.0),
        Unit::Number => short(*value),
    };
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .margin_right(14)
        .x_label_area_size(24)
        .y_label_area_size(48)
        .build_cartesian_2d(-MINUTES..0.0, 0.0..top)
        .map_err(owned)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(6)
        .y_labels(4)
        .label_style(("sans-serif", 15).into_font().color(&ink(theme)))
        .axis_style(GREY.mix(0.5))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(GREY.mix(0.0))
        .x_label_formatter(&minutes)
        .y_label_formatter(&label)
        .draw()
        .map_err(owned)?;
    for line in lines {
        let points = line.points.iter().copied();
        let points = points.filter(|(x, _)| (-MINUTES..=0.0).contains(x));
        let stroke = line.colour.stroke_width(2);
        match line.stroke {
            Stroke::Plain => chart
                .draw_series(LineSeries::new(points, stroke))
                .map(|_| ()),
            Stroke::Dashed => {
                let dashes = DashedLineSeries::new(points, 7, 4, stroke);
                chart.draw_series(dashes).map(|_| ())
            }
            Stroke::Dotted => {
                let dashes = DashedLineSeries::new(points, 2, 4, stroke);
                chart.draw_series(dashes).map(|_| ())
            }
        }
        .map_err(owned)?;
    }
    area.present().map_err(owned)
}

fn states(area: &Area<'_>, stretches: &[Stretch], theme: Theme) -> Drawn<'static> {
    let (width, _) = area.dim_in_pixel();
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .margin_left(54)
        .margin_right(14)
        .x_label_area_size(24)
        .build_cartesian_2d(-MINUTES..0.0, 0.0..1.0)
        .map_err(owned)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_y_axis()
        .x_labels(6)
        .label_style(("sans-serif", 15).into_font().color(&ink(theme)))
        .axis_style(GREY.mix(0.5))
        .x_label_formatter(&minutes)
        .draw()
        .map_err(owned)?;
    let bands = stretches.iter().map(|stretch| {
        let corners = [(stretch.from, 0.0), (stretch.to, 1.0)];
        Rectangle::new(corners, colour(stretch.state, theme).filled())
    });
    chart.draw_series(bands).map_err(owned)?;
    let per_minute = f64::from(width.saturating_sub(74)) / MINUTES;
    let wide = stretches.iter().filter(|stretch| {
        let word = words::state(stretch.state).len() as f64 * LETTER + 12.0;
        (stretch.to - stretch.from) * per_minute > word
    });
    let on_band = match theme {
        Theme::Light => RGBColor(0xff, 0xff, 0xff),
        Theme::Dark => RGBColor(0x10, 0x12, 0x16),
    };
    let font = ("sans-serif", 15).into_font().color(&on_band);
    let names = wide.map(|stretch| {
        let at = (stretch.from + 6.0 / per_minute, 0.72);
        Text::new(words::state(stretch.state), at, font.clone())
    });
    chart.draw_series(names).map_err(owned)?;
    area.present().map_err(owned)
}

fn calendar(area: &Area<'_>, ahead: Option<&Ahead>, theme: Theme) -> Drawn<'static> {
    let nothing = vec![0; PARTS];
    let planned = ahead.map_or(&nothing, |ahead| &ahead.planned);
    let step = ahead.map_or(1.0, |ahead| ahead.step.as_secs_f64());
    let most = planned.iter().copied().max().unwrap_or(0).max(1) as f64;
    let end = step * planned.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        // Half of the last label stands beyond the end.
        .margin_right(32)
        .x_label_area_size(24)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..end, 0.0..most * 1.15)
        .map_err(owned)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(6)
        .y_labels(4)
        .label_style(("sans-serif", 15).into_font().color(&ink(theme)))
        .axis_style(GREY.mix(0.5))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(GREY.mix(0.0))
        .x_label_formatter(&|value| match *value {
            0.0 => "now".to_owned(),
            value => format!("in {} s", short(value)),
        })
        .y_label_formatter(&|value| short(*value))
        .draw()
        .map_err(owned)?;
    let [blue, ..] = palette(theme);
    let bars = planned.iter().enumerate().map(|(part, places)| {
        let from = part as f64 * step;
        let corners = [
            (from + step * 0.1, 0.0),
            (from + step * 0.9, *places as f64),
        ];
        Rectangle::new(corners, blue.filled())
    });
    chart.draw_series(bars).map_err(owned)?;
    area.present().map_err(owned)
}

const GREY: RGBColor = RGBColor(0x80, 0x80, 0x88);

fn ink(theme: Theme) -> RGBColor {
    match theme {
        Theme::Light => RGBColor(0x4a, 0x50, 0x5c),
        Theme::Dark => RGBColor(0xb3, 0xba, 0xc6),
    }
}

/// As `style.css` has them for legends.
fn palette(theme: Theme) -> [RGBColor; 3] {
    match theme {
        Theme::Light => [
            RGBColor(0x1d, 0x5f, 0xd1),
            RGBColor(0xb4, 0x5f, 0x06),
            RGBColor(0xc4, 0x26, 0x2e),
        ],
        Theme::Dark => [
            RGBColor(0x6e, 0xa8, 0xff),
            RGBColor(0xf0, 0xa0, 0x4b),
            RGBColor(0xff, 0x7b, 0x80),
        ],
    }
}

/// As `style.css` has them for states.
fn colour(state: Breaker, theme: Theme) -> RGBColor {
    match (state, theme) {
        (Breaker::Closed, Theme::Light) => RGBColor(0x14, 0x6c, 0x3f),
        (Breaker::Closed, Theme::Dark) => RGBColor(0x4c, 0xc3, 0x8a),
        (Breaker::Open, Theme::Light) => RGBColor(0xc4, 0x26, 0x2e),
        (Breaker::Open, Theme::Dark) => RGBColor(0xff, 0x7b, 0x80),
        (Breaker::HalfOpen, Theme::Light) => RGBColor(0x7d, 0x52, 0x00),
        (Breaker::HalfOpen, Theme::Dark) => RGBColor(0xe3, 0xb3, 0x41),
        (Breaker::Recovering, Theme::Light) => RGBColor(0x1d, 0x5f, 0xd1),
        (Breaker::Recovering, Theme::Dark) => RGBColor(0x6e, 0xa8, 0xff),
        (Breaker::ForcedOpen, Theme::Light) => RGBColor(0x8a, 0x2a, 0x83),
        (Breaker::ForcedOpen, Theme::Dark) => RGBColor(0xe0, 0x8c, 0xda),
        (Breaker::ForcedClosed, Theme::Light) => RGBColor(0x5b, 0x46, 0xc4),
        (Breaker::ForcedClosed, Theme::Dark) => RGBColor(0xa8, 0x9b, 0xff),
    }
}

/// Minutes before now; below zero.
fn ago(at: Time, now: Time) -> f64 {
    -now.since(at).as_secs_f64() / 60.0
}

fn minutes(past: &f64) -> String {
    match (-past).round() {
        0.0 => "now".to_owned(),
        minutes => format!("\u{2212}{minutes} min"),
    }
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", value / 1e6),
        value if value >= 1e4 => format!("{} k", value / 1e3),
        value => format!("{}", (value * 100.0).round() / 100.0),
    }
}

type Failed<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn owned(error: Failed<'_>) -> Failed<'static> {
    match error {
        DrawingAreaErrorKind::BackendError(error) => DrawingAreaErrorKind::BackendError(error),
        DrawingAreaErrorKind::SharingError => DrawingAreaErrorKind::SharingError,
        DrawingAreaErrorKind::LayoutError => DrawingAreaErrorKind::LayoutError,
    }
}
