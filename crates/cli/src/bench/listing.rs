//! `linerate bench list`: what is built in.

use linerate_bench::spec::papers::{EXPERIMENTS, Experiment, PAPERS};
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::{Tool, Toolbox};
use serde_json::{Value, json};

use crate::exit::Code;

/// Shows the built-in studies by paper and figure, and the tools.
///
/// # Errors
/// A built-in study doesn't read with these tools: one of them replaces a built-in tool, and lacks what a study needs.
pub fn list(tools: &Toolbox, as_json: bool) -> anyhow::Result<Code> {
    let studies = Study::built_in_names()
        .filter_map(Study::built_in)
        .map(|(file, text)| Study::parse(file, text, tools))
        .collect::<Result<Vec<Study>, _>>()?;
    let tools: Vec<&Tool> = tools.names().filter_map(|name| tools.get(name)).collect();
    if as_json {
        say!("{}", document(&studies, &tools));
        return Ok(Code::Done);
    }
    say!("studies:");
    for study in &studies {
        say!("  {:<11} {}", study.name, study.title);
    }
    by_paper(&studies);
    say!("\ntools:");
    for tool in &tools {
        say!("  {:<20} {}{}", tool.name, tool.label, variants(tool));
    }
    Ok(Code::Done)
}

/// The papers' experiments, each with the studies that run it.
fn by_paper(studies: &[Study]) {
    for (number, title) in PAPERS.iter().enumerate() {
        say!("\n{title}:");
        for experiment in EXPERIMENTS.iter().filter(|experiment| experiment.paper == number) {
            let names = running(studies, experiment);
            let names = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
            say!("  {:>2}  {:<17} {}: {names}", experiment.row, experiment.place, experiment.what);
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

/// Schema 1: docs/formats.md, JSON on stdout.
fn document(studies: &[Study], tools: &[&Tool]) -> Value {
    let studies: Vec<Value> = studies
        .iter()
        .map(|study| {
            let figures: Vec<&str> = study.figures.iter().map(|figure| figure.title.as_str()).collect();
            json!({
                "name": study.name, "title": study.title, "rows": study.rows, "cases": study.cases.len(),
                "blocks": study.blocks, "figures": figures,
            })
        })
        .collect();
    let rows: Vec<Value> = EXPERIMENTS
        .iter()
        .map(|e| json!({ "row": e.row, "paper": PAPERS[e.paper], "place": e.place, "what": e.what }))
        .collect();
    let tools: Vec<Value> = tools
        .iter()
        .map(|tool| json!({ "name": tool.name, "label": tool.label, "parameters": tool.parameters }))
        .collect();
    json!({ "schema": 1, "type": "studies", "studies": studies, "rows": rows, "tools": tools })
}
