//! Checks that /sys shows the ports of this process's network namespace. It shows those of the namespace in which it was
//! mounted; in another namespace, the same path would be another host's port.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use linerate_host::netlink::{attributes, number};

use super::queueing::{failed, links};

const PORTS: &str = "/sys/class/net";
/// IFLA_ADDRESS and IFLA_IFNAME.
const ADDRESS: u16 = 1;
const NAME: u16 = 3;

/// A port's number, name and address: no two namespaces have the same in all ports.
type Seen = (u64, String, String);

/// Refuses ports that aren't this namespace's.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check() -> Result<(), String> {
    let own = of_kernel().map_err(failed)?;
    let shown = of_files().map_err(|error| format!("{PORTS}: {error}"))?;
    if own == shown { Ok(()) } else { Err("/sys shows the ports of another network namespace here".into()) }
}

fn of_kernel() -> io::Result<BTreeSet<Seen>> {
    let mut all = BTreeSet::new();
    links(|inside| {
        let (mut name, mut address) = (String::new(), String::new());
        for (kind, value) in attributes(inside.get(16..).unwrap_or_default()) {
            match kind {
                NAME => name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
                ADDRESS => {
                    address = value.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
                }
                _ => {}
            }
        }
        all.insert((number(inside, 4, 4).unwrap_or(0), name, address));
    })?;
    Ok(all)
}

fn of_files() -> io::Result<BTreeSet<Seen>> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(PORTS)? {
        let path = entry?.path();
        // bonding_masters is a file.
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
    }
}
