//! `cargo xtask release --out DIR` packs the static binary, with its documentation, as an archive and as
//! packages. The same tree gives the same bytes: every time is `SOURCE_DATE_EPOCH`, or the time of the last
//! commit.

mod archive;
mod changes;
mod deb;
mod licence_texts;
mod parts;
mod product;
mod rpm;
mod sbom;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::machine::Machine;
use crate::{call, dist};
pub use product::MOST_BROUGHT;
use product::{InstalledFile, Product};

/// The purpose that is part of the signature, so that the signature can't be used for another purpose
/// (ssh-keygen(1), `-n`).
const NAMESPACE: &str = "linerate-release";

/// Writes all files of a release into a directory.
///
/// # Errors
/// If the build fails, or a file can't be read or written.
pub fn run(repository: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let ReleaseOptions { out, mut programs, mut agents, key, maintainer } = ReleaseOptions::parse(arguments)?;
    if let Entry::Vacant(program) = programs.entry(Machine::here()) {
        let built = dist::build(repository)?;
        program.insert(built.program);
        agents.insert(Machine::here(), built.agent);
    }
    let (seconds, commit) = (date(repository)?, commit(repository)?);
    let source = ReleaseSource { repository, seconds, commit, maintainer };
    for (machine, file) in programs.iter().chain(&agents) {
        machine.check(file)?;
        product::check(&source, file)?;
    }
    let texts = product::texts(&programs[&Machine::here()])?;
    let packages = packages(&source, &programs, &agents, &texts)?;
    fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
    let mut sums = String::new();
    for (name, bytes) in packages {
        let file = out.join(&name);
        fs::write(&file, &bytes).with_context(|| format!("writing {}", file.display()))?;
        sums += &format!("{}  {name}\n", hexadecimal(&bytes));
        println!("{}: {:.1} MB", file.display(), bytes.len() as f64 * 1e-6);
    }
    let file = out.join("SHA256SUMS");
    let signature = file.with_added_extension("sig");
    // An old signature is removed, because ssh-keygen would ask before it overwrites the file.
    match fs::remove_file(&signature) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing the older {}", signature.display()));
        }
        _ => {}
    }
    fs::write(&file, sums).with_context(|| format!("writing {}", file.display()))?;
    key.map_or(Ok(()), |key| sign(&file, &key, &signature))
}

/// The names and bytes of all packages.
fn packages(
    source: &ReleaseSource,
    programs: &ByMachine,
    agents: &ByMachine,
    texts: &[InstalledFile],
) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let program = |(machine, program): (&Machine, &PathBuf)| {
        Product::program(source, machine, program, agents.get(machine).map(PathBuf::as_path), texts)
    };
    let mut products = programs.iter().map(program).collect::<anyhow::Result<Vec<_>>>()?;
    if programs.len() > 1 || agents.keys().any(|machine| *machine != Machine::here()) {
        products.push(Product::agents(source, programs, agents, &products)?);
    }
    products.iter().map(Product::packages).collect::<anyhow::Result<Vec<_>>>().map(|each| each.concat())
}

/// Signs a file with an ssh key.
fn sign(file: &Path, key: &Path, signature: &Path) -> anyhow::Result<()> {
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-Y", "sign", "-q", "-n", NAMESPACE, "-f"]).arg(key).arg(file);
    call(&mut sign).context("signing the list of sums")?;
    println!("{}: by {}", signature.display(), key.display());
    Ok(())
}

/// The working tree from which a release is made.
struct ReleaseSource<'a> {
    repository: &'a Path,
    /// The time of every file, in seconds since 1970.
    seconds: u32,
    commit: Option<String>,
    /// The packages' maintainer as `NAME <ADDRESS>`; if `None`, the first author in Cargo.toml.
    maintainer: Option<String>,
}

/// Files by the kind of machine for which they were built.
type ByMachine = BTreeMap<Machine, PathBuf>;

/// The options of a release: its input files and its output directory.
#[derive(Debug, PartialEq, Eq)]
struct ReleaseOptions {
    out: PathBuf,
    /// Programs for which packages are made, by machine. If a program for this machine is named, no program is built
    /// here.
    programs: ByMachine,
    /// The agents that the programs send to far hosts, by machine.
    agents: ByMachine,
    /// The ssh key with which the checksums are signed.
    key: Option<PathBuf>,
    /// The packages' maintainer.
    maintainer: Option<String>,
}

impl ReleaseOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let (mut out, mut key, mut maintainer) = (None, None, None);
        let (mut programs, mut agents) = (ByMachine::new(), ByMachine::new());
        for pair in arguments.chunks(2) {
            match pair {
                [option, value] if option == "--out" => out = Some(std::path::absolute(value)?),
                [option, value] if option == "--sign" => key = Some(std::path::absolute(value)?),
                [option, value] if option == "--program" => programs.extend([of_machine(value)?]),
                [option, value] if option == "--agent" => agents.extend([of_machine(value)?]),
                [option, value] if option == "--maintainer" => maintainer = Some(contact(value)?),
                _ => bail!(
                    "release takes --out, --program, --agent, --sign and --maintainer, not '{}'",
                    pair.join(" ")
                ),
            }
        }
        let out = out.context("release needs --out DIR, the directory for the packages")?;
        Ok(Self { out, programs, agents, key, maintainer })
    }
}

/// Parses `NAME <ADDRESS>`, the format of deb-control(5).
fn contact(value: &str) -> anyhow::Result<String> {
    let address = value.strip_suffix('>').and_then(|value| value.split_once(" <"));
    let is_fit = |(name, address): &(&str, &str)| {
        !name.trim().is_empty() && address.contains('@') && !value.contains(['\n', ','])
    };
    let fit = address.filter(is_fit).map(|_| value.to_owned());
    fit.with_context(|| format!("'{value}' is no maintainer: write NAME <USER@HOST>"))
}

/// Parses `FILE`, which is for this kind of machine, or `MACHINE=FILE`.
fn of_machine(value: &str) -> anyhow::Result<(Machine, PathBuf)> {
    let (machine, file) = match value.split_once('=') {
        Some((name, file)) => (Machine::named(name)?, file),
        None => (Machine::here(), value),
    };
    Ok((machine, std::path::absolute(file)?))
}

/// The time that every file of the release gets, in seconds since 1970.
fn date(repository: &Path) -> anyhow::Result<u32> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(repository))
            .context("dating the release: without git's history, set SOURCE_DATE_EPOCH")?,
    };
    text.trim()
        .parse()
        .with_context(|| format!("dating the release: '{}' is no time in seconds", text.trim()))
}

/// The commit of the working tree, with `-dirty` after it if files were changed; `None` outside of a git
/// checkout.
pub fn commit(repository: &Path) -> anyhow::Result<Option<String>> {
    if !repository.join(".git").exists() {
        return Ok(None);
    }
    let mut describe = Command::new("git");
    describe.args(["describe", "--always", "--no-abbrev", "--exclude=*", "--dirty"]).current_dir(repository);
    let commit = output(&mut describe).context("naming the commit that the release is made from")?;
    Ok(Some(commit.trim().to_owned()))
}

/// The standard output of a command.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = crate::show(command);
    let output = command.output().with_context(|| format!("running {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading what {shown} prints"))
}

/// The SHA-256 digest of some bytes.
fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_sha256sum() {
        // The expected value is from FIPS 180-2, B.1.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hexadecimal(b"abc"), known);
    }

    #[test]
    fn a_directory_is_needed_and_nothing_unknown_is_taken() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = "--out /x --program /y --program aarch64=/z --agent riscv64=/a";
        let options = ReleaseOptions::parse(&words(line)).unwrap();
        let other = |name| Machine::named(name).unwrap();
        let programs = ByMachine::from([(Machine::here(), "/y".into()), (other("aarch64"), "/z".into())]);
        let agents = ByMachine::from([(other("riscv64"), "/a".into())]);
        assert_eq!(
            options,
            ReleaseOptions { out: "/x".into(), programs, agents, key: None, maintainer: None }
        );
        for wrong in
            ["--program /y", "--out", "--out /x --fast 1", "--out /x --program m=/z", "--out /x --agent m=/z"]
        {
            assert!(ReleaseOptions::parse(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_maintainer_has_a_name_and_an_address() {
        assert_eq!(contact("A B <a@b.example>").unwrap(), "A B <a@b.example>");
        for wrong in ["A B", "a@b.example", " <a@b.example>", "A <b>", "A, B <a@b.example>"] {
            assert!(contact(wrong).is_err(), "{wrong}");
        }
    }
}
