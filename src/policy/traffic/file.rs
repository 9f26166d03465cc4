//! A traffic file: the shape of a policy file, with facts in the place of policies.

use super::super::finding::Finding;
use super::super::name::{self, Selector};
use super::super::set::Source;
use super::super::tree::{self, Key, Node, Tree};
use super::{Facts, Traffic};

/// # Errors
/// Everything that is wrong with it.
pub fn read(source: &Source) -> Result<Traffic, Vec<Finding>> {
    let mut reader = Reader {
        file: &source.name,
        traffic: Traffic::default(),
        findings: Vec::new(),
    };
    match tree::parse(&source.name, &source.text) {
        Ok(Some(root)) => reader.document(&root),
        Ok(None) => {
            let message = "empty; it begins with version: 1".to_owned();
            reader
                .findings
                .push(Finding::of_file(&source.name, message));
        }
        Err(finding) => reader.findings.push(*finding),
    }
    match reader.findings.is_empty() {
        true => Ok(reader.traffic),
        false => Err(reader.findings),
    }
}

struct Reader<'a> {
    file: &'a str,
    traffic: Traffic,
    findings: Vec<Finding>,
}

impl Reader<'_> {
    fn refuse(&mut self, at: &Node, path: &str, message: String) {
        let finding = Finding::at(self.file, at.place, path.to_owned(), message);
        self.findings.push(finding);
    }

    fn refuse_key(&mut self, key: &Key, path: &str, message: String) {
        let finding = Finding::at(self.file, key.place, path.to_owned(), message);
        self.findings.push(finding);
    }

    fn document(&mut self, root: &Node) {
        let mut version = false;
        for (key, node) in self.map(root, "") {
            match key.text.as_str() {
                "version" => {
                    version = true;
                    if !matches!(node.value, Tree::Number(1.0)) {
                        let shown = node.value.shown();
                        let message = format!("{shown} is not allowed; 1 is the only version");
                        self.refuse(node, "version", message);
                    }
                }
                "namespaces" => {
                    for (key, node) in self.map(node, "namespaces") {
                        self.namespace(key, node);
                    }
                }
                other => self.unknown(key, &name::step(other), "version, namespaces"),
            }
        }
        if !version && matches!(root.value, Tree::Map(_)) {
            let message = "missing; 1 is the only version".to_owned();
            self.refuse(root, "version", message);
        }
    }

    fn namespace(&mut self, key: &Key, node: &Node) {
        let path = format!("namespaces.{}", name::step(&key.text));
        if key.text != "*" && !name::is_name(&key.text) {
            let message = format!("not a namespace; {}, or *", name::ALLOWED);
            self.refuse_key(key, &path, message);
            return;
        }
        for (inner, node) in self.map(node, &path) {
            let path = format!("{path}.{}", name::step(&inner.text));
            match inner.text.as_str() {
                "defaults" => self.facts(&key.text, "", node, &path),
                "dependencies" => {
                    for (named, node) in self.map(node, &path) {
                        let path = format!("{path}.{}", name::step(&named.text));
                        match Selector::parse(&named.text) {
                            Some(_) => self.facts(&key.text, &named.text, node, &path),
                            None => {
                                let allowed = name::ALLOWED;
                                let message = format!(
                                    "not a name; {allowed}, or the beginning of one and a * at its end"
                                );
                                self.refuse_key(named, &path, message);
                            }
                        }
                    }
                }
                _ => self.unknown(inner, &path, "defaults, dependencies"),
            }
        }
    }

    fn facts(&mut self, namespace: &str, name: &str, node: &Node, path: &str) {
        let mut facts = Facts::default();
        for (key, node) in self.map(node, path) {
            if let Err(message) = facts.take(&key.text, &node.value) {
                let path = format!("{path}.{}", name::step(&key.text));
                self.refuse(node, &path, message);
            }
        }
        self.traffic.state(namespace, name, &facts);
    }

    fn unknown(&mut self, key: &Key, path: &str, known: &str) {
        self.refuse_key(key, path, format!("unknown field; known here: {known}"));
    }

    /// The entries of a map, each key once. Nothing written is an empty map.
    fn map<'n>(&mut self, node: &'n Node, path: &str) -> Vec<(&'n Key, &'n Node)> {
        let entries = match &node.value {
            Tree::Map(entries) => entries.as_slice(),
            Tree::Null => &[],
            other => {
                let message = format!("{} is not allowed; a map of fields", other.shown());
                self.refuse(node, path, message);
                &[]
            }
        };
        let mut once: Vec<(&Key, &Node)> = Vec::with_capacity(entries.len());
        let mut lines = std::collections::HashMap::with_capacity(entries.len());
        for (key, node) in entries {
            match lines.insert(key.text.as_str(), key.place.line) {
                None => once.push((key, node)),
                Some(line) => {
                    let step = name::step(&key.text);
                    let path = match path {
                        "" => step,
                        path => format!("{path}.{step}"),
                    };
                    self.refuse_key(key, &path, format!("given twice; first in line {line}"));
                }
            }
        }
        once
    }
}

#[cfg(test)]
mod tests {
    use holdoff_decision::Nanos;

    use super::*;

    fn source(text: &str) -> Source {
        Source {
            name: "facts.yaml".into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_traffic_file_has_the_shape_of_a_policy_file() {
        let text = "version: 1\nnamespaces:\n  default:\n    defaults: {clients: 50}\n    dependencies:\n      payments: {calls_per_second: 20, deadline: 2s}\n      \"openai:*\": {capacity: 10}\n";
        let traffic = read(&source(text)).unwrap();
        let payments = traffic.of("default", "payments");
        assert_eq!(payments.clients, Some(50));
        assert_eq!(payments.deadline, Some(Nanos::from_secs(2)));
        assert_eq!(traffic.of("default", "openai:gpt").capacity, Some(10.0));
        assert_eq!(traffic.of("other", "openai:gpt"), Facts::default());
    }

    #[test]
    fn every_mistake_is_told_with_file_line_field_value_and_range() {
        let text = "namespaces:\n  a b: {}\n  default:\n    colour: red\n    dependencies:\n      '*x': {}\n      y: {callers: 3, clients: 0, clients: 5}\n      z: 7\nspeed: 1\n";
        let findings: Vec<String> = read(&source(text))
            .unwrap_err()
            .iter()
            .map(Finding::to_string)
            .collect();
        let expected = [
            "facts.yaml:2:3: namespaces.\"a b\": not a namespace; ",
            "facts.yaml:4:5: namespaces.default.colour: unknown field; known here: defaults, dependencies",
            "facts.yaml:6:7: namespaces.default.dependencies.\"*x\": not a name; ",
            "facts.yaml:7:20: namespaces.default.dependencies.y.callers: unknown field; known here: calls_per_second",
            "facts.yaml:7:32: namespaces.default.dependencies.y.clients: 0 is not allowed; 1 to 100000000",
            "facts.yaml:7:35: namespaces.default.dependencies.y.clients: given twice; first in line 7",
            "facts.yaml:8:10: namespaces.default.dependencies.z: 7 is not allowed; a map of fields",
            "facts.yaml:9:1: speed: unknown field; known here: version, namespaces",
            "facts.yaml:1:1: version: missing; 1 is the only version",
        ];
        for expected in expected {
            assert!(
                findings.iter().any(|finding| finding.starts_with(expected)),
                "{expected}\n{findings:#?}"
            );
        }
        assert_eq!(findings.len(), expected.len(), "{findings:#?}");
        assert_eq!(read(&source("")).unwrap_err().len(), 1);
    }
}
