//! holdoff's figures beside every published figure and baseline, and beside what is possible.
//!
//! `cargo bench -p holdoff-simulate --bench headline` prints them; `-- --write` also writes the
//! tables of docs/benchmark.md and the plots beside it; `-- --quick` runs a little of each;
//! `-- herd storm` runs the sections of these names. It fails where a figure is missed.

use std::{fs, path::Path, process::ExitCode, time::Instant};

use holdoff_simulate::published::{self, Effort, Section};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let effort = if asked("--quick") {
        Effort::Quick
    } else {
        Effort::Full
    };
    let only: Vec<&String> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    if let Some(unknown) = only
        .iter()
        .find(|it| !published::NAMES.contains(&it.as_str()))
    {
        eprintln!(
            "no section `{unknown}`; there are {}",
            published::NAMES.join(", ")
        );
        return ExitCode::from(2);
    }
    let (mut missed, begin) = (Vec::new(), Instant::now());
    for name in published::NAMES {
        if !only.is_empty() && !only.iter().any(|it| it.as_str() == name) {
            continue;
        }
        let began = Instant::now();
        let Some(section) = published::section(name, effort) else {
            continue;
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
