//! A value is the same number everywhere: on the terminal, on the page, in CSV and in JSON.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use linerate_bench::metric::{ABOUT, About, Metric};
use linerate_bench::out::{printed_table, table};
use linerate_bench::record::{Layer, Printed, Record};
use linerate_bench::stats::summaries;
use linerate_bench::store;
use serde_json::Value;

/// Real records (a short gate with an open link, one byte and 100,000 files; requests with a search; a paper's scores)
/// and constructed records (two links with a tool that isn't installed; levels of a factor on two hosts).
fn records() -> Vec<(&'static str, Record)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stored = |path: &str| store::load_any(&here.join(path)).expect("it is stored").record;
    vec![
        ("gate", stored("tests/records/gate.json")),
        ("http", stored("tests/records/http.json")),
        ("scores", stored("../../docs/papers/vmmark-netqueue")),
        ("two links", common::two_links(5)),
        ("two hosts", common::studies::scaling(5)),
    ]
}

/// The heading of the column that compares with the best synthetic stream.
const STREAM: &str = "% of stream";

/// The values that a table shows for a case: metrics, the ratio to the baseline, and the share of the best synthetic
/// stream.
#[derive(Debug, Default)]
struct Shown {
    metrics: BTreeMap<Metric, String>,
    ratio: Option<String>,
    stream: Option<String>,
}

impl Shown {
    fn add(&mut self, head: &str, cell: String) {
        let cell = cell.replace('–', "-");
        match metric_of(head) {
            Some(metric) => drop(self.metrics.insert(metric, cell)),
            None if head == STREAM => self.stream = Some(cell),
            None if head.starts_with("x ") || head.starts_with("Times ") => self.ratio = Some(cell),
            None => {}
        }
    }
}

/// The heading of the terminal's CPU column for hosts that share their processors.
const SHARED_COLUMN: &str = "CPU % a+b";

/// The metric of a column, by its heading on the terminal or on the page.
fn metric_of(head: &str) -> Option<Metric> {
    let page = |about: &About| format!("{} {}", about.heading, about.unit).trim() == head;
    let found = ABOUT.iter().find(|about| about.column == head || page(about)).map(|about| about.metric);
    let shared = ["CPU both ends % busy", SHARED_COLUMN];
    found.or(shared.contains(&head).then_some(Metric::BusyPercent))
}

/// The cases' rows of the page, by case, of those that were measured.
fn page(record: &Record) -> BTreeMap<String, Shown> {
    let html = linerate_report::html(record);
    let start = html.find("aria-label=\"Cases\"").expect("the page has cases");
    let table = &html[start..start + html[start..].find("</table>").expect("the table ends")];
    let cells = |row: &str| -> Vec<String> {
        let begin = |cell: &str| cell.rfind("<td").or(cell.rfind("<th "));
        row.split("</t").filter_map(|cell| Some(words(&cell[begin(cell)?..]))).collect()
    };
    let mut rows = table.split("<tr>").skip(1).map(cells);
    let heads = rows.next().expect("a head");
    let shown = |cells: Vec<String>| {
        let mut shown = Shown::default();
        heads.iter().zip(cells).for_each(|(head, cell)| shown.add(head, cell));
        shown
    };
    let rows = rows.zip(&record.cases).filter(|(cells, _)| cells.len() == heads.len());
    rows.map(|(cells, case)| (case.id.clone(), shown(cells))).collect()
}

/// The text of markup. The end of a line or an element becomes a blank.
fn words(markup: &str) -> String {
    let mut text = String::new();
    for piece in markup.replace("<br>", " ").replace("<span", " <span").split('<') {
        text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    text.trim().to_owned()
}

/// The cases' rows of the terminal, by case, of those that were measured.
fn terminal(record: &Record) -> BTreeMap<String, Shown> {
    let mut rows = BTreeMap::new();
    let mut heads: Vec<String> = Vec::new();
    for line in table(record).lines() {
        let cells = terminal_cells(line);
        if cells.first().is_some_and(|cell| cell == "case") {
            heads = terminal_heads(line);
        } else if record.cases.iter().any(|case| cells.first() == Some(&case.id)) {
            let mut shown = Shown::default();
            heads.iter().zip(&cells).for_each(|(head, cell)| shown.add(head, cell.clone()));
            rows.insert(cells[0].clone(), shown);
        }
    }
    rows
}

/// The headings of the columns, in their order. Words that belong to the same heading are joined.
fn terminal_heads(line: &str) -> Vec<String> {
    let own = ["case", "streams", "cipher", SHARED_COLUMN, STREAM];
    let known = ABOUT.iter().map(|about| about.column).chain(own);
    let mut heads: Vec<(usize, String)> =
        known.filter_map(|head| Some((find_word(line, head)?, head.to_owned()))).collect();
    heads.extend(line.find(" x ").map(|at| (at, line[at + 1..].trim().to_owned())));
    heads.sort();
    heads.into_iter().map(|(_, head)| head).collect()
}

/// The position of a heading that isn't part of another heading.
fn find_word(line: &str, head: &str) -> Option<usize> {
    let padded = format!("{line} ");
    padded
        .match_indices(head)
        .map(|(at, _)| at)
        .find(|at| padded[at + head.len()..].starts_with(' ') && (*at == 0 || padded[..*at].ends_with(' ')))
}

/// The cells of a row: an interval belongs to its number, a number of streams to `auto:`, and a star to nothing.
fn terminal_cells(line: &str) -> Vec<String> {
    let mut cells: Vec<String> = Vec::new();
    for word in line.split_whitespace().filter(|word| *word != "*") {
        match cells.last_mut() {
            Some(last) if word.starts_with('[') || last.ends_with(',') || last.ends_with(':') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => cells.push(word.to_owned()),
        }
    }
    cells
}

/// A metric of a case in JSON, as a table would show it: with its interval.
fn json(case: &Value, name: &str, text: impl Fn(f64) -> String) -> String {
    let Some(median) = case[name]["median"].as_f64() else { return "-".into() };
    match case[name]["interval"]["known"].as_array() {
        Some(ends) => {
            let [low, high] = [0, 1].map(|at| text(ends[at].as_f64().expect("a number")));
            format!("{} [{low}, {high}]", text(median))
        }
        None => text(median),
    }
}

/// True if one text equals the other, or the other without its interval.
fn same(shown: &str, whole: &str) -> bool {
    shown == whole || whole.split_once(" [").is_some_and(|(median, _)| shown == median)
}

/// Rows of CSV, by column.
fn csv_rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let rows = csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>();
    rows.expect("rows are even")
}

/// The median of a column over a case's runs, if every run has a value.
fn median_of_runs(rows: &[BTreeMap<String, String>], case: &str, column: &str) -> Option<f64> {
    let of_case = rows.iter().filter(|row| row["case"] == case);
    let mut values: Vec<f64> = of_case.filter_map(|row| row[column].parse().ok()).collect();
    values.sort_by(f64::total_cmp);
    let at = |at: usize| values.get(at).copied();
    Some(f64::midpoint(at(values.len().checked_sub(1)? / 2)?, at(values.len() / 2)?))
}

const OF_RUNS: [(&str, Metric); 9] = [
    ("payload_gbit_per_second", Metric::PayloadRate),
    ("gbit_per_second", Metric::CommandRate),
    ("transactions_per_second", Metric::TransactionRate),
    ("response_p50_us", Metric::P50),
    ("response_p99_us", Metric::P99),
    ("score", Metric::Score),
    ("found", Metric::Found),
    ("seconds", Metric::Seconds),
    ("cpu_a_busy_percent", Metric::BusyPercent),
];

/// The record with ids as the labels of cases, because labels may be the same. The ids are short, because long names
/// are shortened.
fn named_by_id(record: &Record) -> Record {
    let mut text = serde_json::to_string(record).expect("a record is JSON");
    for (at, case) in record.cases.iter().enumerate().filter(|(_, case)| case.id.len() > 12) {
        text = text.replace(&format!("\"{}\"", case.id), &format!("\"case-{at}\""));
    }
    let mut named: Record = serde_json::from_str(&text).expect("it is still one");
    named.cases.iter_mut().for_each(|case| case.label.clone_from(&case.id));
    named
}

/// The differences between the four outputs, one in each line.
fn differences(name: &str, record: &Record) -> (usize, Vec<String>) {
    let record = named_by_id(record);
    let (page, terminal) = (page(&record), terminal(&record));
    let runs = csv_rows(&linerate_report::csv(&record));
    let (mut compared, mut differ) = (0, Vec::new());
    let mut check = |what: String, shown: &str, whole: &str| {
        compared += 1;
        if !same(shown, whole) {
            differ.push(format!("{name}: {what}: {shown} beside {whole}"));
        }
    };
    for summary in summaries(&record, record.baseline.as_deref()).iter().filter(|s| s.measured > 0) {
        let id = &summary.case.id;
        let case = serde_json::to_value(summary).expect("a summary is JSON");
        let (of_page, of_terminal) =
            (page.get(id).expect(id), terminal.get(id).unwrap_or_else(|| panic!("{id}: {}", table(&record))));
        for (metric, cell) in &of_terminal.metrics {
            let whole = json(&case, metric.about().name, |value| metric.text(value));
            check(format!("{id}, {metric:?} on the terminal and in JSON"), cell, &whole);
            let on_page = of_page.metrics.get(metric).map_or("-", String::as_str);
            let (short, long) =
                if on_page.len() < cell.len() { (on_page, cell.as_str()) } else { (cell.as_str(), on_page) };
            check(format!("{id}, {metric:?} on the page and on the terminal"), short, long);
        }
        for (metric, cell) in of_page.metrics.iter().filter(|(metric, _)| **metric < Metric::PeakRss) {
            let cell = cell.replace(&format!(" {}", summary.searched.as_deref().unwrap_or("-")), "");
            let whole = json(&case, metric.about().name, |value| metric.text(value));
            check(format!("{id}, {metric:?} on the page and in JSON"), &cell, &whole);
        }
        let ratio = json(&case, "ratio", linerate_quantity::plain);
        for shown in [&of_page.ratio, &of_terminal.ratio].into_iter().flatten() {
            check(format!("{id}, ratio"), shown, &ratio);
        }
        let stream = json(&case, "stream_percent", |value| format!("{value:.1}"));
        for shown in [&of_page.stream, &of_terminal.stream].into_iter().flatten() {
            check(format!("{id}, share of the synthetic stream"), shown, &stream);
        }
        for (column, metric) in OF_RUNS {
            let median = median_of_runs(&runs, id, column).map_or("-".into(), |value| metric.text(value));
            let whole = json(&case, metric.about().name, |value| metric.text(value));
            check(format!("{id}, {metric:?} in the CSV of runs and in JSON"), &median, &whole);
        }
    }
    for (about, factor, row, column) in of_figures(&record) {
        let all = summaries(&record, record.baseline.as_deref());
        let Some(summary) = all.iter().find(|s| row.values().any(|cell| *cell == s.case.id)) else {
            continue;
        };
        let case = serde_json::to_value(summary).expect("a summary is JSON");
        let median =
            row[&column].parse::<f64>().map_or("-".into(), |value| about.metric.text(value / factor));
        let whole = json(&case, about.name, |value| about.metric.text(value));
        check(format!("{}, {column} of a figure's CSV and in JSON", summary.case.id), &median, &whole);
    }
    for (case, percent) in streams_of_figures(&record) {
        let all = summaries(&record, record.baseline.as_deref());
        let whole = all.iter().find(|s| s.case.id == case).and_then(|s| s.stream_percent);
        let whole = whole.map_or(String::new(), |whole| whole.median.to_string());
        check(format!("{case}, share of the synthetic stream in a figure's CSV"), &percent, &whole);
    }
    (compared, differ)
}

/// The cases of the figures' CSV with their shares of the best synthetic stream.
fn streams_of_figures(record: &Record) -> Vec<(String, String)> {
    let rows = linerate_report::figures(record).into_iter().flat_map(|figure| csv_rows(&figure.csv));
    rows.filter_map(|row| {
        Some((row.get("Case")?.clone(), row.get("Of the best synthetic stream (%)")?.clone()))
    })
    .collect()
}

/// The rows of the figures' CSV that hold a metric in some unit: the ratio of this unit to the stored unit, and the
/// column.
fn of_figures(record: &Record) -> Vec<(&'static About, f64, BTreeMap<String, String>, String)> {
    let units = [
        ("", 1.0),
        (" (Gbit/s)", 1.0),
        (" (1/s)", 1.0),
        (" (% busy)", 1.0),
        (" (µs)", 1.0),
        (" (ms)", 1e-3),
        (" (s)", 1e-6),
    ];
    let rows = linerate_report::figures(record).into_iter().flat_map(|figure| csv_rows(&figure.csv));
    let mut found = Vec::new();
    for row in rows {
        for about in ABOUT.iter().filter(|about| !about.quantity.is_empty()) {
            let columns = units.iter().map(|(unit, factor)| (format!("{}{unit}", about.label), factor));
            for (column, factor) in columns.filter(|(column, _)| row.contains_key(column)) {
                found.push((about, *factor, row.clone(), column));
            }
        }
    }
    found
}

#[test]
fn every_number_is_the_terminals() {
    let mut all = Vec::new();
    for (name, record) in records() {
        let (compared, differ) = differences(name, &record);
        assert!(compared > 20, "{name}: only {compared} numbers were compared");
        all.extend(differ);
    }
    assert!(all.is_empty(), "{} differ:\n{}", all.len(), all.join("\n"));
}

#[test]
fn what_says_nothing_is_a_dash_everywhere() {
    let gate = named_by_id(&records().remove(0).1);
    let (page, terminal) = (page(&gate), terminal(&gate));
    for (case, metric) in
        [("cp-one", Metric::PayloadRate), ("cp-one", Metric::CpuPerGb), ("ssh-true", Metric::PayloadRate)]
    {
        assert_eq!(
            (page[case].metrics[&metric].as_str(), terminal[case].metrics[&metric].as_str()),
            ("-", "-")
        );
    }
    for case in ["cp-one", "cp-open", "cp-many", "cp-small", "ssh-true"] {
        assert_eq!(
            (page[case].ratio.as_deref(), terminal[case].ratio.as_deref()),
            (Some("-"), Some("-")),
            "{case}"
        );
    }
    assert!(linerate_report::csv(&gate).contains(",cp-one,"));
    assert!(page["cp"].stream.is_some() && page["cp"].stream != Some("-".into()), "{:?}", page["cp"]);
    assert!(terminal["cp"].stream.is_some() && page["memory-1"].stream.as_deref() == Some("-"));
    assert_ne!(page["cp"].ratio.as_deref(), Some("-"));
}

#[test]
fn every_printed_number_is_everywhere_with_its_source() {
    let mut record = common::studies::bars(5);
    let layers = [(0.55, "another page", Layer::Payload), (0.964, "a third", Layer::Wire)];
    for (value, source, layer) in layers {
        let case = record.printed[0].case.clone();
        record.printed.push(Printed {
            case,
            quantity: Metric::PayloadRate,
            value,
            source: source.into(),
            layer,
        });
    }
    let terminal = printed_table(&record).expect("numbers are printed").replace("\n ", "");
    let html = linerate_report::html(&record);
    let page = &html[html.find("id=\"printed\"").expect("the page has them")..];
    let figure = linerate_report::figures(&record).remove(0);
    let row = csv_rows(&figure.csv).into_iter().find(|row| row["Printed"].contains("0.55")).expect("a row");
    for printed in &record.printed {
        let value = linerate_quantity::exact(printed.value);
        assert!(terminal.contains(&value) && terminal.contains(&printed.source), "{value}: {terminal}");
        assert!(page.contains(&value) && page.contains(&printed.source), "{value}");
        let drawn = figure.svg.contains(&format!("printed: {value} Gbit/s ({})", printed.source));
        assert_eq!(drawn, printed.layer == Layer::Payload, "{value}");
    }
    assert!(row["Printed"].ends_with("; 0.55") && row["Printed, on the wire (Gbit/s)"] == "0.964", "{row:?}");
    assert!(row["Printed in"].contains("; another page; a third"), "{row:?}");
}
