//! Keeps settings after a restart, in files of this program, which are written anew from all kept treatments. No other
//! file is touched.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_doctor::remedy::Setting;

use crate::journal::{Shelf, TreatmentEvent, TreatmentJournal, TreatmentStanding};
use crate::owner::{OWN_SYSCTLS, Owners};
use crate::port::PresentPorts;
use crate::surroundings::{host_network_container, is_apart};

/// The first line of each of our files.
const MARK: &str =
    "# Made by linerate doctor --persist; linerate doctor --undo removes it. Changes here are lost.";
const SYSCTLS: &str = "etc/sysctl.d";
const UNITS: &str = "etc/systemd/system";
const UNIT: &str = "linerate-doctor.service";
/// Directories of programs, below the root.
const PROGRAMS: [&str; 4] = ["usr/sbin", "usr/bin", "sbin", "bin"];
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";

/// The steps of a treatment that are kept after a restart, and those that aren't.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// Files that were written.
    pub files: Vec<String>,
    /// Steps that are kept.
    pub kept: Vec<usize>,
    /// Steps that aren't kept, each with the reason.
    pub left: Vec<(usize, String)>,
}

/// The host's files.
#[derive(Clone, Debug, PartialEq)]
pub struct System(PathBuf);

impl System {
    /// The host's files, with `root` instead of `/`.
    pub fn below(root: &Path) -> Self {
        Self(std::path::absolute(root).unwrap_or_else(|_| root.to_owned()))
    }

    /// The files and profiles that set values of this host.
    pub fn owners(&self) -> Owners {
        Owners::read(&self.0)
    }

    /// The file in which a setting would be kept.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub fn place(&self, setting: &Setting, owners: &Owners) -> Result<String, String> {
        if self.0 == Path::new("/") && is_apart() {
            return Err("the settings of a container or a network namespace are lost when it ends".into());
        }
        if let Some(name) = host_network_container().filter(|_| self.0 == Path::new("/")) {
            return Err(format!("the files of a container ({name}) are lost when it ends"));
        }
        owners.allow(setting)?;
        match setting {
            Setting::Sysctl { key } if exists_early(key) => Ok(format!("/{SYSCTLS}/{OWN_SYSCTLS}")),
            Setting::IrqAffinity { .. } => Err("interrupts have other numbers after a restart".into()),
            _ if !self.0.join(UNITS).is_dir() => Err("this host has no systemd".into()),
            _ => Ok(format!("/{UNITS}/{UNIT}")),
        }
    }

    /// Keeps a confirmed treatment, without the settings of ports that couldn't be found after a restart. The caller
    /// holds the lock of `shelf`.
    ///
    /// # Errors
    /// The reason, as a sentence, if the journal or a file can't be written, or a file that isn't ours has one of our
    /// names.
    pub fn keep(
        &self,
        shelf: &Shelf,
        journal: &mut TreatmentJournal,
        ports: &PresentPorts,
    ) -> Result<Keeping, String> {
        if journal.is_damaged() {
            return Err(format!("the journal of {0} is damaged: --undo {0} undoes the changes", journal.id));
        }
        let (owners, mut keeping) = (self.owners(), Keeping::default());
        for step in 0..journal.head.steps.len() {
            let Some(_) = journal.holds(step) else { continue };
            let setting = &journal.head.steps[step].setting;
            let is_found = ports.check_kept(setting).and_then(|()| self.check_finder(journal, setting));
            match is_found.and_then(|()| self.place(setting, &owners)) {
                Ok(file) => {
                    keeping.kept.push(step);
                    keeping.files.push(file);
                }
                Err(why) => keeping.left.push((step, why)),
            }
        }
        keeping.files.sort();
        keeping.files.dedup();
        if keeping.kept.is_empty() {
            return Ok(keeping);
        }
        self.refuse_strangers()?;
        // This event is noted before the files are written, so that an undoing knows all files that may exist.
        journal.note(TreatmentEvent::Kept {
            steps: keeping.kept.clone(),
            files: keeping.files.clone(),
            system: Some(self.0.clone()),
            by_address: true,
        })?;
        if let Err(why) = self.write(shelf, None) {
            // Files that were written already are removed, as far as possible.
            return Err(self.forget(shelf, journal).err().unwrap_or(why));
        }
        Ok(keeping)
    }

    /// Writes to a treatment's journal that the treatment is confirmed and kept, if our files have its settings and the
    /// journal has lost these events. Only confirmed treatments are kept.
    ///
    /// # Errors
    /// The reason, as a sentence, if the journal can't be written.
    pub fn recall(&self, journal: &mut TreatmentJournal) -> Result<(), String> {
        if !journal.ever_kept().is_empty() || !self.names(&journal.id) {
            return Ok(());
        }
        let texts = self.files().map(|path| fs::read_to_string(path).unwrap_or_default());
        let is_there = |step: usize, by_address| {
            let line = kept_line(journal, step, by_address);
            line.is_some_and(|line| texts.iter().any(|text| text.contains(&line)))
        };
        let all = 0..journal.head.steps.len();
        let steps: Vec<_> =
            all.clone().filter(|step| is_there(*step, true) || is_there(*step, false)).collect();
        // Lines without a port are the same either way.
        let by_address = !all.into_iter().any(|step| is_there(step, false) && !is_there(step, true));
        journal.confirm()?;
        let (files, system) = (Vec::new(), Some(self.0.clone()));
        journal.note(TreatmentEvent::Kept { steps, files, system, by_address })
    }

    /// Checks that the host has the program by which our unit finds a port.
    fn check_finder(&self, journal: &TreatmentJournal, setting: &Setting) -> Result<(), String> {
        let is_there = || PROGRAMS.iter().any(|directory| self.0.join(directory).join("ethtool").exists());
        if self.0 == Path::new("/") && address(journal, setting).is_some() && !is_there() {
            return Err("this host has no ethtool, which finds the port at each start".into());
        }
        Ok(())
    }

    /// Removes a treatment from our files, both below this root and below each root for which the journal says that the
    /// treatment was kept. The caller holds the lock of `shelf`.
    ///
    /// # Errors
    /// The reason, as a sentence, if the journal or a file can't be written.
    pub fn forget(&self, shelf: &Shelf, journal: &mut TreatmentJournal) -> Result<(), String> {
        let mut systems: Vec<_> = journal.systems().into_iter().map(Self::below).collect();
        if !systems.contains(self) {
            systems.push(self.clone());
        }
        systems.retain(|system| system.names(&journal.id));
        // All files are written, even if one of them can't be written.
        let written = systems.iter().map(|system| system.write(shelf, Some(&journal.id)));
        written.fold(Ok(()), Result::and)?;
        if journal.kept().is_empty() && systems.is_empty() {
            return Ok(());
        }
        journal.note(TreatmentEvent::Forgotten)
    }

    /// True if one of our files has settings of this treatment, even if a damaged journal doesn't say so.
    fn names(&self, id: &str) -> bool {
        let line = format!("# {id}");
        self.files().iter().any(|path| {
            let is_named = |text: String| text.starts_with(MARK) && text.lines().any(|other| other == line);
            fs::read_to_string(path).is_ok_and(is_named)
        })
    }

    fn files(&self) -> [PathBuf; 2] {
        [self.0.join(SYSCTLS).join(OWN_SYSCTLS), self.0.join(UNITS).join(UNIT)]
    }

    fn refuse_strangers(&self) -> Result<(), String> {
        for path in self.files() {
            match fs::read_to_string(&path) {
                Ok(text) if !text.starts_with(MARK) => {
                    return Err(format!("{} isn't a file of linerate's: rename it", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes our files anew from all kept treatments, without the treatment `except`.
    fn write(&self, shelf: &Shelf, except: Option<&str>) -> Result<(), String> {
        let (mut sysctls, mut commands, mut ports) = (String::new(), String::new(), Vec::new());
        let is_here = |journal: &TreatmentJournal| {
            let systems = journal.systems();
            systems.is_empty() || systems.contains(&self.0.as_path())
        };
        let is_confirmed = |journal: &TreatmentJournal| journal.standing() == TreatmentStanding::Confirmed;
        let is_kept = |journal: &TreatmentJournal| {
            Some(journal.id.as_str()) != except && is_confirmed(journal) && is_here(journal)
        };
        for journal in shelf.all().0.iter().filter(|journal| is_kept(journal)) {
            for step in journal.kept() {
                let Some(line) = kept_line(journal, *step, journal.goes_by_address()) else { continue };
                match &journal.head.steps[*step].setting {
                    Setting::Sysctl { key } if exists_early(key) => sysctls += &line,
                    setting => {
                        commands += &line;
                        ports.extend(setting.port().map(device));
                    }
                }
            }
        }
        ports.sort();
        ports.dedup();
        let unit = format!(
            "[Unit]\nDescription=Settings of ports and processors that linerate doctor keeps\n\
             After=systemd-sysctl.service network.target {0}\nWants={0}\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n{commands}\n\
             [Install]\nWantedBy=multi-user.target\n",
            ports.join(" ")
        );
        self.put(SYSCTLS, OWN_SYSCTLS, &sysctls)?;
        self.put_unit(if commands.is_empty() { "" } else { &unit })
    }

    /// Writes the unit and its link, or removes both if the unit would be empty. The link is removed before the unit,
    /// and made after it: if this function is interrupted, the next run finds both by the unit.
    fn put_unit(&self, unit: &str) -> Result<(), String> {
        if unit.is_empty() {
            self.enable(false)?;
        }
        self.put(UNITS, UNIT, unit)?;
        if !unit.is_empty() {
            self.enable(true)?;
        }
        self.reload();
        Ok(())
    }

    /// Writes a file as a whole, or removes it if it would be empty.
    fn put(&self, directory: &str, name: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(directory).join(name);
        // A run that was interrupted may have left the new file.
        let done = if text.is_empty() {
            removed(&new(&path)).and(removed(&path))
        } else {
            replaced(&path, &format!("{MARK}\n{text}"))
        };
        done.map_err(|error| format!("writing {}: {error}", path.display()))
    }

    fn enable(&self, on: bool) -> Result<(), String> {
        let link = self.0.join(WANTS).join(UNIT);
        let target = format!("/{UNITS}/{UNIT}");
        let done = match on {
            true => fs::create_dir_all(self.0.join(WANTS)).and_then(|()| match symlink(&target, &link) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                made => made,
            }),
            false => removed(&link),
        };
        done.map_err(|error| format!("writing {}: {error}", link.display()))
    }

    /// Lets systemd read the unit again, which it otherwise does at the next start.
    fn reload(&self) {
        if self.0 == Path::new("/") && Path::new("/run/systemd/system").is_dir() {
            let mut reload = Command::new("systemctl");
            let _ = reload.arg("daemon-reload").stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

/// The module with the sysctls of connection tracking.
const MODULE: &str = "nf_conntrack";

/// True for a sysctl that exists when systemd-sysctl.service reads sysctl.d(5). The sysctls of [`MODULE`] don't,
/// because this module is loaded later.
fn exists_early(key: &str) -> bool {
    !key.starts_with("net.netfilter.nf_conntrack")
}

/// The lines of our files that keep a step: the treatment's name, and the text that sets the value.
fn kept_line(journal: &TreatmentJournal, step: usize, by_address: bool) -> Option<String> {
    let planned = journal.head.steps.get(step)?;
    // In a damaged journal, only the plan may be left.
    let value = planned.setting.named(journal.holds(step).unwrap_or(&planned.new), &planned.new);
    let value = value.as_str();
    let line = match &planned.setting {
        Setting::Sysctl { key } if exists_early(key) => format!("{key} = {value}"),
        setting => {
            let address = address(journal, setting).filter(|_| by_address);
            let command = |setting: &Setting| {
                let opens = setting.port().filter(|_| setting.may_close());
                let opens = opens.map_or_else(String::new, |port| format!(" || ip link set {port} up"));
                setting.command(value) + &opens
            };
            let command = match address {
                Some(mac) => of_address(mac, &command(&setting.clone().of_port("\"$p\""))),
                None => command(setting),
            };
            let needs_module = matches!(setting, Setting::Sysctl { .. });
            let command = if needs_module { format!("modprobe -q {MODULE}; {command}") } else { command };
            format!("ExecStart=-/bin/sh -c {}", quoted(&command))
        }
    };
    Some(format!("# {}\n{line}\n", journal.id))
}

/// The permanent address of a setting's port, if it has one.
fn address<'a>(journal: &'a TreatmentJournal, setting: &Setting) -> Option<&'a str> {
    let port = journal.head.ports.iter().find(|port| setting.port() == Some(&port.name))?;
    let is_address = |mac: &&str| mac.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    port.mac.as_deref().filter(is_address)
}

/// A shell command that runs `command` for the port with this permanent address, whatever the port's name is; `command`
/// has `$p` for the name. If no port has the address, systemd's journal gets a line that says so.
fn of_address(mac: &str, command: &str) -> String {
    format!(
        "for d in /sys/class/net/*; do p=${{d##*/}}; case \"$(ethtool -P \"$p\" 2>/dev/null)\" in *\" {mac}\") f=1; {command};; esac; \
         done; [ \"$f\" ] || echo no port has the address {mac} >&2"
    )
}

/// The last part of the name of a port's device unit.
fn device(port: &str) -> String {
    // systemd.unit(5): characters other than letters, digits, dots, colons and underscores are written as their codes.
    let escaped: String = port
        .bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"._:".contains(&byte) => char::from(byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        })
        .collect();
    format!("sys-subsystem-net-devices-{escaped}.device")
}

/// Quotes a word for a command line of systemd, which expands `%` and `$`, and interprets quotes as a shell does.
fn quoted(command: &str) -> String {
    let escaped = command.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

fn removed(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The name of a file until it is complete.
fn new(path: &Path) -> PathBuf {
    path.with_extension("linerate-new")
}

fn replaced(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    fs::create_dir_all(directory)?;
    let new = new(path);
    removed(&new)?;
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o644).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
