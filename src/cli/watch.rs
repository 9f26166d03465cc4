//! `holdoff watch`: the fleet, full-screen in a terminal. A model, a pure `update`, a pure `view`;
//! around them one task that asks the service (`feed`) and one loop that has the terminal
//! (`screen`). Where there is no terminal, changes are printed a line each (`lines`).

use std::io::{self, IsTerminal};

use clap::Args;

use super::{
    Context,
    connection::Connection,
    exit::{Exit, Failure},
    output::Format,
    overrides,
};

mod boxes;
mod dialog;
mod feed;
mod lines;
mod list;
mod model;
mod page;
mod screen;
#[cfg(test)]
mod tests;
mod text;
mod update;
mod view;

const EXAMPLES: &str = "\
Examples:
  holdoff watch
  holdoff watch --namespace shop --server https://holdoff.internal:7460
  holdoff watch | tee changes.txt                 # no terminal: a line for each change
  holdoff watch --output json | jq -r '.dependency | select(.state == \"BREAKER_STATE_OPEN\") | .name'

`?` shows the keys. It stays where the service goes away, says STALE, and goes on when it is back.

Exit codes: 0 ended by q, Ctrl-C, SIGTERM or SIGHUP; 1 refused; 2 wrong use; 3 service unreachable at the \
start, or gone where lines are printed.";

/// Shows the fleet live, full-screen.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WatchArgs {
    /// Who acts from it; without it, the user that runs the command
    #[arg(long)]
    owner: Option<String>,
}

/// # Errors
/// As the service answers at the start.
pub async fn run(context: &Context, args: WatchArgs) -> Result<Exit, Failure> {
    let connection = Connection::open(&context.server).await?;
    if context.format == Format::Json || !is_terminal() {
        return lines::run(context, &connection).await;
    }
    feed::try_once(context, &connection).await?;
    drop(connection);
    screen::run(context, overrides::owner(args.owner).ok()).await
}

fn is_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb
}
