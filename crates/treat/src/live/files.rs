//! Settings that are files of the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use linerate_doctor::remedy::{GOVERNOR, Setting};
use linerate_host::facts::cpus_of_list;

use crate::surroundings::is_apart;

/// The directories of the processors.
pub const CPUS: &str = "/sys/devices/system/cpu";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The processors that the kernel keeps its own work away from. If there are none, the kernel's file is empty or holds
/// `(null)`.
pub fn isolated() -> BTreeSet<u32> {
    let of = |name: &str| cpus_of_list(&read(&format!("{CPUS}/{name}")).ok()?);
    ["isolated", "nohz_full"].into_iter().filter_map(of).flatten().collect()
}

/// The sysctl with the only congestion controls that network namespaces other than the first may set.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// The governors that have numbers which can be set.
const GOVERNORS: [&str; 3] = ["conservative", "ondemand", "schedutil"];
/// A program that binds interrupts to processors anew every ten seconds.
const BALANCER: &str = "irqbalance";

/// The words of a file, with single spaces between them.
pub fn read(path: &str) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| failed(path, &error))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Writes a value with a single call, because the kernel takes a value only as a whole.
pub fn write(path: &str, value: &str) -> Result<(), String> {
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|mut file| file.write_all(value.as_bytes())).map_err(|error| failed(path, &error))
}

/// Checks that a file of the kernel can be written. Opening such a file for writing changes nothing.
pub fn can_write(path: &str) -> Result<(), String> {
    OpenOptions::new().write(true).open(path).map(drop).map_err(|error| failed(path, &error))
}

/// Checks that an interrupt can be bound to processors, and stays bound.
pub fn can_bind(path: &str) -> Result<(), String> {
    if is_balanced() {
        return Err(format!("{BALANCER} is running, and would change it again within seconds"));
    }
    can_write(path)
}

/// Checks that the kernel has a congestion control.
pub fn can_control(name: &str) -> Result<(), String> {
    let available = read(AVAILABLE)?;
    let is_among = |list: &str| list.split(' ').any(|one| one == name);
    if !is_among(&available) {
        return Err(format!("this kernel has only {available}"));
    }
    if !is_apart() {
        return Ok(());
    }
    let allowed = read(ALLOWED)?;
    if is_among(&allowed) {
        return Ok(());
    }
    Err(format!("outside of the host's first network namespace the kernel allows only {allowed}"))
}

/// The text of the file `name` of all processors; if the texts differ, each text with its processors, such as
/// `powersave 0,1 ondemand 2,3`.
pub fn of_processors(root: &Path, name: &str) -> Result<String, String> {
    let mut by_name: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (cpu, path) in frequency_files(root, name)? {
        by_name.entry(read(&path)?).or_default().push(cpu);
    }
    if by_name.len() < 2 {
        return by_name.into_keys().next().ok_or_else(|| format!("the processors have no {name} here"));
    }
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    Ok(by_name.iter().map(|(name, cpus)| format!("{name} {}", list(cpus))).collect::<Vec<_>>().join(" "))
}

/// Writes the texts in the form of [`of_processors`], or one text for all.
pub fn set_of_processors(root: &Path, name: &str, value: &str) -> Result<(), String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let of = |cpu: u32| match words.as_slice() {
        [all] => Some(*all),
        pairs => pairs
            .chunks_exact(2)
            .find(|pair| pair[1].split(',').any(|one| one.parse() == Ok(cpu)))
            .map(|p| p[0]),
    };
    for (cpu, path) in frequency_files(root, name)? {
        if let Some(text) = of(cpu) {
            write(&path, text)?;
        }
    }
    Ok(())
}

/// The settings for the numbers of the present governors, whose files are below `root`: for all processors, or for each
/// policy.
pub fn tunables(root: &Path) -> Vec<Setting> {
    let policies = names(root).into_iter().filter_map(|name| name.strip_prefix("policy")?.parse().ok());
    let mut all = Vec::new();
    for policy in policies.map(Some).chain([None]) {
        let directory =
            policy.map_or_else(|| root.to_owned(), |number: u32| root.join(format!("policy{number}")));
        for governor in GOVERNORS {
            let tunable = |name| Setting::Tunable { governor: governor.into(), policy, name };
            all.extend(names(&directory.join(governor)).into_iter().map(tunable));
        }
    }
    all.sort();
    all
}

/// The names in a directory; none if it can't be read.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Checks that all processors can have a governor.
pub fn can_governors(name: &str) -> Result<(), String> {
    for (_, path) in frequency_files(Path::new(CPUS), GOVERNOR)? {
        let available = read(&path.replace(GOVERNOR, "scaling_available_governors"))?;
        if available.split(' ').all(|one| one != name) {
            return Err(format!("the driver has only {available}"));
        }
        can_write(&path)?;
    }
    Ok(())
}

fn frequency_files(root: &Path, name: &str) -> Result<Vec<(u32, String)>, String> {
    let entries = fs::read_dir(root).map_err(|error| failed(&root.to_string_lossy(), &error))?;
    let file = |path: PathBuf| {
        let cpu = path.file_name()?.to_str()?.strip_prefix("cpu")?.parse().ok()?;
        let file = path.join("cpufreq").join(name);
        file.exists().then(|| Some((cpu, file.to_str()?.to_owned())))?
    };
    let mut files: Vec<_> = entries.flatten().filter_map(|entry| file(entry.path())).collect();
    files.sort();
    if files.is_empty() { Err(format!("the processors have no {name} here")) } else { Ok(files) }
}

/// True if a program moves the interrupts.
pub fn is_balanced() -> bool {
    is_running(BALANCER)
}

/// True if a program of this name runs.
pub fn is_running(name: &str) -> bool {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let comm = |path: &Path| fs::read_to_string(path.join("comm")).unwrap_or_default();
    pids.map(|entry| entry.path()).any(|path| comm(&path).trim() == name)
}

fn failed(path: &str, error: &io::Error) -> String {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::ROFS) => format!("{path} is read-only here, as in a container"),
        Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
            format!("{path} can't be written: this needs root, outside of containers")
        }
        _ => format!("{path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use linerate_doctor::remedy::PREFERENCE;

    use super::*;

    #[test]
    fn the_numbers_of_governors_are_found() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["ondemand/up_threshold", "policy0/schedutil/rate_limit_us", "policy0/stats/reset"] {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "1\n").unwrap();
        }
        let found: Vec<_> = tunables(directory.path()).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["ondemand's up_threshold", "schedutil's rate_limit_us of policy 0"]);
    }

    #[test]
    fn preferences_that_differ_come_back_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let set = |cpu: u32, text: &str| {
            let path = directory.path().join(format!("cpu{cpu}/cpufreq"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(PREFERENCE), text).unwrap();
        };
        (0..3).for_each(|cpu| set(cpu, "balance_power\n"));
        assert_eq!(of_processors(directory.path(), PREFERENCE).unwrap(), "balance_power");
        set(1, "power\n");
        let before = of_processors(directory.path(), PREFERENCE).unwrap();
        assert_eq!(before, "balance_power 0,2 power 1");
        (0..3).for_each(|cpu| set(cpu, "power\n"));
        set_of_processors(directory.path(), PREFERENCE, &before).unwrap();
        assert_eq!(of_processors(directory.path(), PREFERENCE).unwrap(), before);
        assert!(of_processors(directory.path(), GOVERNOR).is_err());
    }
}
