//! `linerate bench list`: the built-in studies and tools.

use linerate_bench::spec::papers::{EXPERIMENTS, Experiment, PAPERS};
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::{Tool, Toolbox};
use serde::Serialize;
use std::collections::BTreeMap;

use crate::exit::Code;
use crate::print::json;

/// Prints the built-in studies, by paper and figure, and the tools.
///
/// # Errors
/// If a built-in study can't be read with these tools, because one of these tools replaces a built-in tool but lacks
/// something that the study needs.
pub fn list(tools: &Toolbox, as_json: bool) -> anyhow::Result<Code> {
    let studies = Study::built_in_names()
        .filter_map(Study::built_in)
        .map(|(file, text)| Study::parse(file, text, tools))
        .collect::<Result<Vec<Study>, _>>()?;
    let tools: Vec<&Tool> = tools.names().filter_map(|name| tools.get(name)).collect();
    if as_json {
        json(&listing(&studies, &tools));
        return Ok(Code::Done);
    }
    output!("studies:");
    for study in &studies {
        output!("  {:<11} {}", study.name, study.title);
    }
    by_paper(&studies);
    output!("\ntools:");
    for tool in &tools {
        output!("  {:<20} {}{}", tool.name, tool.label, variants(tool));
    }
    Ok(Code::Done)
}

/// Prints the papers' experiments, each with the studies that repeat it.
fn by_paper(studies: &[Study]) {
    for (number, title) in PAPERS.iter().enumerate() {
        output!("\n{title}:");
        for experiment in EXPERIMENTS.iter().filter(|experiment| experiment.paper == number) {
            let names = running(studies, experiment);
            let names = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
            output!("  {:>2}  {:<17} {}: {names}", experiment.row, experiment.place, experiment.what);
        }
    }
}

fn running<'s>(studies: &'s [Study], experiment: &Experiment) -> Vec<&'s str> {
    let runs = studies.iter().filter(|study| study.rows.contains(&experiment.row));
    runs.map(|study| study.name.as_str()).collect()
}

fn variants(tool: &Tool) -> String {
    let names: Vec<&str> = tool.variants.iter().map(|variant| variant.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!(" (variants: {})", names.join(", ")) }
}

/// The object that `--json` prints, as docs/formats.md specifies (JSON on stdout).
#[derive(Serialize)]
struct Listing<'a> {
    schema: u32,
    r#type: &'static str,
    studies: Vec<StudyLine<'a>>,
    rows: Vec<PaperRow>,
    tools: Vec<ToolLine<'a>>,
}

#[derive(Serialize)]
struct StudyLine<'a> {
    name: &'a str,
    title: &'a str,
    rows: &'a [u32],
    cases: usize,
    blocks: u32,
    figures: Vec<&'a str>,
}

#[derive(Serialize)]
struct PaperRow {
    row: u32,
    paper: &'static str,
    place: &'static str,
    what: &'static str,
}

#[derive(Serialize)]
struct ToolLine<'a> {
    name: &'a str,
    label: &'a str,
    parameters: &'a BTreeMap<String, String>,
}

fn listing<'a>(studies: &'a [Study], tools: &[&'a Tool]) -> Listing<'a> {
    let study = |study: &'a Study| StudyLine {
        name: &study.name,
        title: &study.title,
        rows: &study.rows,
        cases: study.cases.len(),
        blocks: study.blocks,
        figures: study.figures.iter().map(|figure| figure.title.as_str()).collect(),
    };
    let row = |e: &Experiment| PaperRow { row: e.row, paper: PAPERS[e.paper], place: e.place, what: e.what };
    let tool =
        |tool: &&'a Tool| ToolLine { name: &tool.name, label: &tool.label, parameters: &tool.parameters };
    Listing {
        schema: 1,
        r#type: "studies",
        studies: studies.iter().map(study).collect(),
        rows: EXPERIMENTS.iter().map(row).collect(),
        tools: tools.iter().map(tool).collect(),
    }
}
