//! What reviews would otherwise have to look for: layout, sizes, import direction, and what
//! must not be there at all.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const LINES_MAX: usize = 500;

/// Files that are longer, with the reason.
const LONGER: &[(&str, &str)] = &[];

/// Where a clock is read besides `src/clock.rs`, with the reason.
const CLOCK_READERS: &[(&str, &str)] = &[
    (
        "src/clock/fleet.rs",
        "the fleet's clock goes on by it between two looks at the store's",
    ),
    (
        "src/policy/watch.rs",
        "waits for a burst of file events to end; decides nothing",
    ),
    (
        "src/cli/",
        "measures real processes and real load; decides nothing",
    ),
    (
        "crates/simulate/benches/",
        "says how long a comparison took; what it simulates has a time of its own",
    ),
    (
        "crates/simulate/examples/",
        "measures how fast the simulator is; decides nothing",
    ),
];

/// Where numbers are drawn, with the reason.
const DRAWERS: &[(&str, &str)] = &[
    ("src/entropy.rs", "the service's one place"),
    ("clients/rust/src/entropy.rs", "the client's one place"),
    (
        "crates/simulate/src/random.rs",
        "the simulator's one place: streams that follow from a seed",
    ),
];

/// What each module of the service may use of the others; itself always. What is missing here
/// has not been thought about.
const MAY_USE: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("entropy", &[]),
    ("proto", &[]),
    ("settings", &["access", "recording", "store"]),
    // The names of the RPCs.
    ("telemetry", &["proto"]),
    ("permit", &[]),
    ("policy", &[]),
    ("access", &["clock", "policy", "telemetry"]),
    ("durable", &[]),
    ("candidate", &["policy"]),
    ("comparison", &["candidate", "clock", "proto"]),
    ("recording", &["candidate", "permit", "policy"]),
    ("replay", &["candidate", "permit", "policy", "recording"]),
    ("store", &["candidate", "clock", "permit"]),
    (
        "coordinator",
        &[
            "candidate",
            "clock",
            "durable",
            "entropy",
            "permit",
            "policy",
            "recording",
            "store",
            "telemetry",
        ],
    ),
    (
        "grpc",
        &[
            "access",
            "clock",
            "comparison",
            "coordinator",
            "durable",
            "policy",
            "proto",
            "store",
            "telemetry",
        ],
    ),
    (
        "dashboard",
        &[
            "access",
            "clock",
            "coordinator",
            "durable",
            "entropy",
            "policy",
            "store",
        ],
    ),
    (
        "server",
        &[
            "access",
            "clock",
            "coordinator",
            "dashboard",
            "durable",
            "entropy",
            "grpc",
            "policy",
            "proto",
            "settings",
            "store",
            "telemetry",
        ],
    ),
    (
        "cli",
        &[
            "access",
            "candidate",
            "clock",
            "comparison",
            "durable",
            "entropy",
            "policy",
            "proto",
            "recording",
            "replay",
            "server",
            "settings",
        ],
    ),
    ("lib", &[]),
    ("main", &["cli"]),
];

struct Source {
    /// From the root, with slashes.
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs")
    }

    /// Without its own tests.
    fn code(&self) -> &str {
        let end = self.text.find("\n#[cfg(test)]\nmod tests {");
        end.map_or(&self.text, |end| &self.text[..end])
    }

    /// As `code`, without comments.
    fn statements(&self) -> String {
        let lines = self.code().lines();
        let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn files(extension: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules"
            {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for folder in ["src", "crates", "clients", "tests"] {
        walk(&Path::new(ROOT).join(folder), extension, &mut found);
    }
    found.sort();
    found
}

fn sources() -> Vec<Source> {
    let read = |path: PathBuf| Source {
        path: path
            .strip_prefix(ROOT)
            .unwrap()
            .to_string_lossy()
            .replace('\\', "/"),
        text: fs::read_to_string(&path).unwrap(),
    };
    let sources: Vec<Source> = files("rs").into_iter().map(read).collect();
    assert!(
        sources.len() > 50,
        "{} files: looked in the wrong place",
        sources.len()
    );
    sources
}

#[track_caller]
fn assert_none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

#[test]
fn no_file_is_longer_than_five_hundred_lines() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let lines = source.code().lines().count();
        let excused = LONGER.iter().any(|(path, _)| *path == source.path);
        if lines > LINES_MAX && !excused {
            found.push(format!("{}: {lines}", source.path));
        }
        if lines <= LINES_MAX && excused {
            found.push(format!("{}: {lines}, no longer an exception", source.path));
        }
    }
    assert_none("too long", found);
}

#[test]
fn every_file_says_what_it_is() {
    let silent = sources().into_iter().filter(|source| {
        let beside_its_code = source.path.ends_with("/tests.rs");
        !beside_its_code && !source.text.starts_with("//! ")
    });
    assert_none(
        "without //! at its start",
        silent.map(|source| source.path).collect(),
    );
}

#[test]
fn no_name_says_nothing() {
    const SAY_NOTHING: [&str; 8] = [
        "mod", "util", "utils", "common", "types", "helper", "helpers", "manager",
    ];
    let found = sources().into_iter().filter(|source| {
        let mut parts = source.path.trim_end_matches(".rs").split('/');
        parts.any(|part| SAY_NOTHING.contains(&part))
    });
    assert_none(
        "names that say nothing",
        found.map(|source| source.path).collect(),
    );
}

/// The modules of this crate that a file names.
fn used_modules(source: &Source) -> Vec<String> {
    let text = source.statements();
    let mut used = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let after = &text[at + "crate::".len()..];
        let whole_word =
            !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        if whole_word {
            used.extend(first_names(after));
        }
    }
    used
}

/// The first names of a path, or of each path in braces.
fn first_names(text: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let Some(inside) = text.strip_prefix('{') else {
        return vec![name(text)];
    };
    let (mut names, mut depth, mut at_start) = (Vec::new(), 0, true);
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            c if c.is_whitespace() => {}
            _ if at_start => {
                names.push(name(&inside[at..]));
                at_start = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn imports_point_one_way() {
    let may_use: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let modules: Vec<&str> = MAY_USE.iter().map(|(module, _)| *module).collect();
    let (mut found, mut seen) = (Vec::new(), 0);
    for source in sources() {
        let Some(path) = source.path.strip_prefix("src/") else {
            continue;
        };
        let module = path.split(['/', '.']).next().unwrap();
        let Some(allowed) = may_use.get(module) else {
            found.push(format!(
                "{}: `{module}` has no place in the layers",
                source.path
            ));
            continue;
        };
        for used in used_modules(&source) {
            seen += 1;
            let fine = used == module
                || allowed.contains(&used.as_str())
                || !modules.contains(&used.as_str());
            if !fine {
                found.push(format!("{}: uses crate::{used}", source.path));
            }
        }
    }
    assert!(seen > 50, "{seen} imports: the parser reads nothing");
    assert_none("imports that point the wrong way", found);
}

#[test]
fn the_rules_depend_on_nothing() {
    let manifest = fs::read_to_string(Path::new(ROOT).join("crates/decision/Cargo.toml")).unwrap();
    let mut section = "";
    for line in manifest
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if line.starts_with('[') {
            section = line;
            continue;
        }
        assert_ne!(section, "[dependencies]", "{line}");
        assert!(!section.starts_with("[dependencies."), "{section}");
        assert_ne!(section, "[build-dependencies]", "{line}");
    }
    // Of the standard library, nothing that reads, waits, locks or talks.
    const OUTSIDE: [&str; 8] = [
        "std::sync",
        "std::thread",
        "std::io",
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "println!",
    ];
    let mut found = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| source.path.starts_with("crates/decision/src"))
        .filter(|source| !source.path.ends_with("/tests.rs"))
    {
        for outside in OUTSIDE
            .iter()
            .filter(|outside| source.statements().contains(**outside))
        {
            found.push(format!("{}: {outside}", source.path));
        }
    }
    assert_none("the rules reach outside", found);
}

#[test]
fn nothing_is_left_for_later() {
    let needles = ["to", "unimplemen"].map(|start| match start {
        "to" => format!("{start}do!("),
        start => format!("{start}ted!("),
    });
    let ignored = format!("#[{}]", "ignore");
    let ignored_for = format!("#[{} ", "ignore");
    let mut found = Vec::new();
    for source in sources() {
        for needle in needles.iter().chain([&ignored, &ignored_for]) {
            if source.text.contains(needle.as_str()) {
                found.push(format!("{}: {needle}", source.path));
            }
        }
    }
    assert_none("left for later", found);
}

#[test]
fn one_file_reads_the_clock() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let service = source.path.starts_with("src/") || source.path.starts_with("crates/");
        let excused = CLOCK_READERS
            .iter()
            .any(|(path, _)| source.path.starts_with(path));
        if !service || excused || source.path == "src/clock.rs" {
            continue;
        }
        for read in [
            "Instant::now",
            "SystemTime::now",
            "Timestamp::now",
            "Zoned::now",
        ] {
            if source.statements().contains(read) {
                found.push(format!("{}: {read}", source.path));
            }
        }
    }
    assert_none("clocks read elsewhere", found);
}

#[test]
fn one_file_draws_random_numbers() {
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let the_one = DRAWERS.iter().any(|(path, _)| source.path == *path);
        for drawn in ["rand::", "getrandom", "thread_rng", "StdRng"] {
            if !the_one && source.statements().contains(drawn) {
                found.push(format!("{}: {drawn}", source.path));
            }
        }
    }
    assert_none("random numbers drawn elsewhere", found);
}

#[test]
fn every_vector_file_is_read_by_a_test() {
    let sources = sources();
    let vectors = Path::new(ROOT).join("tests/vectors");
    let mut found = Vec::new();
    for path in files("json")
        .into_iter()
        .filter(|path| path.starts_with(&vectors))
    {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        // By its name, or by its stem where the reader of all of them adds the rest.
        let read = sources.iter().any(|source| {
            let reader = source.path.contains("vectors") && source.is_test();
            source.text.contains(&name) || (reader && source.text.contains(&format!("\"{stem}\"")))
        });
        if !read {
            found.push(name);
        }
    }
    assert_none("vectors that no test reads", found);
}

/// Of these tests only those of real processes, of messages between replicas, of faults of a real
/// store and of connections that are closed for their age wait for real time.
#[test]
fn no_test_of_the_service_sleeps() {
    let sleep = format!("{}(", "sleep");
    let found = sources().into_iter().filter(|source| {
        source.path.starts_with("tests/it/")
            && ![
                "board.rs",
                "connections.rs",
                "emptied.rs",
                "killed.rs",
                "leased_fleet.rs",
                "leased_laws.rs",
                "leased_store.rs",
                "process.rs",
                "rolling.rs",
                "stores.rs",
            ]
            .iter()
            .any(|name| source.path == format!("tests/it/{name}"))
            && !source.path.starts_with("tests/it/store_faults/")
            && source.text.contains(&sleep)
    });
    assert_none("sleeps", found.map(|source| source.path).collect());
}
