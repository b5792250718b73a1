//! What processors do for a port, against what is needed: the part that several checks compute alike.

use linerate_host::facts::{Irq, Pause, Port};

use crate::Finding;
use crate::formula::{cpu, gbit};

/// Bits a second that so many cores receive from a port, at the least: interrupts, the protocol and copying. None where
/// the packets' size isn't known.
pub fn received(port: &Port, cores: u32) -> Option<f64> {
    let aggregated =
        port.offload("rx-gro").get() != Some(false) || port.offload("rx-lro").get() == Some(true);
    Some(cpu::connection(port.mtu.get()?, aggregated).low * f64::from(cores))
}

/// A finding where so many cores receive less than is needed, or less than twice as much, since they copy and encrypt
/// as well.
pub fn short_of(port: &Port, cores: u32, need: f64, title: &str) -> Option<Finding> {
    let (ceiling, mtu) = (received(port, cores)?, port.mtu.get()?);
    if ceiling >= need * 2.0 {
        return None;
    }
    let name = if cores == 1 { "core receives" } else { "cores receive" };
    let told = format!(
        "{cores} {name} {} or more with packets of {mtu} bytes; needed: {}",
        gbit(ceiling),
        gbit(need)
    );
    Some(Finding::near(ceiling, need, title).at(&port.name).evidence(told))
}

/// The command that lets these processors serve an interrupt.
pub fn bind(irq: &Irq, cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!("echo {} > /proc/irq/{}/smp_affinity_list", list.join(","), irq.number)
}

/// The command that sets pause frames as they are set now.
pub fn pauses_as_now(port: &Port, pause: &Pause) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    format!("ethtool -A {} rx {} tx {}", port.name, word(pause.rx), word(pause.tx))
}

/// A name from a host as one word of a command that people paste into a shell.
pub fn word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+,=-".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// The commands that bind interrupts as they are bound now.
pub fn bind_as_now<'a>(irqs: impl Iterator<Item = &'a Irq>) -> String {
    let commands: Vec<String> = irqs.filter_map(|irq| Some(bind(irq, irq.affinity.known()?))).collect();
    commands.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_word() {
        assert_eq!((word("/data").as_str(), word("layer2+3").as_str()), ("/data", "layer2+3"));
        assert_eq!((word("/my data").as_str(), word("x;reboot").as_str()), ("'/my data'", "'x;reboot'"));
        assert_eq!((word("it's").as_str(), word("").as_str()), ("'it'\\''s'", "''"));
    }
}
