//! A limit on the rate of the data's disk, set for the control group in which linerate runs.

use linerate_host::facts::{BlockDevice, FileSystem, IoLimit};

use super::control_group::lifted;
use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::source::CGROUPS;
use crate::{Finding, Host};

pub(super) const CHECK: Check = Check {
    name: "io-limit",
    about: "a control group that limits the rate of a disk",
    sources: &[CGROUPS],
    run: CheckRun::Host(|host| file_systems(host).flat_map(|fs| of(host, fs)).collect()),
};

fn of(host: &Host<'_>, fs: &FileSystem) -> Vec<Finding> {
    let (Some(device), Some(limits)) = (fs.device.known(), host.facts.groups.io.known()) else {
        return Vec::new();
    };
    let of_device = || limits.iter().filter(|limit| device.number.known() == Some(&limit.device));
    let least = |of: fn(&IoLimit) -> Option<u64>| {
        of_device().filter_map(|limit| Some((limit, of(limit)?))).min_by_key(|(_, bytes)| *bytes)
    };
    let ways = [
        ("read", "IOReadBandwidthMax", least(|limit| limit.read)),
        ("written", "IOWriteBandwidthMax", least(|limit| limit.write)),
    ];
    let each = ways.into_iter().filter_map(|(way, property, least)| {
        let (limit, bytes) = least?;
        found(host, fs, device, (way, property), (limit, bytes))
    });
    each.collect()
}

fn found(
    host: &Host<'_>,
    fs: &FileSystem,
    device: &BlockDevice,
    (way, property): (&str, &str),
    (limit, bytes): (&IoLimit, u64),
) -> Option<Finding> {
    let (ceiling, need) = (bytes as f64 * 8.0, host.rate());
    if ceiling >= need {
        return None;
    }
    let finding =
        Finding::leaves(ceiling, need, format!("{} may be {way} at {} at most", fs.path, gbit(ceiling)))
            .at(&fs.path)
            .evidence(format!(
                "the limit of the control group {} on {}: {bytes} bytes a second",
                limit.group, device.name
            ));
    let words = "raise the container's limit: docker update can't do that, so start the container again without --device-read-bps and \
                 --device-write-bps; or write max to the group's io.max (version 1: 0 to blkio.throttle.*)";
    let now = format!("'/dev/{} {bytes}'", device.name);
    Some(
        lifted(finding, &limit.group, property, "", &now, words)
            .conflict("the limit protects the disk's other users; a weight (io.weight) does so too, and lets the group use idle time"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with_device;
    use super::*;
    use crate::testing::{fixture, lines};
    use linerate_host::{Fact, Facts};

    fn with(device: &str, read: Option<u64>, write: Option<u64>) -> Facts {
        let mut facts = with_device("stock-10g", |disk| disk.number = Fact::Known("8:0".into()));
        let group = "/system.slice/ssh.service".into();
        facts.groups.io = Fact::Known(vec![IoLimit { group, device: device.into(), read, write }]);
        facts
    }

    #[test]
    fn a_limit_of_the_datas_disk_is_found_for_each_way() {
        let slow = crate::testing::found(&CHECK, &with("8:0", Some(125_000_000), Some(12_500_000)));
        assert_eq!(lines(&slow), ["io-limit / critical 1.00 Gbit/s", "io-limit / critical 100 Mbit/s"]);
        assert_eq!(
            slow[0].fix.as_deref(),
            Some("systemctl set-property --runtime ssh.service IOReadBandwidthMax=")
        );
        assert!(slow[1].undo.as_ref().unwrap().ends_with(" 12500000'"), "{slow:?}");
    }

    #[test]
    fn limits_of_other_disks_and_high_ones_are_not() {
        let lines = |facts: &Facts| lines(&crate::testing::found(&CHECK, facts));
        assert!(lines(&with("8:16", Some(1), Some(1))).is_empty());
        assert!(lines(&with("8:0", Some(10_000_000_000), None)).is_empty());
        assert!(lines(&fixture("stock-10g")).is_empty());
    }
}
