//! The contents of the page, the figure and the table of runs for a record that a lab would write.

mod common;

use linerate_bench::record::{Outcome, Record};

/// The values of every attribute that could fetch something, and of every `url()`.
fn references(html: &str) -> Vec<&str> {
    let quoted =
        [" src=\"", " href=\"", " srcset=\"", " action=\"", " data=\"", " poster=\"", " xlink:href=\""];
    let of = |mark: &'static str, end: char| {
        html.match_indices(mark)
            .map(move |(at, _)| html[at + mark.len()..].split(end).next().unwrap_or_default())
    };
    quoted.into_iter().flat_map(|mark| of(mark, '"')).chain(of("url(", ')')).collect()
}

/// The JSON that the page carries.
fn embedded(html: &str) -> &str {
    let start = html.find("id=\"record\">").expect("the page carries its record") + "id=\"record\">".len();
    html[start..].split("</script>").next().expect("the element ends")
}

#[test]
fn the_page_asks_no_host_for_anything() {
    for record in [common::quick(5), common::two_links(1), common::studies::web(2), common::empty()] {
        let html = linerate_report::html(&record);
        let found = references(&html);
        assert!(found.len() >= 4, "the page has downloads: {found:?}");
        for reference in found {
            assert!(reference.starts_with("data:") || reference.starts_with('#'), "{reference:.80}");
        }
        assert!(!html.contains("@import"));
        assert_eq!(html.matches("<script").count(), 2, "the data, and what makes a PNG");
        assert!(html.contains("default-src 'none'") && html.contains("script-src 'sha256-"));
    }
}

#[test]
fn the_record_comes_back_out_of_the_page() {
    let mut record = common::quick(2);
    record.title = "</script><script>alert(1)</script>".into();
    let html = linerate_report::html(&record);
    let back: Record = serde_json::from_str(embedded(&html)).expect("the JSON is whole");
    assert_eq!(back.title, record.title);
    assert_eq!(back.runs.len(), record.runs.len());
}

#[test]
fn foreign_strings_are_text_and_never_markup() {
    let mut record = common::quick(1);
    let hostile = "<img src=x onerror=alert(1)>\"'&".to_owned();
    record.title.clone_from(&hostile);
    record.study.clone_from(&hostile);
    record.hosts[0].name.clone_from(&hostile);
    for case in &mut record.cases {
        case.label.clone_from(&hostile);
        case.cipher = Some(hostile.clone());
    }
    for run in &mut record.runs {
        run.outcome = Outcome::Failed { reason: hostile.clone() };
    }
    assert!(!linerate_report::html(&record).contains("<img"));
    assert!(!linerate_report::figure_svg(&record).contains("<img"));
}

#[test]
fn the_sentence_states_the_rate_and_what_it_is_worth() {
    let html = linerate_report::html(&common::quick(5));
    let start = html.find("class=\"finding\">").expect("there is a finding") + "class=\"finding\">".len();
    let sentence = html[start..].split("</p>").next().unwrap_or_default();
    assert_eq!(
        sentence,
        "linerate cp, encrypted, moved the tree at 9.38 Gbit/s (8.76 over the whole command): 99.8 % [99.6, 100.1] of the best synthetic \
         stream on the same link (iperf3, 1 stream), and as a whole command 3.14 times as fast as scp. \
         1 of 2 bounds hold, 1 missed. 2 of 80 runs were disturbed."
    );
}

#[test]
fn nothing_measured_is_said() {
    let mut record = common::quick(1);
    for run in &mut record.runs {
        run.outcome = Outcome::Failed { reason: "no route".into() };
    }
    let html = linerate_report::html(&record);
    assert!(html.contains("Nothing was measured: 16 cases, of which 16 failed"), "{html:.3000}");
}

#[test]
fn what_is_missing_or_went_wrong_is_shown_with_its_reason() {
    let html = linerate_report::html(&common::quick(5));
    for words in [
        "not there: bbcp is not installed",
        "scp: exit 1: Connection closed",
        "steal 6 % of the processors",
        "1 failed",
        "1 disturbed",
        "1 with a warning",
        "The tool warns",
        "Both ends share the processors",
        "unknown: /sys/devices/system/cpu/cpu0/cpufreq: no such directory",
        "not applicable",
        "payload_rate(linerate-aes128-gcm-auto) / max",
        "✓ holds",
        "✗ missed: the value is beyond the bound",
        "1 of 2 bounds hold",
        "seed 7",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!linerate_report::html(&common::two_hosts(5)).contains("Both ends share"));
}

#[test]
fn a_run_above_the_ceiling_is_called_an_error() {
    let mut record = common::quick(1);
    assert!(!linerate_report::html(&record).contains("an error"));
    for run in &mut record.runs {
        if let Outcome::Measured(measures) = &mut run.outcome {
            measures.payload_seconds = Some(0.7);
        }
    }
    assert!(linerate_report::html(&record).contains("a run was above the ceiling, which is an error"));
}

#[test]
fn intervals_need_five_blocks() {
    let svg = linerate_report::figure_svg(&common::quick(4));
    assert!(!svg.contains("class=\"whisker\"") && svg.contains("which need five"));
    let svg = linerate_report::figure_svg(&common::quick(5));
    assert!(svg.contains("class=\"whisker\"") && svg.contains("range of 5 blocks"));
}

#[test]
fn every_measured_case_has_a_bar_and_a_dot() {
    let svg = linerate_report::figure_svg(&common::quick(5));
    // Fourteen cases are measured, two have no tool; the legend has three shades, two keys and one dot.
    assert_eq!(svg.matches("class=\"bar ").count(), 14 + 5);
    assert_eq!(svg.matches("class=\"cpu\"").count(), 14 + 1);
    let svg = linerate_report::figure_svg(&common::two_hosts(5));
    assert_eq!(svg.matches("class=\"cpu-far\"").count(), 14 + 1);
}

#[test]
fn every_run_is_a_row_of_the_csv() {
    let record = common::quick(3);
    let text = linerate_report::csv(&record);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().expect("there is a header").clone();
    let column = |name: &str| headers.iter().position(|h| h == name).expect(name);
    let rows: Vec<_> =
        reader.records().collect::<Result<_, _>>().expect("all rows are as long as the header");
    assert_eq!(rows.len(), record.runs.len());
    assert_eq!(&rows[0][column("outcome")], "measured");
    assert_eq!(&rows[0][column("cpu_a_processors")], "2");
    assert_eq!(&rows[0][column("cpu_b_busy_percent")][..2], "18");
    let gone = rows.iter().find(|row| &row[column("tool")] == "bbcp").expect("the missing tool has rows");
    assert_eq!((&gone[column("outcome")], &gone[column("seconds")]), ("unavailable", ""));
}
