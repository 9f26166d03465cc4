//! `holdoff policy check`: what is known of the calls is gathered from flags, a file and a
//! live service; the check itself is that of the policy module, as a service does it.

use std::path::PathBuf;

use clap::Args;
use holdoff_client::proto::{Dependency, ListDependenciesRequest};

use super::{FILES, files, listed, render};
use crate::{
    cli::{
        Context,
        connection::{Connection, bounded},
        exit::{Exit, Failure},
        output::{self, Format},
        span,
    },
    policy::Facts,
};

/// Dependencies that are asked for at once.
const PAGE: u32 = 1_000;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A policy file or a folder of them; with --live alone, what the service has
    #[arg(long, value_name = "PATH", env = FILES, required_unless_present = "live")]
    policies: Option<PathBuf>,
    /// Facts of the calls, by namespace and dependency, in YAML
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
    /// Take from the service what it sees of each live dependency
    #[arg(long)]
    live: bool,
    /// Hints, too, are exit code 1
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    facts: FactArgs,
}

/// What holds for every dependency, above the file and what a service sees.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is known of the calls")]
struct FactArgs {
    /// First attempts a second, of all callers together
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = fact("calls_per_second"))]
    calls_per_second: Option<String>,
    /// Caller instances
    #[arg(long, value_name = "COUNT", allow_hyphen_values = true, value_parser = fact("clients"))]
    clients: Option<String>,
    /// Calls a second that the dependency can serve
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = fact("capacity"))]
    capacity: Option<String>,
    /// How long callers wait for a call with all of its attempts
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = fact("deadline"))]
    deadline: Option<String>,
    /// How long an attempt usually takes
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = fact("attempt_time"))]
    attempt_time: Option<String>,
    /// How long an attempt may take before the caller gives it up
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = fact("attempt_timeout"))]
    attempt_timeout: Option<String>,
    /// How soon all calls must pass again once the dependency works again
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = fact("recovery_goal"))]
    recovery_goal: Option<String>,
    /// The share of attempts that fail in the outage that must be noticed
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = fact("failure_ratio"))]
    failure_ratio: Option<String>,
    /// Instances that run health checks
    #[arg(long, value_name = "COUNT", allow_hyphen_values = true, value_parser = fact("checkers"))]
    checkers: Option<String>,
    /// Services in a row that retry, this one included
    #[arg(long, value_name = "COUNT", allow_hyphen_values = true, value_parser = fact("layers"))]
    layers: Option<String>,
}

/// Takes a fact in its range.
fn fact(name: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync {
    move |text| Facts::default().give(name, text).map(|()| text.to_owned())
}

impl FactArgs {
    fn facts(&self) -> Result<Facts, Failure> {
        let mut facts = Facts::default();
        for (name, text) in [
            ("calls_per_second", &self.calls_per_second),
            ("clients", &self.clients),
            ("capacity", &self.capacity),
            ("deadline", &self.deadline),
            ("attempt_time", &self.attempt_time),
            ("attempt_timeout", &self.attempt_timeout),
            ("recovery_goal", &self.recovery_goal),
            ("failure_ratio", &self.failure_ratio),
            ("checkers", &self.checkers),
            ("layers", &self.layers),
        ] {
            if let Some(text) = text {
                let given = facts.give(name, text);
                given.map_err(|why| Failure::Usage(format!("{name}: {why}")))?;
            }
        }
        Ok(facts)
    }
}

/// # Errors
/// As the traffic file is, and as the service answers; what the policies are is printed.
pub async fn run(context: &Context, args: CheckArgs) -> Result<Exit, Failure> {
    let facts = args.facts.facts()?;
    let mut traffic = match &args.traffic {
        Some(path) => files::traffic(path).map_err(|found| refused(context, &found))?,
        None => files::Known::default(),
    };
    traffic.state_everywhere(&facts);
    let connection = match args.live {
        true => Some(Connection::open(&context.server).await?),
        false => None,
    };
    if let Some(connection) = &connection {
        for dependency in live(context, connection).await? {
            let facts = seen(&dependency);
            traffic.see(&dependency.namespace, &dependency.name, facts);
        }
    }
    let (what, policies) = match (&args.policies, &connection) {
        (Some(path), _) => (path.display().to_string(), files::load(path)),
        (None, Some(connection)) => {
            let written = listed(context, connection).await?;
            let policies = files::Policies::of_service(&context.namespace, &written)
                .map_err(|cause| Failure::No(format!("the service's policies: {cause}")))?;
            traffic.name_only(&context.namespace);
            (context.server.to_string(), Ok(policies))
        }
        (None, None) => {
            return Err(Failure::Usage("--policies or --live is needed".to_owned()));
        }
    };
    let checked = match policies {
        Ok(policies) => {
            let unmatched = policies.unmatched(&traffic);
            if !unmatched.is_empty() {
                return Err(refused(context, &unmatched));
            }
            policies.check(&traffic)
        }
        Err(errors) => files::Checked::of(errors),
    };
    output::print(&match context.format {
        Format::Json => output::pretty(&checked),
        Format::Table => render::checked(context.ink, &what, &checked),
    });
    let bad = checked.errors + checked.warnings + if args.strict { checked.hints } else { 0 };
    Ok(if bad == 0 { Exit::Done } else { Exit::No })
}

/// A traffic file that cannot be used is wrong use, not a bad policy.
fn refused(context: &Context, found: &[files::Found]) -> Failure {
    Failure::Usage(render::found(context.ink, found).trim_end().to_owned())
}

/// Every dependency that has taken a call.
async fn live(context: &Context, connection: &Connection) -> Result<Vec<Dependency>, Failure> {
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = bounded(ListDependenciesRequest {
            namespace: context.namespace.clone(),
            page_size: PAGE,
            page_token,
            ..ListDependenciesRequest::default()
        });
        let answer = connection
            .answer(connection.operator().list_dependencies(request))
            .await?;
        all.extend(answer.dependencies.into_iter().filter(|one| one.live));
        page_token = answer.next_page_token;
        if page_token.is_empty() {
            return Ok(all);
        }
    }
}

/// Fewer calls a second are none that a check can go by: a dependency without any for ten minutes
/// is forgotten, and on the way there the average falls to nothing.
const CALLED: f64 = 1.0 / 600.0;

/// What a service saw. What is out of range (no call for long) is not known.
fn seen(dependency: &Dependency) -> Facts {
    let latency = dependency.usual_latency.as_ref().map(span::from_wire);
    let latency = latency.map(|latency| humantime::format_duration(latency).to_string());
    let mut facts = Facts::default();
    let rate = dependency.calls_per_second;
    for (name, text) in [
        (
            "calls_per_second",
            (rate >= CALLED).then(|| rate.to_string()),
        ),
        ("clients", Some(dependency.active_instances.to_string())),
        ("attempt_time", latency),
    ] {
        if let Some(text) = text {
            let _not_known = facts.give(name, &text);
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_sees_is_what_is_checked_with_and_nothing_is_no_fact() {
        let seen = seen(&Dependency {
            calls_per_second: 2.5,
            active_instances: 3,
            usual_latency: Some(span::to_wire(std::time::Duration::from_micros(1_250))),
            ..Dependency::default()
        });
        assert_eq!(seen.calls_per_second, Some(2.5));
        assert_eq!(seen.clients, Some(3));
        assert_eq!(seen.attempt_time, Some(holdoff_decision::Nanos(1_250_000)));
        assert!(super::seen(&Dependency::default()).is_empty());
        let idle = Dependency {
            calls_per_second: 2e-6,
            ..Dependency::default()
        };
        assert!(super::seen(&idle).is_empty());
    }
}
