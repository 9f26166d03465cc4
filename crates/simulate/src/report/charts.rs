//! The charts of a report: the load of all strategies in one, then each with its goodput, its
//! wasted calls and, below on the same axis, its breaker.

use crate::{
    plot::{Axis, Band, Chart, Plot, Series, escaped, span_of_x},
    published::figure::number,
    results::{BreakerState, Results, StrategyResult},
};

/// Points of a line; more is not seen in the width there is.
const POINTS_MAX: usize = 500;
const WIDTH: u32 = 900;
/// The longest label of a strategy fits.
const LEGEND: u32 = 290;

/// The load of every strategy, on a logarithmic axis since they differ by thousands.
pub fn overview(results: &Results) -> String {
    let lines = results.strategies.iter().map(|result| {
        let series = &result.series;
        let line = Series::of(
            &result.label,
            fullest(&series.calls_per_second, series.bucket_s),
        );
        match result.strategy {
            crate::Strategy::Holdoff => line.emphasised(),
            _ => line,
        }
    });
    let mut lines: Vec<Series> = lines.collect();
    lines.push(capacity(results));
    let chart = Chart {
        title: "Calls a second at the dependency".into(),
        alt: format!(
            "Load of {} strategies on the dependency over time, logarithmic, with its capacity of {} calls a second",
            results.strategies.len(),
            number(results.capacity_per_second, 0)
        ),
        x: time(results),
        y: Axis::log("calls a second"),
        series: lines,
        bands: spans(results),
        size: (WIDTH, 440),
        legend: LEGEND,
        ..Chart::default()
    };
    figure(
        &chart.draw(),
        "",
        "Each point is the fullest of the buckets around it; no point where there was no call.",
    )
}

/// One strategy: what it sent, what came of it, and its breaker.
pub fn of_strategy(results: &Results, result: &StrategyResult) -> String {
    let series = &result.series;
    let chart = Chart {
        title: summary(result),
        alt: format!(
            "Load, goodput and wasted calls of {} over time",
            result.label
        ),
        x: time(results),
        y: Axis::linear("a second"),
        series: vec![
            Series::of(
                "load: calls",
                fullest(&series.calls_per_second, series.bucket_s),
            ),
            Series::of(
                "goodput: operations",
                mean(&series.goodput_per_second, series.bucket_s),
            ),
            Series::of(
                "wasted calls",
                fullest(&series.wasted_per_second, series.bucket_s),
            ),
            capacity(results),
        ],
        bands: spans(results),
        size: (WIDTH, 320),
        legend: LEGEND,
        ..Chart::default()
    };
    figure(&chart.draw(), &breaker_band(results, result), "")
}

fn summary(result: &StrategyResult) -> String {
    let wasted = number(result.counters.calls_wasted, 0);
    let recovers = match result.figures.recovers_within_s {
        Some(seconds) => format!("well again after {} s", number(seconds, 1)),
        None => "not well again in this run".into(),
    };
    format!("{wasted} wasted calls; {recovers}")
}

fn time(results: &Results) -> Axis {
    Axis::linear("seconds").within(0.0, results.duration_s.max(1e-9))
}

fn capacity(results: &Results) -> Series {
    let level = results.capacity_per_second;
    Series::dashed("capacity", [(0.0, level), (results.duration_s, level)])
}

fn spans(results: &Results) -> Vec<Band> {
    let spans = results.spans.iter();
    spans
        .map(|span| Band::new(&span.label, span.from_s, span.to_s))
        .collect()
}

fn figure(plot: &Plot, below: &str, caption: &str) -> String {
    let caption = match caption.is_empty() {
        true => String::new(),
        false => format!("<figcaption>{}</figcaption>", escaped(caption)),
    };
    format!(
        "<figure><div class=\"wide\" tabindex=\"0\">{}{below}</div>{caption}</figure>\n",
        plot.svg
    )
}

/// So many buckets become one point.
fn stride(buckets: usize) -> usize {
    buckets.div_ceil(POINTS_MAX).max(1)
}

/// The fullest bucket of each stretch, at its middle.
fn fullest(values: &[f64], bucket_s: f64) -> Vec<(f64, f64)> {
    points(values, bucket_s, |stretch| {
        stretch.iter().copied().fold(0.0, f64::max)
    })
}

fn mean(values: &[f64], bucket_s: f64) -> Vec<(f64, f64)> {
    points(values, bucket_s, |stretch| {
        stretch.iter().sum::<f64>() / stretch.len() as f64
    })
}

fn points(values: &[f64], bucket_s: f64, of: fn(&[f64]) -> f64) -> Vec<(f64, f64)> {
    let stride = stride(values.len());
    let stretches = values.chunks(stride).enumerate();
    let point = |(at, stretch): (usize, &[f64])| {
        let middle = (at * stride) as f64 + stretch.len() as f64 / 2.0;
        (middle * bucket_s, of(stretch))
    };
    stretches.map(point).collect()
}

/// The breaker under the time axis: the fleet's states, or the share of the clients whose own
/// breaker refuses, as depth of colour; nothing where there is no breaker.
fn breaker_band(results: &Results, result: &StrategyResult) -> String {
    let pieces = match result.series.state.is_empty() {
        false => states(result),
        true => shares(result),
    };
    if pieces.is_empty() {
        return String::new();
    }
    let (left, right) = span_of_x(WIDTH, LEGEND);
    let scale = (right - left) / results.duration_s.max(1e-9);
    let (mut drawn, mut said) = (String::new(), Vec::new());
    for (from, to, label, colour, depth) in &pieces {
        drawn += &format!(
            "<rect x=\"{:.1}\" y=\"4\" width=\"{:.1}\" height=\"18\" fill=\"{colour}\" fill-opacity=\"{depth:.2}\"><title>{label}, {from:.1} to {to:.1} s</title></rect>",
            left + from * scale,
            ((to - from) * scale).max(0.5),
        );
        if said.len() < 20 {
            said.push(format!("{label} from {from:.1} to {to:.1} s"));
        }
    }
    let (words, label) = (
        legend(result),
        escaped(&format!("Breaker: {}", said.join("; "))),
    );
    format!(
        "<svg class=\"plot\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {WIDTH} 30\" font-family=\"sans-serif\" font-size=\"12\">\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"30\"/><text x=\"{:.0}\" y=\"18\" text-anchor=\"end\">breaker</text>{drawn}\
         <text x=\"{:.0}\" y=\"18\">{words}</text></svg>",
        left - 6.0,
        right + 14.0
    )
}

fn legend(result: &StrategyResult) -> String {
    if result.series.state.is_empty() {
        return "darker: refused by more clients".into();
    }
    let mut words = Vec::new();
    for state in &result.series.state {
        let (word, colour) = shown(*state);
        let word = format!("<tspan fill=\"{colour}\">■</tspan> {word} ");
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.concat()
}

/// From, to, words, colour and depth.
type Piece = (f64, f64, String, &'static str, f64);

fn states(result: &StrategyResult) -> Vec<Piece> {
    let bucket_s = result.series.bucket_s;
    let runs = result.series.state.chunk_by(|one, next| one == next);
    let mut begin = 0;
    let piece = |run: &[BreakerState]| {
        let from = begin as f64 * bucket_s;
        begin += run.len();
        let (word, colour) = shown(*run.first()?);
        Some((from, begin as f64 * bucket_s, word.to_owned(), colour, 0.85))
    };
    runs.filter_map(piece).collect()
}

fn shown(state: BreakerState) -> (&'static str, &'static str) {
    match state {
        BreakerState::Closed => ("closed", "#4c9f70"),
        BreakerState::Open => ("open", "#d55e00"),
        BreakerState::HalfOpen => ("half-open", "#e0a900"),
        BreakerState::Recovering => ("recovering", "#56b4e9"),
        BreakerState::Away => ("away", "#888888"),
    }
}

/// Where some client's own breaker refuses.
fn shares(result: &StrategyResult) -> Vec<Piece> {
    let series = &result.series;
    let stretches = points(&series.open_share, series.bucket_s, |stretch| {
        stretch.iter().sum::<f64>() / stretch.len() as f64
    });
    let half = stride(series.open_share.len()) as f64 * series.bucket_s / 2.0;
    let refusing = stretches.into_iter().filter(|(_, share)| *share > 0.0);
    refusing
        .map(|(middle, share)| {
            let words = format!("refused by {:.0} % of the clients", share * 100.0);
            (
                middle - half,
                middle + half,
                words,
                "#d55e00",
                share.clamp(0.05, 1.0),
            )
        })
        .collect()
}
