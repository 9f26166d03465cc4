//! The section `envoy`: what descriptors are called, and what is wrong with it.

use super::*;

const ENVOY: &str = "version: 1\nnamespaces:\n  shop:\n    envoy:\n      destination_cluster=payments: payments\n      \"generic_key=search, remote_address\": search/{remote_address}\n";

#[test]
fn descriptors_of_envoy_are_named_by_the_section_or_by_their_entries() {
    let set = load(ENVOY);
    let shop = set.namespace("shop").unwrap();
    let name = |entries: &[(&str, &str)]| shop.dependency_of(entries);
    assert_eq!(
        name(&[("destination_cluster", "payments")]).as_deref(),
        Some("payments")
    );
    assert_eq!(
        name(&[("generic_key", "search"), ("remote_address", "10.0.0.9")]).as_deref(),
        Some("search/10.0.0.9")
    );
    assert_eq!(name(&[("destination_cluster", "web")]), None);
    let set = load("version: 1\nnamespaces: {none: {envoy: {}}, silent: {}}\n");
    let entries = [("k", "v")];
    assert_eq!(set.namespace("none").unwrap().dependency_of(&entries), None);
    let joined = set.namespace("silent").unwrap().dependency_of(&entries);
    assert_eq!(joined.as_deref(), Some("k:v"));
}

#[test]
fn what_is_wrong_in_the_section_of_envoy_is_told_with_its_place() {
    let text = "version: 1\nnamespaces:\n  shop:\n    envoy:\n      a=1: x y\n      \"a, a\": n\n      b: {c: d}\n      c: '{d}'\n      d: n\n      \" d\": n\n";
    assert_eq!(
        refused(text),
        [
            format!(
                "p.yaml:5:12: namespaces.shop.envoy.\"a=1\": x y is not allowed; a name ({}), with {{key}} where a value goes",
                crate::policy::name::ALLOWED
            ),
            "p.yaml:6:7: namespaces.shop.envoy.\"a, a\": the key a stands twice in it".into(),
            "p.yaml:7:10: namespaces.shop.envoy.b: a map is not allowed; the name of a dependency"
                .into(),
            "p.yaml:8:10: namespaces.shop.envoy.c: {d} is no key of the descriptor; its keys: c"
                .into(),
            "p.yaml:10:7: namespaces.shop.envoy.d: given twice; first in p.yaml:9".into(),
        ]
    );
}

#[test]
fn the_section_of_envoy_is_shown_with_the_defaults_and_compared() {
    let set = load(ENVOY);
    let rows = set.explain("shop", "").unwrap();
    let shown: Vec<_> = rows
        .iter()
        .filter(|row| row.field.starts_with("envoy."))
        .map(|row| (row.field.as_str(), row.value.as_str(), row.origin.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "envoy.\"destination_cluster=payments\"",
                "payments",
                "namespaces.shop.envoy (p.yaml:5)"
            ),
            (
                "envoy.\"generic_key=search, remote_address\"",
                "search/{remote_address}",
                "namespaces.shop.envoy (p.yaml:6)"
            ),
        ]
    );
    let other = load(&ENVOY.replace(": payments", ": pay"));
    let changes = diff(&set, &other);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].field, "envoy.\"destination_cluster=payments\"");
    assert_eq!(changes[0].before.as_deref(), Some("payments"));
    assert_eq!(changes[0].after.as_deref(), Some("pay"));
}
