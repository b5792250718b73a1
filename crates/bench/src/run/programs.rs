//! Finds installed programs, and the packages of missing programs.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::spec::study::Study;
use crate::spec::tool::{Tool, Toolbox};

use super::bed::{Bed, End};

/// Directories of server programs, which are often missing from an ordinary user's PATH.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The programs that the lab needs, each with its Debian package.
const LAB: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
];

/// The program's path, from PATH or the system's directories.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM_DIRECTORIES.map(PathBuf::from));
    directories.map(|dir| dir.join(program)).find(|path| is_executable(path))
}

/// The packages that this host lacks for a study: first those without which the study can't run, then those
/// without which some of its rows stay empty.
pub fn missing_packages(study: &Study, tools: &Toolbox) -> (Vec<String>, Vec<String>) {
    let needed: BTreeSet<String> = LAB
        .iter()
        .filter(|(program, _)| find(program).is_none())
        .map(|(_, package)| (*package).into())
        .collect();
    let used: BTreeSet<&str> = study.cases.iter().map(|case| case.tool.as_str()).collect();
    let wanted: BTreeSet<String> = used
        .into_iter()
        .filter_map(|name| tools.get(name))
        .filter(|tool| tool.needs.a.iter().chain(&tool.needs.b).any(|program| find(program).is_none()))
        .flat_map(|tool| tool.needs.packages.iter().cloned())
        .filter(|package| !needed.contains(package) && !is_installed(package))
        .collect();
    (needed.into_iter().collect(), wanted.into_iter().collect())
}

/// The reason why a tool can't run on a bed, with advice; `None` if the tool can run.
pub(crate) fn unavailable(tool: &Tool, bed: &dyn Bed) -> Option<String> {
    let lacks = |end, programs: &[String]| programs.iter().find(|program| !bed.has(end, program)).cloned();
    let (program, end) = match (lacks(End::A, &tool.needs.a), lacks(End::B, &tool.needs.b)) {
        (Some(program), _) => (program, "sending"),
        (None, Some(program)) => (program, "receiving"),
        (None, None) => return None,
    };
    let advice = match (&tool.needs.advice, tool.needs.packages.as_slice()) {
        (Some(advice), _) => advice.clone(),
        (None, []) => format!("install {program}"),
        (None, packages) => format!("apt-get install {}", packages.join(" ")),
    };
    Some(format!("{program} isn't installed at the {end} end; {advice}"))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether dpkg has installed the package; false on distributions without dpkg.
fn is_installed(package: &str) -> bool {
    Path::new("/var/lib/dpkg/info").join(format!("{package}.list")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_only() {
        assert!(find("sh").is_some());
        assert!(find("/bin/sh").is_some());
        assert_eq!(find("no-such-program-here"), None);
        assert_eq!(find("/etc/passwd"), None);
    }

    #[test]
    fn a_tool_without_its_program_names_its_package() {
        let mut tools = Toolbox::built_in().unwrap();
        let text = "name = \"scp\"\nmoves = \"nothing\"\ncommand = \"x\"\n[needs]\na = \"no-such-program-here\"\n\
                    packages = \"no-such-package\"\n";
        tools.add(Tool::parse("x", text).unwrap());
        let (file, text) = Study::built_in("quick").unwrap();
        let text = text.replace("group = \"memory\"\n", "");
        // A study that names missing tools can still be parsed, because parsing checks only names.
        let text = text
            .replace("tool = \"scp\"\nstreams = [1, 8]", "tool = \"scp\"")
            .replace("scp-{streams}", "scp-1");
        let study = Study::parse(file, &text, &tools).unwrap();
        let (_, wanted) = missing_packages(&study, &tools);
        assert!(wanted.contains(&"no-such-package".to_owned()), "{wanted:?}");
    }
}
