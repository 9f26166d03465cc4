//! `holdoff policy`: checks, shows, compares, stores and removes policies. Checking and the
//! schema need no service; showing and comparing work from files or from a service.

use std::{io::Read, path::PathBuf};

use clap::{ArgMatches, Args, Subcommand, parser::ValueSource};
use holdoff_client::proto::{
    DeletePolicyRequest, GetPolicyRequest, GetPolicyResponse, ListPoliciesRequest,
    ListPoliciesResponse, PolicyValue, PutPolicyRequest,
};

use self::{check::CheckArgs, files::Checked};
use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape_lines,
    exit::{Exit, Failure},
    output::{self, Format},
    overrides,
};

mod check;
mod files;
mod help;
mod render;
mod shadow;

pub use render::{DEFAULTS, entry_name};

/// Not `HOLDOFF_POLICIES`, which `serve` reads: where that is set, `show` and `diff` must
/// still ask the service.
const FILES: &str = "HOLDOFF_POLICY_FILES";

/// Checks, shows, compares and stores policies.
#[derive(Debug, Args)]
#[command(after_help = help::POLICY, subcommand_required = true, arg_required_else_help = true)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Check policies as a service would, and for what cannot work. Files need no service
    #[command(after_help = help::CHECK)]
    Check(CheckArgs),
    /// Show the policy that a dependency gets, each value with where it came from
    #[command(after_help = help::SHOW)]
    Show(ShowArgs),
    /// Show the policies as they are written, from files and from `apply`
    #[command(after_help = help::LIST)]
    List,
    /// Show what files would change
    #[command(after_help = help::DIFF)]
    Diff(DiffArgs),
    /// Store policies in a service; they replace its files' entries of the same name
    #[command(after_help = help::APPLY)]
    Apply(ApplyArgs),
    /// Remove a stored policy; a file's entry of the same name holds again
    #[command(after_help = help::DELETE)]
    Delete(DeleteArgs),
    /// Print the JSON Schema of a policy file
    #[command(after_help = help::SCHEMA)]
    Schema,
    Shadow(shadow::ShadowArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The dependency; without it, the defaults
    dependency: Option<String>,
    /// From these files instead of from a service
    #[arg(long, value_name = "PATH", env = FILES)]
    policies: Option<PathBuf>,
    /// The built-in defaults alone
    #[arg(long, conflicts_with = "policies")]
    built_in: bool,
    /// As YAML, to be copied into a policy file
    #[arg(long)]
    yaml: bool,
}

#[derive(Debug, Args)]
struct DiffArgs {
    /// The new files
    #[arg(long, value_name = "PATH", env = FILES)]
    policies: PathBuf,
    /// The old files; without it, what the service has for --namespace
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ApplyArgs {
    /// All entries of all namespaces of these files
    #[arg(long, value_name = "PATH", env = FILES)]
    policies: Option<PathBuf>,
    /// The dependency, a pattern ending in *, or empty for the namespace's defaults
    #[arg(long)]
    name: Option<String>,
    /// One policy, as under a dependency in a policy file, for --name; - is standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Who does it; without it, the user that runs the command
    #[arg(long)]
    owner: Option<String>,
    /// Why; it is recorded
    #[arg(long, default_value = "")]
    reason: String,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// As it was stored; empty for the namespace's defaults
    name: String,
    /// Who does it; without it, the user that runs the command
    #[arg(long)]
    owner: Option<String>,
    /// Why; it is recorded
    #[arg(long, default_value = "")]
    reason: String,
}

/// # Errors
/// As the files are, and as the service answers.
pub async fn run(context: &Context, args: PolicyArgs) -> Result<Exit, Failure> {
    match args.command {
        PolicyCommand::Check(args) => check::run(context, args).await,
        PolicyCommand::Show(args) => show(context, args).await,
        PolicyCommand::List => list(context).await,
        PolicyCommand::Diff(args) => diff(context, args).await,
        PolicyCommand::Apply(args) => apply(context, args).await,
        PolicyCommand::Delete(args) => delete(context, args).await,
        PolicyCommand::Shadow(args) => shadow::run(context, args).await,
        PolicyCommand::Schema => {
            output::print(&output::pretty(&files::schema()));
            Ok(Exit::Done)
        }
    }
}

/// The files, or what is wrong with them, printed.
fn load(context: &Context, path: &std::path::Path) -> Result<files::Policies, Failure> {
    files::load(path).map_err(|errors| {
        let checked = Checked::of(errors);
        Failure::No(
            render::checked(context.ink, &path.display().to_string(), &checked)
                .trim_end()
                .to_owned(),
        )
    })
}

async fn show(context: &Context, args: ShowArgs) -> Result<Exit, Failure> {
    let name = args.dependency.unwrap_or_default();
    let local = match &args.policies {
        Some(path) => Some(load(context, path)?),
        None if args.built_in || name.is_empty() => Some(files::Policies::default()),
        None => None,
    };
    let answer = match local {
        Some(policies) => {
            let namespace = if args.policies.is_some() {
                context.namespace.as_str()
            } else {
                ""
            };
            policies.explain(namespace, &name).ok_or_else(|| {
                Failure::No(format!(
                    "namespace {}: not in these files",
                    context.namespace
                ))
            })?
        }
        None => {
            let request = bounded(GetPolicyRequest {
                namespace: context.namespace.clone(),
                dependency: name,
            });
            let connection = Connection::open(&context.server).await?;
            connection
                .answer(connection.operator().get_policy(request))
                .await?
        }
    };
    output::print(&shown(context, &answer, args.yaml));
    Ok(Exit::Done)
}

fn shown(context: &Context, answer: &GetPolicyResponse, yaml: bool) -> String {
    match (yaml, context.format) {
        (true, _) => escape_lines(&answer.document) + "\n",
        (false, Format::Json) => output::json("GetPolicyResponse", answer),
        (false, Format::Table) => render::values(context.ink, &answer.values),
    }
}

/// All of them, page by page.
async fn listed(
    context: &Context,
    connection: &Connection,
) -> Result<ListPoliciesResponse, Failure> {
    let mut listed = ListPoliciesResponse::default();
    loop {
        let request = bounded(ListPoliciesRequest {
            namespace: context.namespace.clone(),
            page_size: 1_000,
            page_token: std::mem::take(&mut listed.next_page_token),
        });
        let mut operator = connection.operator();
        let page = connection.answer(operator.list_policies(request)).await?;
        listed.policies.extend(page.policies);
        listed.next_page_token = page.next_page_token;
        if listed.next_page_token.is_empty() {
            return Ok(listed);
        }
    }
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let connection = Connection::open(&context.server).await?;
    let answer = listed(context, &connection).await?;
    output::print(&match context.format {
        Format::Json => output::json("ListPoliciesResponse", &answer),
        Format::Table => render::policies(&answer),
    });
    Ok(Exit::Done)
}

async fn diff(context: &Context, args: DiffArgs) -> Result<Exit, Failure> {
    let new = load(context, &args.policies)?;
    let changes = match args.against {
        Some(path) => load(context, &path)?.changes_to(&new),
        None => {
            let connection = Connection::open(&context.server).await?;
            let written = listed(context, &connection).await?;
            let old = files::Policies::of_service(&context.namespace, &written)
                .map_err(|cause| Failure::No(format!("the service's policies: {cause}")))?;
            old.entry_changes_to(&new, &context.namespace)
        }
    };
    output::print(&match context.format {
        Format::Json => output::pretty(&changes),
        Format::Table => render::changes(context.ink, &changes),
    });
    Ok(if changes.is_empty() {
        Exit::Done
    } else {
        Exit::No
    })
}

impl PolicyArgs {
    /// `apply` stores whole files or one policy. Which of them is on the command line wins over
    /// which of them the environment or the settings file knows.
    ///
    /// # Errors
    /// [`Failure::Usage`] where it is both, neither, or half of one.
    pub fn settle(&mut self, matches: &ArgMatches) -> Result<(), Failure> {
        let PolicyCommand::Apply(args) = &mut self.command else {
            return Ok(());
        };
        let written = |id: &str| {
            let apply = matches.subcommand_matches("apply");
            apply.and_then(|apply| apply.value_source(id)) == Some(ValueSource::CommandLine)
        };
        match (written("policies"), written("file") || written("name")) {
            (true, false) => (args.name, args.file) = (None, None),
            (false, true) => args.policies = None,
            (true, true) | (false, false) => {}
        }
        let wrong = match (&args.policies, &args.name, &args.file) {
            (Some(_), None, None) | (None, Some(_), Some(_)) => return Ok(()),
            (Some(_), _, _) => "--policies and --name with --file: one of the two is meant",
            (None, Some(_), None) => "--name: needs --file, its policy; --policies has whole files",
            (None, None, Some(_)) => "--file: needs --name; --policies has whole files",
            (None, None, None) => "--policies PATH is needed, or --name NAME with --file FILE",
        };
        Err(Failure::Usage(wrong.to_owned()))
    }
}

async fn apply(context: &Context, args: ApplyArgs) -> Result<Exit, Failure> {
    let owner = overrides::owner(args.owner)?;
    let entries = match (&args.policies, &args.file) {
        (Some(path), _) => load(context, path)?.entries(),
        (None, Some(file)) => vec![files::Entry {
            namespace: context.namespace.clone(),
            name: args.name.unwrap_or_default(),
            document: read(file)?,
        }],
        (None, None) => return Err(Failure::Usage("--policies or --file is needed".to_owned())),
    };
    let connection = Connection::open(&context.server).await?;
    for entry in entries {
        let shown = render::entry_name(&entry.namespace, &entry.name);
        let request = bounded(PutPolicyRequest {
            namespace: entry.namespace,
            name: entry.name,
            document: entry.document,
            owner: owner.clone(),
            reason: args.reason.clone(),
        });
        let stored = connection
            .answer(connection.operator().put_policy(request))
            .await
            .map_err(|failure| match args.file {
                Some(_) => whole_file(failure),
                None => failure,
            })?;
        output::print(&match context.format {
            Format::Json => output::json_line("PutPolicyResponse", &stored),
            Format::Table => format!("stored {shown}\n"),
        });
    }
    Ok(Exit::Done)
}

async fn delete(context: &Context, args: DeleteArgs) -> Result<Exit, Failure> {
    let shown = render::entry_name(&context.namespace, &args.name);
    let request = bounded(DeletePolicyRequest {
        namespace: context.namespace.clone(),
        name: args.name,
        owner: overrides::owner(args.owner)?,
        reason: args.reason,
    });
    let connection = Connection::open(&context.server).await?;
    let answer = connection
        .answer(connection.operator().delete_policy(request))
        .await?;
    output::print(&match context.format {
        Format::Json => output::json("DeletePolicyResponse", &answer),
        Format::Table => format!("removed {shown}\n"),
    });
    Ok(Exit::Done)
}

/// A policy file in the place of one policy is refused field by field, which says nothing of that.
fn whole_file(failure: Failure) -> Failure {
    match failure {
        Failure::No(text) if text.contains(".namespaces: unknown field") => Failure::No(format!(
            "{text}\n--file is one policy: what stands under a dependency in a policy file"
        )),
        other => other,
    }
}

/// # Errors
/// [`Failure::Usage`] where it cannot be read.
fn read(path: &std::path::Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::Usage(format!("--file {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_in_the_place_of_one_policy_is_told_to_be_one() {
        let of = |text: &str| whole_file(Failure::No(text.to_owned()));
        let refused = of("API:2:1: namespaces.default.dependencies.x.namespaces: unknown field");
        assert_eq!(refused.code(), 1);
        assert!(refused.to_string().contains("--file is one policy"));
        assert_eq!(of("API:1:1: unknown").to_string(), "API:1:1: unknown");
    }
}
