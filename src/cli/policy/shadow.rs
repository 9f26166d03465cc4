//! `holdoff policy shadow`: candidates, policies that are tried beside the live ones.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use holdoff_client::proto::{
    DeleteCandidateRequest, GetCandidateRequest, ListCandidatesRequest, PromoteCandidateRequest,
    PutCandidateRequest,
};

use super::{
    super::{
        Context, comparison,
        connection::{Connection, bounded},
        exit::{Exit, Failure},
        output::{self, Format},
        overrides,
    },
    read, render,
};

const EXAMPLES: &str = "\
Examples:
  holdoff policy shadow put payments --file candidate.yaml --reason 'CHG-80'
  holdoff policy shadow list
  holdoff policy shadow show payments
  holdoff policy shadow promote payments --reason 'CHG-80: two hours, no difference'
  holdoff policy shadow drop payments

A candidate changes no answer. Exit codes: 0 done, 1 it was refused or there is none, 2 wrong use, \
3 service unreachable.";

/// Tries a policy beside the live one: what it would have opened and refused, in numbers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct ShadowArgs {
    #[command(subcommand)]
    command: ShadowCommand,
}

#[derive(Debug, Subcommand)]
enum ShadowCommand {
    /// Begin to try a policy; anew where one is tried under the name already
    #[command(after_help = EXAMPLES)]
    Put(PutArgs),
    /// List what is tried, with the difference in short
    #[command(after_help = EXAMPLES)]
    List,
    /// Show what a candidate does otherwise than the live policy, dependency by dependency
    #[command(after_help = EXAMPLES)]
    Show {
        /// The dependency, a pattern ending in *, or '' for the namespace's defaults
        name: String,
    },
    /// Make a candidate the live policy; live state is kept, an open breaker stays open
    #[command(after_help = EXAMPLES)]
    Promote(EndArgs),
    /// Drop a candidate and its numbers
    #[command(after_help = EXAMPLES)]
    Drop(EndArgs),
}

#[derive(Debug, Args)]
struct PutArgs {
    /// The dependency, a pattern ending in *, or '' for the namespace's defaults
    name: String,
    /// One policy, as under a dependency in a policy file; - is standard input
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Who does it; without it, the user that runs the command
    #[arg(long)]
    owner: Option<String>,
    /// Why; it is recorded
    #[arg(long, default_value = "")]
    reason: String,
}

#[derive(Debug, Args)]
struct EndArgs {
    /// As it was put; '' for the namespace's defaults
    name: String,
    /// Who does it; without it, the user that runs the command
    #[arg(long)]
    owner: Option<String>,
    /// Why; it is recorded
    #[arg(long, default_value = "")]
    reason: String,
}

/// # Errors
/// As the file is, and as the service answers.
pub async fn run(context: &Context, args: ShadowArgs) -> Result<Exit, Failure> {
    output::print(&match args.command {
        ShadowCommand::Put(args) => put(context, args).await?,
        ShadowCommand::List => list(context).await?,
        ShadowCommand::Show { name } => show(context, name).await?,
        ShadowCommand::Promote(args) => promote(context, args).await?,
        ShadowCommand::Drop(args) => drop_one(context, args).await?,
    });
    Ok(Exit::Done)
}

async fn put(context: &Context, args: PutArgs) -> Result<String, Failure> {
    let shown = render::entry_name(&context.namespace, &args.name);
    let request = bounded(PutCandidateRequest {
        namespace: context.namespace.clone(),
        name: args.name,
        document: read(&args.file)?,
        owner: overrides::owner(args.owner)?,
        reason: args.reason,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().put_candidate(request))
        .await
        .map_err(super::whole_file)?;
    Ok(match context.format {
        Format::Json => output::json("PutCandidateResponse", &answer),
        Format::Table => format!("trying {shown}; see `holdoff policy shadow show`\n"),
    })
}

async fn list(context: &Context) -> Result<String, Failure> {
    let request = bounded(ListCandidatesRequest {
        namespace: context.namespace.clone(),
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().list_candidates(request))
        .await?;
    Ok(match context.format {
        Format::Json => output::json("ListCandidatesResponse", &answer),
        Format::Table => comparison::candidates(context.ink, &answer.candidates),
    })
}

async fn show(context: &Context, name: String) -> Result<String, Failure> {
    let request = bounded(GetCandidateRequest {
        namespace: context.namespace.clone(),
        name,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().get_candidate(request))
        .await?;
    Ok(match context.format {
        Format::Json => output::json("GetCandidateResponse", &answer),
        Format::Table => comparison::candidate(context.ink, &answer),
    })
}

async fn promote(context: &Context, args: EndArgs) -> Result<String, Failure> {
    let shown = render::entry_name(&context.namespace, &args.name);
    let request = bounded(PromoteCandidateRequest {
        namespace: context.namespace.clone(),
        name: args.name,
        owner: overrides::owner(args.owner)?,
        reason: args.reason,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().promote_candidate(request))
        .await?;
    Ok(match context.format {
        Format::Json => output::json("PromoteCandidateResponse", &answer),
        Format::Table => format!("{shown} is the live policy now; live state was kept\n"),
    })
}

async fn drop_one(context: &Context, args: EndArgs) -> Result<String, Failure> {
    let shown = render::entry_name(&context.namespace, &args.name);
    let request = bounded(DeleteCandidateRequest {
        namespace: context.namespace.clone(),
        name: args.name,
        owner: overrides::owner(args.owner)?,
        reason: args.reason,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().delete_candidate(request))
        .await?;
    Ok(match context.format {
        Format::Json => output::json("DeleteCandidateResponse", &answer),
        Format::Table => format!("dropped {shown}\n"),
    })
}
