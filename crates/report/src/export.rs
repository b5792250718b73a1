//! The record in other formats: CSV, JSON for HTML, and data URIs.

use linerate_bench::metric::Metric;
use linerate_bench::record::{Case, Connections, Cpu, Latency, Measures, Outcome, Record, Run};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that a data URI must escape: all except RFC 3986's unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const COLUMNS: [&str; 63] = [
    "study",
    "block",
    "order",
    "started",
    "case",
    "label",
    "group",
    "tool",
    "version",
    "streams",
    "cipher",
    "dataset",
    "link",
    "outcome",
    "reason",
    "bytes",
    "files",
    "seconds",
    "payload_seconds",
    "gbit_per_second",
    "payload_gbit_per_second",
    "peak_rss_bytes",
    "limiter",
    "streams_used",
    "disturbed",
    "foreign_processors",
    "pressure_s",
    "notes",
    "cpu_a_processors",
    "cpu_a_user_s",
    "cpu_a_system_s",
    "cpu_a_irq_s",
    "cpu_a_softirq_s",
    "cpu_a_steal_s",
    "cpu_a_idle_s",
    "cpu_a_iowait_s",
    "cpu_a_busy_percent",
    "cpu_b_processors",
    "cpu_b_user_s",
    "cpu_b_system_s",
    "cpu_b_irq_s",
    "cpu_b_softirq_s",
    "cpu_b_steal_s",
    "cpu_b_idle_s",
    "cpu_b_iowait_s",
    "cpu_b_busy_percent",
    "transactions",
    "transactions_per_second",
    "response_mean_us",
    "response_p50_us",
    "response_p90_us",
    "response_p99_us",
    "response_p999_us",
    "response_max_us",
    "connections_attempted",
    "connections_made",
    "connections_failed",
    "score",
    "limited_by_bed",
    "factors",
    "recordings",
    "searched",
    "found",
];

/// The runs as CSV, one run in each row.
pub(crate) fn csv(record: &Record) -> String {
    let head = COLUMNS.map(str::to_owned).to_vec();
    to_csv(std::iter::once(head).chain(record.runs.iter().map(|run| row(record, run))))
}

/// Rows of equal length as RFC 4180 CSV.
pub(crate) fn to_csv(rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(&row).expect("memory takes every row, and all rows have as many fields");
    }
    let bytes = writer.into_inner().expect("memory can always be flushed");
    String::from_utf8(bytes).expect("every field is a string")
}

/// The record as JSON that is safe inside a `script` element: no text in it can close the element or open
/// another one.
pub(crate) fn json_for_script(record: &Record) -> String {
    json(record).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The record as JSON, in the format of the results store.
pub(crate) fn json(record: &Record) -> String {
    serde_json::to_string(record)
        .expect("a record has only string keys, and numbers that JSON lacks become null")
}

/// A `data:` URI of UTF-8 text.
pub(crate) fn data_uri(media_type: &str, text: &str) -> String {
    format!("data:{media_type};charset=utf-8,{}", utf8_percent_encode(text, RESERVED))
}

/// The text, with each character that XML 1.0 forbids replaced by U+FFFD, because XML has no escape for such
/// characters.
pub(crate) fn valid_characters(text: &str) -> String {
    text.chars().map(|c| if is_xml_character(c) { c } else { '\u{fffd}' }).collect()
}

/// Whether XML 1.0 allows the character (production 2 of its grammar). C1 control characters, which HTML
/// forbids, are excluded.
fn is_xml_character(c: char) -> bool {
    match c {
        '\t' | '\n' => true,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        '\u{fdd0}'..='\u{fdef}' => false,
        _ => (c as u32) & 0xfffe != 0xfffe,
    }
}

fn row(record: &Record, run: &Run) -> Vec<String> {
    let case = record.cases.iter().find(|case| case.id == run.case);
    let mut fields = vec![
        record.study.clone(),
        run.block.to_string(),
        run.order.to_string(),
        run.started.clone(),
        run.case.clone(),
    ];
    fields.extend(case_fields(case));
    fields.extend(outcome_fields(&run.outcome, case));
    fields
}

fn case_fields(case: Option<&Case>) -> [String; 8] {
    let Some(case) = case else { return Default::default() };
    [
        case.label.clone(),
        case.group.clone(),
        case.tool.clone(),
        case.version.clone().unwrap_or_default(),
        option(case.streams),
        case.cipher.clone().unwrap_or_default(),
        case.dataset.clone().unwrap_or_default(),
        case.link.clone(),
    ]
}

fn outcome_fields(outcome: &Outcome, case: Option<&Case>) -> Vec<String> {
    let (name, reason, measures) = match outcome {
        Outcome::Measured(measures) => ("measured", "", Some(measures)),
        Outcome::Failed { reason } => ("failed", reason.as_str(), None),
        Outcome::Unavailable { reason } => ("unavailable", reason.as_str(), None),
    };
    let mut fields = vec![name.to_owned(), reason.to_owned()];
    match measures {
        Some(measures) => fields.extend(measure_fields(measures, case)),
        None => fields.extend(std::iter::repeat_n(String::new(), COLUMNS.len() - 15)),
    }
    fields
}

fn measure_fields(m: &Measures, case: Option<&Case>) -> Vec<String> {
    let mut fields = vec![
        m.bytes.to_string(),
        m.files.to_string(),
        m.seconds.to_string(),
        option(m.payload_seconds),
        option(Metric::CommandRate.shown(m, false)),
        option(Metric::PayloadRate.shown(m, false)),
        option(m.peak_rss_bytes),
        m.limiter.clone().unwrap_or_default(),
        option(m.streams),
        m.disturbed.clone().unwrap_or_default(),
        option(m.foreign_processors),
        option(m.pressure_seconds),
        m.notes.join("; "),
    ];
    fields.extend(cpu_fields(m.sender_cpu()));
    fields.extend(cpu_fields(m.receiver_cpu()));
    fields.extend(request_fields(m));
    fields.push(option(m.score));
    fields.push(m.limited_by_bed.clone().unwrap_or_default());
    fields.push(case.map(factors).unwrap_or_default());
    fields.push(m.recordings.join("; "));
    fields.push(option(m.found.as_ref().map(|found| &found.parameter)));
    fields.push(option(m.found.as_ref().map(|found| found.level)));
    fields
}

/// The CSV fields of a run of requests: transactions, response times and connections, summed over ports.
fn request_fields(m: &Measures) -> Vec<String> {
    let latency = m.latency.as_ref();
    let time = |of: fn(&Latency) -> f64| option(latency.map(of));
    let connections = |of: fn(&Connections) -> u64| {
        let sum = m.connections.iter().map(of).reduce(u64::saturating_add);
        option(sum)
    };
    vec![
        option(m.transactions),
        option(Metric::TransactionRate.shown(m, false)),
        time(|l| l.mean_us),
        time(|l| l.p50_us),
        time(|l| l.p90_us),
        time(|l| l.p99_us),
        time(|l| l.p999_us),
        time(|l| l.max_us),
        connections(|c| c.attempted),
        connections(|c| c.made),
        connections(|c| c.failed),
    ]
}

/// The levels of a case's factors, for example `links=4; variant=native`.
fn factors(case: &Case) -> String {
    case.factors.iter().map(|(factor, level)| format!("{factor}={level}")).collect::<Vec<_>>().join("; ")
}

fn cpu_fields(cpu: &Cpu) -> [String; 9] {
    let seconds = [cpu.user, cpu.system, cpu.irq, cpu.softirq, cpu.steal, cpu.idle, cpu.iowait];
    let [user, system, irq, softirq, steal, idle, iowait] = seconds.map(|value| value.to_string());
    let processors = cpu.processors.to_string();
    [processors, user, system, irq, softirq, steal, idle, iowait, option(cpu.busy_percent())]
}

fn option<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_uri_holds_no_reserved_character() {
        assert_eq!(
            data_uri("text/csv", "a,\"b\"\n#ü"),
            "data:text/csv;charset=utf-8,a%2C%22b%22%0A%23%C3%BC"
        );
    }

    #[test]
    fn characters_that_xml_forbids_are_replaced() {
        assert_eq!(valid_characters("a\u{0}b\u{1b}[31m\u{fffe}\tü\n"), "a\u{fffd}b\u{fffd}[31m\u{fffd}\tü\n");
    }

    #[test]
    fn a_failed_row_is_as_long_as_a_measured_one() {
        let failed = outcome_fields(&Outcome::Failed { reason: "no".into() }, None);
        let measured = outcome_fields(&Outcome::Measured(Measures::default()), None);
        assert_eq!(failed.len(), measured.len());
        assert_eq!(failed.len() + 13, COLUMNS.len());
    }
}
