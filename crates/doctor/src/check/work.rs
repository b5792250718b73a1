//! The rate that processors receive from a port, and parts of commands: shared by several checks.

use linerate_host::facts::{Irq, Pause, Port};

use crate::Finding;
use crate::formula::{cpu, gbit};

/// The least bits a second that `cores` cores receive from a port: interrupts, the protocol and copying. None
/// where the port's MTU is unknown.
pub fn received(port: &Port, cores: u32) -> Option<f64> {
    let aggregated =
        port.offload("rx-gro").get() != Some(false) || port.offload("rx-lro").get() == Some(true);
    Some(cpu::connection(port.mtu.get()?, aggregated).low * f64::from(cores))
}

/// A finding where `cores` cores receive less than twice the need: they also copy and encrypt.
pub fn short_of(port: &Port, cores: u32, need: f64, title: &str) -> Option<Finding> {
    let (ceiling, mtu) = (received(port, cores)?, port.mtu.get()?);
    if ceiling >= need * 2.0 {
        return None;
    }
    let name = if cores == 1 { "core receives" } else { "cores receive" };
    let evidence = format!(
        "{cores} {name} {} or more with packets of {mtu} bytes; needed: {}",
        gbit(ceiling),
        gbit(need)
    );
    Some(Finding::near(ceiling, need, title).at(&port.name).evidence(evidence))
}

/// The command that binds an interrupt to these processors.
pub fn bind(irq: &Irq, cpus: &[u32]) -> String {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    format!("echo {} > /proc/irq/{}/smp_affinity_list", list.join(","), irq.number)
}

/// The command that restores the present setting of pause frames.
pub fn pauses_as_now(port: &Port, pause: &Pause) -> String {
    let word = |on: bool| if on { "on" } else { "off" };
    format!("ethtool -A {} rx {} tx {}", port.name, word(pause.rx), word(pause.tx))
}

/// A name from a host, quoted as one word of a shell command.
pub fn word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+,=-".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// The commands that restore the present binding of interrupts.
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
