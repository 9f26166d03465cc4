//! Where a service is, as users write it: the forms that every client takes
//! (`docs/client-states.md`, Settings).
//!
//! Not a general URL: what would be ignored (a path, a user, a query) is refused, and so is a
//! lone word, which is a mistake more often than a host.

use std::net::Ipv6Addr;

const PORT: u16 = 7460;
const SHOWN: usize = 80;

/// What is allowed, for the message.
pub(crate) const FORMS: &str =
    "it must be http://host:port, https://host:port or host:port, with a port of 1 to 65535";

/// One address of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// In lower case; IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) is_encrypted: bool,
}

impl Address {
    /// `None`: it is none of the forms.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, text),
        };
        let is_encrypted = match scheme.as_deref() {
            Some("https") => true,
            Some("http") | None => false,
            Some(_) => return None,
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                host.parse::<Ipv6Addr>().ok()?;
                (host, port)
            }
            None => {
                let end = rest.find([':', '/']).unwrap_or(rest.len());
                let (host, port) = rest.split_at(end);
                let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                let is_named = !host.is_empty() && host.bytes().all(is_host);
                is_named.then_some((host, port))?
            }
        };
        let port = match (port, scheme.is_some()) {
            ("" | "/", true) => PORT,
            (port, has_scheme) => {
                let digits = port.strip_prefix(':')?;
                let digits = match has_scheme {
                    true => digits.strip_suffix('/').unwrap_or(digits),
                    false => digits,
                };
                let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
                let port: u16 = is_number.then(|| digits.parse().ok())??;
                (port > 0).then_some(port)?
            }
        };
        Some(Self {
            host: host.to_ascii_lowercase(),
            port,
            is_encrypted,
        })
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let Self { host, port, .. } = self;
        match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}"),
            false => format!("{scheme}://{host}:{port}"),
        }
    }
}

/// For a message: no password, and not all of a long text.
pub(crate) fn shown(text: &str) -> String {
    let shown = match text.rsplit_once('@') {
        Some((_, behind)) => format!("…@{behind}"),
        None => text.to_owned(),
    };
    shown.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_shows_no_password() {
        assert_eq!(shown("http://me:s@cret@h:1"), "…@h:1");
        assert_eq!(shown(&"x".repeat(100)).len(), SHOWN);
    }
}
