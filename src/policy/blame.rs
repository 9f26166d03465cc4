//! Which field a fault is put down to, and how entries are named in findings.

use super::explain;
use super::fields::FIELDS;
use super::finding::Finding;
use super::layers::Origin;
use super::name;
use super::set::ItemOrigin;
use super::tree::Place;
use super::validate::Fault;

/// What findings about documents put over the API say instead of a file.
pub const API: &str = "API";

/// The names of the layers of an entry.
pub struct Titles<'a> {
    pub namespace: &'a str,
    /// Empty: the defaults.
    pub name: &'a str,
    pub below: Option<&'a ItemOrigin>,
    pub own: &'a ItemOrigin,
}

impl Titles<'_> {
    /// The layer's item and its name.
    fn layer(&self, depth: usize) -> (&ItemOrigin, &str) {
        match self.below {
            Some(below) if depth == 0 => (below, ""),
            _ => (self.own, self.name),
        }
    }
}

/// The finding of a fault: at the field that the topmost layer gave, naming where the
/// others came from.
pub fn blame(fault: &Fault, origins: &[Origin], titles: &Titles<'_>) -> Finding {
    let mut blamed = fault.fields.first().copied().unwrap_or_default();
    let depth = |field: usize| match origins[field] {
        Origin::Layer { depth, .. } => depth + 1,
        Origin::BuiltIn | Origin::Follows(_) => 0,
    };
    for &field in &fault.fields {
        if depth(field) > depth(blamed) {
            blamed = field;
        }
    }
    let mut message = fault.message.clone();
    let others: Vec<String> = fault
        .fields
        .iter()
        .filter(|&&field| field != blamed && depth(field) != depth(blamed))
        .map(|&field| {
            let origin = explain::origin(origins[field], titles.namespace, |depth| {
                titles.layer(depth)
            });
            format!("{}: {origin}", FIELDS[field].path())
        })
        .collect();
    if !others.is_empty() {
        message += &format!(" ({})", others.join("; "));
    }
    let (place, (origin, name)) = match origins[blamed] {
        Origin::Layer { depth, place } => (place, titles.layer(depth)),
        Origin::BuiltIn | Origin::Follows(_) => (Place::default(), (titles.own, titles.name)),
    };
    let path = format!(
        "{}.{}",
        entry_path(titles.namespace, name),
        FIELDS[blamed].path()
    );
    Finding::at(origin.file(), place, path, message)
}

/// Where an entry stands, or would, in a file.
pub fn entry_path(namespace: &str, name: &str) -> String {
    let namespace = name::step(namespace);
    match name.is_empty() {
        true => format!("namespaces.{namespace}.defaults"),
        false => format!("namespaces.{namespace}.dependencies.{}", name::step(name)),
    }
}

impl ItemOrigin {
    /// The file of findings.
    pub(super) fn file(&self) -> &str {
        match self {
            Self::BuiltIn => "built-in",
            Self::File(file) => file,
            Self::Api(_) => API,
        }
    }
}
