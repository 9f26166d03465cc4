//! What stands between the network and the service: TLS, and who may do what; and what may be
//! listened on without them.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{anyhow, bail};

use super::{
    lifetime::{Connections, descriptors_max},
    tls::Tls,
};
use crate::{
    access::{Access, AccessFile},
    clock::Clock,
    coordinator::Coordinator,
    policy::watch::Watch,
    settings::{ClientCertificates, ServeSettings, TlsSettings},
    store::Store,
};

/// What else a service opens: the HTTP port's connections, files, a store's.
const DESCRIPTORS_BESIDES: u64 = 256;

/// What each listener asks of those who connect.
#[derive(Clone, Debug)]
pub struct Gate {
    pub access: Arc<Access>,
    pub tls: Option<Tls>,
    pub connections: Connections,
}

/// Files are read again when they change, until this is dropped.
#[derive(Debug)]
pub struct Watches {
    _files: Vec<Watch>,
}

impl Gate {
    /// Everybody who connects may do everything.
    pub fn open() -> Self {
        Self {
            access: Arc::new(Access::open(Clock::system())),
            tls: None,
            connections: Connections::default(),
        }
    }

    /// As the settings say; the coordinator counts what happens.
    ///
    /// # Errors
    /// In plain words: which file cannot be taken, and why.
    pub fn start<S: Store>(
        settings: &ServeSettings,
        coordinator: &Arc<Coordinator<S>>,
    ) -> anyhow::Result<(Self, Watches)> {
        let mut files = Vec::new();
        let count = {
            let coordinator = Arc::clone(coordinator);
            move |counter| coordinator.telemetry().add_noted(counter)
        };
        let limited =
            |access: Access| Arc::new(access.limited_to(settings.limits).counted_by(count.clone()));
        let access = match &settings.access {
            None => limited(Access::open(Clock::system())),
            Some(path) => {
                let (file, keyring) = AccessFile::read(path).map_err(|why| anyhow!(why))?;
                let access = limited(Access::held_by(keyring, Clock::system()));
                files.push(file.watch(Arc::clone(&access))?);
                access
            }
        };
        let tls = match &settings.tls {
            None => None,
            Some(paths) => {
                let (tls, watch) = Tls::start(paths.clone(), count)?;
                files.push(watch);
                Some(tls)
            }
        };
        let gate = Self {
            access,
            tls,
            connections: Connections::new(settings.connections),
        };
        Ok((gate, Watches { _files: files }))
    }
}

/// What listens beyond this machine without TLS must be meant, and files that are named must be
/// there: looked at before anything is opened.
///
/// # Errors
/// In plain words, and what to do.
pub fn check(settings: &ServeSettings) -> anyhow::Result<()> {
    let exposed = exposed(settings);
    if let (Some((flag, address)), None, false) = (exposed, &settings.tls, settings.insecure) {
        bail!(
            "{flag} {address} is not a loopback address, and there is no TLS; give --tls-cert and \
             --tls-key, or say --insecure if everybody who can reach it may use it"
        );
    }
    if let Some(most) = settings.connections.most {
        let (most, descriptors) = (u64::from(most.get()), descriptors_max() as u64);
        if most + DESCRIPTORS_BESIDES > descriptors {
            bail!(
                "--max-connections {most}: this process may open {descriptors} files (ulimit -n), of \
                 which {DESCRIPTORS_BESIDES} are for all else; raise that, or say {} at most",
                descriptors.saturating_sub(DESCRIPTORS_BESIDES)
            );
        }
    }
    if let Some(path) = &settings.access {
        AccessFile::read(path).map_err(|why| anyhow!(why))?;
        // A core dump, or another process of the same user, could show tokens that are on
        // their way.
        let hidden =
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
        if let Err(error) = hidden {
            tracing::warn!("memory of this process can be read by others of its user: {error}");
        }
    }
    if let Some(paths) = &settings.tls {
        Tls::check(paths)?;
    }
    for warning in warnings(settings) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

fn exposed(settings: &ServeSettings) -> Option<(&'static str, SocketAddr)> {
    [
        ("--listen", Some(settings.listen)),
        ("--http", settings.http),
    ]
    .into_iter()
    .find_map(|(flag, address)| Some((flag, address.filter(|at| !at.ip().is_loopback())?)))
}

/// What is allowed, and still should not stay so.
fn warnings(settings: &ServeSettings) -> Vec<String> {
    let Some((flag, address)) = exposed(settings) else {
        return Vec::new();
    };
    let demands_certificates = settings.tls.as_ref().is_some_and(|tls| match tls {
        TlsSettings {
            client_ca: Some(_),
            clients: ClientCertificates::Required,
            ..
        } => true,
        TlsSettings { .. } => false,
    });
    let mut warnings = Vec::new();
    if settings.access.is_none() && !demands_certificates {
        warnings.push(format!(
            "{flag} {address}: everybody who can reach this address may ask, force breakers open \
             and change policies; give --access FILE with tokens (`holdoff token new`), or \
             --tls-client-ca for client certificates"
        ));
    }
    if settings.access.is_some() && settings.tls.is_none() {
        warnings.push(format!(
            "{flag} {address}: tokens cross the network unencrypted; give --tls-cert and --tls-key"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ConnectionSettings;

    fn settings(listen: &str) -> ServeSettings {
        ServeSettings {
            listen: listen.parse().unwrap(),
            ..ServeSettings::default()
        }
    }

    fn tls(client_ca: Option<&str>, clients: ClientCertificates) -> Option<TlsSettings> {
        Some(TlsSettings {
            cert: "c".into(),
            key: "k".into(),
            client_ca: client_ca.map(Into::into),
            clients,
        })
    }

    #[test]
    fn an_address_that_others_reach_needs_tls_or_must_be_meant() {
        assert!(check(&settings("127.0.0.1:0")).is_ok());
        let open = settings("0.0.0.0:0");
        let told = check(&open).unwrap_err().to_string();
        assert!(
            told.starts_with("--listen 0.0.0.0:0") && told.contains("--tls-cert"),
            "{told}"
        );
        let insecure = ServeSettings {
            insecure: true,
            ..open.clone()
        };
        assert!(check(&insecure).is_ok());
        let http = ServeSettings {
            http: Some("[::]:1".parse().unwrap()),
            ..settings("127.0.0.1:0")
        };
        assert!(
            check(&http)
                .unwrap_err()
                .to_string()
                .starts_with("--http [::]:1")
        );
        // Encrypted, so not refused for its address; the files are what is missing.
        let encrypted = ServeSettings {
            tls: tls(None, ClientCertificates::Required),
            ..open
        };
        assert!(
            check(&encrypted)
                .unwrap_err()
                .to_string()
                .starts_with("TLS: ")
        );
    }

    #[test]
    fn more_connections_than_descriptors_are_refused_with_how_many_there_may_be() {
        let with = |most: u32| {
            check(&ServeSettings {
                connections: ConnectionSettings {
                    most: Some(most.try_into().unwrap()),
                    ..ConnectionSettings::default()
                },
                ..ServeSettings::default()
            })
        };
        let most = u32::try_from(descriptors_max().min(1 << 30)).unwrap() - 256;
        assert!(with(most).is_ok());
        let refused = with(most + 1).unwrap_err().to_string();
        let told = [
            format!("--max-connections {}: ", most + 1),
            format!("say {most} at most"),
        ];
        assert!(
            descriptors_max() >= 1 << 30 || told.iter().all(|it| refused.contains(it)),
            "{refused}"
        );
    }

    #[test]
    fn what_everybody_may_use_is_warned_of_with_what_to_do() {
        let told = |tls, access: Option<&str>| {
            let settings = ServeSettings {
                tls,
                access: access.map(Into::into),
                ..settings("0.0.0.0:0")
            };
            warnings(&settings).join("\n")
        };
        let optional = tls(Some("ca"), ClientCertificates::Optional);
        assert!(told(tls(None, ClientCertificates::Required), None).contains("--access FILE"));
        assert!(told(optional.clone(), None).contains("--access FILE"));
        assert!(told(None, Some("a")).contains("unencrypted"));
        assert_eq!(
            told(tls(Some("ca"), ClientCertificates::Required), None),
            ""
        );
        assert_eq!(told(optional, Some("a")), "");
        assert!(warnings(&settings("127.0.0.1:0")).is_empty());
    }
}
