//! The command line: parse → call → render. Each command has a file; its rendering is
//! pure (an answer in, text out) and is tested as text.
//!
//! Nothing here decides anything about a dependency, and nothing else in the library
//! prints. Exit codes are the contract with scripts: see `exit`.

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use holdoff_client::proto::OverrideKind;

use self::{
    exit::{Exit, Failure},
    output::{ColourChoice, Format, Ink},
};

mod ask;
mod audit;
mod bench;
mod check;
mod comparison;
mod connection;
mod demo;
mod escape;
mod events;
mod exec;
mod exit;
#[cfg(test)]
mod fake;
mod healthcheck;
mod hex;
mod logging;
mod output;
mod overrides;
mod policy;
mod replay;
mod replicas;
mod secret;
mod serve;
mod simulate;
mod size;
mod sources;
mod span;
mod status;
#[cfg(test)]
mod tests;
mod token;
mod watch;
mod words;

const AFTER: &str = "\
Every flag can also be given as an environment variable (HOLDOFF_ and the flag's name) or in a \
settings file (YAML, the flag's name as the key; under a command's name, for that command alone):
  server: http://holdoff.internal:7460
  serve:
    data-dir: /var/lib/holdoff
A flag wins over the environment, the environment over the file, the file over the default.

Exit codes: 0 done, 1 the answer is no, 2 wrong use, 3 service unreachable.";

/// Asks, runs and operates holdoff: one circuit breaker, one retry budget and one calendar of
/// retries per dependency, shared by a whole fleet.
#[derive(Debug, Parser)]
#[command(name = "holdoff", version, after_help = AFTER, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
struct GlobalArgs {
    /// Where the service is: http://host:port, https://host:port or host:port
    #[arg(
        long,
        global = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:7460"
    )]
    server: String,
    #[command(flatten)]
    credentials: connection::CredentialArgs,
    /// Whose dependencies
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// How answers are printed
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// When to colour; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t = ColourChoice::Auto)]
    color: ColourChoice,
    /// Settings in YAML, under the names of the flags
    #[arg(long, global = true, value_name = "FILE")]
    settings: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Ask(ask::AskArgs),
    Exec(exec::ExecArgs),
    Check(check::CheckArgs),
    Status(status::StatusArgs),
    Replicas(replicas::ReplicasArgs),
    Watch(watch::WatchArgs),
    /// Forces a breaker open: no call passes.
    Open(overrides::SetArgs),
    /// Forces a breaker closed: it stops no call; budget, rate and deadline still hold.
    Close(overrides::SetArgs),
    /// Ends an override: closed, with nothing remembered.
    Release(overrides::EndArgs),
    /// Forgets what was learned of a dependency. An override stays.
    Reset(overrides::EndArgs),
    /// Ends a wait that the dependency asked the whole fleet for.
    ClearHold(overrides::EndArgs),
    Events(events::EventsArgs),
    Audit(audit::AuditArgs),
    Policy(policy::PolicyArgs),
    Replay(replay::ReplayArgs),
    Bench(bench::BenchArgs),
    Demo(demo::DemoArgs),
    Simulate(simulate::SimulateArgs),
    Healthcheck(healthcheck::HealthcheckArgs),
    Token(token::TokenArgs),
    Completions(CompletionsArgs),
}

/// Prints a script that completes commands and flags in a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  holdoff completions bash > /etc/bash_completion.d/holdoff
  holdoff completions zsh > ~/.zfunc/_holdoff

Exit codes: 0 printed, 2 wrong use.")]
struct CompletionsArgs {
    /// Which shell
    shell: clap_complete::Shell,
}

/// What all commands are run with.
#[derive(Clone, Debug)]
struct Context {
    server: connection::Server,
    namespace: String,
    format: Format,
    ink: Ink,
}

#[cfg(test)]
impl Context {
    fn for_test(server: &str) -> Self {
        Self {
            server: connection::Server::at(server),
            namespace: "default".to_owned(),
            format: Format::Table,
            ink: Ink::Plain,
        }
    }
}

/// The whole program.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match parse(args).and_then(dispatch) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "holdoff: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

/// Flags, environment and settings file become one [`Cli`]. Help and parse errors print
/// and end the process here: the parser's own way, with 0 and 2.
fn parse(args: Vec<OsString>) -> Result<Cli, Failure> {
    let mut command = sources::with_environment(Cli::command());
    if let Some(path) = sources::settings_path(&args) {
        let values = sources::read(&path)?;
        command = sources::with_settings(command, &path, values)?;
    }
    let matches = command.get_matches_from(args);
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let (Command::Policy(policy), Some((_, matches))) = (&mut cli.command, matches.subcommand())
    {
        policy.settle(matches)?;
    }
    Ok(cli)
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let context = Context {
        server: cli.global.credentials.server(cli.global.server)?,
        namespace: cli.global.namespace,
        format: cli.global.output,
        ink: Ink::choose(cli.global.color),
    };
    match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Completions(args) => Ok(completions(&args)),
        Command::Token(args) => token::run(&context, args),
        Command::Replay(args) => replay::run(&context, args),
        Command::Simulate(args) => simulate::run(&context, &args),
        Command::Demo(args) => demo::run(&context, &args),
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::No(format!("cannot start: {error}")))?;
            let exit = runtime.block_on(call(&context, command));
            // Nothing that is still running (a connection, a name being looked up) is waited for.
            runtime.shutdown_background();
            exit
        }
    }
}

async fn call(context: &Context, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Ask(args) => ask::run(context, args).await,
        Command::Exec(args) => exec::run(context, args).await,
        Command::Check(args) => check::run(context, args).await,
        Command::Status(args) => status::run(context, args).await,
        Command::Replicas(args) => replicas::run(context, args).await,
        Command::Watch(args) => watch::run(context, args).await,
        Command::Open(args) => overrides::set(context, OverrideKind::ForceOpen, args).await,
        Command::Close(args) => overrides::set(context, OverrideKind::ForceClosed, args).await,
        Command::Release(args) => overrides::release(context, args).await,
        Command::Reset(args) => overrides::reset(context, args).await,
        Command::ClearHold(args) => overrides::clear_hold(context, args).await,
        Command::Events(args) => events::run(context, args).await,
        Command::Audit(args) => audit::run(context, args).await,
        Command::Policy(args) => policy::run(context, args).await,
        Command::Bench(args) => bench::run(context, args).await,
        Command::Healthcheck(args) => healthcheck::run(context, args).await,
        Command::Replay(args) => replay::run(context, args),
        Command::Serve(args) => serve::run(args),
        Command::Simulate(args) => simulate::run(context, &args),
        Command::Demo(args) => demo::run(context, &args),
        Command::Token(args) => token::run(context, args),
        Command::Completions(args) => Ok(completions(&args)),
    }
}

fn completions(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "holdoff", &mut script);
    output::print(&String::from_utf8_lossy(&script));
    Exit::Done
}
