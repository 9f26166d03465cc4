//! `holdoff bench`: load on a server, with percentiles. On one thread, so that a machine
//! with two cores can give the other one to the server.

use std::{
    io::{IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use tokio::time::{Instant, sleep_until};

use self::{
    load::{Load, Mode, Pacer, Reports},
    measure::{Figures, Measure, Used, processor_time},
    render::Comparison,
};
use super::{
    Context, connection,
    exit::{Exit, Failure},
    output::{self, Format},
    span,
};

mod codec;
mod load;
mod measure;
mod render;
#[cfg(test)]
mod tests;

const EXAMPLES: &str = "\
Examples:
  holdoff bench
  holdoff bench --mode session --in-flight 8 --batch 32 --server-pid $(pgrep -x holdoff)
  holdoff bench --rate 20000 --duration 30s --dependencies 10000 --report
  holdoff bench --compare health --server-pid 4242
  holdoff bench --mode session --compare unary --server-pid 4242

With --rate the loop is open and latencies count from when a question was due, so a server that \
stalls cannot hide it. Without, the next question goes when an answer came. Without --report \
permits end unreported, which the service takes for silence once they end.

Exit codes: 0 done, 2 wrong use, 3 service unreachable or nothing was answered.";

/// Puts load on a server and measures it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// What is called
    #[arg(long, value_enum, default_value_t = Mode::Unary)]
    mode: Mode,
    /// Connections; a service lets in 512 of one address unless it is told otherwise
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Calls (in a session: batches) on their way at once on each connection
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    in_flight: u32,
    /// The same over all connections together
    #[arg(long, value_name = "NUMBER", conflicts_with = "in_flight", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    concurrency: Option<u32>,
    /// Questions in each message of a session
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch: u32,
    /// Questions a second over all connections; without it, as fast as answers come
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    rate: Option<f64>,
    /// How long it is measured; with --compare, each run
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = span::parse_positive)]
    duration: Duration,
    /// How long it runs before that
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = span::parse)]
    warmup: Duration,
    /// How many dependencies are asked about, at random
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    dependencies: u32,
    /// Report each grant as a success
    #[arg(long)]
    report: bool,
    /// The server's process, on this machine: its processor time per request is shown
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Run this mode in turns with --mode, and show the median of the ratios
    #[arg(long, value_enum, value_name = "MODE")]
    compare: Option<Mode>,
    /// How many turns
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
}

/// # Errors
/// [`Failure::Unreachable`] where nobody answers.
pub async fn run(context: &Context, args: BenchArgs) -> Result<Exit, Failure> {
    if let Some(pid) = args.server_pid
        && processor_time(pid).is_none()
    {
        return Err(Failure::Usage(format!(
            "--server-pid {pid}: no such process here"
        )));
    }
    let text = match args.compare {
        None => {
            let figures = leg(context, &args, args.mode).await?;
            match context.format {
                Format::Json => output::pretty(&figures),
                Format::Table => render::figures(&figures),
            }
        }
        Some(base) => {
            let comparison = compare(context, &args, base).await?;
            match context.format {
                Format::Json => output::pretty(&comparison),
                Format::Table => render::comparison(&comparison),
            }
        }
    };
    output::print(&text);
    Ok(Exit::Done)
}

/// In turns, so that what the machine does meanwhile falls on both alike.
async fn compare(context: &Context, args: &BenchArgs, base: Mode) -> Result<Comparison, Failure> {
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        let of_base = leg(context, args, base).await?;
        let of_mode = leg(context, args, args.mode).await?;
        rounds.push((of_base, of_mode));
    }
    Ok(Comparison::new(rounds))
}

async fn leg(context: &Context, args: &BenchArgs, mode: Mode) -> Result<Figures, Failure> {
    let channels = connect(context, args.connections).await?;
    let in_flight = args
        .concurrency
        .map_or(args.in_flight, |all| all.div_ceil(args.connections));
    let load = Arc::new(Load {
        namespace: context.namespace.clone(),
        mode,
        reports: if args.report {
            Reports::EachGrant
        } else {
            Reports::None
        },
        in_flight,
        batch: args.batch,
        dependencies: args.dependencies,
    });
    let start = Instant::now();
    let from = start + args.warmup;
    let measure = Measure::new(from, from + args.duration)
        .map_err(|error| Failure::No(format!("cannot measure: {error}")))?;
    let measure = Arc::new(measure);
    let batch = if mode == Mode::Session {
        f64::from(args.batch)
    } else {
        1.0
    };
    let pacer = args
        .rate
        .map(|rate| Arc::new(Pacer::new(rate / batch, start)));
    let mut workers = tokio::task::JoinSet::new();
    for (number, channel) in (0..).zip(channels) {
        let (load, measure) = (Arc::clone(&load), Arc::clone(&measure));
        workers.spawn(load::connection(
            load,
            channel,
            number,
            pacer.clone(),
            measure,
        ));
    }
    let (took, used) = watch(&measure, args.server_pid).await;
    workers.shutdown().await;
    let figures = Figures::new(render::name(mode), &measure.counts(), took, used);
    if figures.requests == 0 {
        let codes: Vec<_> = figures.errors.keys().copied().collect();
        return Err(Failure::Unreachable {
            server: context.server.to_string(),
            cause: format!("no question was answered ({})", codes.join(", ")),
        });
    }
    Ok(figures)
}

async fn connect(context: &Context, connections: u32) -> Result<Vec<connection::Route>, Failure> {
    let mut channels = Vec::new();
    for _ in 0..connections {
        channels.push(connection::connect(&context.server).await?);
    }
    Ok(channels)
}

/// Waits for the run's end; says how long it really was, and what was used in it.
async fn watch(measure: &Measure, server: Option<u32>) -> (Duration, Used) {
    let used = || Used {
        server: server.and_then(processor_time),
        client: processor_time(std::process::id()),
    };
    sleep_until(measure.from).await;
    let (begun, before) = (Instant::now(), used());
    if std::io::stderr().is_terminal() {
        progress(measure).await;
    }
    sleep_until(measure.until).await;
    let after = used();
    let between = |after: Option<Duration>, before| Some(after?.saturating_sub(before?));
    let used = Used {
        server: between(after.server, before.server),
        client: between(after.client, before.client),
    };
    (begun.elapsed(), used)
}

async fn progress(measure: &Measure) {
    let whole = measure.until.duration_since(measure.from).as_secs();
    let mut err = std::io::stderr();
    for second in 1..=whole {
        sleep_until(measure.from + Duration::from_secs(second)).await;
        let answers = measure.counts().latencies.len();
        let _ = write!(err, "\r{second} of {whole} s, {answers} answers ");
    }
    let _ = write!(err, "\r\u{1b}[K");
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate: &f64| (0.001..=1e8).contains(rate))
        .ok_or_else(|| "must be 0.001 to 100000000".to_owned())
}
