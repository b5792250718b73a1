//! Identifies ports by more than their names: during a treatment, a port may get another name, and another port may get
//! its former name.

use linerate_doctor::remedy::{HostBounds, Setting};
use serde::{Deserialize, Serialize};

use crate::Controls;
use crate::journal::TreatmentJournal;

/// A port, as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortIdentity {
    /// The port's name.
    pub name: String,
    /// The port's index in its network namespace, which is valid until a restart of the host.
    pub index: u32,
    /// The port's permanent address, as bytes in hexadecimal digits with colons between them; virtual ports have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// The property by which a port is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trace {
    /// The port's index, which is valid until a restart of the host.
    Index,
    /// The port's permanent address, by which our files find the port at each start; the port's name if it has no such
    /// address.
    Address,
    /// The port's name, by which files of earlier versions find the port.
    Name,
}

impl PortIdentity {
    /// This port's present name among all ports.
    ///
    /// # Errors
    /// The reason, as the end of a sentence, if the port no longer exists.
    fn found(&self, all: &[Self], trace: Trace) -> Result<String, String> {
        let is_of_index =
            |port: &&Self| trace == Trace::Index && port.index == self.index && !self.is_unlike(port);
        if let Some(port) = all.iter().find(is_of_index) {
            return Ok(port.name.clone());
        }
        let is_of_address = |port: &&Self| self.mac.is_some() && port.mac == self.mac;
        let is_of_name = |port: &&Self| port.name == self.name;
        let is_found = match trace {
            // A driver may have created the port again.
            Trace::Index => all.iter().any(|port| is_of_address(&port) && is_of_name(&port)),
            Trace::Address if self.mac.is_some() => {
                let mut others = all.iter().filter(is_of_address);
                if let (Some(only), None) = (others.next(), others.next()) {
                    return Ok(only.name.clone());
                }
                false
            }
            Trace::Address | Trace::Name => all.iter().any(|port| is_of_name(&port)),
        };
        if is_found {
            return Ok(self.name.clone());
        }
        Err(format!("the port {} is gone: nothing to restore", self.name))
    }

    /// True if no other port has this port's permanent address.
    fn is_alone(&self, all: &[Self]) -> bool {
        all.iter().filter(|port| self.mac.is_some() && port.mac == self.mac).count() < 2
    }

    fn is_unlike(&self, other: &Self) -> bool {
        self.mac.is_some() && other.mac.is_some() && self.mac != other.mac
    }
}

/// The host's ports to which the settings belong, for a journal.
pub fn of_settings<'a>(
    controls: &mut dyn Controls,
    settings: impl Iterator<Item = &'a Setting>,
) -> Result<Vec<PortIdentity>, String> {
    let names: Vec<String> = settings.filter_map(port_of).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let all = controls.ports()?;
    Ok(all.into_iter().filter(|port| names.contains(&port.name)).collect())
}

/// The name of the port to which a setting belongs, even if the setting is a sysctl.
fn port_of(setting: &Setting) -> Option<String> {
    if let Setting::Sysctl { key } = setting {
        return sysctl_port(key).map(|port| port.replace('/', "."));
    }
    setting.port().map(str::to_owned)
}

/// The port in a sysctl's key, such as `eth0` in `net.ipv6.conf.eth0.mtu`. Dots in the port's name are written as
/// slashes.
fn sysctl_port(key: &str) -> Option<&str> {
    match key.split('.').collect::<Vec<_>>().as_slice() {
        ["net", _, "conf" | "neigh", port, _, ..] => Some(port),
        _ => None,
    }
}

/// The same setting of the port with this name.
fn renamed(setting: &Setting, name: &str) -> Setting {
    if let Setting::Sysctl { key } = setting {
        let mut parts: Vec<String> = key.split('.').map(str::to_owned).collect();
        if let Some(port) = parts.get_mut(3) {
            *port = name.replace('.', "/");
        }
        return Setting::Sysctl { key: parts.join(".") };
    }
    setting.clone().of_port(name)
}

/// A journal's ports, as they are now.
#[derive(Clone, Debug, Default)]
pub struct PresentPorts(Vec<PresentPort>);

#[derive(Clone, Debug)]
struct PresentPort {
    was: PortIdentity,
    /// The port's present name, or the reason why it has none.
    now: Result<String, String>,
    /// True if no other port has this port's permanent address.
    is_alone: bool,
}

impl PresentPorts {
    /// The ports of a journal. A journal of an earlier version has no ports: then all names are valid.
    pub fn of(journal: &TreatmentJournal, controls: &mut dyn Controls) -> Self {
        let then = &journal.head.ports;
        if then.is_empty() {
            return Self(Vec::new());
        }
        let trace = match (journal.is_of_earlier_start(), journal.goes_by_address()) {
            (false, _) => Trace::Index,
            (true, true) => Trace::Address,
            (true, false) => Trace::Name,
        };
        let all = controls.ports();
        let found = |port: &PortIdentity| PresentPort {
            was: port.clone(),
            now: all.as_ref().map_err(Clone::clone).and_then(|all| port.found(all, trace)),
            is_alone: all.as_ref().is_ok_and(|all| port.is_alone(all)),
        };
        Self(then.iter().map(found).collect())
    }

    fn port(&self, setting: &Setting) -> Option<&PresentPort> {
        let name = port_of(setting)?;
        self.0.iter().find(|port| port.was.name == name)
    }

    /// The setting, with the present name of its port.
    ///
    /// # Errors
    /// The reason, as the end of a sentence, if the port no longer exists.
    pub fn setting(&self, setting: &Setting) -> Result<Setting, String> {
        match self.port(setting).map(|port| &port.now) {
            Some(Ok(name)) => Ok(renamed(setting, name)),
            Some(Err(why)) => Err(why.clone()),
            None => Ok(setting.clone()),
        }
    }

    /// Checks that the setting's port has its former name, for changes that use the name.
    ///
    /// # Errors
    /// The reason, as the end of a sentence, if the port has another name.
    pub fn check_name(&self, setting: &Setting) -> Result<(), String> {
        match self.setting(setting)? {
            now if now == *setting => Ok(()),
            now => Err(format!("its port has another name now: the setting is {now}")),
        }
    }

    /// Checks that our files find the setting's port again after a restart: by its permanent address, or by its name if
    /// it has none.
    ///
    /// # Errors
    /// The reason, as the end of a sentence, if our files wouldn't find the port.
    pub fn check_kept(&self, setting: &Setting) -> Result<(), String> {
        match self.port(setting).filter(|_| setting.port().is_some()) {
            Some(PresentPort { now: Err(why), .. }) => Err(why.clone()),
            Some(PresentPort { was: PortIdentity { mac: Some(mac), .. }, is_alone, .. }) => {
                if *is_alone {
                    Ok(())
                } else {
                    Err(format!(
                        "another port has the same address {mac}: after a restart the two ports may be confused"
                    ))
                }
            }
            _ => self.check_name(setting),
        }
    }

    /// The former and the present names of ports that have other names now.
    pub fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        let pair = |port: &'_ PresentPort| port.now.as_ref().is_ok_and(|now| *now != port.was.name);
        self.0
            .iter()
            .filter(move |one| pair(one))
            .filter_map(|port| Some((&*port.was.name, &**port.now.as_ref().ok()?)))
    }
}

/// The settings of a host in which a journal's ports have their present names.
pub struct MovedControls<'a> {
    controls: &'a mut dyn Controls,
    ports: PresentPorts,
}

impl<'a> MovedControls<'a> {
    /// The settings as a journal names them.
    pub fn of(journal: &TreatmentJournal, controls: &'a mut dyn Controls) -> Self {
        let ports = PresentPorts::of(journal, controls);
        Self { controls, ports }
    }

    /// True if the setting's port no longer exists.
    pub fn is_gone(&self, setting: &Setting) -> bool {
        self.ports.setting(setting).is_err()
    }
}

impl Controls for MovedControls<'_> {
    fn read(&mut self, setting: &Setting) -> Result<String, String> {
        self.controls.read(&self.ports.setting(setting)?)
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), String> {
        self.controls.write(&self.ports.setting(setting)?, value)
    }

    fn check_back(&mut self, setting: &Setting, before: &str) -> Result<(), String> {
        self.controls.check_back(&self.ports.setting(setting)?, before)
    }

    fn beside(&mut self, setting: &Setting) -> Vec<Setting> {
        self.ports.setting(setting).map(|setting| self.controls.beside(&setting)).unwrap_or_default()
    }

    fn look(&mut self, setting: &Setting, new: &str) -> Result<(), String> {
        self.controls.look(&self.ports.setting(setting)?, new)
    }

    fn bounds(&mut self) -> HostBounds {
        self.controls.bounds()
    }

    fn ports(&mut self) -> Result<Vec<PortIdentity>, String> {
        self.controls.ports()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, index: u32, mac: Option<&str>) -> PortIdentity {
        PortIdentity { name: name.into(), index, mac: mac.map(str::to_owned) }
    }

    #[test]
    fn a_port_is_found_by_its_index_and_later_by_its_address() {
        let then = port("d0", 7, Some("aa"));
        let now = |all: &[PortIdentity], trace| then.found(all, trace).ok();
        let moved = [port("d1", 7, Some("aa")), port("d0", 9, Some("bb"))];
        assert_eq!(now(&moved, Trace::Index).as_deref(), Some("d1"));
        assert_eq!(now(&[port("d0", 7, Some("bb"))], Trace::Index), None, "the index was used again");
        let anew = [port("d0", 9, Some("aa"))];
        assert_eq!(now(&anew, Trace::Index).as_deref(), Some("d0"), "a driver's new start");
        assert_eq!(now(&[port("d0", 9, None)], Trace::Index), None);
        // After a restart, the index no longer identifies the port.
        let restarted = [port("d0", 7, Some("bb")), port("d2", 3, Some("aa"))];
        assert_eq!(now(&restarted, Trace::Address).as_deref(), Some("d2"));
        assert_eq!(now(&restarted[..1], Trace::Address), None, "another card in its place");
        assert_eq!(now(&[restarted.as_slice(), &anew].concat(), Trace::Address), None, "one of two");
        // Files of earlier versions have set the port with the name.
        assert_eq!(now(&restarted, Trace::Name).as_deref(), Some("d0"));
        let (virtual_port, others) = (port("v0", 7, None), [port("v1", 7, None), port("v0", 9, None)]);
        assert_eq!(virtual_port.found(&others, Trace::Address), Ok("v0".into()));
        assert!(virtual_port.found(&others[..1], Trace::Address).is_err());
    }

    #[test]
    fn a_port_is_kept_by_what_a_restart_leaves() {
        let present =
            |was: PortIdentity, name: &str, is_alone| PresentPort { was, now: Ok(name.into()), is_alone };
        let ports = PresentPorts(vec![
            present(port("d0", 7, Some("aa")), "d1", true),
            present(port("d5", 8, Some("bb")), "d5", false),
            present(port("v0", 9, None), "v0", true),
            present(port("v5", 9, None), "v6", true),
        ]);
        let why = |port: &str| ports.check_kept(&Setting::Mtu { port: port.into() }).err();
        assert_eq!((why("d0"), why("v0")), (None, None));
        assert_eq!(
            why("d5").as_deref(),
            Some("another port has the same address bb: after a restart the two ports may be confused")
        );
        assert_eq!(why("v5").as_deref(), Some("its port has another name now: the setting is v6's MTU"));
    }

    #[test]
    fn a_sysctl_of_a_port_has_its_name() {
        let setting = |key: &str| Setting::Sysctl { key: key.into() };
        let present = |name: &str, now: Result<String, String>| PresentPort {
            was: port(name, 1, None),
            now,
            is_alone: true,
        };
        let ports =
            PresentPorts(vec![present("d.0", Ok("d.1".into())), present("gone", Err("it is gone".into()))]);
        let now = |key| ports.setting(&setting(key));
        assert_eq!(now("net.ipv6.conf.d/0.mtu"), Ok(setting("net.ipv6.conf.d/1.mtu")));
        assert_eq!(now("net.ipv4.tcp_rmem"), Ok(setting("net.ipv4.tcp_rmem")));
        assert_eq!(now("net.ipv6.conf.gone.mtu"), Err("it is gone".into()));
        let mtu = |port: &str| ports.check_name(&Setting::Mtu { port: port.into() }).err();
        assert_eq!(mtu("d.0").as_deref(), Some("its port has another name now: the setting is d.1's MTU"));
        assert_eq!((mtu("gone").as_deref(), mtu("d.1")), (Some("it is gone"), None));
        assert_eq!(ports.renamed().collect::<Vec<_>>(), [("d.0", "d.1")]);
    }
}
