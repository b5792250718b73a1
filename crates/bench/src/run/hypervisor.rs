//! Finds out if one host, the guest, is a virtual machine on the other host. If so, the command line of a hypervisor on
//! the other host contains an Ethernet address of the guest, and the other host's processor time includes the guest's.

use linerate_remote::place::Place;

use super::host_bed::ask;

/// A shell command that prints the command lines of hypervisors, one in each line.
const HYPERVISORS: &str = "for f in $(grep -lszE '^([^ ]*/)?(qemu-|kvm$|cloud-hypervisor|linux\\.uml$)' /proc/[0-9]*/cmdline); \
                           do tr '\\0\\n' '  ' < \"$f\"; echo; done";

/// A shell command that prints the addresses of all ports.
const ADDRESSES: &str = "cat /sys/class/net/*/address";

/// Whether `guest` is a virtual machine on `host`; false if commands can't be run on either host.
pub(super) fn is_of(host: &Place, guest: &Place) -> bool {
    let (Ok(commands), Ok(addresses)) = (ask(host, HYPERVISORS), ask(guest, ADDRESSES)) else { return false };
    names(&commands, &addresses)
}

/// Whether a hypervisor's command line contains one of the Ethernet addresses.
fn names(commands: &str, addresses: &str) -> bool {
    let commands = commands.to_ascii_lowercase();
    // Addresses that are empty or all zeros are those of loopback and of ports without an address.
    let own = addresses.lines().map(|line| line.trim().to_ascii_lowercase());
    own.filter(|own| own.len() == 17 && own.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0'))
        .any(|own| commands.contains(&own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_known_by_an_address_in_its_hypervisors_command() {
        let qemu =
            "/usr/bin/qemu-system-x86_64 -m 512 -device virtio-net-pci,netdev=n0,mac=52:54:00:AB:cd:01\n";
        assert!(names(qemu, "00:00:00:00:00:00\n52:54:00:ab:CD:01\n"));
        assert!(!names(qemu, "00:00:00:00:00:00\n52:54:00:ab:cd:02\n\n"));
        assert!(!names("qemu-x mac=00:00:00:00:00:00", "00:00:00:00:00:00\n"));
        assert!(!names("", "52:54:00:ab:cd:01"));
    }

    #[test]
    fn hypervisors_are_found_among_the_processes() {
        let mac = "52:54:00:ab:cd:77";
        let mut stands_for_one = std::process::Command::new("bash")
            .args(["-c", &format!("exec -a /usr/bin/qemu-system-test sh -c 'sleep 30; true' sh mac={mac}")])
            .spawn()
            .unwrap();
        let mut other = std::process::Command::new("sh")
            .args(["-c", "sleep 30; true", "sh", "mac=52:54:00:ab:cd:78"])
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        let mut commands = String::new();
        // On a busy machine, the process may take a while to start.
        while !names(&commands, mac) && begun.elapsed().as_secs() < 10 {
            commands = ask(&Place::Here, HYPERVISORS).unwrap();
        }
        for child in [&mut stands_for_one, &mut other] {
            let _ = (child.kill(), child.wait());
        }
        assert!(names(&commands, mac), "{commands}");
        assert!(!names(&commands, "52:54:00:ab:cd:78"), "{commands}");
    }
}
