//! A caller with a name, and its roles in namespaces.

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::{Arc, LazyLock},
    time::SystemTime,
};

use super::{Needs, TokenHash};
use crate::policy::{DEFAULT_NAMESPACE, is_name};

/// The namespace of a grant that holds in all of them.
pub const EVERYWHERE: &str = "*";

/// What a principal may be in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Asks, reports, holds sessions, plans checks. Sees and changes nothing else.
    Client,
    /// Looks at everything, changes nothing.
    Viewer,
    /// Looks and changes.
    Operator,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Client, Self::Viewer, Self::Operator];

    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }

    /// An operator may do what a viewer may; a client is a role of its own.
    fn includes(self, other: Self) -> bool {
        match self {
            Self::Client | Self::Viewer => self == other,
            Self::Operator => matches!(other, Self::Viewer | Self::Operator),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|role| role.word() == text);
        named.ok_or_else(|| format!("{text:?} is no role; client, viewer and operator are"))
    }
}

/// Roles by namespace; [`EVERYWHERE`] holds in every namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, Vec<Role>>);

impl Grants {
    /// All roles in all namespaces.
    pub fn all() -> Self {
        Self(BTreeMap::from([(
            EVERYWHERE.to_owned(),
            Role::ALL.to_vec(),
        )]))
    }

    /// Adds a role in a namespace, or in all of them.
    ///
    /// # Errors
    /// What can be no namespace.
    pub fn add(&mut self, namespace: &str, role: Role) -> Result<(), String> {
        if namespace != EVERYWHERE && !is_name(namespace) {
            return Err(format!(
                "{namespace:?} is no namespace; 1 to 200 bytes of ASCII letters, digits and \
                 . _ / : @ -, or * for all of them"
            ));
        }
        let roles = self.0.entry(namespace.to_owned()).or_default();
        if !roles.contains(&role) {
            roles.push(role);
            roles.sort_unstable();
        }
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Role])> {
        self.0
            .iter()
            .map(|(name, roles)| (name.as_str(), roles.as_slice()))
    }

    fn hold(&self, role: Role, namespace: &str) -> bool {
        let namespace = match namespace {
            "" => DEFAULT_NAMESPACE,
            named => named,
        };
        [EVERYWHERE, namespace].into_iter().any(|name| {
            let roles = self.0.get(name);
            roles.is_some_and(|roles| roles.iter().any(|held| held.includes(role)))
        })
    }

    fn hold_somewhere(&self, role: Role) -> bool {
        self.0.values().flatten().any(|held| held.includes(role))
    }
}

/// Who asks. Cheap to clone, nobody in particular above all: every request may carry one, on
/// every core. Two are equal where name, grants and credential are.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal(Option<Arc<Who>>);

#[derive(Debug, PartialEq, Eq)]
struct Who {
    name: Arc<str>,
    grants: Arc<Grants>,
    credential: Credential,
}

/// What a principal is known by. No secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    Token {
        hash: TokenHash,
        expires: Option<SystemTime>,
    },
    /// One that is valid until then.
    Certificate(SystemTime),
}

impl Principal {
    /// Nobody in particular, who may do everything: where there are no access settings.
    pub fn anonymous() -> Self {
        Self(None)
    }

    #[cfg(test)]
    pub fn for_test(name: &str) -> Self {
        let credential = Credential::Certificate(SystemTime::UNIX_EPOCH);
        Self::new(&name.into(), &Arc::new(Grants::all()), credential)
    }

    /// `token:NAME`, a certificate's `spiffe://…`, or `dns:HOST`.
    pub(super) fn new(name: &Arc<str>, grants: &Arc<Grants>, credential: Credential) -> Self {
        Self(Some(Arc::new(Who {
            name: Arc::clone(name),
            grants: Arc::clone(grants),
            credential,
        })))
    }

    /// As an action is signed: by the principal, with what the request calls its owner beside it.
    /// A name has no space in it, so nobody can sign as somebody else.
    pub fn signature(&self, owner: &str) -> String {
        match (self.name(), owner) {
            (None, owner) => owner.to_owned(),
            (Some(name), "") => name.to_owned(),
            (Some(name), owner) => format!("{name} ({owner})"),
        }
    }

    /// `None`: nobody in particular has none.
    pub(super) fn credential(&self) -> Option<&Credential> {
        self.0.as_deref().map(|who| &who.credential)
    }

    /// Whether time alone can end it.
    pub(super) fn expires(&self) -> bool {
        match self.credential() {
            Some(Credential::Token { expires, .. }) => expires.is_some(),
            Some(Credential::Certificate(_)) => true,
            None => false,
        }
    }

    /// `token:checkout`, `spiffe://…`, `dns:host`; `None` for nobody in particular.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref().map(|who| &*who.name)
    }

    pub fn grants(&self) -> &Grants {
        static ALL: LazyLock<Arc<Grants>> = LazyLock::new(|| Arc::new(Grants::all()));
        match &self.0 {
            Some(who) => &who.grants,
            None => &ALL,
        }
    }

    /// Whether it holds this, of no namespace in particular.
    pub fn holds(&self, needs: Needs) -> bool {
        self.admit(needs).is_ok()
    }

    /// Whether it may do this in a namespace; the empty one is the default.
    pub(super) fn authorize(&self, needs: Needs, namespace: &str) -> Result<(), Forbidden> {
        let held = match needs {
            Needs::Role(role) => self.grants().hold(role, namespace),
            Needs::Everywhere(role) => self.grants().hold(role, EVERYWHERE),
            Needs::Nothing | Needs::AnyRole | Needs::Somewhere(_) => return self.admit(needs),
        };
        match held {
            true => Ok(()),
            false => Err(self.forbidden(needs, Some(namespace))),
        }
    }

    /// Whether it may do this in any namespace at all: what can be said before a message is read.
    pub(super) fn admit(&self, needs: Needs) -> Result<(), Forbidden> {
        let held = match needs {
            Needs::Nothing => true,
            Needs::AnyRole => Role::ALL
                .into_iter()
                .any(|role| self.grants().hold_somewhere(role)),
            Needs::Role(role) | Needs::Somewhere(role) => self.grants().hold_somewhere(role),
            Needs::Everywhere(role) => self.grants().hold(role, EVERYWHERE),
        };
        match held {
            true => Ok(()),
            false => Err(self.forbidden(needs, None)),
        }
    }

    fn forbidden(&self, needs: Needs, namespace: Option<&str>) -> Forbidden {
        Forbidden {
            who: self.name().unwrap_or("this caller").to_owned(),
            needs,
            namespace: namespace.map(str::to_owned),
        }
    }
}

/// Shows who it is, and no secret: it holds none.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Principal").field(&self.name()).finish()
    }
}

/// A principal may not do this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    who: String,
    needs: Needs,
    namespace: Option<String>,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} may not do this: it needs ", self.who)?;
        match (self.needs, &self.namespace) {
            (Needs::Role(role), Some(namespace)) if namespace.is_empty() => {
                write!(f, "the role {role} in namespace {DEFAULT_NAMESPACE:?}")
            }
            (Needs::Role(role), Some(namespace)) => {
                write!(f, "the role {role} in namespace {namespace:?}")
            }
            (needs, _) => write!(f, "{needs}"),
        }
    }
}

impl std::error::Error for Forbidden {}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(grants: &[(&str, Role)]) -> Principal {
        let mut all = Grants::default();
        for (namespace, role) in grants {
            all.add(namespace, *role).unwrap();
        }
        let credential = Credential::Certificate(SystemTime::UNIX_EPOCH);
        Principal::new(&"dns:t".into(), &Arc::new(all), credential)
    }

    #[test]
    fn an_operator_may_look_and_a_client_is_neither() {
        let may = |held, wanted| {
            let principal = principal(&[("default", held)]);
            principal.authorize(Needs::Role(wanted), "").is_ok()
        };
        let held = Role::ALL.map(|held| Role::ALL.map(|wanted| may(held, wanted)));
        assert_eq!(held[0], [true, false, false], "client");
        assert_eq!(held[1], [false, true, false], "viewer");
        assert_eq!(held[2], [false, true, true], "operator");
    }

    #[test]
    fn a_grant_holds_in_its_namespace_and_the_star_in_all() {
        let one = principal(&[("shop", Role::Viewer)]);
        assert!(one.authorize(Needs::Role(Role::Viewer), "shop").is_ok());
        for other in ["", "default", "shop2", "sho", "*"] {
            assert!(one.authorize(Needs::Role(Role::Viewer), other).is_err());
        }
        assert!(one.admit(Needs::Role(Role::Viewer)).is_ok());
        assert!(one.admit(Needs::Everywhere(Role::Viewer)).is_err());
        let all = principal(&[("*", Role::Viewer)]);
        assert!(all.authorize(Needs::Role(Role::Viewer), "shop").is_ok());
        assert!(all.authorize(Needs::Everywhere(Role::Viewer), "").is_ok());
        assert!(all.authorize(Needs::Role(Role::Client), "shop").is_err());
    }

    #[test]
    fn a_principal_without_grants_may_nothing() {
        let nobody = principal(&[]);
        assert!(nobody.admit(Needs::AnyRole).is_err());
        assert!(nobody.authorize(Needs::AnyRole, "").is_err());
        assert!(nobody.authorize(Needs::Nothing, "").is_ok());
    }

    #[test]
    fn a_refusal_names_the_role_and_the_namespace() {
        let refused = principal(&[]).authorize(Needs::Role(Role::Operator), "shop");
        assert_eq!(
            refused.unwrap_err().to_string(),
            "dns:t may not do this: it needs the role operator in namespace \"shop\""
        );
    }
}
