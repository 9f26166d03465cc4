//! holdoff's figures beside every published figure and baseline, and beside what is possible.
//!
//! `cargo bench -p holdoff-simulate --bench headline` prints them; `-- --write` also writes the
//! tables of docs/benchmark.md and the plots beside it; `-- --quick` runs a little of each;
//! `-- herd storm` runs the sections of these names. It fails where a figure is missed.

use std::{fs, path::Path, process::ExitCode, time::Instant};

use holdoff_simulate::published::{self, Effort, Scenarios, Section};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let effort = if asked("--quick") {
        Effort::Quick
    } else {
        Effort::Full
    };
    let scenarios = match scenarios() {
        Ok(scenarios) => scenarios,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut names: Vec<&str> = arguments.iter().map(String::as_str).collect();
    names.retain(|name| !name.starts_with('-'));
    if names.is_empty() {
        names = published::NAMES.into();
    }
    let (mut missed, begin) = (Vec::new(), Instant::now());
    for name in names {
        let began = Instant::now();
        let section = match published::section(name, effort, &scenarios) {
            Ok(section) => section,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        };
        println!("## {}\n\n{}", section.title, section.markdown());
        println!("({:.1} s)\n", began.elapsed().as_secs_f64());
        missed.extend(section.missed());
        if asked("--write")
            && let Err(error) = write(&section)
        {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    println!("{:.0} s in all.", begin.elapsed().as_secs_f64());
    for figure in &missed {
        println!("missed: {figure}");
    }
    match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn scenarios() -> Result<Scenarios, String> {
    let read =
        |name: &str, text| serde_saphyr::from_str(text).map_err(|error| format!("{name}: {error}"));
    Ok(Scenarios {
        herd: read("herd.yaml", include_str!("../../../scenarios/herd.yaml"))?,
        storm: read("storm.yaml", include_str!("../../../scenarios/storm.yaml"))?,
    })
}

/// Puts a section between its markers, and its plots beside the document.
fn write(section: &Section) -> Result<(), String> {
    let page = Path::new(DOCS).join("benchmark.md");
    let at = |path: &Path, error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&page).map_err(|error| at(&page, error.to_string()))?;
    let text = published::between_markers(&text, section.name, &section.markdown())
        .ok_or_else(|| at(&page, format!("no markers of `{}`", section.name)))?;
    fs::write(&page, text).map_err(|error| at(&page, error.to_string()))?;
    let plots = Path::new(DOCS).join("plots");
    fs::create_dir_all(&plots).map_err(|error| at(&plots, error.to_string()))?;
    for plot in &section.plots {
        let file = plots.join(format!("{}.svg", plot.name));
        fs::write(&file, &plot.svg).map_err(|error| at(&file, error.to_string()))?;
    }
    Ok(())
}
