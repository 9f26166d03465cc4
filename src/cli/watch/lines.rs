//! `watch` without a terminal: what there is at the start, then each change, a line each.

use holdoff_client::proto::{
    WatchDependenciesRequest, WatchDependenciesResponse, watch_dependencies_response::Change,
};

use super::page;
use crate::cli::{
    Context,
    connection::Connection,
    escape::escape,
    exec::child::Signals,
    exit::{Exit, Failure},
    output::{self, Format, Reader},
};

/// # Errors
/// As the service answers; [`Failure::Unreachable`] where it goes away.
pub async fn run(context: &Context, connection: &Connection) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()
        .map_err(|error| Failure::No(format!("cannot listen for signals: {error}")))?;
    let asked = WatchDependenciesRequest {
        namespace: context.namespace.clone(),
        name_prefix: String::new(),
    };
    let mut operator = connection.operator();
    let mut changes = connection
        .answer(operator.watch_dependencies(asked))
        .await?;
    let mut reader = Reader::There;
    while reader == Reader::There {
        tokio::select! {
            next = changes.message() => match next {
                Ok(Some(message)) => reader = output::stream(&match context.format {
                    Format::Json => output::json_line("WatchDependenciesResponse", &message),
                    Format::Table => line(jiff::Timestamp::now(), &message),
                }),
                Ok(None) => return Err(gone(context)),
                Err(status) => return Err(connection.failure(&status)),
            },
            () = output::unread() => break,
            _ = signals.next() => break,
        }
    }
    Ok(Exit::Done)
}

fn gone(context: &Context) -> Failure {
    Failure::Unreachable {
        server: context.server.to_string(),
        cause: "the service ended the stream".to_owned(),
    }
}

/// One change, at the time that it was heard.
pub fn line(now: jiff::Timestamp, message: &WatchDependenciesResponse) -> String {
    let time = now.strftime("%Y-%m-%d %H:%M:%SZ");
    match &message.change {
        Some(Change::Dependency(d)) => {
            format!("{time}  {}  {}\n", escape(&d.name), page::one_line(d))
        }
        Some(Change::Removed(name)) => format!("{time}  {}  gone\n", escape(name)),
        Some(Change::Synced(_)) | None => String::new(),
    }
}
