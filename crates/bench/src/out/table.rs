//! Prints the tables of the cases' metrics.

use linerate_quantity::plain;

use super::grid::{Grid, wrap};
use crate::metric::Metric;
use crate::record::{Case, Record};
use crate::stats::{
    Called, CaseSummary, Difference, Differences, Estimate, Interval, LEAST_BLOCKS, good_runs, summaries,
};

/// The results of the cases, as tables: one for cases that move data, one for cases that make requests, and
/// one for cases with a score. Below the tables are notes that explain them.
pub fn table(record: &Record) -> String {
    let mut all = summaries(record, record.baseline.as_deref());
    tell_apart(&mut all);
    let of = |main| all.iter().filter(|summary| kind(summary, &all) == main).collect::<Vec<_>>();
    let moving = of(Metric::PayloadRate);
    let beside = moving.iter().any(|summary| summary.case.factors.contains_key("beside"));
    let mut lines = columns(record, &moving, if beside { &BESIDE } else { &MOVERS });
    lines.extend(columns(record, &of(Metric::TransactionRate), &REQUESTS));
    lines.extend(scores(record, &of(Metric::Score)));
    lines.extend(footnotes(record, &all, !moving.is_empty()).iter().flat_map(|note| wrap(note, 2)));
    lines.join("\n")
}

/// The columns for tools that move data. Only the first is shown with its interval.
const MOVERS: [Metric; 5] =
    [Metric::PayloadRate, Metric::Seconds, Metric::BusyPercent, Metric::FarBusyPercent, Metric::CpuPerGb];
/// The columns of [`MOVERS`], and the response times of requests that were made while the tool ran.
const BESIDE: [Metric; 7] = [
    Metric::PayloadRate,
    Metric::P50,
    Metric::P99,
    Metric::Seconds,
    Metric::BusyPercent,
    Metric::FarBusyPercent,
    Metric::CpuPerGb,
];
/// The columns for tools that make requests. Only the load of the server's processors is shown, because it matters more
/// than the load of the client's processors.
const REQUESTS: [Metric; 5] =
    [Metric::TransactionRate, Metric::P50, Metric::P99, Metric::PayloadRate, Metric::FarBusyPercent];

/// Appends the case's ID to labels that would be equal, such as those of two levels of a setting.
fn tell_apart(all: &mut [CaseSummary]) {
    let row = |case: &Case| (case.label.clone(), case.streams, case.cipher.clone());
    let rows: Vec<_> = all.iter().map(|summary| row(&summary.case)).collect();
    for (summary, own) in all.iter_mut().zip(&rows) {
        if rows.iter().filter(|other| *other == own).count() > 1 {
            summary.case.label = format!("{}, {}", own.0, summary.case.id);
        }
    }
}

/// The metric that decides in which table a case is shown. A case without a good run is shown with other cases of its
/// tool; if no other case of the tool has a value, with the first case that has one.
fn kind(summary: &CaseSummary, all: &[CaseSummary]) -> Metric {
    let own = |summary: &CaseSummary| {
        summary.main().or_else(|| (summary.measured > 0).then_some(Metric::PayloadRate))
    };
    let same_tool = |other: &&CaseSummary| other.case.tool == summary.case.tool;
    own(summary)
        .or_else(|| all.iter().filter(same_tool).find_map(own))
        .or_else(|| all.iter().find_map(own))
        .unwrap_or_default()
}

/// The lines of a table and an empty line; no lines if there are no rows.
fn lines(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut grid = Grid::new(heading, 1);
    let mut empty = true;
    for mut cells in rows {
        cells.truncate(heading.len());
        grid.row(cells);
        empty = false;
    }
    if empty {
        return Vec::new();
    }
    let left_out = grid.make_room(&GIVE_WAY);
    let note = format!("(The table has no room for: {}. The page has these columns.)", left_out.join(", "));
    let note = (!left_out.is_empty()).then_some(note);
    grid.lines().into_iter().chain(note).chain([String::new()]).collect()
}

/// The columns that are removed, in this order, if names need more space.
const GIVE_WAY: [&str; 4] = ["% of stream", "seconds", "cipher", "streams"];

/// The heading of the last column, if there is a baseline. The heading is short, because the cases' names need the
/// space.
fn ratio(record: &Record) -> Option<String> {
    let base = record.cases.iter().find(|case| Some(&case.id) == record.baseline.as_ref());
    base.map(|case| format!("x {}", case.tool.trim_start_matches("linerate-")))
}

/// A table of these metrics. Only a table of tools that move files, or data in memory, has a column for the cipher.
fn columns(record: &Record, cases: &[&CaseSummary], metrics: &[Metric]) -> Vec<String> {
    let (ratio, has_cipher) = (ratio(record), metrics[0] == Metric::PayloadRate);
    let mut metrics = metrics.to_vec();
    if record.shared_processors {
        metrics.retain(|metric| *metric != Metric::BusyPercent);
    }
    // Numbers of users and tiles aren't streams. If every case has one stream, the column isn't needed.
    let has_streams = has_cipher || cases.iter().any(|summary| summary.case.streams != Some(1));
    let mut heading = vec!["case"];
    heading.extend(has_streams.then_some("streams"));
    heading.extend(has_cipher.then_some("cipher"));
    heading.extend(metrics.iter().map(|metric| column(record, *metric)));
    let has_percent = cases.iter().any(|summary| summary.stream_percent.is_some());
    heading.extend(has_percent.then_some("% of stream"));
    heading.extend(ratio.as_deref());
    let row = |summary: &&CaseSummary| {
        let mut cells = vec![marked_label(summary)];
        cells.extend(has_streams.then(|| streams(summary)));
        cells.extend(has_cipher.then(|| cipher(summary.case.cipher.as_deref())));
        if summary.measured == 0 {
            cells.push(without_figure(summary));
            return cells;
        }
        let median = |metric: &Metric| summary.of(*metric).map_or("-".into(), |e| metric.text(e.median));
        cells.push(summary.of(metrics[0]).map_or("-".into(), |e| with_interval(metrics[0], e)));
        cells.extend(metrics[1..].iter().map(median));
        let stream = summary.stream_percent.map_or("-".into(), |percent| format!("{:.1}", percent.median));
        cells.extend(has_percent.then_some(stream));
        cells.push(summary.ratio.map_or("-".into(), |ratio| plain(ratio.median)));
        cells
    };
    lines(&heading, cases.iter().map(row))
}

/// The heading of a metric's column.
pub(super) fn column(record: &Record, metric: Metric) -> &'static str {
    match metric {
        Metric::FarBusyPercent if record.shared_processors => "CPU % a+b",
        _ => metric.about().column,
    }
}

fn scores(record: &Record, scored: &[&CaseSummary]) -> Vec<String> {
    let differences = Differences::of(record, Metric::Score);
    let mut heading = vec!["case", "score"];
    if differences.is_some() {
        heading.extend(["difference", "95 % interval", ""]);
    }
    let against = |case: &str| {
        let row = differences.as_ref()?.rows.iter().find(|row| row.case == case)?;
        row.difference.map(difference_cells)
    };
    let rows = scored.iter().map(|summary| match summary.of(Metric::Score) {
        Some(score) => {
            let score = vec![marked_label(summary), with_interval(Metric::Score, score)];
            let baseline = || ["baseline", "", ""].map(str::to_owned);
            score.into_iter().chain(against(&summary.case.id).unwrap_or_else(baseline)).collect()
        }
        None => vec![marked_label(summary), without_figure(summary)],
    });
    let mut lines = lines(&heading, rows);
    if let Some(differences) = differences.filter(|_| !scored.is_empty()) {
        lines.extend(wrap(&differences.conclusion(), 2));
        lines.push(String::new());
    }
    lines
}

/// The cells for a difference: the percentage, its interval, and its meaning.
fn difference_cells(difference: Difference) -> [String; 3] {
    let interval = match difference.interval {
        Interval::Known(low, high) => format!("{low:+.2} to {high:+.2} %"),
        Interval::Insufficient => "insufficient".into(),
    };
    let called = match difference.called {
        Called::Different => "different",
        Called::Same => "no significant difference",
        Called::Insufficient => "",
    };
    [format!("{:+.2} %", difference.percent), interval, called.to_owned()]
}

fn without_figure(summary: &CaseSummary) -> String {
    summary.reason.clone().unwrap_or_else(|| "not run".into())
}

/// The label of a case. A star marks a case with failed or disturbed runs, for which a note gives the reason.
fn marked_label(summary: &CaseSummary) -> String {
    let marked = summary.measured > 0 && (summary.failed > 0 || summary.disturbed > 0);
    format!("{}{}", summary.case.label, if marked { " *" } else { "" })
}

fn streams(summary: &CaseSummary) -> String {
    match (summary.case.streams, summary.streams) {
        (Some(n), _) => n.to_string(),
        (None, Some(n)) => format!("auto: {n}"),
        (None, None) => "auto".into(),
    }
}

/// The usual short name of a cipher.
fn cipher(name: Option<&str>) -> String {
    name.map_or("-".into(), |name| name.trim_end_matches("-poly1305").to_owned())
}

fn with_interval(metric: Metric, estimate: Estimate) -> String {
    let text = |value| metric.text(value);
    match estimate.interval {
        Interval::Known(low, high) => format!("{} [{}, {}]", text(estimate.median), text(low), text(high)),
        Interval::Insufficient => text(estimate.median),
    }
}

fn footnotes(record: &Record, all: &[CaseSummary], moves: bool) -> Vec<String> {
    let mut notes = vec![interval_note(record, moves)];
    if all.iter().any(|summary| summary.main() != Some(Metric::Score)) {
        notes.push(cpu_note(record).to_owned());
    }
    notes.extend(failed_notes(record, all));
    notes.extend(all.iter().filter_map(found_note));
    notes.extend(disturbed_note(all));
    notes.extend(record.cases.iter().filter_map(|case| warning_note(record, &case.id)));
    notes
}

/// Notes about runs without values. Cases with the same number of such runs and the same reason, such as a
/// missing tool, have a common note.
fn failed_notes(record: &Record, all: &[CaseSummary]) -> Vec<String> {
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    for summary in all.iter().filter(|summary| summary.failed > 0) {
        let reason = summary.reason.as_deref().unwrap_or("no reason was recorded");
        let note = format!("no value in {} of {} runs: {reason}", summary.failed, record.blocks);
        match notes.iter_mut().find(|(other, _)| *other == note) {
            Some((_, cases)) => cases.push(&summary.case.id),
            None => notes.push((note, vec![&summary.case.id])),
        }
    }
    notes.into_iter().map(|(note, cases)| format!("* {}: {note}", cases.join(", "))).collect()
}

/// A note with the first warning of a case's runs, and the number of runs with warnings.
fn warning_note(record: &Record, case: &str) -> Option<String> {
    let warned: Vec<&str> = good_runs(record, case).filter_map(|(_, run)| run.warnings().next()).collect();
    let first = warned.first()?;
    Some(format!("! {case}: {} of {} runs warn: {first}", warned.len(), record.blocks))
}

/// A note with the results of the searches before a case's runs.
fn found_note(summary: &CaseSummary) -> Option<String> {
    let (found, parameter) = (summary.of(Metric::Found)?, summary.searched.as_deref()?);
    let several = if found.blocks == 1 { "" } else { "es" };
    let interval = match found.interval {
        Interval::Known(low, high) => format!(" [{low}, {high}]"),
        Interval::Insufficient => String::new(),
    };
    let (id, median, blocks) = (&summary.case.id, found.median, found.blocks);
    Some(format!(
        "= {id}: the best {parameter} by search: {median}{interval}, of {blocks} search{several}; the row shows the figures at that number."
    ))
}

fn disturbed_note(all: &[CaseSummary]) -> Option<String> {
    let disturbed: Vec<String> = all
        .iter()
        .filter(|summary| summary.disturbed > 0)
        .map(|summary| format!("{} ({})", summary.case.id, summary.disturbed))
        .collect();
    let listed = disturbed.join(", ");
    (!disturbed.is_empty()).then(|| {
        format!(
            "* Runs that were disturbed by the hypervisor, by other work, or by waiting for memory or storage, by case: {listed}."
        )
    })
}

fn interval_note(record: &Record, moves: bool) -> String {
    let medians = if moves {
        "Medians over blocks; Gbit/s is payload over the tool's own transfer time, or over the whole command where it \
         states none (scp, rsync)"
    } else {
        "Medians over blocks"
    };
    if Differences::of(record, Metric::Score).is_some_and(|differences| differences.repeats.is_some()) {
        return "Single runs; the intervals show how much two runs of the same configuration may differ."
            .into();
    }
    if (record.blocks as usize) < LEAST_BLOCKS {
        return format!("{medians}. Intervals: insufficient, they need {LEAST_BLOCKS} blocks.");
    }
    if record.blocks as usize == LEAST_BLOCKS {
        return format!("{medians}; in brackets the range of the {LEAST_BLOCKS} blocks.");
    }
    format!("{medians}; in brackets the 95 % interval.")
}

fn cpu_note(record: &Record) -> &'static str {
    if record.shared_processors {
        "CPU is that of the whole host. Both ends share its processors, so CPU % a+b and CPU-s/GB include the work of both ends."
    } else if record.b_is_guest_of_a {
        "Host b is a virtual machine of host a, whose CPU includes b's: CPU-s/GB is only host a's, and CPU % b is b's own count."
    } else {
        "CPU-s/GB is the sum of both hosts'."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::grid::WIDTH;
    use crate::record::{Found, Latency, Outcome};
    use crate::testing::{measured, record, run};

    fn sample() -> Record {
        let runs = (0..5).flat_map(|block| {
            let failed = Outcome::Failed { reason: "scp: no space left on device, and more ".repeat(5) };
            let lost = Outcome::Unavailable { reason: "rsync isn't installed; apt-get install rsync".into() };
            let scp = if block == 2 { failed } else { measured(3.0, 2.0) };
            [
                run("cp", block, measured(9.0 + f64::from(block) / 10.0, 1.0)),
                run("scp", block, scp),
                run("rsync", block, lost),
            ]
        });
        let mut record = record(&["cp", "scp", "rsync"], 5, runs.collect());
        record.baseline = Some("scp".into());
        record
    }

    #[test]
    fn shows_figures_failures_and_what_is_missing() {
        let text = table(&sample());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("case") && lines[0].ends_with("x scp"), "{text}");
        assert!(lines[1].contains("9.20 [9.00, 9.40]") && lines[1].ends_with("3.07"), "{text}");
        assert!(lines[2].starts_with("scp *") && lines[2].contains("3.00"), "{text}");
        assert!(lines[3].contains("rsync isn't installed"), "{text}");
        assert!(text.contains("* scp: no value in 1 of 5 runs: scp: no space left"), "{text}");
        assert!(text.contains("share its processors"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn cases_that_lack_the_same_tool_share_a_note() {
        let lost = |what: &str| Outcome::Unavailable { reason: format!("{what} isn't installed") };
        let runs = [("a", "x"), ("b", "x"), ("c", "y")].map(|(case, what)| run(case, 0, lost(what)));
        let text = table(&record(&["a", "b", "c"], 1, runs.to_vec()));
        assert!(text.contains("* a, b: no value in 1 of 1 runs: x isn't installed"), "{text}");
        assert!(text.contains("* c: no value in 1 of 1 runs: y isn't installed"), "{text}");
    }

    /// A good run with this number of transactions per second and this score.
    fn asked(rate: u64, score: Option<f64>) -> Outcome {
        let Outcome::Measured(mut measures) = measured(1.0, 2.0) else { unreachable!("it is measured") };
        measures.transactions = Some(2 * rate).filter(|rate| *rate > 0);
        measures.latency = Some(Latency { p50_us: 1500.0, p99_us: 9000.0, ..Latency::default() });
        measures.score = score;
        Outcome::Measured(measures)
    }

    #[test]
    fn rows_that_read_alike_have_their_ids() {
        let mut record = sample();
        for case in record.cases.iter_mut().filter(|case| case.id != "scp") {
            case.label = "copy".into();
        }
        let text = table(&record);
        assert!(
            text.contains("copy, cp ") && text.contains("copy, rsync ") && !text.contains(", scp"),
            "{text}"
        );
    }

    #[test]
    fn requests_have_a_table_of_their_own() {
        let mut sample = sample();
        sample.cases.push(Case {
            id: "http".into(),
            label: "http".into(),
            tool: "http".into(),
            streams: Some(1),
            link: "10gbit".into(),
            ..Case::default()
        });
        sample.runs.extend((0..5).map(|block| run("http", block, asked(400 + u64::from(block), None))));
        let text = table(&sample);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[4].is_empty() && lines[5].contains("transactions/s") && lines[5].contains("p99"),
            "{text}"
        );
        assert!(lines[0].contains("streams") && !lines[5].contains("streams"), "{text}");
        assert!(lines[6].contains("402.00 [400.00, 404.00]") && lines[6].contains("9000"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn a_wide_table_keeps_its_names() {
        let mut record = sample();
        for case in &mut record.cases {
            case.label = format!("{} beside small requests", case.id);
            case.factors.insert("beside".into(), "rr".into());
        }
        record.shared_processors = false;
        let text = table(&record);
        assert!(text.contains("cp beside small") && text.contains("no room for: seconds"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn scores_have_their_differences_to_the_baseline() {
        let runs = (0..5).flat_map(|block| {
            let off = f64::from(block) / 1000.0;
            [run("a", block, asked(0, Some(2.0 + off))), run("b", block, asked(0, Some(1.9 + 2.0 * off)))]
        });
        let mut record = record(&["a", "b"], 5, runs.collect());
        record.baseline = Some("a".into());
        let text = table(&record);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("baseline") && lines[2].ends_with("different"), "{text}");
        assert!(lines[2].contains("-4.90 %") && text.contains("1 of 1 rows differ"), "{text}");
        assert!(!text.contains("CPU"), "{text}");
        record.baseline = None;
        assert!(table(&record).lines().next().unwrap().ends_with("score"), "{}", table(&record));
    }

    #[test]
    fn what_tools_warn_of_stands_below() {
        let mut record = sample();
        for run in record.runs.iter_mut().filter(|run| run.case == "cp").take(2) {
            let Outcome::Measured(measures) = &mut run.outcome else { unreachable!("it is measured") };
            measures.notes.extend(
                ["congestion: cubic", "warning: the closed loop's numbers disagree"].map(str::to_owned),
            );
        }
        let text = table(&record);
        assert!(text.contains("! cp: 2 of 5 runs warn: the closed loop's numbers disagree"), "{text}");
        assert!(!text.contains("cubic"), "{text}");
    }

    #[test]
    fn what_a_search_found_stands_below() {
        let mut record = sample();
        for (run, level) in record.runs.iter_mut().filter(|run| run.case == "cp").zip([3, 4, 5, 3, 4]) {
            let Outcome::Measured(measures) = &mut run.outcome else { unreachable!("it is measured") };
            measures.found = Some(Found { parameter: "users".into(), level, steps: Vec::new() });
        }
        let text = table(&record);
        assert!(text.contains("= cp: the best users by search: 4 [3, 5], of 5 searches"), "{text}");
        assert!(!text.contains("= scp"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn one_block_says_that_it_is_insufficient() {
        let mut record = sample();
        record.blocks = 1;
        record.runs.retain(|run| run.block == 0);
        let text = table(&record);
        assert!(text.contains("insufficient") && !text.contains('['), "{text}");
    }
}
