//! The owners of settings: files of sysctl.d(5) and the active profile of tuned, which set values at each
//! start of the host, and the files from which ports are configured.

mod ports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use linerate_doctor::remedy::Setting;

use self::ports::PortFile;
use crate::surroundings::is_apart;

/// The name of our own file of sysctls. Files are read in the order of their names, and the last one wins.
pub const OWN_SYSCTLS: &str = "90-linerate.conf";

/// Directories of sysctl.d, by precedence: a file hides files of the same name in the later ones.
const SYSCTLS: [&str; 5] =
    ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"];
/// The file that sysctl(8) and tuned read last. systemd reads it only if sysctl.d has a link to it, as on most
/// distributions; others (Debian 13, Arch Linux) have no such link.
const LAST: &str = "etc/sysctl.conf";
/// The paths of systemd's program: a host that has it lets systemd set sysctls at the start.
const SYSTEMD: [&str; 2] = ["usr/lib/systemd/systemd", "lib/systemd/systemd"];
/// Units and scripts that set the governor at each start, if they are enabled, that is, if one of the directories
/// [`ENABLED`] has a link with their name. Ubuntu's `ondemand.service` (until 20.04) sets the governor after all other
/// units (`/lib/systemd/set-cpufreq`).
const GOVERNOR_UNITS: [&str; 5] =
    ["ondemand.service", "cpupower.service", "cpufrequtils.service", "S01cpufrequtils", "S01ondemand"];
/// The directories of such links: those of systemd, and those of System V's scripts.
const ENABLED: [&str; 4] = [
    "etc/systemd/system/multi-user.target.wants",
    "lib/systemd/system/multi-user.target.wants",
    "usr/lib/systemd/system/multi-user.target.wants",
    "etc/rc2.d",
];
const PROFILE: &str = "etc/tuned/active_profile";
/// tuned's own configuration. Unless `reapply_sysctl` is off there, tuned reads sysctl.d(5)'s files in /run and /etc
/// after its profile, so these files win (`instance_apply` in tuned/plugins/plugin_sysctl.py).
const TUNED: &str = "etc/tuned/tuned-main.conf";
/// Directories of tuned's profiles, by precedence.
const PROFILES: [&str; 4] = ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"];
/// The most bytes of a configuration file that is read.
const MOST_BYTES: u64 = 1 << 20;
/// The most profiles that include one another.
const MOST_PROFILES: usize = 32;

/// The files and profiles that set values of this host at each start.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// Assignments by key, in the order in which they are made.
    sysctls: BTreeMap<String, Vec<Assignment>>,
    /// The profile that sets a sysctl, the governor, or an option of a port (see [`tuned_option`]).
    tuned: BTreeMap<String, String>,
    /// True if tuned's sysctls win over files of sysctl.d(5).
    is_tuned_last: bool,
    /// The path of the link that enables a unit which sets the governor.
    governor_unit: Option<String>,
    /// The directory that is the host's `/`.
    root: PathBuf,
}

/// One file's assignment of a sysctl.
#[derive(Clone, Debug)]
struct Assignment {
    file: String,
    value: String,
    /// True if the assignment comes after our own file.
    is_later: bool,
}

impl Owners {
    /// Reads the files of the host whose `/` is `root`.
    pub fn read(root: &Path) -> Self {
        let mut owners = Self { root: root.to_owned(), ..Self::default() };
        owners.is_tuned_last = is_tuned_last(&text_of(&root.join(TUNED)));
        owners.governor_unit = governor_unit(root);
        let active = text_of(&root.join(PROFILE));
        let has_systemd = SYSTEMD.iter().any(|path| root.join(path).exists());
        let has_tuned = !active.trim().is_empty() && !owners.is_tuned_last;
        for (name, path) in files(root, !has_systemd || has_tuned) {
            let text = text_of(&path);
            let shown = format!("/{}", path.strip_prefix(root).unwrap_or(&path).display());
            for (key, value) in text.lines().filter_map(assignment) {
                let is_later = name.as_str() > OWN_SYSCTLS;
                let one = Assignment { file: shown.clone(), value, is_later };
                owners.sysctls.entry(key).or_default().push(one);
            }
        }
        let (mut waiting, mut seen) =
            (active.split_whitespace().map(str::to_owned).collect(), BTreeSet::new());
        while let Some(profile) = Vec::pop(&mut waiting) {
            if seen.len() < MOST_PROFILES && seen.insert(profile.clone()) {
                owners.take_profile(root, &profile, &mut waiting);
            }
        }
        owners
    }

    fn take_profile(&mut self, root: &Path, profile: &str, waiting: &mut Vec<String>) {
        let file = |directory: &&str| root.join(directory).join(profile).join("tuned.conf");
        let text = PROFILES.iter().map(file).find(|path| path.is_file()).map(|path| text_of(&path));
        for (name, options) in sections(&text.unwrap_or_default()) {
            let kind = options.iter().rev().find(|(key, _)| key == "type");
            let plugin = kind.map_or(name, |(_, kind)| kind.clone());
            for (key, value) in options {
                let own = match (plugin.as_str(), key.as_str()) {
                    ("main", "include") => {
                        // A profile that may be missing has a dash before its name.
                        let names = value.split([',', ';', ' ']).map(|name| name.trim_start_matches('-'));
                        waiting.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
                        continue;
                    }
                    ("sysctl", key) => dotted(key),
                    ("cpu", "governor") => key,
                    ("net", _) => key,
                    _ => continue,
                };
                self.tuned.insert(own, profile.into());
            }
        }
    }

    /// The file or profile that sets a value now, in words for people; `None` if none is known.
    pub fn of(&self, setting: &Setting) -> Option<String> {
        let tuned = |key: &str| Some(format!("tuned's profile {} sets it", self.tuned.get(key)?));
        match setting {
            Setting::Sysctl { key } => {
                let others = self.others(key);
                let file = others.last().map(|last| format!("{} sets it to {}", last.file, last.value));
                let parts: Vec<String> = [tuned(key), file].into_iter().flatten().collect();
                (!parts.is_empty()).then(|| parts.join(", "))
            }
            other => {
                let file = self.port_file(other).map(|file| format!("{} sets it", file.file));
                let unit = self.unit(other).map(|unit| format!("{unit} sets it at each start"));
                let parts: Vec<String> =
                    [tuned_option(other).and_then(tuned), file, unit].into_iter().flatten().collect();
                (!parts.is_empty()).then(|| parts.join(", "))
            }
        }
    }

    /// Checks that no profile or later file would set another value than a file of ours.
    ///
    /// # Errors
    /// The reason why our file can't keep the value.
    pub fn allow(&self, setting: &Setting) -> Result<(), String> {
        let (key, is_after_tuned) = match setting {
            Setting::Sysctl { key } => (key.as_str(), !self.is_tuned_last),
            other => {
                self.port_file(other).map_or(Ok(()), |file| file.allow())?;
                if let Some(unit) = self.unit(other) {
                    return Err(format!(
                        "{unit} sets it at each start, perhaps after our unit: disable it, or change it there"
                    ));
                }
                match tuned_option(other) {
                    Some(option) => (option, false),
                    None => return Ok(()),
                }
            }
        };
        if let Some(profile) = self.tuned.get(key).filter(|_| !is_after_tuned) {
            return Err(format!(
                "tuned's profile {profile} sets it at each start: put the value into your own profile"
            ));
        }
        match self.others(key).iter().find(|one| one.is_later) {
            Some(later) => {
                Err(format!("{} sets it at each start, after our file: change it there", later.file))
            }
            None => Ok(()),
        }
    }

    /// The unit that sets the governor.
    fn unit(&self, setting: &Setting) -> Option<&str> {
        self.governor_unit.as_deref().filter(|_| *setting == Setting::Governor)
    }

    /// The file that gives a port this setting. In another network namespace than the first there is none, because
    /// programs record only the ports of the first.
    fn port_file(&self, setting: &Setting) -> Option<PortFile> {
        let is_elsewhere = self.root == Path::new("/") && is_apart();
        (!is_elsewhere).then(|| PortFile::of(&self.root, setting)).flatten()
    }

    fn others(&self, key: &str) -> Vec<&Assignment> {
        let is_ours = |one: &&Assignment| one.file.ends_with(&format!("/{OWN_SYSCTLS}"));
        self.sysctls.get(key).into_iter().flatten().filter(|one| !is_ours(one)).collect()
    }
}

/// The link of an enabled unit or script that sets the governor.
fn governor_unit(root: &Path) -> Option<String> {
    let links =
        ENABLED.iter().flat_map(|directory| GOVERNOR_UNITS.map(|name| Path::new(directory).join(name)));
    let mut enabled = links.filter(|link| root.join(link).symlink_metadata().is_ok());
    enabled.next().map(|link| format!("/{}", link.display()))
}

/// True if tuned's configuration says that its sysctls win over files of sysctl.d(5).
fn is_tuned_last(configuration: &str) -> bool {
    let mut options = configuration.lines().filter_map(|line| line.split_once('='));
    let last = options.rfind(|(key, _)| key.trim() == "reapply_sysctl");
    last.is_some_and(|(_, value)| ["0", "false", "no", "off"].contains(&value.trim().to_lowercase().as_str()))
}

/// The key under which [`Owners::tuned`] has the profile that sets this setting; `None` if no profile can set it.
fn tuned_option(setting: &Setting) -> Option<&'static str> {
    match setting {
        Setting::Governor => Some("governor"),
        Setting::Ring { .. } => Some("ring"),
        Setting::Channels { .. } => Some("channels"),
        Setting::Coalescing { .. } => Some("coalesce"),
        Setting::Feature { .. } => Some("features"),
        Setting::Mtu { .. } => Some("mtu"),
        _ => None,
    }
}

/// The text of a configuration file, which may have comments in any character set; empty if it can't be read.
fn text_of(path: &Path) -> String {
    let is_fit = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MOST_BYTES);
    let bytes = if is_fit { fs::read(path).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A section of a file: its name, and its options.
type Section = (String, Vec<(String, String)>);

/// The sections of a file.
fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            sections.push((name.to_owned(), Vec::new()));
        } else if let (Some((key, value)), Some((_, options))) = (line.split_once('='), sections.last_mut()) {
            options.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    sections
}

/// The files of sysctls in their order, with the names that determine this order. `reads_last` says whether a program
/// reads [`LAST`].
fn files(root: &Path, reads_last: bool) -> Vec<(String, PathBuf)> {
    let mut by_name: BTreeMap<String, PathBuf> = BTreeMap::new();
    for directory in SYSCTLS {
        let entries = fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".conf"));
            if let Some(name) = name {
                by_name.entry(name.to_owned()).or_insert(path);
            }
        }
    }
    if reads_last {
        // This name sorts after all others.
        by_name.insert("~".into(), root.join(LAST));
    }
    by_name.into_iter().collect()
}

/// Parses a line such as `-net/ipv4/tcp_rmem = 1 2 3`; the dash says that errors are ignored.
fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (key, value) = line.split_once('=')?;
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((dotted(key.trim().trim_start_matches('-')), value))
}

/// Writes a key with dots between its parts. The first separator in a key decides whether the key uses dots or slashes.
fn dotted(key: &str) -> String {
    match key.find(['.', '/']).map(|at| key.as_bytes()[at]) {
        Some(b'/') => key.replace('/', "."),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use linerate_doctor::remedy::RingWay;

    use super::*;
    use crate::testing::sysctl;

    fn put(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_last_file_wins_and_a_name_hides_others() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        put(root, "usr/lib/sysctl.d/50-x.conf", "net.ipv4.tcp_sack = 0\n");
        put(root, "usr/lib/sysctl.d/60-y.conf", "net.ipv4.tcp_ecn = 1\n");
        put(root, "etc/sysctl.d/50-x.conf", "# net.ipv4.tcp_ecn=0\n-net/ipv4/tcp_rmem = 1  2\t3\n");
        put(root, "etc/sysctl.d/95-z.conf", "net.core.rmem_max=5\n");
        put(root, "etc/sysctl.d/90-linerate.conf", "net.ipv4.tcp_wmem = 1 2 9\n");
        put(root, "etc/sysctl.conf", "vm.dirty_ratio=3\n");
        let owners = Owners::read(root);
        let of = |key: &str| owners.of(&sysctl(key));
        assert_eq!(of("net.ipv4.tcp_sack"), None);
        assert_eq!(of("net.ipv4.tcp_rmem").as_deref(), Some("/etc/sysctl.d/50-x.conf sets it to 1 2 3"));
        assert_eq!(of("net.ipv4.tcp_wmem"), None, "our own file owns nothing");
        assert!(owners.allow(&sysctl("net.ipv4.tcp_rmem")).is_ok());
        assert!(owners.allow(&sysctl("net.core.rmem_max")).is_err_and(|why| why.contains("95-z.conf")));
        assert!(owners.allow(&sysctl("vm.dirty_ratio")).is_err_and(|why| why.contains("/etc/sysctl.conf")));
    }

    /// Debian 13 has no link to the file.
    #[test]
    fn a_file_that_systemd_does_not_read_owns_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        put(root, "usr/lib/systemd/systemd", "");
        put(root, "etc/sysctl.conf", "vm.dirty_ratio=3\n");
        let of = || {
            let owners = Owners::read(root);
            (owners.of(&sysctl("vm.dirty_ratio")), owners.allow(&sysctl("vm.dirty_ratio")).is_ok())
        };
        assert_eq!(of(), (None, true));
        put(root, PROFILE, "network-throughput\n");
        assert_eq!(of(), (Some("/etc/sysctl.conf sets it to 3".into()), false), "tuned reads it");
        put(root, PROFILE, "");
        fs::create_dir_all(root.join("etc/sysctl.d")).unwrap();
        std::os::unix::fs::symlink("../sysctl.conf", root.join("etc/sysctl.d/99-sysctl.conf")).unwrap();
        assert_eq!(of(), (Some("/etc/sysctl.d/99-sysctl.conf sets it to 3".into()), false));
    }

    /// Ubuntu 20.04's unit runs after all others.
    #[test]
    fn a_unit_owns_the_governor() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let of = || {
            let owners = Owners::read(root);
            (owners.of(&Setting::Governor), owners.allow(&Setting::Governor).is_ok())
        };
        assert_eq!(of(), (None, true));
        let link = "etc/systemd/system/multi-user.target.wants/ondemand.service";
        fs::create_dir_all(root.join(link).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/lib/systemd/system/ondemand.service", root.join(link)).unwrap();
        assert_eq!(of(), (Some(format!("/{link} sets it at each start")), false));
    }

    #[test]
    fn tuned_owns_what_its_profiles_set() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        put(root, "etc/tuned/active_profile", "network-throughput\n");
        put(
            root,
            "usr/lib/tuned/network-throughput/tuned.conf",
            "[main]\ninclude=throughput\n[sysctl]\n# a remark = x\nnet.ipv4.tcp_rmem=\"4096 131072 16777216\"\n",
        );
        // Profiles that include each other are each read only once.
        put(
            root,
            "usr/lib/tuned/throughput/tuned.conf",
            "[main]\ninclude=network-throughput\n[cpu]\ngovernor=performance\n[mine]\nnet.ipv4.tcp_wmem=1\n\
             type=sysctl\n[net]\nring=rx 1024\n",
        );
        let owners = Owners::read(root);
        let [rmem, wmem] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].map(sysctl);
        assert_eq!(owners.of(&rmem).as_deref(), Some("tuned's profile network-throughput sets it"));
        assert_eq!(owners.of(&wmem).as_deref(), Some("tuned's profile throughput sets it"), "by its type");
        let ring = Setting::Ring { port: "eth0".into(), way: RingWay::Rx };
        assert!(owners.allow(&ring).is_err_and(|why| why.contains("throughput")));
        // By default, tuned lets the files of sysctl.d win.
        assert!(owners.allow(&rmem).is_ok());
        put(root, TUNED, "daemon = 1\n# reapply_sysctl = 1\nreapply_sysctl = 0\n");
        let owners = Owners::read(root);
        assert!(owners.allow(&rmem).is_err() && owners.allow(&sysctl("net.ipv4.tcp_ecn")).is_ok());
        assert!(owners.allow(&Setting::Governor).is_err_and(|why| why.contains("throughput")));
    }
}
