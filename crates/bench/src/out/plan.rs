//! What a study would do, without doing it.

use super::grid::{Grid, wrap};
use super::number::{self, size};
use crate::spec::study::{CaseSpec, Sizes, Study};
use crate::spec::tool::{Moves, Toolbox};

/// The matrix: each case with its tool, streams, data and link, and how many runs there will be.
pub fn plan(study: &Study, tools: &Toolbox, blocks: u32) -> String {
    let mut lines = vec![format!("{}: {}", study.name, study.title)];
    lines.extend(study.datasets.iter().map(|set| format!("data set {}: {}", set.name, sizes(&set.sizes))));
    lines.push(String::new());
    let mut grid = Grid::new(&["case", "tool", "variant", "streams", "moves", "link"], 6);
    for case in &study.cases {
        grid.row(cells(case, tools));
    }
    lines.extend(grid.lines());
    lines.push(String::new());
    lines.extend(
        study.bounds.iter().flat_map(|bound| wrap(&format!("bound: {}: {}", bound.name, bound.text), 2)),
    );
    let cases = study.cases.len();
    let runs = cases * blocks as usize;
    lines.push(format!("{cases} warm-ups, then {blocks} x {cases} = {runs} runs"));
    lines.join("\n")
}

fn cells(case: &CaseSpec, tools: &Toolbox) -> Vec<String> {
    let moves = match (tools.get(&case.tool).map(|tool| tool.moves), &case.dataset) {
        (_, Some(set)) => set.clone(),
        (Some(Moves::Memory), None) => {
            case.bytes.map_or("memory".into(), |bytes| format!("memory, {}", size(bytes)))
        }
        _ => "nothing".into(),
    };
    vec![
        case.id.clone(),
        case.tool.clone(),
        case.variant.clone().unwrap_or_else(|| "default".into()),
        case.streams.to_string(),
        moves,
        case.link.clone(),
    ]
}

fn sizes(sizes: &Sizes) -> String {
    match sizes {
        Sizes::LogNormal { total, mean, sigma } => {
            format!("{} in files of {} in the mean, log-normal, sigma {sigma}", size(*total), size(*mean))
        }
        Sizes::Fixed { files, size: each } => format!("{} of {}", number::files(*files), size(*each)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::grid::WIDTH;

    #[test]
    fn the_built_in_studies_fit_the_width() {
        let tools = Toolbox::built_in().unwrap();
        for name in Study::built_in_names() {
            let (file, text) = Study::built_in(name).unwrap();
            let study = Study::parse(file, text, &tools).unwrap();
            let text = plan(&study, &tools, 5);
            assert!(
                text.lines().all(|line| line.chars().count() <= WIDTH && !line.ends_with("...")),
                "{text}"
            );
            assert!(study.cases.iter().all(|case| text.contains(&case.id)));
        }
    }
}
