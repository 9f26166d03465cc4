//! Where the store is, as one URL says it:
//!
//! ```text
//! redis://[user:password@]host[:port][/database]                   rediss:// with TLS
//! redis+sentinel://[user:password@]host[:port],…/master[/database]   rediss+sentinel://
//! redis-cluster://[user:password@]host[:port],…                     rediss-cluster://
//! ```
//!
//! each with `?prefix=TEXT` for stores that several fleets share; the prefix is `holdoff:`
//! without it. A password is never shown.

use std::{fmt, str::FromStr};

use ::redis::{ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

const PREFIX: &str = "holdoff:";
const PREFIX_MAX: usize = 64;
const BREAKS_A_URL: [char; 4] = ['/', '?', '#', '@'];
const ENCODE: &str = "has a user or a password with one of / ? # @ as it is; percent-encode it: \
                      %2F %3F %23 %40";
const FORMS: &str = "redis://HOST:PORT, rediss://…, redis+sentinel://HOST:PORT,…/MASTER or \
                     redis-cluster://HOST:PORT,…";

/// See the module.
#[derive(Clone)]
pub struct Address {
    kind: Kind,
    servers: Vec<ConnectionInfo>,
    /// For the master that Sentinels name.
    settings: RedisConnectionInfo,
    is_encrypted: bool,
    prefix: String,
    has_password: bool,
    /// Without user and password.
    shown: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    One,
    Sentinels { master: String },
    Cluster,
}

impl Address {
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// At least one.
    pub fn servers(&self) -> &[ConnectionInfo] {
        &self.servers
    }

    pub fn redis_settings(&self) -> RedisConnectionInfo {
        self.settings.clone()
    }

    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// What else may be wrong where it does not answer as a store.
    pub fn hint(&self) -> &'static str {
        match self.is_encrypted {
            true => {
                "; it is asked over TLS, which that port must speak, with a certificate that this \
                 machine trusts"
            }
            false => "",
        }
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn has_password(&self) -> bool {
        self.has_password
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("is no URL such as {FORMS}"))?;
        let (is_encrypted, form) = match scheme {
            "redis" => (false, Form::One),
            "rediss" => (true, Form::One),
            "redis+sentinel" => (false, Form::Sentinels),
            "rediss+sentinel" => (true, Form::Sentinels),
            "redis-cluster" => (false, Form::Cluster),
            "rediss-cluster" => (true, Form::Cluster),
            // What breaks a URL apart may be half of a password.
            other if other.contains(['@', ':']) => return Err(ENCODE.to_owned()),
            other => return Err(format!("`{other}://` is no store; it must be {FORMS}")),
        };
        // Of a password that breaks the URL apart nothing may be shown.
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, _)) if user.contains(BREAKS_A_URL) => return Err(ENCODE.to_owned()),
            Some((user, rest)) => (format!("{user}@"), rest),
            None => (String::new(), rest),
        };
        if rest.contains('#') {
            return Err("has a `#`, and takes nothing behind one".to_owned());
        }
        let (rest, prefix) = with_prefix(rest)?;
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (kind, database) = match form {
            Form::One => (Kind::One, path),
            Form::Cluster => (Kind::Cluster, path),
            Form::Sentinels => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err("names no master; add /MASTER behind the Sentinels".to_owned());
                }
                let master = master.to_owned();
                (Kind::Sentinels { master }, database)
            }
        };
        if kind == Kind::One && hosts.contains(',') {
            return Err("has several hosts; say redis-cluster:// or redis+sentinel://".to_owned());
        }
        if kind == Kind::Cluster && !database.is_empty() {
            return Err("names a database; a cluster has but one".to_owned());
        }
        if !database.is_empty() && database.parse::<u32>().is_err() {
            return Err(format!(
                "has a database `{database}` that is no number; behind the server comes /0, /1 …"
            ));
        }
        let of_server = match is_encrypted {
            true => "rediss",
            false => "redis",
        };
        let single = |host: &str, user: &str, database: &str| {
            let url = format!("{of_server}://{user}{host}/{database}");
            // What the library says may hold the password.
            let read = url.into_connection_info();
            let name = host.split(':').next().unwrap_or_default();
            read.map_err(|_| format!("has a server `{name}` that is no HOST:PORT"))
        };
        let default_port = match kind {
            Kind::Sentinels { .. } => ":26379",
            Kind::One | Kind::Cluster => "",
        };
        let servers = hosts.split(',').map(|host| {
            let bare = !host.contains(':') || host.ends_with(']');
            let host = format!("{host}{}", if bare { default_port } else { "" });
            match kind {
                // The password is the master's.
                Kind::Sentinels { .. } => single(&host, "", ""),
                Kind::One | Kind::Cluster => single(&host, &user, database),
            }
        });
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let settings = single("localhost", &user, database)?;
        Ok(Self {
            kind,
            servers,
            settings: settings.redis_settings().clone(),
            is_encrypted,
            prefix,
            has_password: settings.redis_settings().password().is_some(),
            shown: format!("{scheme}://{rest}"),
        })
    }
}

enum Form {
    One,
    Sentinels,
    Cluster,
}

fn with_prefix(rest: &str) -> Result<(&str, String), String> {
    let Some((rest, query)) = rest.split_once('?') else {
        return Ok((rest, PREFIX.to_owned()));
    };
    let prefix = query
        .strip_prefix("prefix=")
        .ok_or("takes nothing but ?prefix=TEXT behind a `?`")?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    match !prefix.is_empty() && prefix.len() <= PREFIX_MAX && prefix.bytes().all(fits) {
        true => Ok((rest, prefix.to_owned())),
        false => Err(format!(
            "has a prefix that is not 1 to {PREFIX_MAX} letters, digits and . _ : -"
        )),
    }
}

/// Without user, password and prefix.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        let bytes = |it: &Self| it.settings.password().map(str::to_owned);
        (&self.shown, &self.prefix, bytes(self)) == (&other.shown, &other.prefix, bytes(other))
    }
}

impl Eq for Address {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Address, String> {
        text.parse()
    }

    #[test]
    fn every_form_is_read() {
        let one = read("redis://127.0.0.1:7000/2?prefix=blue:").unwrap();
        assert_eq!((one.kind(), one.prefix()), (&Kind::One, "blue:"));
        assert_eq!(one.servers()[0].redis_settings().db(), 2);
        assert!(read("rediss://store:7000").unwrap().is_encrypted());
        let cluster = read("redis-cluster://a:1,b:2,c:3").unwrap();
        assert_eq!(
            (cluster.kind(), cluster.servers().len()),
            (&Kind::Cluster, 3)
        );
        let sentinels = read("redis+sentinel://a,b:2/primary/3").unwrap();
        assert_eq!(sentinels.servers()[0].addr().to_string(), "a:26379");
        assert_eq!(sentinels.redis_settings().db(), 3);
        let master = "primary".to_owned();
        assert_eq!(sentinels.kind(), &Kind::Sentinels { master });
    }

    #[test]
    fn a_password_is_never_shown() {
        for text in [
            "redis://me:secret@h:1",
            "redis+sentinel://:secret@h/m",
            "rediss-cluster://me:secret@h:1,i:2",
        ] {
            let address = read(text).unwrap();
            assert!(address.has_password());
            let shown = format!("{address} {address:?}");
            assert!(
                !shown.contains("secret") && !shown.contains("me:"),
                "{shown}"
            );
        }
        for text in [
            "redis://me:secret@h:x",
            "redis+sentinel://:secret@h",
            "redis://me:secret",
            "redis://:sec/ret@h:1",
            "redis://:sec?ret@h:1/2",
            "redis://:sec#ret@h:1",
            "redis://:sec@ret@h:1",
            "redis://:secret@h:1/two",
        ] {
            let refused = read(text).unwrap_err();
            assert!(!refused.contains("sec"), "{refused}");
        }
    }

    #[test]
    fn a_password_that_breaks_the_url_apart_is_told_to_be_encoded() {
        for sign in BREAKS_A_URL {
            for form in [
                "redis://:a{}b@h:1",
                "redis+sentinel://me:{}@h/m",
                "rediss-cluster://me{}:b@h",
            ] {
                let refused = read(&form.replace("{}", &sign.to_string())).unwrap_err();
                assert!(
                    refused.contains("percent-encode"),
                    "{form} {sign}: {refused}"
                );
                let encoded = format!("%{:02X}", sign as u32);
                assert!(refused.contains(&encoded), "{refused}");
                let address = read(&form.replace("{}", &encoded)).unwrap();
                let settings = address.redis_settings();
                let whole = format!("{:?}{:?}", settings.username(), settings.password());
                assert!(whole.contains(sign), "{whole}");
            }
        }
    }

    #[test]
    fn what_is_no_store_is_refused_with_what_would_be() {
        for (text, word) in [
            ("127.0.0.1:6379", "redis://HOST:PORT"),
            ("http://a", "`http://`"),
            ("redis://a:1,b:2", "several hosts"),
            ("redis+sentinel://a", "/MASTER"),
            ("redis-cluster://a/1", "database"),
            ("redis://a?prefix=", "prefix"),
            ("redis://a?prefix={b}", "prefix"),
            ("redis://a?db=3", "?prefix=TEXT"),
            ("redis://a:1/abc", "database `abc`"),
            ("redis+sentinel://a/m/abc", "database `abc`"),
            ("rediss://a/#insecure", "`#`"),
            ("rediss://a/2?prefix=b#insecure", "`#`"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }
}
