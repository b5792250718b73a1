//! Network interfaces, from /proc/net/dev and /sys/class/net.

use crate::root::Root;
use crate::{Fact, Interface};

/// The interfaces of the reader's network namespace, sorted by name, loopback left out.
///
/// /proc/net/dev belongs to the namespace of the process, /sys to the namespace in which it was mounted. So names
/// come from the first, and one that the second lacks says so instead of showing another namespace's values.
pub(crate) fn read(root: &Root) -> Vec<Interface> {
    names(root).into_iter().filter(|name| name != "lo").map(|name| interface(root, name)).collect()
}

fn names(root: &Root) -> Vec<String> {
    let mut names = match root.text("proc/net/dev") {
        Fact::Known(text) => from_proc(&text),
        _ => from_sys(root),
    };
    names.sort();
    names.dedup();
    names
}

fn from_proc(text: &str) -> Vec<String> {
    // Two lines of headings hold '|' and no colon.
    text.lines()
        .filter(|line| !line.contains('|'))
        .filter_map(|line| line.split_once(':').map(|(name, _)| name.trim().to_owned()))
        .filter(|name| is_plain(name))
        .collect()
}

fn from_sys(root: &Root) -> Vec<String> {
    let names = root.names("sys/class/net").unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        // A directory holds files too, such as bonding_masters.
        .filter(|name| is_plain(name) && root.has(&format!("sys/class/net/{name}/mtu")))
        .collect()
}

/// A name becomes part of a path, so it must be one component that stays below.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

fn interface(root: &Root, name: String) -> Interface {
    let dir = format!("sys/class/net/{name}");
    if !root.has(&dir) {
        return unseen(name);
    }
    Interface {
        driver: root.link_name(&format!("{dir}/device/driver")),
        speed_mbps: root.text(&format!("{dir}/speed")).and_then(|text| speed(&text)),
        mtu: root.needed(&format!("{dir}/mtu")).and_then(|text| number("mtu", &text)),
        rx_queues: queues(root, &dir, "rx-"),
        tx_queues: queues(root, &dir, "tx-"),
        name,
    }
}

fn unseen(name: String) -> Interface {
    fn reason<T>() -> Fact<T> {
        Fact::Unreadable("/sys shows another network namespace".into())
    }
    Interface {
        driver: reason(),
        speed_mbps: reason(),
        mtu: reason(),
        rx_queues: reason(),
        tx_queues: reason(),
        name,
    }
}

/// A port without a speed of its own reads -1 (virtio) or 4294967295 on old kernels.
fn speed(text: &str) -> Fact<u64> {
    match text.parse::<i64>() {
        Ok(value) if value < 0 || value == i64::from(u32::MAX) => Fact::NotApplicable,
        Ok(value) => Fact::Known(value.unsigned_abs()),
        Err(_) => Fact::Unreadable(format!("speed holds {text:?}")),
    }
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> Fact<T> {
    text.parse().map_or_else(|_| Fact::Unreadable(format!("{what} holds {text:?}")), Fact::Known)
}

fn queues(root: &Root, dir: &str, prefix: &str) -> Fact<u32> {
    let path = format!("{dir}/queues");
    match root.names(&path) {
        Ok(names) => {
            let n = names.iter().filter(|name| name.to_string_lossy().starts_with(prefix)).count();
            Fact::Known(u32::try_from(n).unwrap_or(u32::MAX))
        }
        Err(e) => Fact::Unreadable(format!("/{path}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_speed_with_its_odd_values() {
        assert_eq!(speed("10000"), Fact::Known(10_000));
        assert_eq!(speed("-1"), Fact::NotApplicable);
        assert_eq!(speed("4294967295"), Fact::NotApplicable);
        assert!(matches!(speed("fast"), Fact::Unreadable(_)));
    }

    #[test]
    fn names_come_from_proc_without_headings_or_paths() {
        let text =
            "Inter-|   Receive  |  Transmit\n face |bytes    |bytes\n    lo:    1 2\n  eth0: 9 9\n ../x: 1\n";
        assert_eq!(from_proc(text), ["lo", "eth0"]);
    }
}
