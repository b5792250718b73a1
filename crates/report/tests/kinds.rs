//! The contents of each kind of figure: in its drawing, in words and in its tables.

mod common;

use linerate_bench::record::*;
use linerate_report::{NamedFigure, figures};

/// The text alternative of a drawing.
fn alternative(figure: &NamedFigure) -> String {
    let document = roxmltree::Document::parse(&figure.svg).expect("a figure is XML");
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"), "{}", figure.name);
    let texts = root.children().filter(|node| node.has_tag_name("title") || node.has_tag_name("desc"));
    texts.filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")
}

/// The rows of a figure's CSV, each as its fields by column.
fn rows(figure: &NamedFigure) -> Vec<std::collections::BTreeMap<String, String>> {
    csv::Reader::from_reader(figure.csv.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("rows are even")
}

fn only(record: &Record) -> NamedFigure {
    let mut all = figures(record);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn says(figure: &NamedFigure, words: &[&str]) {
    let text = alternative(figure);
    for words in words {
        assert!(text.contains(words), "{}: {words:?} isn't in {text}", figure.name);
    }
}

/// The text in the drawing, with its lines joined.
fn drawn(figure: &NamedFigure) -> String {
    let document = roxmltree::Document::parse(&figure.svg).expect("a figure is XML");
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")
}

#[test]
fn bars_tell_series_and_printed_numbers() {
    let figure = only(&common::studies::bars(5));
    assert_eq!(figure.name, "figure-1-bars");
    says(
        &figure,
        &["scp (ssh), native: 2.8", "printed: 0.475 Gbit/s (figure 5 of", "linerate cp, guest: 5.8"],
    );
    // Four printed numbers, and the key.
    assert_eq!(figure.svg.matches("class=\"printed\"").count(), 4 + 1);
    for words in
        ["environment", "native", "guest", "printed in the paper", "Hosts a and b", "n = 5 of 5 blocks"]
    {
        assert!(drawn(&figure).contains(words), "{words}");
    }
    let scp = &rows(&figure)[2];
    assert_eq!((scp["Case"].as_str(), scp["Printed"].as_str()), ("scp (ssh), native", "0.475"));
    assert!(scp["Payload throughput (Gbit/s), low"].parse::<f64>().expect("a number") < 2.81);
}

#[test]
fn bars_of_requests_have_no_ceiling_and_no_cipher() {
    let all = figures(&common::studies::web(5));
    assert_eq!(
        all.iter().map(|figure| figure.name.as_str()).collect::<Vec<_>>(),
        ["figure-1-bars", "figure-2-response-times", "figure-3-time-series", "figure-4-interrupts"]
    );
    says(&all[0], &["Transactions (1/s)", "nginx: 229", "a second", "not there: wrk is not installed"]);
    assert!(!all[0].svg.contains("class=\"ceiling\"") && !drawn(&all[0]).contains("clear text"));
}

#[test]
fn scaling_says_its_linearity() {
    let figure = only(&common::studies::scaling(5));
    says(
        &figure,
        &[
            "1 × 1 Gbit/s, native: 0.94",
            "native: each step of 1 in links adds 0.942 [0.939, 0.945] Gbit/s, by a straight line with R² > 0.9999; the value at 8 is 99",
            "guest: each step of 1 in links adds 0.7",
            "printed 7.657 Gbit/s (figure 6 of",
            "7 × 1 Gbit/s, guest: failed: vsftpd",
        ],
    );
    // Throughput and CPU, in the colour of the first of two curves; and the key.
    assert_eq!(figure.svg.matches("class=\"printed c0\"").count(), 3 + 3);
    assert_eq!(figure.svg.matches("class=\"printed\"").count(), 1);
    assert!(figure.svg.contains("native, printed: 7.657 Gbit/s"));
    assert_eq!(figure.svg.matches("class=\"reference\"").count(), 2 + 1, "a curve each, and the key");
    assert_eq!(figure.svg.matches("class=\"cross\"").count(), 2, "the failed level is marked");
    assert!(drawn(&figure).contains("§ Limited by the test bed"));
    let levels: Vec<String> = rows(&figure).into_iter().take(8).map(|row| row["links"].clone()).collect();
    assert_eq!(levels, ["1", "2", "3", "4", "5", "6", "7", "8"]);
}

#[test]
fn cpu_is_named_by_its_host_and_stands_once_where_both_share_it() {
    for mut record in [common::studies::scaling(5), common::studies::bars(5)] {
        let heads = |record: &Record| -> Vec<String> {
            let row = rows(&only(record)).remove(0);
            row.into_keys().filter(|head| head.contains("CPU of") && head.ends_with(')')).collect()
        };
        record.shared_processors = false;
        assert_eq!(heads(&record), ["CPU of a (% busy)", "CPU of b (% busy)"]);
        record.shared_processors = true;
        assert_eq!(heads(&record), ["CPU of both ends (% busy)"]);
        assert!(!linerate_report::html(&record).contains("the receiver, and of the sender"));
    }
}

#[test]
fn a_figure_at_the_links_ceiling_says_that_it_shows_nothing_else() {
    let mut record = common::studies::scaling(5);
    let hides = "the link’s ceiling is reached at every level of links, which hides its effect";
    let figure = only(&record);
    assert!(!alternative(&figure).contains(hides) && !drawn(&figure).contains("Every case reaches"));
    let whole = Link { frame_overhead_bytes: 38, ..record.link.clone().expect("a link") };
    let names: std::collections::BTreeSet<_> = record.cases.iter().map(|case| case.link.clone()).collect();
    record.links = names.into_iter().map(|name| NamedLink { name, link: whole.clone() }).collect();
    let ceiling = linerate_bench::stats::payload_ceiling(&whole).expect("it has a rate");
    for run in &mut record.runs {
        let Outcome::Measured(measures) = &mut run.outcome else { continue };
        measures.bytes = (ceiling / 8.0 * measures.payload_seconds.unwrap_or(measures.seconds)) as u64;
        measures.bytes_back = None;
    }
    says(&only(&record), &[hides]);
    assert!(linerate_report::html(&record).contains("Every case reaches its link’s ceiling"));
}

#[test]
fn levels_are_sorted_as_numbers() {
    let mut record = common::studies::scaling(1);
    for case in &mut record.cases {
        let links = case.factors["links"].clone();
        if links == "2" {
            case.factors.insert("links".into(), "16".into());
        }
    }
    let levels: Vec<String> =
        rows(&only(&record)).into_iter().take(8).map(|row| row["links"].clone()).collect();
    assert_eq!(levels.last().map(String::as_str), Some("16"));
}

#[test]
fn a_level_that_was_looked_for_stands_at_what_was_found() {
    let mut record = common::studies::scaling(5);
    let auto = record.cases.iter().position(|case| case.factors["links"] == "3").expect("a case");
    record.cases[auto].factors.insert("links".into(), "auto".into());
    let id = record.cases[auto].id.clone();
    for (run, level) in record.runs.iter_mut().filter(|run| run.case == id).zip([9, 10, 9, 9, 11]) {
        let Outcome::Measured(measures) = &mut run.outcome else { continue };
        measures.found = Some(Found { parameter: "links".into(), level, steps: Vec::new() });
    }
    let levels = |record: &Record| -> Vec<String> {
        rows(&only(record)).into_iter().take(8).map(|row| row["links"].clone()).collect()
    };
    assert_eq!(levels(&record).last().map(String::as_str), Some("9"));
    let page = linerate_report::html(&record);
    assert!(page.contains("Best, by<br>search") && page.contains(">9 links<span"), "{page}");
    let csv = linerate_report::csv(&record);
    assert!(csv.lines().any(|line| line.ends_with(",links,11")), "{csv}");
    for run in record.runs.iter_mut().filter(|run| run.case == id) {
        run.outcome = Outcome::Failed { reason: "no such server".into() };
    }
    assert!(levels(&record).contains(&"8".to_owned()) && !levels(&record).contains(&"auto".to_owned()));
    says(&only(&record), &["R²", "failed: no such server"]);
}

#[test]
fn differences_carry_a_verdict() {
    let figure = only(&common::studies::differences(5));
    says(
        &figure,
        &[
            "insufficient",
            "printed: −1.55 % (figure 1 of the VMDq",
            "differs",
            "2 ports, 4 queues: not there: the card",
        ],
    );
    let verdict = |name: &str| {
        let row = rows(&figure).into_iter().find(|row| row["Configuration"] == name).expect(name);
        (row["Verdict"].clone(), row["Blocks"].clone())
    };
    assert_eq!(verdict("2 ports, 8 queues"), ("insufficient".into(), "3".into()));
    assert_eq!(verdict("2 ports, 16 queues"), ("differs".into(), "5".into()));
    assert_eq!(verdict("2 ports, 4 queues"), ("–".into(), String::new()));
    let few = only(&common::studies::differences(4));
    assert!(rows(&few).iter().all(|row| !row["Verdict"].contains("differ")), "four blocks decide nothing");
}

#[test]
fn the_paper_s_differences_come_out_of_its_scores() {
    let mut record = common::studies::differences(1);
    let scores: Vec<_> = record.printed.iter().map(|p| (p.case.clone(), p.value)).collect();
    for run in &mut record.runs {
        let score = scores.iter().find(|(case, _)| *case == run.case).map(|(_, score)| *score);
        run.outcome = Outcome::Measured(Measures { score, seconds: 1.0, ..Measures::default() });
    }
    let changes: Vec<f64> = rows(&only(&record))
        .iter()
        .filter_map(|row| row["Difference (%)"].parse().ok())
        .map(|percent: f64| (percent * 1e3).round() / 1e5)
        .collect();
    assert_eq!(changes, [-0.01549, -0.03014, -0.02051, -0.03391, -0.04646, -0.03642, -0.04311]);
}

#[test]
fn a_time_series_is_of_the_run_in_the_middle() {
    let mut record = common::studies::web(5);
    for run in record.runs.iter_mut().filter(|run| run.case == "nginx-240") {
        if let Outcome::Measured(m) = &mut run.outcome {
            // Block 3 is in the middle: 10, 20, 30, 50, 40 transactions.
            m.transactions = Some([10, 20, 40, 30, 50][run.block as usize]);
        }
    }
    let figure = &figures(&record)[2];
    says(figure, &["nginx, a: eth0 in mean 0.9", "nginx, b: cpu softirq mean"]);
    assert!(drawn(figure).contains("nginx (block 4)"), "{}", drawn(figure));
    assert_eq!(figure.svg.matches("<polyline").count(), 7, "a line a series");
    assert_eq!(rows(figure).len(), 7 * 80, "the CSV has every point");
}

#[test]
fn response_times_have_percentiles_and_a_curve() {
    let figure = &figures(&common::studies::web(5))[1];
    says(figure, &["nginx, 1 worker: p50 1.3", "p99.9 16.", "wrk on nginx: not there"]);
    assert_eq!(figure.svg.matches("class=\"printed\"").count(), 1 + 1);
    let html = linerate_report::html(&common::studies::web(5));
    for words in ["<details open>", "p99.9 (s)", "Printed median (s)"] {
        assert!(html.contains(words), "{words}");
    }
    let last = rows(figure).into_iter().rfind(|row| row["Case"] == "nginx").expect("classes");
    assert_eq!(last["Share slower"], "0");
}

#[test]
fn interrupts_are_rates_by_processor() {
    let figure = &figures(&common::studies::web(5))[3];
    says(figure, &["nginx, host b, NET_RX: 22, 41, 10,633, 10,120, 7.00, 3.00, 0.00, 2.00"]);
    assert!(drawn(figure).contains("on processor 2, of 8 processors"));
    let row = rows(figure).into_iter().find(|row| row["Source"] == "eth0-tx-1").expect("a row");
    assert_eq!((row["Processor 3 (1/s)"].as_str(), row["Processor 0 (1/s)"].as_str()), ("9876", "0"));
}

#[test]
fn a_rung_s_price_is_its_difference_to_the_one_before() {
    let figure = only(&common::studies::ladder(5));
    says(&figure, &["+ encryption: 14.", "CPU-s/GB; its stage: −3", "whole tree: 8."]);
    assert!(drawn(&figure).contains("The costliest stage is “+ encryption”: −3"));
    let price = |row: usize| rows(&figure)[row]["Stage (%)"].parse::<f64>().ok();
    assert_eq!(price(0), None);
    assert!(price(1).is_some_and(|price| (-39.0..-35.0).contains(&price)), "{:?}", price(1));
}

#[test]
fn tables_have_columns_only_for_what_was_measured() {
    let web = linerate_report::html(&common::studies::web(5));
    for words in ["Transactions<br>1/s", "Response p99<br>µs", "Connections<br>made, failed", "1,200, "] {
        assert!(web.contains(words), "{words}");
    }
    let tiles = linerate_report::html(&common::studies::differences(5));
    assert!(
        tiles.contains(">Score</th>")
            && !tiles.contains("Payload<br>")
            && !tiles.contains("Transactions<br>")
    );
    let quick = linerate_report::html(&common::quick(5));
    assert!(
        !quick.contains("Transactions<br>")
            && !quick.contains(">Score</th>")
            && quick.contains("Whole command<br>")
    );
    let ports = linerate_report::html(&common::studies::scaling(5));
    assert!(ports.contains("limited by the test bed: path of 7.9 Gbit/s"));
    assert!(ports.contains("1 limited<br>by the test bed"));
}

#[test]
fn every_run_s_csv_has_the_new_figures() {
    let record = common::studies::web(5);
    let text = linerate_report::csv(&record);
    let rows: Vec<std::collections::BTreeMap<String, String>> = csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("rows are even");
    let first = rows.iter().find(|row| row["case"] == "nginx-240").expect("a run");
    assert!(first["transactions_per_second"].starts_with("22"), "{first:?}");
    assert_eq!((first["connections_made"].as_str(), first["score"].as_str()), ("240", ""));
    let ports = linerate_report::csv(&common::studies::scaling(1));
    assert!(ports.contains("links=4; variant=native"));
}

#[test]
fn links_that_differ_by_the_series_stand_in_one_panel() {
    let mut record = common::two_links(1);
    record.cases.truncate(6);
    record.cases.iter_mut().zip(["1", "8", "8", "1"].iter().cycle()).for_each(|(case, queues)| {
        case.factors.insert("queues".into(), (*queues).into());
        case.link = format!("{queues}q");
    });
    record.links.iter_mut().zip(["1q", "8q"]).for_each(|(link, name)| link.name = name.into());
    let panels = |record: &Record| only(record).svg.matches("CPU of the whole host (% busy)").count();
    let mut figure = Figure {
        kind: FigureKind::Bars,
        title: "Queues".into(),
        quantity: linerate_bench::metric::Metric::PayloadRate,
        x: None,
        series: Some("queues".into()),
        cases: Vec::new(),
    };
    record.figures = vec![figure.clone()];
    assert_eq!(panels(&record), 1);
    figure.series = Some("streams".into());
    record.figures = vec![figure];
    assert_eq!(panels(&record), 2);
}
