//! Settings of hosts that are factors of a study. Each is changed before a run, read back, and restored at
//! the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_lab::{Undo, UndoJournal};

use crate::spec::study::{CaseSpec, SettingSpec, Study};
use crate::spec::template::{expand, one};
use crate::spec::{Values, Word};

use super::bed::{self, Bed, End};
use super::process::{self, Stop, tail};

/// The longest time that reading or changing a value may take.
const SETTING_TIMEOUT: Duration = Duration::from_secs(20);

/// The settings of one link's hosts. Dropping this value restores the original values. If this process is killed, the
/// next lab command of this user restores them.
pub(crate) struct HostSettings {
    specs: Vec<SettingSpec>,
    /// The values by setting and host: the value before the study, and the value that was set last.
    values: BTreeMap<(String, String), (String, String)>,
    journal: Option<UndoJournal>,
    /// For each optional setting that a host lacks, the reason, by the setting's name.
    lacking: BTreeMap<String, String>,
}

impl HostSettings {
    /// Reads the original values of the settings that cases of this link name, and writes to a journal how to
    /// restore them.
    ///
    /// # Errors
    /// If a value can't be read, or the journal can't be written. In that case, no setting was changed.
    pub fn read(
        study: &Study,
        link: &str,
        bed: &dyn Bed,
        work: &Path,
        stop: &Stop,
    ) -> Result<HostSettings, String> {
        let cases = || study.cases.iter().filter(|case| case.link == link);
        let used = |spec: &&SettingSpec| cases().any(|case| case.settings.contains_key(&spec.name));
        let mut specs: Vec<SettingSpec> = study.settings.iter().filter(used).cloned().collect();
        let shell = Shell { bed, work, stop };
        let (mut values, mut undos, mut lacking) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for spec in &specs {
            match spec.hosts.iter().map(|host| shell.original(spec, host)).collect::<Result<Vec<_>, _>>() {
                Err(reason) if spec.optional => drop(lacking.insert(spec.name.clone(), reason)),
                read => read?.into_iter().zip(&spec.hosts).for_each(|((value, undo), host)| {
                    undos.push(undo);
                    values.insert((spec.name.clone(), host.clone()), (value.clone(), value));
                }),
            }
        }
        specs.retain(|spec| !lacking.contains_key(&spec.name));
        let journal =
            if undos.is_empty() { None } else { Some(UndoJournal::open(undos).map_err(|e| e.to_string())?) };
        Ok(HostSettings { specs, values, journal, lacking })
    }

    /// The reason why a case can't run here because a host lacks a setting that the case names.
    pub fn unavailable(&self, case: &CaseSpec) -> Option<String> {
        case.settings.keys().find_map(|name| self.lacking.get(name).cloned())
    }

    /// Changes every setting to the case's level or, if the case has none, to its original value, and reads
    /// the setting back.
    ///
    /// # Errors
    /// If a command fails, or the value that is read back differs from the value that was set.
    pub fn apply(&mut self, case: &CaseSpec, bed: &dyn Bed, work: &Path, stop: &Stop) -> Result<(), String> {
        let shell = Shell { bed, work, stop };
        for spec in &self.specs {
            for host in &spec.hosts {
                let Some((original, current)) = self.values.get_mut(&(spec.name.clone(), host.clone()))
                else {
                    continue;
                };
                let wanted = case.settings.get(&spec.name).unwrap_or(original);
                if !same(wanted, current) {
                    // The value is unknown until it is read back, because a command may fail halfway.
                    *current = String::new();
                    shell.write(spec, host, wanted)?;
                }
                *current = shell.read(spec, host)?;
                if !same(wanted, current) {
                    let name = &spec.name;
                    return Err(format!(
                        "{name} was set to {wanted:?} on host {host}, but reads back as {current:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Restores the original values and reads them back, also after the study was stopped. Returns a message
    /// for each value that differs.
    pub fn put_back(mut self, bed: &dyn Bed, work: &Path) -> Vec<String> {
        let mut failed = self.journal.take().map_or_else(Vec::new, UndoJournal::close);
        let stop = Stop::default();
        let shell = Shell { bed, work, stop: &stop };
        for spec in &self.specs {
            for host in &spec.hosts {
                let Some((original, _)) = self.values.get(&(spec.name.clone(), host.clone())) else {
                    continue;
                };
                failed.extend(match shell.read(spec, host) {
                    Ok(now) if same(original, &now) => None,
                    Ok(now) => Some(format!(
                        "{} on host {host} was {original:?} before the study and is {now:?} now: the setting's `write` doesn't restore that value, so restore it by hand",
                        spec.name
                    )),
                    Err(error) => Some(error),
                });
            }
        }
        failed
    }
}

/// Runs the commands that read and change settings.
struct Shell<'a> {
    bed: &'a dyn Bed,
    work: &'a Path,
    stop: &'a Stop,
}

impl Shell<'_> {
    fn read(&self, spec: &SettingSpec, host: &str) -> Result<String, String> {
        let values = self.values(host);
        let printed = self
            .run(&spec.read, host, &values)
            .map_err(|e| format!("reading {} on host {host}: {e}", spec.name))?;
        Ok(printed.trim().to_owned())
    }

    /// The present value of a setting at a host, and the command that restores this value.
    fn original(&self, spec: &SettingSpec, host: &str) -> Result<(String, Undo), String> {
        let value = self.read(spec, host)?;
        let undo = self.undo(spec, host, &value)?;
        Ok((value, undo))
    }

    fn write(&self, spec: &SettingSpec, host: &str, value: &str) -> Result<(), String> {
        let values = self.with(host, value);
        let done = self.run(&spec.write, host, &values);
        done.map(drop).map_err(|e| format!("setting {} to {value:?} on host {host}: {e}", spec.name))
    }

    fn undo(&self, spec: &SettingSpec, host: &str, value: &str) -> Result<Undo, String> {
        let argv = expand(&spec.write, &self.with(host, value))?;
        let command = self.bed.command(end(host), &argv).map_err(|e| e.to_string())?;
        let set =
            |(name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>)| Some((name.into(), value?.into()));
        let environment = command.get_envs().filter_map(set).collect();
        let what = format!("{} on host {host}, to {value:?}", spec.name);
        Ok(Undo { what, place: self.bed.place(end(host)), argv, environment })
    }

    fn values(&self, host: &str) -> Values {
        let mut values = bed::values(self.bed, 0);
        if let Some(interface) = self.bed.interface(end(host)) {
            values.insert("interface", one(interface));
        }
        values
    }

    fn with(&self, host: &str, value: &str) -> Values {
        let mut values = self.values(host);
        values.insert("value", one(value));
        values
    }

    fn run(&self, words: &[Word], host: &str, values: &Values) -> Result<String, String> {
        let argv = expand(words, values)?;
        let command: Command = self.bed.command(end(host), &argv).map_err(|e| e.to_string())?;
        let done =
            process::run(vec![command], self.work, SETTING_TIMEOUT, self.stop).map_err(|e| e.to_string())?;
        let output = done.outputs.first().ok_or("nothing ran")?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("{}: {}", output.status, tail(&output.stderr)))
    }
}

fn end(host: &str) -> End {
    if host == "a" { End::A } else { End::B }
}

/// Whether two values are the same apart from white space: the kernel prints tabs between numbers, even if
/// spaces were written.
fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}
