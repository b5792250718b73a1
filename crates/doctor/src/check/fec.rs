//! Forward error correction: received blocks that it couldn't correct, and symbols that arrived wrong.

use linerate_host::facts::{Fec, Port};

use super::{Check, CheckRun, shell};
use crate::source::{ETHTOOL, MLX5_COUNTERS, STATISTICS};
use crate::{Finding, Host, Severity};

/// Drivers' counters of blocks that couldn't be corrected, which are used if ethtool's own request returns none; and of
/// symbols that stayed wrong after correction.
const BLOCKS: [&str; 2] = ["rx_fec_uncorrectable_blocks", "fec_uncorrected_errors"];
const SYMBOLS: [&str; 4] =
    ["rx_pcs_symbol_err_phy", "rx_symbol_err_phy", "rx_pcs_symbol_err", "rx_symbol_errors"];
/// The least speed in Mbit/s of links that may need error correction; and a speed above it for which IEEE 802.3 has no
/// RS-FEC (but only BASE-R's correction, for backplanes and copper).
const LEAST_FEC_SPEED: u64 = 25_000;
const WITHOUT_RS: u64 = 40_000;
/// The number of lost blocks for each received packet at or above which the finding is major, as in drops-by-cause.
const MAJOR: f64 = 1e-3;

pub(super) const CHECK: Check = Check {
    name: "fec",
    about: "blocks or symbols that arrive damaged beyond correction",
    sources: &[ETHTOOL, MLX5_COUNTERS, STATISTICS],
    run: CheckRun::Host(|host| host.hardware().filter_map(|port| of(host, port)).collect()),
};

fn of(host: &Host<'_>, port: &Port) -> Option<Finding> {
    let (what, name, count) = damaged(port)?;
    let title = format!("{count} {what} reached {} damaged beyond correction", port.name);
    let severity = severity(host, port, count);
    let finding = Finding::new(severity, title)
        .at(&port.name)
        .evidence(format!("{name}: {count} {}; the frames in them are lost", host.since()));
    let finding = if severity == Severity::Note {
        finding.evidence("a link also counts some errors when it comes up; with --path, the doctor counts only errors during its measurement")
    } else {
        finding
    };
    Some(mended(finding, port))
}

/// The damaged units, the name of their counter, and their number.
fn damaged(port: &Port) -> Option<(&'static str, &str, u64)> {
    let by_request = port.fec.known().and_then(|fec| fec.uncorrectable).filter(|count| *count > 0);
    let by_driver = |names: &'static [&'static str]| {
        let all = port.statistics.known()?;
        names.iter().find_map(|name| Some((*name, all.get(*name).copied().filter(|count| *count > 0)?)))
    };
    let blocks = by_request.map(|count| ("uncorrectable_blocks", count)).or_else(|| by_driver(&BLOCKS));
    let symbols = || by_driver(&SYMBOLS).map(|(name, count)| ("symbols", name, count));
    blocks.map(|(name, count)| ("blocks", name, count)).or_else(symbols)
}

/// A note, unless the damage was counted during a measurement: each link counts some errors when it comes up.
fn severity(host: &Host<'_>, port: &Port, count: u64) -> Severity {
    if host.facts.counted_seconds.known().is_none() {
        return Severity::Note;
    }
    let packets = port.counters.rx_packets.get().unwrap_or(0).saturating_add(count);
    if count as f64 / packets as f64 >= MAJOR { Severity::Major } else { Severity::Minor }
}

/// The finding with the error correction that is in use, and with the fix.
fn mended(finding: Finding, port: &Port) -> Finding {
    const CABLE: &str = "clean or replace the cable and the modules, and see module-light";
    let Some(fec) = port.fec.known() else { return finding.fix(CABLE) };
    let finding = match (&fec.active, fec.corrected) {
        (Some(active), Some(corrected)) => {
            finding.evidence(format!("error correction: {active}; {corrected} blocks were corrected"))
        }
        (Some(active), None) => finding.evidence(format!("error correction: {active}")),
        (None, _) => finding,
    };
    if !is_uncorrected(port, fec) {
        return finding.fix(CABLE);
    }
    let name = shell::word(&port.name);
    finding
        .fix(format!("at both ends: ethtool --set-fec {name} encoding rs; if the counters still grow, {CABLE}"))
        .undo(format!("ethtool --set-fec {name} encoding {}", configured(fec)))
        .conflict("the link goes down for a moment, and stays down unless both ends have the same encoding; each packet takes 0.1 to 0.25 us longer")
}

/// True for a link without error correction whose speed has RS-FEC in IEEE 802.3.
fn is_uncorrected(port: &Port, fec: &Fec) -> bool {
    let has_rs = |mbps: u64| mbps >= LEAST_FEC_SPEED && mbps != WITHOUT_RS;
    fec.active.as_deref() == Some("off") && port.speed_mbps.get().is_some_and(has_rs)
}

/// The encodings that are configured now, as ethtool takes them.
fn configured(fec: &Fec) -> String {
    match fec.configured.as_slice() {
        _ if fec.is_auto => "auto".into(),
        [] => "off".into(),
        names => names.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, found, lines, port_of};
    use linerate_host::{Fact, Facts};

    fn host(seconds: Option<f64>, change: impl FnOnce(&mut Port)) -> Facts {
        let mut facts = fixture("mlx5-25g-tuned");
        facts.counted_seconds = seconds.map_or(Fact::NotApplicable, Fact::Known);
        let port = port_of(&mut facts, "ens1f0np0");
        port.counters.rx_packets = Fact::Known(1_000_000);
        change(port);
        facts
    }

    fn with(active: &str, uncorrectable: u64) -> impl FnOnce(&mut Port) {
        let fec = Fec {
            configured: vec![active.to_owned()],
            active: Some(active.to_owned()),
            corrected: Some(256),
            uncorrectable: Some(uncorrectable),
            is_auto: false,
        };
        |port| port.fec = Fact::Known(fec)
    }

    #[test]
    fn blocks_that_are_lost_while_somebody_measures_are_found() {
        let growing = found(&CHECK, &host(Some(2.0), with("off", 145)));
        assert_eq!(lines(&growing), ["fec ens1f0np0 minor -"]);
        assert_eq!(growing[0].undo.as_deref(), Some("ethtool --set-fec ens1f0np0 encoding off"));
        assert_eq!(lines(&found(&CHECK, &host(Some(2.0), with("off", 5000)))), ["fec ens1f0np0 major -"]);
        let corrected = found(&CHECK, &host(Some(2.0), with("rs", 145)));
        assert!(corrected[0].undo.is_none() && corrected[0].fix.as_deref().unwrap().starts_with("clean"));
    }

    #[test]
    fn a_link_of_40g_has_no_rs() {
        let found = found(
            &CHECK,
            &host(Some(2.0), |port| {
                with("off", 145)(port);
                port.speed_mbps = Fact::Known(40_000);
            }),
        );
        assert!(
            found[0].undo.is_none() && found[0].fix.as_deref().unwrap().starts_with("clean"),
            "{found:?}"
        );
    }

    #[test]
    fn those_since_boot_are_a_note() {
        assert_eq!(lines(&found(&CHECK, &host(None, with("off", 5000)))), ["fec ens1f0np0 note -"]);
    }

    /// As mlx5_core counts them, without an answer to ethtool's request.
    #[test]
    fn symbols_are_found_by_the_drivers_counters() {
        let symbols = host(Some(2.0), |port| {
            let Fact::Known(all) = &mut port.statistics else { panic!("no statistics") };
            all.insert("rx_pcs_symbol_err_phy".into(), 386);
            all.insert("rx_corrected_bits_phy".into(), 17_750_739);
        });
        let named = found(&CHECK, &symbols);
        assert_eq!(lines(&named), ["fec ens1f0np0 minor -"]);
        assert!(named[0].title.contains("386 symbols"), "{named:?}");
    }

    #[test]
    fn corrected_blocks_and_links_without_correction_are_nothing() {
        assert!(found(&CHECK, &host(Some(2.0), with("rs", 0))).is_empty());
        assert!(found(&CHECK, &host(Some(2.0), with("off", 0))).is_empty(), "short copper needs none");
        assert!(found(&CHECK, &fixture("mlx5-25g-tuned")).is_empty());
    }
}
