//! Ports by more than their names: a port may get another name while it is treated, and another port the old one.

use linerate_doctor::remedy::Setting;
use serde::{Deserialize, Serialize};

use crate::Controls;
use crate::journal::TreatmentJournal;

/// A port, as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortIdentity {
    /// Its name.
    pub name: String,
    /// Its index in its network namespace, until a restart of the host.
    pub index: u32,
    /// Its permanent address, as colons separate it; virtual ports have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

impl PortIdentity {
    /// This port's present name among all ports.
    ///
    /// # Errors
    /// A sentence's end, if it isn't there any more.
    fn found(&self, all: &[Self], has_restarted: bool) -> Result<String, String> {
        let is_of_index = |port: &&Self| !has_restarted && port.index == self.index && !self.is_unlike(port);
        if let Some(port) = all.iter().find(is_of_index) {
            return Ok(port.name.clone());
        }
        // A driver may have made it anew.
        let of_address = || all.iter().filter(|port| self.mac.is_some() && port.mac == self.mac);
        if of_address().any(|port| port.name == self.name) {
            return Ok(self.name.clone());
        }
        if !has_restarted {
            return Err(format!("the port {} is gone: nothing to restore", self.name));
        }
        let mut others = of_address();
        match (others.next(), others.next()) {
            (Some(only), None) => Ok(only.name.clone()),
            // What is kept is set by the name at each start.
            _ => Ok(self.name.clone()),
        }
    }

    fn is_unlike(&self, other: &Self) -> bool {
        self.mac.is_some() && other.mac.is_some() && self.mac != other.mac
    }
}

/// The ports among these to which a setting belongs, for a journal.
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

/// The name of a setting's port, also of a sysctl's.
fn port_of(setting: &Setting) -> Option<String> {
    if let Setting::Sysctl { key } = setting {
        return sysctl_port(key).map(|port| port.replace('/', "."));
    }
    setting.port().map(str::to_owned)
}

/// `eth0` in `net.ipv6.conf.eth0.mtu`; its dots are slashes.
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

/// A journal's ports by their present names.
#[derive(Clone, Debug, Default)]
pub struct PresentPorts(Vec<(String, Result<String, String>)>);

impl PresentPorts {
    /// The ports of a journal. One of an earlier version has none: then all names count.
    pub fn of(journal: &TreatmentJournal, controls: &mut dyn Controls) -> Self {
        let then = &journal.head.ports;
        if then.is_empty() {
            return Self(Vec::new());
        }
        let (all, has_restarted) = (controls.ports(), journal.is_of_earlier_start());
        let found = |port: &PortIdentity| match &all {
            Ok(all) => port.found(all, has_restarted),
            Err(why) => Err(why.clone()),
        };
        Self(then.iter().map(|port| (port.name.clone(), found(port))).collect())
    }

    /// The setting by its port's present name.
    ///
    /// # Errors
    /// A sentence's end, if the port isn't there any more.
    pub fn setting(&self, setting: &Setting) -> Result<Setting, String> {
        let port = port_of(setting);
        match self.0.iter().find(|(was, _)| Some(was) == port.as_ref()) {
            Some((_, Ok(name))) => Ok(renamed(setting, name)),
            Some((_, Err(why))) => Err(why.clone()),
            None => Ok(setting.clone()),
        }
    }

    /// Checks that the setting's port has its former name, for changes that go by the name.
    ///
    /// # Errors
    /// A sentence's end, if it doesn't.
    pub fn check_name(&self, setting: &Setting) -> Result<(), String> {
        match self.setting(setting)? {
            now if now == *setting => Ok(()),
            now => Err(format!("its port has another name now: it is {now}")),
        }
    }

    /// The former and the present names of ports that have other names now.
    pub fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        let pair = |(was, is): &'_ (String, Result<String, String>)| is.as_ref().is_ok_and(|is| is != was);
        self.0
            .iter()
            .filter(move |one| pair(one))
            .filter_map(|(was, is)| Some((&**was, &**is.as_ref().ok()?)))
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

    /// True if the setting's port isn't there any more.
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
        let now = |all: &[PortIdentity], has_restarted| then.found(all, has_restarted).ok();
        let moved = [port("d1", 7, Some("aa")), port("d0", 9, Some("bb"))];
        assert_eq!(now(&moved, false).as_deref(), Some("d1"));
        assert_eq!(now(&[port("d0", 7, Some("bb"))], false), None, "the index was used again");
        assert_eq!(now(&[port("d0", 9, Some("aa"))], false).as_deref(), Some("d0"), "a driver's new start");
        assert_eq!(now(&[port("d0", 9, None)], false), None);
        // After a restart the index says nothing.
        let restarted = [port("d0", 7, Some("bb")), port("d2", 3, Some("aa"))];
        assert_eq!(now(&restarted, true).as_deref(), Some("d2"));
        assert_eq!(now(&restarted[..1], true).as_deref(), Some("d0"), "another card in its place");
        assert_eq!(port("v0", 7, None).found(&[port("v1", 7, None)], true), Ok("v0".into()));
    }

    #[test]
    fn a_sysctl_of_a_port_has_its_name() {
        let setting = |key: &str| Setting::Sysctl { key: key.into() };
        let ports =
            PresentPorts(vec![("d.0".into(), Ok("d.1".into())), ("gone".into(), Err("it is gone".into()))]);
        let now = |key| ports.setting(&setting(key));
        assert_eq!(now("net.ipv6.conf.d/0.mtu"), Ok(setting("net.ipv6.conf.d/1.mtu")));
        assert_eq!(now("net.ipv4.tcp_rmem"), Ok(setting("net.ipv4.tcp_rmem")));
        assert_eq!(now("net.ipv6.conf.gone.mtu"), Err("it is gone".into()));
        let mtu = |port: &str| ports.check_name(&Setting::Mtu { port: port.into() }).err();
        assert_eq!(mtu("d.0").as_deref(), Some("its port has another name now: it is d.1's MTU"));
        assert_eq!((mtu("gone").as_deref(), mtu("d.1")), (Some("it is gone"), None));
        assert_eq!(ports.renamed().collect::<Vec<_>>(), [("d.0", "d.1")]);
    }
}
