//! Whatever a record holds, nothing panics, the figure is XML, and every mark lies on the paper.

mod common;

use linerate_bench::record::*;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just("</script><svg onload=x>".to_owned()),
        Just("\u{0}\u{1b}[31m\u{fffe}\u{202e}".to_owned()),
        Just("w".repeat(300)),
        Just(String::new()),
        Just("scp".to_owned()),
        Just("linerate".to_owned()),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), Just(0.0), Just(-1.0), 0.0..100.0f64]
}

fn cpu() -> impl Strategy<Value = Cpu> {
    (number(), number(), number()).prop_map(|(user, system, idle)| Cpu {
        user,
        system,
        idle,
        ..Cpu::default()
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let measures =
        (any::<u64>(), number(), proptest::option::of(number()), cpu(), cpu(), proptest::option::of(text()))
            .prop_map(|(bytes, seconds, payload_seconds, cpu_a, cpu_b, disturbed)| {
                let limiter = disturbed.clone();
                Outcome::Measured(Measures {
                    bytes,
                    seconds,
                    payload_seconds,
                    cpu_a,
                    cpu_b,
                    disturbed,
                    limiter,
                    ..Measures::default()
                })
            });
    prop_oneof![
        4 => measures,
        1 => text().prop_map(|reason| Outcome::Failed { reason }),
        1 => text().prop_map(|reason| Outcome::Unavailable { reason }),
    ]
}

fn case(id: usize) -> impl Strategy<Value = Case> {
    let streams = proptest::option::of(prop_oneof![Just(1), Just(8), any::<u32>()]);
    let set = proptest::option::of(prop_oneof![Just("tree".to_owned()), text()]);
    let link = prop_oneof![4 => Just("10gbit".to_owned()), 1 => Just("open".to_owned()), 1 => text()];
    (text(), text(), streams, proptest::option::of(text()), set, link).prop_map(
        move |(label, tool, streams, cipher, dataset, link)| Case {
            id: id.to_string(),
            label,
            group: tool.clone(),
            version: cipher.clone(),
            tool,
            streams,
            cipher,
            dataset,
            link,
            ..Case::default()
        },
    )
}

/// A record of up to 30 cases, each with up to 6 runs.
fn record() -> impl Strategy<Value = Record> {
    let cases = (0usize..=30).prop_flat_map(|count| (0..count).map(case).collect::<Vec<_>>());
    let runs = proptest::collection::vec((0usize..=31, 0u32..6, outcome()), 0..180);
    let link = (proptest::option::of(any::<u64>()), any::<u32>(), any::<u32>(), any::<u64>());
    (cases, runs, link, text(), any::<bool>()).prop_map(|(cases, runs, link, title, shared)| {
        let mut record = common::empty();
        record.cases = cases;
        record.runs = runs
            .into_iter()
            .enumerate()
            .map(|(order, (case, block, outcome))| Run {
                case: case.to_string(),
                block,
                order: order as u32,
                started: title.clone(),
                outcome,
            })
            .collect();
        let first = &mut record.links[0].link;
        (first.bits_per_second, first.mtu, first.frame_overhead_bytes, first.burst_bytes) = link;
        first.kind.clone_from(&title);
        record.blocks = 6;
        record.title = title;
        record.shared_processors = shared;
        record
    })
}

/// Every place that an element names lies inside the view box.
fn stays_on_paper(svg: &str) -> Result<(), TestCaseError> {
    let document = roxmltree::Document::parse(svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let root = document.root_element();
    let number =
        |node: roxmltree::Node<'_, '_>, name| node.attribute(name).and_then(|v| v.parse::<f64>().ok());
    let paper = (number(root, "width").unwrap_or(0.0), number(root, "height").unwrap_or(0.0));
    for node in document.descendants().filter(|n| n.is_element() && !n.has_tag_name("pattern")) {
        for (names, limit) in [(["x", "x1", "x2", "cx"], paper.0), (["y", "y1", "y2", "cy"], paper.1)] {
            for place in names.into_iter().filter_map(|name| number(node, name)) {
                prop_assert!(
                    (-1.0..=limit + 1.0).contains(&place),
                    "{:?} at {place} of {limit}",
                    node.tag_name()
                );
            }
        }
        if let (Some(y), Some(height)) = (number(node, "y"), number(node, "height")) {
            prop_assert!(height >= 0.0 && y + height <= paper.1 + 1.0, "a rectangle ends at {}", y + height);
        }
    }
    Ok(())
}

/// The inline figures of the page, wide and narrow.
fn inline_figures(html: &str) -> Vec<&str> {
    let ends = |at: usize| html[at..].find("</svg>").map(|length| &html[at..at + length + "</svg>".len()]);
    html.match_indices("<svg ").filter_map(|(at, _)| ends(at)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_record_renders(record in record()) {
        stays_on_paper(&linerate_report::figure_svg(&record))?;
        let html = linerate_report::html(&record);
        let figures = inline_figures(&html);
        prop_assert_eq!(figures.len(), 2);
        for figure in figures {
            stays_on_paper(figure)?;
        }
        prop_assert!(html.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        let text = linerate_report::csv(&record);
        let rows = csv::Reader::from_reader(text.as_bytes()).records().filter(Result::is_ok).count();
        prop_assert_eq!(rows, record.runs.len());
    }
}

#[test]
fn the_examples_stay_on_paper() {
    for record in
        [common::quick(1), common::quick(5), common::two_hosts(5), common::two_links(5), common::empty()]
    {
        stays_on_paper(&linerate_report::figure_svg(&record)).expect("the examples are plain");
    }
}
