//! The scenarios that come with the program. The files are the folder `scenarios` of the sources.

/// By name, simplest first.
const ALL: [(&str, &str); 12] = [
    ("outage", include_str!("../../../scenarios/outage.yaml")),
    ("blip", include_str!("../../../scenarios/blip.yaml")),
    ("brownout", include_str!("../../../scenarios/brownout.yaml")),
    ("slow", include_str!("../../../scenarios/slow.yaml")),
    ("flapping", include_str!("../../../scenarios/flapping.yaml")),
    (
        "throttling",
        include_str!("../../../scenarios/throttling.yaml"),
    ),
    (
        "mass-restart",
        include_str!("../../../scenarios/mass-restart.yaml"),
    ),
    (
        "coordinator-loss",
        include_str!("../../../scenarios/coordinator-loss.yaml"),
    ),
    (
        "partition",
        include_str!("../../../scenarios/partition.yaml"),
    ),
    ("chain", include_str!("../../../scenarios/chain.yaml")),
    ("herd", include_str!("../../../scenarios/herd.yaml")),
    ("storm", include_str!("../../../scenarios/storm.yaml")),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter()
        .find(|(it, _)| *it == name)
        .map(|(_, text)| *text)
}
