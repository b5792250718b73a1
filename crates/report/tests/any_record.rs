//! For any record, nothing panics, the figure is XML, and every mark is inside the drawing.

mod common;

use linerate_bench::metric::Metric;
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

/// The values that a load of requests, a sampler and a tool with a score add to a run.
///
/// This strategy is boxed, like others here, because the trees of values would fill a test's stack.
fn extras() -> BoxedStrategy<Measures> {
    let latency =
        (any::<u64>(), number(), number(), proptest::collection::vec((number(), any::<u64>()), 0..8));
    let latency = latency.prop_map(|(count, p50_us, p99_us, histogram)| Latency {
        count,
        mean_us: p99_us,
        p50_us,
        p90_us: p50_us,
        p99_us,
        p999_us: p99_us,
        max_us: p99_us,
        histogram,
    });
    let points = proptest::collection::vec((number(), number()), 0..6);
    let series = (text(), text(), text(), points).prop_map(|(host, name, unit, points)| Series {
        host,
        name,
        unit,
        points,
    });
    let interrupts = (text(), text(), proptest::collection::vec(any::<u64>(), 0..130))
        .prop_map(|(host, source, per_processor)| Interrupts { host, source, per_processor });
    (
        proptest::option::of(any::<u64>()),
        proptest::option::of(latency),
        proptest::option::of(number()),
        proptest::collection::vec(series, 0..9),
        proptest::collection::vec(interrupts, 0..4),
        proptest::collection::vec((text(), any::<u64>(), any::<u64>(), any::<u64>()), 0..3),
        proptest::option::of(text()),
        proptest::option::of((text(), any::<u32>())),
    )
        .prop_map(|(transactions, latency, score, series, interrupts, connections, limited_by_bed, found)| {
            let found = found.map(|(parameter, level)| Found { parameter, level, steps: Vec::new() });
            Measures {
                transactions,
                latency,
                score,
                found,
                series,
                interrupts,
                connections: connections
                    .into_iter()
                    .map(|(port, attempted, made, failed)| Connections { port, attempted, made, failed })
                    .collect(),
                limited_by_bed,
                ..Measures::default()
            }
        })
        .boxed()
}

fn outcome() -> BoxedStrategy<Outcome> {
    let extras = prop_oneof![2 => Just(Measures::default()), 1 => extras()];
    let measures = (
        any::<u64>(),
        number(),
        proptest::option::of(number()),
        cpu(),
        cpu(),
        proptest::option::of(text()),
        extras,
    )
        .prop_map(|(bytes, seconds, payload_seconds, cpu_a, cpu_b, disturbed, extras)| {
            let limiter = disturbed.clone();
            Outcome::Measured(Measures {
                bytes,
                seconds,
                payload_seconds,
                cpu_a,
                cpu_b,
                disturbed,
                limiter,
                ..extras
            })
        });
    prop_oneof![
        4 => measures,
        1 => text().prop_map(|reason| Outcome::Failed { reason }),
        1 => text().prop_map(|reason| Outcome::Unavailable { reason }),
    ]
    .boxed()
}

fn quantity() -> impl Strategy<Value = Metric> {
    prop_oneof![
        Just(Metric::PayloadRate),
        Just(Metric::TransactionRate),
        Just(Metric::P50),
        Just(Metric::FarBusyPercent),
        Just(Metric::Score),
    ]
}

fn factor() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        Just(Some("n".to_owned())),
        Just(Some("variant".to_owned())),
        Just(Some("link".to_owned())),
        Just(Some("streams".to_owned())),
        text().prop_map(Some),
    ]
}

/// Figures of every kind.
fn figures() -> BoxedStrategy<Vec<Figure>> {
    let kind = prop_oneof![
        Just(FigureKind::Bars),
        Just(FigureKind::Scaling),
        Just(FigureKind::Differences),
        Just(FigureKind::TimeSeries),
        Just(FigureKind::ResponseTimes),
        Just(FigureKind::Interrupts),
        Just(FigureKind::Ladder),
    ];
    let cases = proptest::collection::vec((0usize..=31).prop_map(|id| id.to_string()), 0..8);
    let figure = (kind, text(), quantity(), factor(), factor(), cases).prop_map(
        |(kind, title, quantity, x, series, cases)| Figure { kind, title, quantity, x, series, cases },
    );
    proptest::collection::vec(figure, 0..5).boxed()
}

fn printed() -> impl Strategy<Value = Vec<Printed>> {
    let one = (0usize..=31, quantity(), number(), text(), any::<bool>()).prop_map(
        |(case, quantity, value, source, is_wire)| {
            let layer = if is_wire { Layer::Wire } else { Layer::Payload };
            Printed { case: case.to_string(), quantity, value, source, layer }
        },
    );
    proptest::collection::vec(one, 0..6)
}

/// Levels; some of them are numbers.
fn factors() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    let level = prop_oneof![(0u32..12).prop_map(|n| n.to_string()), text(), Just("-1e400".to_owned())];
    let name = prop_oneof![Just("n".to_owned()), Just("variant".to_owned()), text()];
    proptest::collection::btree_map(name, level, 0..3)
}

fn case(id: usize) -> BoxedStrategy<Case> {
    let streams = proptest::option::of(prop_oneof![Just(1), Just(8), any::<u32>()]);
    let set = proptest::option::of(prop_oneof![Just("tree".to_owned()), text()]);
    let link = prop_oneof![4 => Just("10gbit".to_owned()), 1 => Just("open".to_owned()), 1 => text()];
    (text(), text(), streams, proptest::option::of(text()), set, link, factors())
        .prop_map(move |(label, tool, streams, cipher, dataset, link, factors)| Case {
            id: id.to_string(),
            label,
            group: tool.clone(),
            version: cipher.clone(),
            tool,
            streams,
            cipher,
            dataset,
            link,
            factors,
        })
        .boxed()
}

/// A record of up to 30 cases, each with up to 6 runs.
fn record() -> impl Strategy<Value = Record> {
    let cases = (0usize..=30).prop_flat_map(|count| (0..count).map(case).collect::<Vec<_>>());
    let runs = proptest::collection::vec((0usize..=31, 0u32..6, outcome()), 0..180);
    let link = (proptest::option::of(any::<u64>()), any::<u32>(), any::<u32>(), any::<u64>());
    (cases, runs, link, text(), any::<bool>(), figures(), printed()).prop_map(
        |(cases, runs, link, title, shared, figures, printed)| {
            let mut record = common::empty();
            record.figures = figures;
            record.printed = printed;
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
        },
    )
}

/// Checks that every position in an element is inside the view box.
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
        for (index, place) in places(node.attribute("points").unwrap_or_default()).enumerate() {
            let limit = if index % 2 == 0 { paper.0 } else { paper.1 };
            prop_assert!((-6.0..=limit + 6.0).contains(&place), "a point at {place} of {limit}");
        }
        if let (Some(y), Some(height)) = (number(node, "y"), number(node, "height")) {
            prop_assert!(height >= 0.0 && y + height <= paper.1 + 1.0, "a rectangle ends at {}", y + height);
        }
    }
    Ok(())
}

/// The numbers of a `points` attribute: x and y in turn.
fn places(points: &str) -> impl Iterator<Item = f64> {
    points.split([' ', ',']).filter(|place| !place.is_empty()).map(|place| place.parse().unwrap_or(f64::NAN))
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
        let named = linerate_report::figures(&record);
        prop_assert_eq!(named.len(), record.figures.len().max(1));
        for figure in &named {
            stays_on_paper(&figure.svg)?;
            prop_assert!(csv::Reader::from_reader(figure.csv.as_bytes()).records().all(|row| row.is_ok()));
        }
        let html = linerate_report::html(&record);
        let figures = inline_figures(&html);
        prop_assert_eq!(figures.len(), 2 * named.len());
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
    let plain =
        [common::quick(1), common::quick(5), common::two_hosts(5), common::two_links(5), common::empty()];
    let studies = [1, 5].into_iter().flat_map(common::studies::all).map(|(_, record)| record);
    for record in plain.into_iter().chain(studies) {
        for figure in linerate_report::figures(&record) {
            stays_on_paper(&figure.svg).expect("the examples are plain");
        }
    }
}
