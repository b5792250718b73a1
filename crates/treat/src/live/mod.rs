//! The settings of this host: files of the kernel, drivers by ethtool's requests, queueing disciplines by netlink.

mod files;
mod ports;
mod queueing;
mod seen;

use std::path::Path;

use linerate_doctor::remedy::{GOVERNOR, HostBounds, PREFERENCE, Setting, TUNABLES};

use crate::port::PortIdentity;
use crate::surroundings::is_apart;
use crate::{Controls, is_back};

const CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// The settings of the host, as seen from this process's network namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveControls;

impl Controls for LiveControls {
    fn read(&mut self, setting: &Setting) -> Result<String, String> {
        sound(setting)?;
        match setting {
            Setting::Ring { port, way } => ports::ring(port, *way),
            Setting::Channels { port, queues } => ports::channels(port, *queues),
            Setting::Coalescing { port } => ports::coalescing(port),
            Setting::Feature { port, feature } => ports::feature(port, feature),
            Setting::Rss { port } => ports::rss(port),
            Setting::Qdisc { port } => queueing::root(port).map(|root| root.kind),
            Setting::Quantum { port } => queueing::quantum(port),
            Setting::Link { .. } => ports::link(&file(setting)?),
            Setting::Governor => files::of_processors(Path::new(files::CPUS), GOVERNOR),
            Setting::EnergyPreference => files::of_processors(Path::new(files::CPUS), PREFERENCE),
            _ => files::read(&file(setting)?),
        }
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), String> {
        sound(setting)?;
        match setting {
            Setting::Ring { port, way } => ports::set_ring(port, *way, value),
            Setting::Channels { port, queues } => ports::set_channels(port, *queues, value),
            Setting::Coalescing { port } => ports::set_coalescing(port, value),
            Setting::Feature { port, feature } => ports::set_feature(port, feature, value),
            Setting::Rss { port } => ports::set_rss(port, value),
            Setting::Qdisc { port } => queueing::set_root(port, value),
            Setting::Quantum { port } => queueing::set_quantum(port, value),
            Setting::Link { .. } => ports::open_link(&file(setting)?, value),
            Setting::Governor => files::set_of_processors(Path::new(files::CPUS), GOVERNOR, value),
            Setting::EnergyPreference => files::set_of_processors(Path::new(files::CPUS), PREFERENCE, value),
            _ => files::write(&file(setting)?, value),
        }
    }

    fn check_back(&mut self, setting: &Setting, before: &str) -> Result<(), String> {
        if let Setting::Qdisc { port } = setting {
            sound(setting)?;
            return queueing::check_back(port, before);
        }
        is_back(&self.read(setting)?, setting, before)
    }

    fn beside(&mut self, setting: &Setting) -> Vec<Setting> {
        let port = setting.port().filter(|_| setting.may_close());
        let link = port.map(|port| Setting::Link { port: port.to_owned() });
        // A port that was closed before the change stays closed.
        let link = link.filter(|link| self.read(link).is_ok_and(|now| now == ports::UP));
        link.into_iter().chain(changed_with(setting)).collect()
    }

    fn look(&mut self, setting: &Setting, new: &str) -> Result<(), String> {
        sound(setting)?;
        if is_apart() && is_of_whole_host(setting) {
            return Err(
                "this is a container or a network namespace, and the setting belongs to the whole host"
                    .into(),
            );
        }
        if setting.port().is_some() {
            // The values in the plan come from /sys.
            seen::check()?;
        }
        match setting {
            Setting::Ring { port, way } => ports::can_ring(port, *way, new),
            Setting::Channels { port, queues } => ports::can_channels(port, *queues, new),
            Setting::Coalescing { .. } => Ok(()),
            Setting::Feature { port, feature } => ports::can_feature(port, feature),
            Setting::Rss { port } => ports::rss(port).map(drop),
            Setting::Qdisc { port } => queueing::can_root(port, new),
            Setting::Governor => files::can_governors(new),
            Setting::IrqAffinity { .. } => files::can_bind(&file(setting)?),
            Setting::Mtu { port } => {
                queueing::can_mtu(port, new).and_then(|()| files::can_write(&file(setting)?))
            }
            Setting::Sysctl { key } if key == CONTROL => {
                files::can_control(new).and_then(|()| files::can_write(&file(setting)?))
            }
            _ => files::can_write(&file(setting)?),
        }
    }

    fn bounds(&mut self) -> HostBounds {
        let info = rustix::system::sysinfo();
        let memory = info.totalram.checked_mul(info.mem_unit.into());
        let page = Some(rustix::param::page_size() as u64);
        HostBounds { memory, page, isolated: files::isolated() }
    }

    fn ports(&mut self) -> Result<Vec<PortIdentity>, String> {
        seen::ports()
    }
}

/// The settings that drivers or the kernel may change together with this setting.
fn changed_with(setting: &Setting) -> Vec<Setting> {
    match setting {
        Setting::Channels { port, .. } => {
            let own = [Setting::Rss { port: port.clone() }, Setting::Coalescing { port: port.clone() }];
            [own.to_vec(), ports::masks(port)].concat()
        }
        // When the governor is changed to another one and back, amd-pstate keeps "performance" as the energy
        // preference.
        Setting::Governor => {
            let preference =
                files::of_processors(Path::new(files::CPUS), PREFERENCE).map(|_| Setting::EnergyPreference);
            preference.into_iter().chain(files::tunables(Path::new(TUNABLES))).collect()
        }
        // Some drivers, such as ena and bnxt, request their interrupts anew, and choose the interrupts' processors
        // themselves.
        Setting::Ring { port, .. } => {
            [vec![Setting::Coalescing { port: port.clone() }], ports::masks(port)].concat()
        }
        Setting::Feature { port, .. } => ports::masks(port),
        Setting::Mtu { port } => {
            // In a sysctl's name the dots of a port are slashes.
            let key = format!("net.ipv6.conf.{}.mtu", port.replace('.', "/"));
            let own = vec![Setting::Sysctl { key }, Setting::Quantum { port: port.clone() }];
            [own, ports::masks(port)].concat()
        }
        Setting::Qdisc { port } => vec![Setting::Quantum { port: port.clone() }],
        Setting::Sysctl { key } if key == CONTROL => {
            vec![Setting::Sysctl { key: "net.ipv4.tcp_allowed_congestion_control".into() }]
        }
        _ => Vec::new(),
    }
}

fn sound(setting: &Setting) -> Result<(), String> {
    if setting.is_sound() { Ok(()) } else { Err("no host has such a setting".into()) }
}

fn file(setting: &Setting) -> Result<String, String> {
    if setting.port().is_some() {
        seen::check()?;
    }
    setting.file().ok_or_else(|| "no file holds it".into())
}

/// True for settings that the kernel has only once, and not for each network namespace. Of the sysctls in `net.core`, a
/// namespace sees only its own, or those that it can't write.
fn is_of_whole_host(setting: &Setting) -> bool {
    match setting {
        Setting::Sysctl { key } => !key.starts_with("net."),
        Setting::Governor
        | Setting::EnergyPreference
        | Setting::Tunable { .. }
        | Setting::IrqAffinity { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use linerate_doctor::remedy::RingWay;

    use super::*;

    /// Drivers that request their interrupts anew distribute them among the processors by themselves.
    #[test]
    fn changes_that_close_a_port_keep_its_masks() {
        let port = || "lo".to_owned();
        let masks = ports::masks("lo");
        assert!(masks.contains(&Setting::Xps { port: port(), queue: 0 }), "{masks:?}");
        for setting in [
            Setting::Ring { port: port(), way: RingWay::Rx },
            Setting::Feature { port: port(), feature: "rx-gro".into() },
            Setting::Channels { port: port(), queues: linerate_doctor::remedy::Queues::Combined },
            Setting::Mtu { port: port() },
        ] {
            let beside = LiveControls.beside(&setting);
            assert!(masks.iter().all(|mask| beside.contains(mask)), "{setting}: {beside:?}");
        }
    }
}
