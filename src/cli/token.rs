//! `holdoff token new`: makes a bearer token, shows it once, and says what to write into the
//! access file. The file holds a hash, so nobody can read a token from it.

use std::{fmt::Write, time::SystemTime};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    Context,
    exit::{Exit, Failure},
    output::{self, Format},
    span,
};
use crate::{
    access::{Grants, Role, Token},
    clock::Clock,
    entropy::Entropy,
};

const EXAMPLES: &str = "\
Examples:
  holdoff token new --name checkout --grant default=client
  holdoff token new --name ada --grant '*=operator' --expires-in 30d
  holdoff token new --name checkout --grant default=client --output json

The token is shown once. What is printed below it goes into the file that `holdoff serve --access` \
names; to rotate, add the new secret beside the old one, and remove that later.

Exit codes: 0 printed, 2 wrong use.";

/// Makes bearer tokens.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token, and show it once
    #[command(after_help = EXAMPLES)]
    New(NewArgs),
}

#[derive(Debug, Args)]
struct NewArgs {
    /// Who holds it, as it stands in the audit log
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// A role in a namespace, or in all of them (`*`): client, viewer or operator; repeated
    #[arg(long = "grant", value_name = "NAMESPACE=ROLE", required = true, value_parser = grant)]
    grants: Vec<(String, Role)>,
    /// When it ends by itself; without it, when it is removed from the file
    #[arg(long, value_name = "DURATION", value_parser = span::parse_positive)]
    expires_in: Option<std::time::Duration>,
}

/// # Errors
/// None: what is wrong was refused with the command line.
pub fn run(context: &Context, args: TokenArgs) -> Result<Exit, Failure> {
    let TokenCommand::New(args) = args.command;
    let mut random = [0; 32];
    random[..16].copy_from_slice(&Entropy::System.key());
    random[16..].copy_from_slice(&Entropy::System.key());
    let token = Token::new(random);
    let now = Clock::system().wall();
    output::print(&match context.format {
        Format::Table => told(&args, &token, now),
        Format::Json => output::pretty(&json!({
            "name": args.name,
            "token": token.reveal(),
            "sha256": token.hash().to_string(),
            "access_file": entry(&args, &token, now),
        })),
    });
    Ok(Exit::Done)
}

fn told(args: &NewArgs, token: &Token, now: SystemTime) -> String {
    format!(
        "{}\n\nThe token above is shown this once. Into the access file, under `tokens:`:\n\n{}",
        token.reveal(),
        entry(args, token, now)
    )
}

/// As it stands in the access file.
fn entry(args: &NewArgs, token: &Token, now: SystemTime) -> String {
    let mut grants = Grants::default();
    for (namespace, role) in &args.grants {
        // Both were looked at when they were parsed.
        let _ = grants.add(namespace, *role);
    }
    let mut text = format!("  {}:\n    grants:\n", args.name);
    // Writing to a string cannot fail.
    for (namespace, roles) in grants.iter() {
        let roles: Vec<_> = roles.iter().map(|role| role.word()).collect();
        let _ = writeln!(text, "      \"{namespace}\": [{}]", roles.join(", "));
    }
    let _ = writeln!(text, "    secrets:\n      - sha256: {}", token.hash());
    if let Some(at) = args.expires_in.and_then(|left| now.checked_add(left)) {
        let seconds = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = i64::try_from(seconds.as_secs()).unwrap_or(i64::MAX);
        if let Ok(at) = jiff::Timestamp::from_second(seconds) {
            let _ = writeln!(text, "        expires: {at}");
        }
    }
    text
}

fn name(text: &str) -> Result<String, String> {
    match crate::policy::is_name(text) && !text.contains([':', '/']) {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 200 bytes of ASCII letters, digits and . _ @ -".into()),
    }
}

fn grant(text: &str) -> Result<(String, Role), String> {
    let (namespace, role) = text
        .rsplit_once('=')
        .ok_or("must be NAMESPACE=ROLE, such as default=client")?;
    let role = role.parse::<Role>()?;
    Grants::default().add(namespace, role)?;
    Ok((namespace.to_owned(), role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Keyring;

    #[test]
    fn what_is_printed_is_what_the_access_file_takes() {
        let args = NewArgs {
            name: "checkout".into(),
            grants: ["default=client", "default=viewer", "*=operator"]
                .map(|text| grant(text).unwrap())
                .to_vec(),
            expires_in: Some(std::time::Duration::from_secs(60)),
        };
        let token = Token::new([3; 32]);
        let text = entry(&args, &token, SystemTime::UNIX_EPOCH);
        let keyring = Keyring::parse(&format!("version: 1\ntokens:\n{text}")).unwrap();
        let held = &keyring.tokens[&token.hash()];
        assert_eq!(held.principal.name(), Some("token:checkout"));
        assert!(held.expires.is_some());
        assert_eq!(held.principal.grants().iter().count(), 2);
        assert!(text.contains("\"default\": [client, viewer]"), "{text}");
    }

    #[test]
    fn a_grant_is_a_namespace_and_a_role() {
        assert_eq!(
            grant("a=b=viewer").unwrap_err(),
            "\"a=b\" is no namespace; 1 to 200 bytes of ASCII letters, digits and . _ / : @ -, or * for all of them"
        );
        for wrong in ["default", "default=boss", "=client", "a b=client"] {
            assert!(grant(wrong).is_err(), "{wrong}");
        }
    }
}
