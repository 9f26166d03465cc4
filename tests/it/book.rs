//! The book in `docs/`: what it links to is there, what it says of numbers and tests is so, and what
//! it tells a newcomer to type does what it says.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::process::{BINARY, Running, serve};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// All files under a folder with this ending, from the root, with slashes.
fn below(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        let is_foreign = ["/target", "/node_modules", "/.venv"];
        if entry.path().is_dir() {
            if !is_foreign.iter().any(|folder| name.ends_with(folder)) {
                found.extend(below(&name, ending));
            }
        } else if name.ends_with(ending) {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// The text without fenced blocks and code, in which brackets mean something else.
fn prose(text: &str) -> String {
    let mut is_fenced = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            // Code that is the text of a link stays out, its target stays in.
            let parts = line.split('`').step_by(2);
            out.push_str(&parts.collect::<String>());
            out.push('\n');
        }
    }
    out
}

/// The relative targets of the links of a page.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    let targets = text.match_indices("](").filter_map(|(at, _)| {
        let target = text[at + 2..].split(')').next()?;
        let target = target.split_whitespace().next()?;
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        (!is_elsewhere).then(|| target.to_owned())
    });
    targets.collect()
}

/// As GitHub makes them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// `docs/a.md` and `../b.md#c` make `b.md` and `c`.
fn resolved(page: &str, target: &str) -> (String, Option<String>) {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if path.is_empty() {
        return (page.to_owned(), anchor);
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    (parts.join("/"), anchor)
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut pages = below("docs", ".md");
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned));
    pages.extend(
        below("clients", ".md")
            .into_iter()
            .filter(|path| path.ends_with("README.md")),
    );
    let mut broken = Vec::new();
    let mut looked_at = 0;
    for page in &pages {
        for target in links(&read(page)) {
            looked_at += 1;
            let (path, anchor) = resolved(page, &target);
            let is_there = Path::new(ROOT).join(&path).exists();
            let has_anchor = match anchor {
                Some(anchor) if is_there && path.ends_with(".md") => {
                    anchors(&read(&path)).contains(&anchor)
                }
                Some(_) | None => true,
            };
            if !is_there || !has_anchor {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(
        looked_at > 100,
        "{looked_at} links: looked in the wrong place"
    );
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_can_be_reached_from_the_contents() {
    let mut reached = BTreeSet::from(["docs/README.md".to_owned()]);
    let mut to_read = vec!["docs/README.md".to_owned()];
    while let Some(page) = to_read.pop() {
        for target in links(&read(&page)) {
            let (path, _) = resolved(&page, &target);
            if path.starts_with("docs/") && path.ends_with(".md") && reached.insert(path.clone()) {
                to_read.push(path);
            }
            // A link to a folder is a link to what is in it.
            let folder = resolved(&page, &target).0;
            if folder.starts_with("docs/") && Path::new(ROOT).join(&folder).is_dir() {
                reached.extend(below(&folder, ".md"));
            }
        }
    }
    let lost: Vec<_> = below("docs", ".md")
        .into_iter()
        .filter(|page| !reached.contains(page))
        .collect();
    assert!(lost.is_empty(), "no way to {lost:?}");
}

/// The value of an expression of limits: numbers, `*`, `<<`, and spans in milliseconds.
fn value(expression: &str) -> Option<f64> {
    let text = expression.trim().trim_end_matches(';').replace('_', "");
    for (start, unit) in [
        ("frommicros(", 0.001),
        ("frommillis(", 1.0),
        ("fromsecs(", 1_000.0),
    ] {
        if let Some((_, inside)) = text.split_once(start) {
            return Some(value(inside.strip_suffix(')')?)? * unit);
        }
    }
    if let Some((left, right)) = text.split_once("<<") {
        return Some(value(left)? * 2_f64.powf(value(right)?));
    }
    text.split('*')
        .map(|part| match part.trim() {
            "u16::MAX as u64" => Some(65_535.0),
            part => part.parse().ok(),
        })
        .product()
}

/// `10,000`, `256 KiB`, `5 s` in the unit of [`value`].
fn written(cell: &str) -> Option<f64> {
    let mut words = cell.split_whitespace();
    let number: f64 = words.next()?.replace(',', "").parse().ok()?;
    let unit = match words.next() {
        None | Some("ms" | "bytes") => 1.0,
        Some("s") => 1_000.0,
        Some("min") => 60_000.0,
        Some("h") => 3_600_000.0,
        Some("days") => 86_400_000.0,
        Some("KiB") => 1_024.0,
        Some("MiB") => 1_048_576.0,
        Some(_) => return None,
    };
    Some(number * unit)
}

#[test]
fn every_limit_is_the_number_in_the_code() {
    let page = read("docs/limits.md");
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let place = cells.last().unwrap().split_whitespace().collect::<Vec<_>>();
        let [file, name] = place[..] else { continue };
        let (file, name) = (file.trim_matches('`'), name.trim_matches('`'));
        if !file.ends_with(".rs") {
            continue;
        }
        looked_at += 1;
        let source = read(file);
        let constant = source.lines().find_map(|line| {
            let (_, rest) = line.split_once(&format!("const {name}: "))?;
            rest.split_once(" = ").map(|(_, expression)| expression)
        });
        let found = constant.and_then(value);
        let said = written(cells[1]);
        if found.is_none() || found != said {
            wrong.push(format!(
                "{row}\n    {constant:?} is {found:?}, not {said:?}"
            ));
        }
    }
    assert!(looked_at >= 40, "only {looked_at} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All names of functions in the tests, in every language.
fn tests_there_are() -> BTreeSet<String> {
    let mut sources = below("tests", ".rs");
    sources.extend(below("src", ".rs"));
    sources.extend(below("crates", ".rs"));
    sources.extend(below("clients/rust", ".rs"));
    let mut names = BTreeSet::new();
    for source in sources {
        let text = read(&source);
        for (at, _) in text.match_indices("fn ") {
            let name = text[at + 3..].chars();
            names.insert(
                name.take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    names
}

/// Names in backquotes that read as the name of a test: several words joined by underscores.
fn tests_named(page: &str) -> BTreeSet<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    let is_name = |text: &&str| {
        text.matches('_').count() >= 3
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_test_that_a_page_names_is_there() {
    let there = tests_there_are();
    for page in ["docs/failure-table.md", "docs/track-record.md"] {
        let named = tests_named(&read(page));
        assert!(named.len() >= 10, "{page} names {named:?}");
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{page}: no such test: {missing:?}");
    }
}

#[test]
fn every_cell_of_the_failure_table_names_its_test() {
    let page = read("docs/failure-table.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter(|line| !line.starts_with("| lost |"));
    let mut count = 0;
    for row in rows {
        count += 1;
        for cell in row.trim_matches('|').split('|').skip(1).map(str::trim) {
            let is_proven = !tests_named(cell).is_empty() || cell == "–";
            assert!(is_proven, "no test in {cell:?} of\n{row}");
        }
    }
    assert!(count >= 6, "{count} rows");
}

/// The blocks of a page with this start, and the text block that follows each, if one does.
fn blocks<'a>(page: &'a str, fence: &str) -> Vec<(&'a str, Option<&'a str>)> {
    let starts: Vec<&str> = page.split(fence).skip(1).collect();
    starts
        .into_iter()
        .filter_map(|rest| {
            let (block, after) = rest.split_once("\n```")?;
            let said = after.trim_start().strip_prefix("```text\n");
            let said = said.and_then(|said| said.split("\n```").next());
            Some((block, said))
        })
        .collect()
}

/// Whether a line is as it is written, where … stands for anything.
fn is_like(line: &str, written: &str) -> bool {
    let mut parts = written.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || written.ends_with('…')
}

#[test]
fn what_the_quick_start_says_to_type_does_what_it_says() {
    let page = read("docs/quick-start.md");
    let runs = blocks(&page, "```sh run\n");
    assert!(runs.len() >= 4, "{runs:?}");
    let folder = tempfile::tempdir().unwrap();
    let policies = blocks(&page, "```yaml\n");
    fs::write(folder.path().join("policies.yaml"), policies[0].0).unwrap();
    let service = Running::of(serve(&[
        "--listen",
        "127.0.0.1:0",
        "--policies",
        folder.path().join("policies.yaml").to_str().unwrap(),
    ]));
    let programs = PathBuf::from(BINARY).parent().unwrap().to_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    for (block, said) in runs {
        let ran = Command::new("sh")
            .args(["-euc", block])
            .current_dir(&folder)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOLDOFF_SERVER", &service.url)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&ran.stdout);
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{block}\n{out}\n{errors}");
        for line in said.unwrap_or_default().lines() {
            let mut printed = out.lines().chain(errors.lines());
            assert!(
                printed.any(|printed| is_like(printed.trim_end(), line)),
                "{block}\nsays\n{out}{errors}\nand not\n{line}"
            );
        }
    }
}

#[test]
fn the_snippets_of_the_quick_start_are_those_of_the_clients() {
    let page = read("docs/quick-start.md");
    let languages = BTreeMap::from([
        ("rust", "rust"),
        ("python", "python"),
        ("go", "go"),
        ("js", "typescript"),
        ("java", "java"),
    ]);
    for (fence, client) in languages {
        let snippets = blocks(&page, &format!("```{fence}\n"));
        assert_eq!(snippets.len(), 1, "{fence}");
        let readme = read(&format!("clients/{client}/README.md"));
        assert!(
            readme.contains(snippets[0].0),
            "{client}:\n{}",
            snippets[0].0
        );
    }
}

#[test]
fn a_line_is_like_what_is_written_where_dots_stand_for_anything() {
    assert!(is_like("granted at once (closed)", "granted…"));
    assert!(is_like("a 12 b", "a … b"));
    assert!(is_like("same", "same"));
    for (line, written) in [("denied", "granted…"), ("a 12 b c", "a … b"), ("x", "")] {
        assert!(!is_like(line, written), "{line} {written}");
    }
}

#[test]
fn limits_are_read_in_their_units() {
    assert_eq!(value("256 * 1024"), Some(262_144.0));
    assert_eq!(value("1 << 20"), Some(1_048_576.0));
    assert_eq!(value("Duration::from_secs(5)"), Some(5_000.0));
    assert_eq!(
        value("Nanos::from_secs(365 * 24 * 3600)"),
        written("365 days")
    );
    assert_eq!(written("256 KiB"), Some(262_144.0));
    assert_eq!(written("10,000"), value("10_000"));
}
