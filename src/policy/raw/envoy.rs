//! The section `envoy` of a namespace: descriptors, and what they are called.

use super::{Given, NamedDescriptor, Reader};
use crate::policy::{
    envoy::{Fault, Rule},
    name,
    tree::{Node, Tree},
};

/// Rules of one namespace in one file.
pub const RULES_MAX: usize = 10_000;

impl Reader<'_> {
    pub(super) fn envoy(&mut self, node: &Node, path: &str) -> Vec<Given<NamedDescriptor>> {
        let written = self.map(node, path);
        if written.len() > RULES_MAX {
            let message = format!("{} rules; at most {RULES_MAX}", written.len());
            self.refuse(node.place, path, message);
            return Vec::new();
        }
        let mut rules = Vec::with_capacity(written.len());
        for (key, node) in written {
            let path = format!("{path}.{}", name::step(&key.text));
            let Tree::Text(name) = &node.value else {
                let shown = node.value.shown();
                let message = format!("{shown} is not allowed; the name of a dependency");
                self.refuse(node.place, &path, message);
                continue;
            };
            match Rule::parse(&key.text, name) {
                Ok(rule) => rules.push(Given {
                    value: NamedDescriptor {
                        rule,
                        name: name.clone(),
                    },
                    place: key.place,
                }),
                Err(Fault::Descriptor(message)) => self.refuse(key.place, &path, message),
                Err(Fault::Name(message)) => self.refuse(node.place, &path, message),
            }
        }
        rules
    }
}
