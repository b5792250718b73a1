//! Prints the planned runs of a study without running them.

use std::time::Duration;

use linerate_quantity::{BitRate, Bytes, counted};

use super::estimate::estimate;
use super::grid::{Grid, wrap};
use crate::spec::study::{CaseSpec, LinkSpec, Sizes, Study};
use crate::spec::tool::{Moves, Toolbox};

/// The plan of a study: each case with its tool, streams, data, link and other levels; the number of runs;
/// and the approximate time.
pub fn plan(study: &Study, tools: &Toolbox, blocks: u32) -> String {
    let mut lines = vec![format!("{}: {}", study.name, study.title)];
    lines.extend(study.datasets.iter().map(|set| format!("data set {}: {}", set.name, sizes(&set.sizes))));
    lines.extend(study.links.iter().map(|link| format!("link {}: {}", link.name, describe_link(link))));
    lines.extend(study.settings.iter().map(|setting| {
        format!("setting {}: of host {}, restored at the end", setting.name, setting.hosts.join(" and "))
    }));
    lines.push(String::new());
    let mut grid = Grid::new(&["case", "tool", "streams", "moves", "link", "with"], 6);
    for case in &study.cases {
        grid.row(cells(case, tools));
    }
    lines.extend(grid.lines());
    lines.push(String::new());
    lines.extend(
        study.bounds.iter().flat_map(|bound| wrap(&format!("bound: {}: {}", bound.name, bound.text), 2)),
    );
    lines.push(counts(study, tools, blocks));
    lines.join("\n")
}

/// The line that reports that a study file has no errors.
pub fn checked(study: &Study, tools: &Toolbox, blocks: u32) -> String {
    let several = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let parts = [
        several(study.cases.len(), "case"),
        several(blocks as usize, "block"),
        several(study.links.len(), "link"),
        several(study.datasets.len(), "data set"),
        several(study.bounds.len(), "bound"),
        several(study.figures.len(), "figure"),
    ];
    let about = about(estimate(study, tools, blocks));
    format!("{}: right: {}; about {about} (estimated)", study.name, parts.join(", "))
}

fn counts(study: &Study, tools: &Toolbox, blocks: u32) -> String {
    let cases = study.cases.len();
    let runs = cases * blocks as usize;
    let about = about(estimate(study, tools, blocks));
    format!("{cases} warm-ups, then {blocks} x {cases} = {runs} runs; about {about} in all (estimated)")
}

/// A description of a study's link.
pub(crate) fn describe_link(link: &LinkSpec) -> String {
    let rate = link.rate.map_or("open".into(), |rate| format!("{:#}", BitRate(rate as f64)));
    let several = if link.count > 1 { format!("{} x ", link.count) } else { String::new() };
    let queues = link.queues.map_or(String::new(), |queues| format!(", queues: {queues}"));
    let guests = match (link.guests, &link.machine) {
        (0, _) => String::new(),
        (guests, None) => format!(", shared by {guests} guests"),
        (guests, Some(machine)) => format!(", to {} ({machine})", of_machines(guests)),
    };
    let rtt = link.rtt.map_or(String::new(), |rtt| format!(", round trip {rtt}"));
    let loss = link.loss.map_or(String::new(), |loss| format!(", loss {loss}"));
    format!("{several}{rate}, MTU {}{queues}{guests}{rtt}{loss}", link.mtu)
}

/// The number of virtual machines as text: `1 virtual machine`, `8 virtual machines`.
pub(crate) fn of_machines(number: u32) -> String {
    format!("{number} virtual machine{}", if number == 1 { "" } else { "s" })
}

fn cells(case: &CaseSpec, tools: &Toolbox) -> Vec<String> {
    let moves = match (tools.get(&case.tool).map(|tool| tool.moves), &case.dataset) {
        (_, Some(set)) => set.clone(),
        (Some(Moves::Memory), None) => {
            case.bytes.map_or("memory".into(), |bytes| format!("memory, {}", Bytes::of(bytes)))
        }
        (Some(Moves::Requests), None) => "requests".into(),
        _ => "nothing".into(),
    };
    let with = case.parameters.iter().chain(&case.settings).map(|(name, level)| format!("{name} {level}"));
    vec![
        case.id.clone(),
        case.variant
            .as_ref()
            .map_or_else(|| case.tool.clone(), |variant| format!("{}, {variant}", case.tool)),
        case.streams.to_string(),
        moves,
        case.link.clone(),
        with.collect::<Vec<_>>().join(", "),
    ]
}

fn sizes(sizes: &Sizes) -> String {
    match sizes {
        Sizes::LogNormal { total, mean, sigma } => {
            format!(
                "{} in files of {} in the mean, log-normal, sigma {sigma}",
                Bytes::of(*total),
                Bytes::of(*mean)
            )
        }
        Sizes::Fixed { files, size: each } => {
            format!("{} of {}", counted(*files, "file", "files"), Bytes::of(*each))
        }
    }
}

/// An approximate duration as text: `45 s`, `3 min`, `1 h 5 min`.
pub(super) fn about(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..=89 => format!("{seconds} s"),
        90..=5399 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::grid::WIDTH;

    #[track_caller]
    fn fits(study: &Study, tools: &Toolbox) {
        let text = plan(study, tools, 5);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH && !line.ends_with("...")), "{text}");
        assert!(study.cases.iter().all(|case| text.contains(&case.id)), "{text}");
        assert!(text.contains("(estimated)") && checked(study, tools, 5).contains("right: "));
    }

    #[test]
    fn the_built_in_studies_fit_the_width() {
        let tools = Toolbox::built_in().unwrap();
        for name in Study::built_in_names() {
            let (file, text) = Study::built_in(name).unwrap();
            let mut study = Study::parse(file, text, &tools).unwrap();
            fits(&study, &tools);
            study.apply_quick();
            fits(&study, &tools);
        }
    }
}
