//! Prints the pluggable module of a port.

use linerate_host::Fact;
use linerate_host::facts::{CableKind, Fec, Limits, LinkMode, Module, ModuleReach, Monitor, Port};

use super::table::{joined, line, row, shown};

/// The lines about a port's link modes and its module.
pub fn rows(port: &Port) -> Vec<String> {
    let mut rows: Vec<String> =
        modes(port).into_iter().chain(line("error correction", &port.fec, fec)).collect();
    match &port.module {
        Fact::Known(module) => rows.extend(about(module)),
        other => rows.extend(line("module", other, |_| String::new())),
    }
    rows
}

/// The link mode in use, and all modes of this end and of the other end of the cable; `None` if the driver reports no
/// modes.
fn modes(port: &Port) -> Option<String> {
    let list = |what: &str, modes: &[LinkMode]| {
        let names: Vec<&str> = modes.iter().map(|mode| mode.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(" ")))
    };
    if port.modes.known().is_some_and(|modes| modes.supported.is_empty()) {
        return None;
    }
    line("link mode", &port.modes, |modes| {
        joined([
            port.modes_in_force().known().filter(|names| !names.is_empty()).map(|names| names.join(" or ")),
            list("supported:", &modes.supported),
            list("other end:", &modes.partner),
        ])
    })
}

fn fec(fec: &Fec) -> String {
    let counted = |count: Option<u64>, what| Some(format!("{} blocks {what}", count?));
    joined([
        fec.active.clone(),
        Some(format!("configured: {}", if fec.is_auto { "auto".into() } else { fec.configured.join(" ") })),
        counted(fec.corrected, "corrected"),
        counted(fec.uncorrectable, "beyond correction"),
    ])
}

fn about(module: &Module) -> Vec<String> {
    let name = [module.vendor.known(), module.part.known()];
    let name: Vec<&str> = name.into_iter().flatten().map(String::as_str).collect();
    let identity = joined([
        Some(module.form.clone()),
        (!name.is_empty()).then(|| name.join(" ")),
        module.standards.known().map(|names| names.join(" ")),
        module.cable.get().map(|kind| cable(kind).to_owned()),
        module.connector.known().map(|name| format!("connector {name}")),
        module.wavelength_nm.get().map(|nm| format!("{nm} nm")),
    ]);
    let lines = [
        Some(row("module", identity)),
        line("module's reach", &module.reach, |all| all.iter().map(reach).collect::<Vec<_>>().join(", ")),
        line("module's power", &module.max_watts, |watts| format!("at most {watts} W")),
        line("temperature", &module.temperature, |heat| monitor(heat, |degrees| format!("{degrees:.1} C"))),
        line("voltage", &module.voltage, |volts| monitor(volts, |volts| format!("{volts:.2} V"))),
        line("light sent", &module.tx_power, light),
        line("light received", &module.rx_power, light),
    ];
    lines.into_iter().flatten().collect()
}

fn cable(kind: CableKind) -> &'static str {
    match kind {
        CableKind::PassiveCopper => "passive copper cable",
        CableKind::ActiveCopper => "active copper cable",
        CableKind::ActiveOptical => "active optical cable",
        CableKind::Active => "active cable",
    }
}

fn reach(reach: &ModuleReach) -> String {
    format!("{} m of {}", reach.metres, reach.name)
}

/// Optical power as text: milliwatts, and decibels relative to one milliwatt (dBm).
fn light(light: &Monitor) -> String {
    monitor(light, |mw| match mw {
        dark if dark <= 0.0 => "0 mW".to_owned(),
        mw => format!("{mw:.4} mW ({:.1} dBm)", 10.0 * mw.log10()),
    })
}

/// The values of a module's monitor, such as its temperature, and the range in which the module warns of nothing.
fn monitor(monitor: &Monitor, show: impl Fn(f64) -> String) -> String {
    let values: Vec<String> = monitor.values.iter().map(|value| show(*value)).collect();
    let values = values.join(", ");
    match &monitor.limits {
        Fact::NotApplicable => values,
        limits => {
            let range = |all: &Limits| format!("{} to {}", show(all.low_warning), show(all.high_warning));
            format!("{values}; without a warning: {}", shown(limits, range))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_is_shown_in_both_units_with_its_range() {
        let limits = Limits { low_alarm: 0.01, low_warning: 0.1, high_warning: 1.0, high_alarm: 2.0 };
        let of = |values: &[f64], limits| light(&Monitor { values: values.to_vec(), limits });
        assert_eq!(
            of(&[0.5, 0.0], Fact::Known(limits)),
            "0.5000 mW (-3.0 dBm), 0 mW; without a warning: 0.1000 mW (-10.0 dBm) to 1.0000 mW (0.0 dBm)"
        );
        assert_eq!(of(&[1.0], Fact::NotApplicable), "1.0000 mW (0.0 dBm)");
    }
}
