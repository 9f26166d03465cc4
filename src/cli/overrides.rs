//! `open`, `close`, `release`, `reset`, `clear-hold`: what an operator does to one
//! dependency. Each is answered when it is durable; the answer is printed as `status` would.

use std::time::Duration;

use clap::Args;
use holdoff_client::proto::{
    ClearHoldRequest, ClearOverrideRequest, Dependency, OverrideKind, ResetDependencyRequest,
    SetOverrideRequest,
};

use super::{
    Context,
    connection::{Connection, bounded},
    exit::{Exit, Failure},
    output, span, status,
};

const SET_EXAMPLES: &str = "\
Examples:
  holdoff open payments --reason 'provider is down, see INC-421' --for 30m
  holdoff close payments --reason 'breaker is wrong, provider confirmed' --for 10m
  holdoff release payments

Exit codes: 0 done and durable, 1 refused, 2 wrong use, 3 service unreachable.";

const END_EXAMPLES: &str = "\
Examples:
  holdoff release payments --reason 'provider is back'
  holdoff reset payments
  holdoff clear-hold openai:gpt

Exit codes: 0 done and durable, 1 refused, 2 wrong use, 3 service unreachable.";

/// Forces a breaker.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// The dependency
    dependency: String,
    /// Why; it is recorded and shown to everyone
    #[arg(long)]
    reason: String,
    /// How long, 1s to 365d; without it, until it is released
    #[arg(long = "for", value_name = "DURATION", value_parser = span::parse_positive)]
    lasts: Option<Duration>,
    /// Who does it; without it, the user that runs the command
    #[arg(long)]
    owner: Option<String>,
}

/// Ends or forgets something.
#[derive(Debug, Args)]
#[command(after_help = END_EXAMPLES)]
pub struct EndArgs {
    /// The dependency
    dependency: String,
    /// Why; it is recorded
    #[arg(long, default_value = "")]
    reason: String,
    /// Who does it; without it, the user that runs the command
    #[arg(long)]
    owner: Option<String>,
}

/// # Errors
/// As the service answers.
pub async fn set(context: &Context, kind: OverrideKind, args: SetArgs) -> Result<Exit, Failure> {
    let request = bounded(SetOverrideRequest {
        namespace: context.namespace.clone(),
        dependency: args.dependency,
        kind: kind.into(),
        owner: owner(args.owner)?,
        reason: args.reason,
        expires_in: args.lasts.map(span::to_wire),
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().set_override(request))
        .await?;
    Ok(show(context, answer.dependency))
}

/// # Errors
/// As the service answers.
pub async fn release(context: &Context, args: EndArgs) -> Result<Exit, Failure> {
    let request = bounded(ClearOverrideRequest {
        namespace: context.namespace.clone(),
        dependency: args.dependency,
        owner: owner(args.owner)?,
        reason: args.reason,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().clear_override(request))
        .await?;
    Ok(show(context, answer.dependency))
}

/// # Errors
/// As the service answers.
pub async fn reset(context: &Context, args: EndArgs) -> Result<Exit, Failure> {
    let request = bounded(ResetDependencyRequest {
        namespace: context.namespace.clone(),
        dependency: args.dependency,
        owner: owner(args.owner)?,
        reason: args.reason,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().reset_dependency(request))
        .await?;
    Ok(show(context, answer.dependency))
}

/// # Errors
/// As the service answers.
pub async fn clear_hold(context: &Context, args: EndArgs) -> Result<Exit, Failure> {
    let request = bounded(ClearHoldRequest {
        namespace: context.namespace.clone(),
        dependency: args.dependency,
        owner: owner(args.owner)?,
        reason: args.reason,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().clear_hold(request))
        .await?;
    Ok(show(context, answer.dependency))
}

/// The owner that was named, else the user.
///
/// # Errors
/// [`Failure::Usage`] where there is neither.
pub fn owner(named: Option<String>) -> Result<String, Failure> {
    let variable = |name| {
        std::env::var(name)
            .ok()
            .filter(|user: &String| !user.is_empty())
    };
    named
        .or_else(|| variable("USER"))
        .or_else(|| variable("LOGNAME"))
        .or_else(account)
        .filter(|owner| !owner.is_empty())
        .ok_or_else(|| Failure::Usage("--owner is needed: this user has no name".to_owned()))
}

/// The name of the account, where the environment is bare: in containers, under cron.
fn account() -> Option<String> {
    let id = rustix::process::getuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == id).then(|| name.to_owned())
    })
}

fn show(context: &Context, dependency: Option<Dependency>) -> Exit {
    output::print(&status::shown(context, &dependency.unwrap_or_default()));
    Exit::Done
}
