//! Parses the names of the two hosts of a study: `a=ssh:user@h1,b=ssh:h2`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use linerate_remote::place::Place;

/// The two hosts of a study, and how to log in to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The sending host.
    pub a: Place,
    /// The receiving host.
    pub b: Place,
    /// Other hosts that are also sampled, such as the hypervisor of one of the two, by name.
    pub watched: Vec<(String, Place)>,
    /// The addresses of host b, one for each port of the path; if empty, the address to which ssh connects is
    /// used.
    pub addresses_b: Vec<String>,
    /// The remote shell and its options.
    pub rsh: Vec<OsString>,
}

impl Hosts {
    /// Parses `a=PLACE,b=PLACE`, in which a place is `local`, `ssh:HOST` or `netns:FILE`, and b's addresses,
    /// separated by commas.
    ///
    /// # Errors
    /// The error message.
    pub fn parse(text: &str, rsh: &[OsString], address_b: Option<&str>) -> Result<Hosts, String> {
        let (mut a, mut b, mut watched) = (None, None, Vec::new());
        for part in text.split(',') {
            let (name, place) = part.split_once('=').ok_or_else(|| wrong(part))?;
            let (name, place) = (name.trim(), parse_place(place.trim(), rsh).ok_or_else(|| wrong(part))?);
            let is_twice = match name {
                "a" => a.replace(place).is_some(),
                "b" => b.replace(place).is_some(),
                name if is_name(name) => {
                    let is_twice = watched.iter().any(|(other, _)| other == name);
                    watched.push((name.to_owned(), place));
                    is_twice
                }
                _ => return Err(wrong(part)),
            };
            if is_twice {
                return Err(format!("--hosts names {name} twice"));
            }
        }
        let a = a.unwrap_or(Place::Here);
        let b = b.ok_or("--hosts names no b: write a=local,b=ssh:HOST")?;
        let addresses_b = address_b.map_or(Ok(Vec::new()), parse_addresses)?;
        if addresses_b.is_empty() && !matches!(b, Place::Ssh { .. }) {
            return Err("b isn't reached by ssh: name b's address on the path by --address-b".into());
        }
        Ok(Hosts { a, b, watched, addresses_b, rsh: rsh.to_vec() })
    }
}

/// Whether a host's name can be part of file names and figures.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (2..=20).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('-')
}

fn parse_addresses(text: &str) -> Result<Vec<String>, String> {
    let mut all: Vec<IpAddr> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let address = part.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| {
            format!(
                "--address-b {part:?} isn't an address; write one such as 10.0.0.2, or one for each port: A,B"
            )
        })?;
        if all.contains(&address) {
            return Err(format!("--address-b names {address} twice; each port has its own address"));
        }
        all.push(address);
    }
    Ok(all.iter().map(IpAddr::to_string).collect())
}

fn parse_place(text: &str, rsh: &[OsString]) -> Option<Place> {
    match text.split_once(':') {
        None if text == "local" => Some(Place::Here),
        Some(("ssh", host)) if !host.is_empty() && !host.starts_with('-') => {
            Some(Place::Ssh { rsh: rsh.to_vec(), host: host.into() })
        }
        Some(("netns", file)) if file.starts_with('/') => Some(Place::Namespace(PathBuf::from(file))),
        _ => None,
    }
}

fn wrong(part: &str) -> String {
    format!(
        "{part:?} names no host of a study; write a=ssh:USER@HOST,b=ssh:HOST, or a=local for this host; write NAME=ssh:HOST, with a name of two or more letters, for another host to sample"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, address: Option<&str>) -> Result<Hosts, String> {
        Hosts::parse(text, &["ssh".into(), "-v".into()], address)
    }

    #[test]
    fn hosts_are_read_and_a_is_here_unless_it_is_named() {
        let hosts = parse("a=ssh:me@one,b=ssh:two", None).unwrap();
        let far = |host: &str| Place::Ssh { rsh: vec!["ssh".into(), "-v".into()], host: host.into() };
        assert_eq!((hosts.a, hosts.b), (far("me@one"), far("two")));
        assert_eq!(parse("b=ssh:two", None).unwrap().a, Place::Here);
        let named = parse("a=local, b=netns:/run/netns/x", Some("10.0.0.2")).unwrap();
        assert_eq!(named.b, Place::Namespace("/run/netns/x".into()));
    }

    #[test]
    fn other_hosts_are_watched() {
        let hosts = parse("a=local,b=ssh:x,switch=ssh:hv,disk=local", None).unwrap();
        let names: Vec<&str> = hosts.watched.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["switch", "disk"]);
        assert!(parse("b=ssh:x,hv=ssh:y,hv=ssh:z", None).unwrap_err().contains("twice"));
        for wrong in ["b=ssh:x,h/v=ssh:y", "b=ssh:x,=ssh:y", "b=ssh:x,hv=hv", "b=ssh:x,c=local"] {
            assert!(parse(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn b_has_an_address_for_each_port() {
        let addresses = |text| parse("b=ssh:x", Some(text)).map(|hosts| hosts.addresses_b);
        assert_eq!(addresses("10.0.0.2").unwrap(), ["10.0.0.2"]);
        assert_eq!(addresses("10.0.0.2, fd00:0::2,[fd00::3]").unwrap(), ["10.0.0.2", "fd00::2", "fd00::3"]);
        assert!(addresses("10.0.0.2,host").unwrap_err().contains("\"host\" isn't an address"));
        assert!(addresses("fd00::2,fd00:0::2").unwrap_err().contains("fd00::2 twice"));
        assert!(addresses("").is_err());
    }

    #[test]
    fn what_is_wrong_is_reported() {
        for (text, part) in [
            ("one", "\"one\" names no host"),
            ("a=local,b=ssh:", "b=ssh:"),
            ("b=ssh:-oProxyCommand=x", "names no host"),
            ("b=netns:relative", "names no host"),
            ("c=local,b=ssh:x", "c=local"),
            ("a=local", "names no b"),
            ("b=ssh:x,b=ssh:y", "twice"),
            ("b=local", "--address-b"),
        ] {
            assert!(parse(text, None).unwrap_err().contains(part), "{text}");
        }
    }
}
