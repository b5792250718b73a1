//! Lists the ports of this process's network namespace, as the kernel reports them, and checks that /sys shows the same
//! ports. /sys shows the ports of the network namespace in which it was mounted; in any other namespace, the path of a
//! port there would lead to a different port.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use linerate_host::netlink::{attributes, number};
use linerate_sys::ethtool::Ethtool;

use super::queueing::{failed, links};
use crate::port::PortIdentity;

const PORTS: &str = "/sys/class/net";
/// The kernel's numbers IFLA_ADDRESS, IFLA_IFNAME and IFLA_PERM_ADDRESS. Kernels before Linux 5.6 don't send the last
/// one.
const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const PERMANENT: u16 = 54;

/// A port's number, name and address: no two namespaces have the same numbers, names and addresses for all ports.
type Seen = (u64, String, String);

/// Checks that /sys shows the ports of this network namespace.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check() -> Result<(), String> {
    let own = of_kernel().map_err(failed)?;
    let shown = of_files().map_err(|error| format!("{PORTS}: {error}"))?;
    if own == shown { Ok(()) } else { Err("/sys shows the ports of another network namespace here".into()) }
}

/// All ports of this network namespace.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn ports() -> Result<Vec<PortIdentity>, String> {
    let mut all = Vec::new();
    let mut each = |inside: &[u8]| {
        let mac = attribute(inside, PERMANENT).map(hexadecimal);
        all.push(PortIdentity { name: name(inside), index: number(inside, 4, 4).unwrap_or(0) as u32, mac });
    };
    links(&mut each).map_err(failed)?;
    let mut ethtool = Ethtool::open().map_err(failed)?;
    for port in all.iter_mut().filter(|port| port.mac.is_none()) {
        port.mac = ethtool.permanent_address(&port.name).ok().and_then(|address| permanent(&address));
    }
    Ok(all)
}

/// A permanent address as text; none if all its bytes are zero.
fn permanent(address: &[u8]) -> Option<String> {
    address.iter().any(|byte| *byte != 0).then(|| hexadecimal(address))
}

fn of_kernel() -> io::Result<BTreeSet<Seen>> {
    let mut all = BTreeSet::new();
    links(|inside| {
        let address = attribute(inside, ADDRESS).map(hexadecimal).unwrap_or_default();
        all.insert((number(inside, 4, 4).unwrap_or(0), name(inside), address));
    })?;
    Ok(all)
}

/// An attribute of a port's message.
fn attribute(inside: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(inside.get(16..)?).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn name(inside: &[u8]) -> String {
    let name = attribute(inside, NAME).unwrap_or_default();
    String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()
}

fn hexadecimal(address: &[u8]) -> String {
    address.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn of_files() -> io::Result<BTreeSet<Seen>> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(PORTS)? {
        let path = entry?.path();
        // An entry without an index isn't a port: bonding_masters is a file.
        if let Ok(index) = fs::read_to_string(path.join("ifindex")) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let address = fs::read_to_string(path.join("address")).unwrap_or_default().trim().to_owned();
            all.insert((index.trim().parse().unwrap_or(0), name, address));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_its_files_say_the_same() {
        assert_eq!(of_kernel().unwrap(), of_files().unwrap());
        assert!(of_kernel().unwrap().iter().any(|(_, name, _)| name == "lo"));
        check().unwrap();
        let ports = ports().unwrap();
        let mut ethtool = Ethtool::open().unwrap();
        for port in &ports {
            assert_eq!(permanent(&ethtool.permanent_address(&port.name).unwrap()), port.mac, "{port:?}");
        }
        assert_eq!(ports.len(), of_kernel().unwrap().len());
        assert!(ports.iter().any(|port| (port.name.as_str(), port.index) == ("lo", 1) && port.mac.is_none()));
    }
}
