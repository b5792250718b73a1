//! A report about a run as an HTML page. The page loads nothing from other places.

use linerate_fleet::history::HostRates;
use linerate_fleet::report::{FleetReport, HostShare};
use linerate_quantity::{Bytes, Seconds};
use linerate_wire::path::printable;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::report::{does, limiter_text, most, straggler_line};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}\
table{border-collapse:collapse;width:100%}td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;display:block}\
.scroll{overflow-x:auto}polygon{fill:#2b7bba;fill-opacity:.5;stroke:#2b7bba}.axis{stroke:#888}svg text{font-size:11px;fill:currentColor}";
/// The width of a host's figure, in units of the drawing.
const WIDTH: f64 = 720.0;
/// The height of a host's figure, in units of the drawing.
const HEIGHT: f64 = 60.0;

/// True if `beginning` is the beginning of a page that [`page`] has made.
pub fn begins(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let title = text.split("<title>").nth(1).unwrap_or_default();
    text.starts_with("<!DOCTYPE html>") && title.starts_with("Round ") && title.contains(" of a fleet: ")
}

/// The HTML page of a report about a round.
pub fn page(report: &FleetReport, round: u32) -> String {
    let title = format!("Round {round} of a fleet: {}", Bytes::of(report.sent_bytes));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p {
                    (Seconds(report.seconds as f64)) " at " (format!("{:.3}", report.gbit_per_second)) " Gbit/s; "
                    (report.done) " parts done, " (report.lost) " attempts lost."
                }
                (rates(report))
                h2 { "Hosts" }
                div class="scroll" { (hosts(&report.hosts)) }
                h2 { "Limiters of the parts" }
                ul { @for share in &report.limiters { li { (limiter_text(share)) } } }
                h2 { "Stragglers" }
                @if report.stragglers.is_empty() {
                    p { "No shard took much longer than the others." }
                }
                ul { @for late in &report.stragglers { li { (straggler_line(report, late)) } } }
            }
        }
    };
    page.into_string()
}

fn rates(report: &FleetReport) -> Markup {
    let (most, interval) = (most(report), report.rates.interval_seconds);
    html! {
        h2 { "Rates over time" }
        @if most > 0.0 {
            p {
                "Each figure is " (Seconds(report.seconds as f64)) " wide, in steps of " (Seconds(interval as f64))
                ", and " (format!("{most:.3}")) " Gbit/s high."
            }
            @for host in &report.rates.hosts { (figure(host, most)) }
        } @else {
            p { "The tasks have recorded no data over time." }
        }
    }
}

fn figure(host: &HostRates, most: f64) -> Markup {
    let name = format!("{} {}", printable(host.host.as_bytes()), does(host.receives));
    let mean = host.gbit_per_second.iter().sum::<f64>() / host.gbit_per_second.len().max(1) as f64;
    let label = format!("{name}, {mean:.3} Gbit/s on average");
    let bottom = HEIGHT.to_string();
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", HEIGHT + 18.0)) role="img" aria-label=(label) {
            polygon points=(points(host, most)) {}
            line class="axis" x1="0" x2=(WIDTH) y1=(bottom) y2=(bottom) {}
            text x="0" y=(HEIGHT + 13.0) { (label) }
        }
    }
}

/// The outline of a host's rates over time, as steps.
fn points(host: &HostRates, most: f64) -> String {
    let step = WIDTH / host.gbit_per_second.len().max(1) as f64;
    let mut points = vec![format!("0,{HEIGHT}")];
    for (number, rate) in host.gbit_per_second.iter().enumerate() {
        let height = HEIGHT * (1.0 - (rate / most).clamp(0.0, 1.0));
        let from = step * number as f64;
        points.extend([format!("{from:.1},{height:.1}"), format!("{:.1},{height:.1}", from + step)]);
    }
    points.push(format!("{WIDTH},{HEIGHT}"));
    points.join(" ")
}

fn hosts(hosts: &[HostShare]) -> Markup {
    html! {
        table {
            tr { @for head in ["host", "does", "parts", "bytes", "Gbit/s/task", "CPU"] { th { (head) } } }
            @for share in hosts {
                tr {
                    td { (printable(share.host.as_bytes())) }
                    td { (does(share.receives)) }
                    td { (share.parts) }
                    td { (Bytes::of(share.sent_bytes)) }
                    td { (format!("{:.3}", share.gbit_per_second)) }
                    td { (Seconds(share.cpu_seconds)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_fleet::status::FleetStatus;
    use std::collections::BTreeMap;

    #[test]
    fn names_of_hosts_are_no_markup_and_rates_are_drawn() {
        let mut report = FleetReport::of(&FleetStatus::of(BTreeMap::new()));
        let empty = page(&report, 1);
        assert!(begins(empty.as_bytes()));
        assert!(empty.contains("no data over time") && !empty.contains("<svg"));
        let host = "<script>alert(1)</script>\u{1b}[2J".to_owned();
        report.hosts.push(HostShare { host: host.clone(), ..HostShare::default() });
        report.rates.hosts.push(HostRates { host, receives: false, gbit_per_second: vec![0.5, 1.0] });
        let page = page(&report, 1);
        assert!(page.contains("points=\"0,60 0.0,30.0 360.0,30.0 360.0,0.0 720.0,0.0 720,60\""), "{page}");
        assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
    }
}
