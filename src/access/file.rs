//! The access file: which tokens and certificates there are, and what each may do.
//!
//! A file that cannot be taken changes nothing, so a reading is whole or refused. What is told
//! of it never repeats a value that could be a secret by mistake.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::Deserialize;

use super::{
    Grants, Principal, Role,
    principal::Credential,
    token::{TokenHash, redacted},
};
use crate::policy::{self, is_name};

/// What others may not do with the file: read it, or write to it.
const OTHERS: u32 = 0o006;
/// The longest identity of a certificate; an audit record carries it.
pub const IDENTITY_MAX: usize = 500;

/// All credentials that hold.
#[derive(Debug, Default)]
pub struct Keyring {
    pub tokens: HashMap<TokenHash, Held>,
    pub certificates: HashMap<String, Arc<Grants>>,
}

/// What a token stands for.
#[derive(Debug)]
pub struct Held {
    /// `token:NAME`.
    pub principal: Principal,
    pub expires: Option<SystemTime>,
}

/// The file's text, or why it cannot be read.
pub type Reading = Result<String, String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    /// A key without a value is an empty list.
    tokens: Option<BTreeMap<String, WrittenToken>>,
    certificates: Option<BTreeMap<String, BTreeMap<String, Roles>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenToken {
    grants: BTreeMap<String, Roles>,
    secrets: Vec<WrittenSecret>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSecret {
    sha256: String,
    expires: Option<String>,
}

/// One role, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Roles {
    One(String),
    Many(Vec<String>),
}

/// Reads the text of a file that only its owner and group may read.
///
/// # Errors
/// In plain words: what keeps it from being read, or who else could.
pub fn read(path: &Path) -> Reading {
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("{shown}: not a file"));
    }
    private(path, metadata.permissions().mode())?;
    let sources = policy::files::read(path).map_err(|findings| {
        let told = findings.iter().map(policy::Finding::to_string);
        told.collect::<Vec<_>>().join("; ")
    })?;
    Ok(sources.into_iter().map(|source| source.text).collect())
}

/// Whether others on this machine could read or change a file with secrets.
///
/// # Errors
/// They could; with the mode, and what to do.
pub fn private(path: &Path, mode: u32) -> Result<(), String> {
    match mode & OTHERS {
        0 => Ok(()),
        _ => Err(format!(
            "{shown}: everybody on this machine may read or write it (mode {:04o}); \
             chmod 600 {shown}, or 640 for a group",
            mode & 0o7777,
            shown = path.display(),
        )),
    }
}

fn parse(text: &str) -> Result<Keyring, String> {
    let says_something = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
    if !text.lines().any(says_something) {
        return Err("empty; it begins with `version: 1`".into());
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let written: Written = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| redacted(&error.to_string()))?;
    if written.version != 1 {
        return Err(format!("version: {} is not known; 1 is", written.version));
    }
    let mut keyring = Keyring::default();
    for (name, token) in written.tokens.unwrap_or_default() {
        keyring
            .add_token(&name, &token)
            .map_err(|why| redacted(&format!("tokens.{name}.{why}")))?;
    }
    for (identity, grants) in written.certificates.unwrap_or_default() {
        let read = identified(&identity).and_then(|()| granted(&grants));
        let grants = read.map_err(|why| redacted(&format!("certificates.{identity}: {why}")))?;
        keyring.certificates.insert(identity, Arc::new(grants));
    }
    Ok(keyring)
}

impl Keyring {
    /// Makes credentials of a file's text.
    ///
    /// # Errors
    /// The first thing that is wrong, with its field.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text)
    }

    fn add_token(&mut self, name: &str, token: &WrittenToken) -> Result<(), String> {
        if !is_name(name) || name.contains([':', '/']) {
            return Err(
                "name: 1 to 200 bytes of ASCII letters, digits and . _ @ - are allowed".into(),
            );
        }
        let grants = granted(&token.grants).map_err(|why| format!("grants.{why}"))?;
        let (name, grants) = (Arc::from(format!("token:{name}")), Arc::new(grants));
        if token.secrets.is_empty() {
            return Err("secrets: empty; to revoke a token, remove it".into());
        }
        for (index, secret) in token.secrets.iter().enumerate() {
            let hash = TokenHash::parse(&secret.sha256).ok_or_else(|| {
                format!(
                    "secrets[{index}].sha256: not 64 hexadecimal digits, as `holdoff token new` \
                     prints them"
                )
            })?;
            let expires = secret.expires.as_deref().map(instant).transpose();
            let expires = expires.map_err(|why| format!("secrets[{index}].expires: {why}"))?;
            let credential = Credential::Token { hash, expires };
            let held = Held {
                principal: Principal::new(&name, &grants, credential),
                expires,
            };
            if self.tokens.insert(hash, held).is_some() {
                return Err(format!("secrets[{index}].sha256: stands in the file twice"));
            }
        }
        Ok(())
    }
}

fn granted(written: &BTreeMap<String, Roles>) -> Result<Grants, String> {
    let mut grants = Grants::default();
    for (namespace, roles) in written {
        let roles = match roles {
            Roles::One(role) => std::slice::from_ref(role),
            Roles::Many(roles) => roles,
        };
        for role in roles {
            let added = role
                .parse::<Role>()
                .and_then(|role| grants.add(namespace, role));
            added.map_err(|why| format!("{namespace}: {why}"))?;
        }
    }
    if grants == Grants::default() {
        return Err("empty; a namespace (or \"*\") and a role are needed".into());
    }
    Ok(grants)
}

/// Whether a certificate can have this identity.
fn identified(identity: &str) -> Result<(), String> {
    let named = identity
        .strip_prefix("dns:")
        .or_else(|| identity.strip_prefix("spiffe://"));
    match named {
        Some("") | None => Err("must be spiffe://… (its URI) or dns:… (its DNS name)".into()),
        Some(_) if identity.len() > IDENTITY_MAX => {
            Err(format!("{} bytes; at most {IDENTITY_MAX}", identity.len()))
        }
        Some(_) => Ok(()),
    }
}

fn instant(text: &str) -> Result<SystemTime, String> {
    let parsed = text.parse::<jiff::Timestamp>();
    let at = parsed.map_err(|_| format!("{text:?} is no time such as 2027-03-01T00:00:00Z"))?;
    let since = u64::try_from(at.as_millisecond()).unwrap_or(0);
    Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(since))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::token::Token;

    fn hash(n: u8) -> String {
        Token::new([n; 32]).hash().to_string()
    }

    #[test]
    fn a_token_may_have_two_secrets_while_it_is_rotated() {
        let text = format!(
            "version: 1\ntokens:\n  checkout:\n    grants: {{default: client, shop: [client, viewer]}}\n    \
             secrets:\n      - sha256: {}\n        expires: 2027-03-01T00:00:00Z\n      - {{sha256: {}}}\n\
             certificates:\n  \"spiffe://example.org/checkout\": {{\"*\": operator}}\n",
            hash(1),
            hash(2)
        );
        let keyring = parse(&text).unwrap();
        let [old, new] = [1, 2].map(|n| &keyring.tokens[&Token::new([n; 32]).hash()]);
        assert_eq!(
            [old, new].map(|held| held.principal.name()),
            [Some("token:checkout"); 2]
        );
        assert_eq!(old.principal.grants(), new.principal.grants());
        assert!(old.expires.is_some() && new.expires.is_none());
        assert_eq!(keyring.certificates.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field_and_without_a_secret() {
        let secret = Token::new([9; 32]).reveal();
        let hash = hash(1);
        let token = |grants: &str, secrets: &str| {
            format!("version: 1\ntokens: {{t: {{grants: {grants}, secrets: {secrets}}}}}\n")
        };
        let cases = [
            (String::new(), "version: 1"),
            ("version: 2\n".into(), "version: 2 is not known"),
            ("version: 1\ntoken: {}\n".into(), "token"),
            (
                token("{}", &format!("[{{sha256: {hash}}}]")),
                "tokens.t.grants.empty",
            ),
            (
                token("{default: boss}", &format!("[{{sha256: {hash}}}]")),
                "default: \"boss\" is no role",
            ),
            (
                token("{\"a b\": client}", &format!("[{{sha256: {hash}}}]")),
                "is no namespace",
            ),
            (token("{default: client}", "[]"), "tokens.t.secrets: empty"),
            (
                token("{default: client}", "[{sha256: abc}]"),
                "secrets[0].sha256: not 64",
            ),
            (
                token("{default: client}", &format!("[{{sha256: {secret}}}]")),
                "secrets[0].sha256: not 64",
            ),
            (
                token(
                    "{default: client}",
                    &format!("[{{sha256: {hash}}}, {{sha256: {hash}}}]"),
                ),
                "twice",
            ),
            (
                token(
                    "{default: client}",
                    &format!("[{{sha256: {hash}, expires: soon}}]"),
                ),
                "expires: \"soon\"",
            ),
            (token(&format!("{{default: {secret}}}"), "[]"), "is no role"),
            (
                format!("version: 1\ntokens: {{\"{secret}\": 1}}\n"),
                "line 2",
            ),
            (format!("version: 1\n{secret}: 1\n"), "hot_…"),
            (
                "version: 1\ncertificates: {\"example.org\": {default: client}}\n".into(),
                "must be spiffe://",
            ),
            (
                "version: 1\ncertificates: {\"dns:\": {default: client}}\n".into(),
                "must be spiffe://",
            ),
        ];
        for (text, expected) in cases {
            let told = parse(&text).unwrap_err();
            assert!(told.contains(expected), "{text}: {told}");
            assert!(!told.contains(&secret), "{told}");
        }
    }

    #[test]
    fn a_file_that_everybody_may_read_or_write_is_refused_with_its_mode() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "version: 1\n").unwrap();
        for (mode, fine) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            match read(file.path()) {
                Ok(text) => assert!(fine && text == "version: 1\n"),
                Err(told) => assert!(
                    !fine && told.contains(&format!("mode {mode:04o}")),
                    "{told}"
                ),
            }
        }
    }
}
