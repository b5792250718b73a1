//! Settings of drivers, by ethtool's requests.

use std::io;
use std::path::Path;

use linerate_doctor::remedy::{Queues, RingWay, Setting};
use linerate_sys::ethtool::{CHANNELS, COALESCING, Ethtool, Question, RINGS, Spread};

use super::files::{is_balanced, names};

pub fn ring(port: &str, way: RingWay) -> Result<String, String> {
    number(port, RINGS, way_name(way)).map(|count| count.to_string())
}

pub fn set_ring(port: &str, way: RingWay, value: &str) -> Result<(), String> {
    set(port, RINGS, &[(way_name(way), parse(value)?)])
}

pub fn can_ring(port: &str, way: RingWay, new: &str) -> Result<(), String> {
    let most = if way == RingWay::Rx { "max_rx" } else { "max_tx" };
    within(parse(new)?, number(port, RINGS, most)?)
}

pub fn channels(port: &str, queues: Queues) -> Result<String, String> {
    number(port, CHANNELS, queues_name(queues)).map(|count| count.to_string())
}

pub fn set_channels(port: &str, queues: Queues, value: &str) -> Result<(), String> {
    set(port, CHANNELS, &[(queues_name(queues), parse(value)?)])
}

pub fn can_channels(port: &str, queues: Queues, new: &str) -> Result<(), String> {
    let most = match queues {
        Queues::Combined => "max_combined",
        Queues::Rx => "max_rx",
        Queues::Tx => "max_tx",
    };
    within(parse(new)?, number(port, CHANNELS, most)?)
}

/// The masks of a port's queues, and the processors of its interrupts: a new number of queues may reset them. While
/// irqbalance runs, the interrupts are left out, because irqbalance moves them by itself.
pub fn masks(port: &str) -> Vec<Setting> {
    let directory = Path::new("/sys/class/net").join(port);
    let queue = |name: String| {
        let (way, queue) = name.split_once('-')?;
        let (port, queue) = (port.to_owned(), queue.parse().ok()?);
        Some(if way == "rx" { Setting::Rps { port, queue } } else { Setting::Xps { port, queue } })
    };
    // In /sys, the device of virtio is below the device of PCI, which has the interrupts.
    let irqs = ["device/msi_irqs", "device/../msi_irqs"].map(|below| names(&directory.join(below)));
    let irqs =
        irqs.into_iter().flatten().filter_map(|name| Some(Setting::IrqAffinity { irq: name.parse().ok()? }));
    let queues = names(&directory.join("queues")).into_iter().filter_map(queue);
    let mut all: Vec<_> = queues.chain(irqs.filter(|_| !is_balanced())).collect();
    all.sort();
    all.dedup();
    all
}

/// The value of `Setting::Link` for an open port.
pub const UP: &str = "up";
/// The flag IFF_UP (the kernel's include/uapi/linux/if.h).
const OPEN: u32 = 1;

/// `up` if a port is open, otherwise `down`, according to the file of its flags.
pub fn link(file: &str) -> Result<String, String> {
    Ok(if flags(file)? & OPEN == 0 { "down" } else { UP }.into())
}

/// Opens a port that a driver has closed. This program never closes a port.
pub fn open_link(file: &str, value: &str) -> Result<(), String> {
    if value != UP {
        return Err("a port is never closed".into());
    }
    super::files::write(file, &format!("{:#x}", flags(file)? | OPEN))
}

fn flags(file: &str) -> Result<u32, String> {
    let text = super::files::read(file)?;
    let digits = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    digits.ok_or_else(|| format!("{file} has no valid flags: {text}"))
}

/// A port's RSS table: `equal N` if N queues take turns, else the queue of each slot.
pub fn rss(port: &str) -> Result<String, String> {
    let Spread { slots, .. } = spread(port)?;
    match turns(&slots) {
        Some(queues) => Ok(format!("equal {queues}")),
        None => Ok(slots.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")),
    }
}

/// Sets a port's RSS table. A driver's own table follows the number of queues; a table that somebody has set doesn't.
/// So if all queues are to take turns, the driver's own table is restored first; another table is set only if the
/// driver's own isn't the wanted one.
pub fn set_rss(port: &str, value: &str) -> Result<(), String> {
    let set = |slots: &[u32]| {
        Ethtool::open().and_then(|mut ethtool| ethtool.set_slots(port, slots)).map_err(failed)
    };
    let Spread { rings, slots } = spread(port)?;
    let Some(queues) = value.strip_prefix("equal ") else {
        return set(&value.split_whitespace().map(parse).collect::<Result<Vec<_>, _>>()?);
    };
    let queues = parse(queues)?.max(1);
    if queues == rings {
        set(&[])?;
        if rss(port)? == value {
            return Ok(());
        }
    }
    set(&(0..slots.len() as u32).map(|slot| slot % queues).collect::<Vec<_>>())
}

fn spread(port: &str) -> Result<Spread, String> {
    let spread = Ethtool::open().and_then(|mut ethtool| ethtool.spread(port)).map_err(failed)?;
    if spread.slots.is_empty() { Err("the driver has no RSS table".into()) } else { Ok(spread) }
}

/// The number of queues, if the slots name them in turn.
fn turns(slots: &[u32]) -> Option<u32> {
    let queues = slots.iter().max()?.checked_add(1)?;
    (0..).zip(slots).all(|(at, queue)| at % queues == *queue).then_some(queues)
}

/// All values of a port's coalescing, each after its name in ethtool.
pub fn coalescing(port: &str) -> Result<String, String> {
    let numbers =
        Ethtool::open().and_then(|mut ethtool| ethtool.numbers(port, COALESCING)).map_err(failed)?;
    let pair = |(name, value): &(&str, u32)| match (name.starts_with("adaptive"), value) {
        (true, 0) => format!("{} off", name.replace('_', "-")),
        (true, _) => format!("{} on", name.replace('_', "-")),
        (false, value) => format!("{} {value}", name.replace('_', "-")),
    };
    Ok(numbers.iter().map(pair).collect::<Vec<_>>().join(" "))
}

pub fn set_coalescing(port: &str, value: &str) -> Result<(), String> {
    let mut words = value.split_whitespace();
    let mut values = Vec::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let number = match value {
            "on" => 1,
            "off" => 0,
            number => parse(number)?,
        };
        values.push((name.replace('-', "_"), number));
    }
    let values: Vec<(&str, u32)> = values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    set(port, COALESCING, &values)
}

/// `on` if the feature was requested, whether or not the kernel grants it.
pub fn feature(port: &str, name: &str) -> Result<String, String> {
    let found = find(port, name)?;
    Ok(if found.wanted { "on" } else { "off" }.into())
}

pub fn set_feature(port: &str, name: &str, value: &str) -> Result<(), String> {
    let on = value == "on";
    Ethtool::open().and_then(|mut ethtool| ethtool.set_feature(port, name, on)).map_err(failed)?;
    // If the kernel doesn't grant the feature, the request is withdrawn, so that the former state holds.
    if on && !find(port, name)?.on {
        let _ = Ethtool::open().and_then(|mut ethtool| ethtool.set_feature(port, name, false));
        return Err("the kernel doesn't grant it: a feature that it needs is off".into());
    }
    Ok(())
}

pub fn can_feature(port: &str, name: &str) -> Result<(), String> {
    if find(port, name)?.fixed { Err("the driver can't change it".into()) } else { Ok(()) }
}

fn find(port: &str, name: &str) -> Result<linerate_sys::ethtool::Feature, String> {
    let features = Ethtool::open().and_then(|mut ethtool| ethtool.features(port)).map_err(failed)?;
    features
        .into_iter()
        .find(|feature| feature.name == name)
        .ok_or_else(|| "the port has no such feature".into())
}

fn number(port: &str, question: Question, name: &str) -> Result<u32, String> {
    let numbers = Ethtool::open().and_then(|mut ethtool| ethtool.numbers(port, question)).map_err(failed)?;
    let found = numbers.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| "the driver has no such number".into())
}

fn set(port: &str, question: Question, values: &[(&str, u32)]) -> Result<(), String> {
    Ethtool::open().and_then(|mut ethtool| ethtool.set_numbers(port, question, values)).map_err(failed)
}

fn within(new: u32, most: u32) -> Result<(), String> {
    if new <= most { Ok(()) } else { Err(format!("the driver allows at most {most}")) }
}

fn parse(value: &str) -> Result<u32, String> {
    value.trim().parse().map_err(|_| format!("{value:?} is no number"))
}

fn way_name(way: RingWay) -> &'static str {
    match way {
        RingWay::Rx => "rx",
        RingWay::Tx => "tx",
    }
}

fn queues_name(queues: Queues) -> &'static str {
    match queues {
        Queues::Combined => "combined",
        Queues::Rx => "rx",
        Queues::Tx => "tx",
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: io::Error) -> String {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::OPNOTSUPP) => "the driver doesn't support it".into(),
        Some(rustix::io::Errno::NODEV) => "there is no such port here".into(),
        Some(rustix::io::Errno::PERM) => "this needs root (CAP_NET_ADMIN)".into(),
        _ => format!("the driver refuses it: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_opened_and_never_closed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let set = |text: &str| std::fs::write(path, text).unwrap();
        set("0x1002\n");
        assert_eq!(link(path).as_deref(), Ok("down"));
        open_link(path, UP).unwrap();
        assert_eq!(
            (link(path).as_deref(), std::fs::read_to_string(path).unwrap().trim()),
            (Ok(UP), "0x1003")
        );
        assert!(open_link(path, "down").is_err());
        set("none");
        assert!(link(path).is_err());
    }
}
