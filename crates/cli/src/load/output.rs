//! Prints the result of a load, as text or as JSON.

use linerate_load::latency::LatencySummary;
use linerate_load::report::{DatagramCounts, Errors, LoadReport, Loads};
use std::time::Duration;

use crate::units::{show_bytes, show_count, show_rate, show_time};

/// Prints the result of a load on standard output.
pub fn print(report: &LoadReport, json: bool) {
    if json {
        crate::print::json(report);
    } else {
        lines(report).iter().for_each(|(name, text)| output!("{name:<12} {text}"));
    }
    report.warnings.iter().for_each(|warning| message!("linerate: warning: {warning}"));
}

/// Prints the result of a load on standard error, because the user's command uses standard output.
pub fn report(report: &LoadReport, json: bool) {
    match serde_json::to_string(report) {
        Ok(text) if json => message!("{text}"),
        _ => lines(report).iter().for_each(|(name, text)| message!("{name:<12} {text}")),
    }
    report.warnings.iter().for_each(|warning| message!("linerate: warning: {warning}"));
}

fn lines(report: &LoadReport) -> Vec<(&'static str, String)> {
    let mut lines = vec![("load", title(report)), ("payload", payload(report))];
    if let (Some(count), Some(rate)) = (report.transactions, report.transactions_per_second) {
        lines.push(("transactions", format!("{}, {rate:.1} a second", show_count(count))));
    }
    if let Some(latency) = &report.latency {
        lines.push(("times", times(latency)));
    }
    if let Some(back) = report.bytes_back.filter(|back| *back > 0) {
        let (out, back) =
            [report.bytes.saturating_sub(back), back].map(|n| show_rate(n, report.seconds)).into();
        lines.push(("directions", format!("{out} to the servers, {back} from them")));
    }
    if let Some(counts) = &report.datagrams {
        lines.push(("datagrams", datagrams(counts)));
    }
    if let Some(fairness) = report.fairness.filter(|_| report.pairs.len() > 1) {
        let rates = report.pairs.iter().map(|pair| show_rate(pair.bytes, pair.seconds));
        lines.push(("pairs", rates.collect::<Vec<_>>().join(", ")));
        lines.push(("fairness", format!("{fairness:.2} (slowest over fastest)")));
    }
    if let Some(loads) = &report.loads {
        lines.push(("rates", rates(loads)));
    }
    if let Some(score) = report.score {
        lines.push(("score", format!("{score:.2} over {} tiles", report.tiles.len())));
    }
    for port in &report.connections {
        let [attempted, made, failed] = [port.attempted, port.made, port.failed].map(show_count);
        lines.push((
            "connections",
            format!("{}: {attempted} attempted, {made} made, {failed} failed", port.port),
        ));
    }
    lines.extend(report.errors.as_ref().map(|errors| ("errors", shown(errors))));
    lines
}

fn title(report: &LoadReport) -> String {
    let users = report.users.map_or(String::new(), |users| format!(" with {users} users"));
    let time = show_time(Duration::try_from_secs_f64(report.seconds).unwrap_or_default());
    format!("{}{users}, counted for {time}", report.kind)
}

fn payload(report: &LoadReport) -> String {
    let rate = show_rate(report.bytes, report.seconds);
    let received = format!("{rate} received ({})", show_bytes(report.bytes));
    match report.bytes_out {
        Some(sent) => format!("{received}, {} sent in requests", show_rate(sent, report.seconds)),
        None => received,
    }
}

fn datagrams(counts: &DatagramCounts) -> String {
    let DatagramCounts { received, lost, reordered, per_second, jitter_us } = counts;
    let share = *lost as f64 * 100.0 / (received + lost).max(1) as f64;
    let [received, lost, reordered] = [received, lost, reordered].map(|n| show_count(*n));
    let jitter = micros(*jitter_us);
    format!(
        "{received} received, {per_second:.0} a second, {lost} lost ({share:.2} %), {reordered} reordered, jitter {jitter}"
    )
}

fn times(latency: &LatencySummary) -> String {
    let LatencySummary { mean_us, p50_us, p90_us, p99_us, p999_us, max_us, .. } = latency;
    let shown = [
        ("mean", mean_us),
        ("p50", p50_us),
        ("p90", p90_us),
        ("p99", p99_us),
        ("p99.9", p999_us),
        ("max", max_us),
    ]
    .map(|(name, time)| format!("{name} {}", micros(*time)));
    shown.join(", ")
}

fn micros(time: f64) -> String {
    match time {
        ..1e3 => format!("{time:.1} us"),
        ..1e6 => format!("{:.2} ms", time * 1e-3),
        _ => format!("{:.2} s", time * 1e-6),
    }
}

fn rates(loads: &Loads) -> String {
    let Loads { web, rr, bulk, idle } = loads;
    let bulk = bulk * 1e-6;
    format!("web {web:.1}/s, small {rr:.1}/s, file {bulk:.1} Mbit/s, idle {idle:.1}/s (means over the tiles)")
}

fn shown(errors: &Errors) -> String {
    let statuses = errors.statuses.iter().map(|(status, count)| (count, format!("status {status}")));
    let others = [(&errors.timeouts, "timed out".to_owned()), (&errors.broken, "broken".to_owned())];
    let all = statuses.chain(others).filter(|(count, _)| **count > 0);
    let reported: Vec<_> = all.map(|(count, what)| format!("{} {what}", show_count(*count))).collect();
    if reported.is_empty() { "none".into() } else { reported.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_a_few_aligned_lines() {
        let mut report = LoadReport::new("http", 1_250_000_000, 10.0);
        report.users = Some(240);
        report.bytes_out = Some(1000);
        report.errors = Some(Errors { statuses: [(404, 3)].into(), timeouts: 1, broken: 0 });
        let lines = lines(&report);
        assert_eq!(lines[0].1, "http with 240 users, counted for 10.00 s");
        assert!(lines[1].1.starts_with("1.00 Gbit/s received (1.25 GB), "), "{}", lines[1].1);
        assert_eq!(lines[2], ("errors", "3 status 404, 1 timed out".into()));
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!([micros(12.34), micros(12_340.0), micros(1.2e7)], ["12.3 us", "12.34 ms", "12.00 s"]);
    }
}
