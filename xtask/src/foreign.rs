//! Tests linerate for another kind of machine: its unit tests, and copies between that kind of machine and
//! this one. qemu-user runs the programs of that machine. The shell that starts them is this machine's, with
//! a different output of uname(1).

use anyhow::{Context, bail, ensure};
use fastrand::Rng;
use linerate_remote::binary::{BESIDE, Binary, NAME};
use linerate_remote::packed;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::chaos::tree;
use crate::dist::{Built, target_directory};
use crate::machine::Machine;
use crate::{call, cargo, show};

/// The crates whose tests use no system interfaces that qemu-user lacks (TCP_INFO, requests of ethtool,
/// netlink).
const CRATES: &[&str] = &["quantity", "wire", "doctor", "transfer"];
/// Tests that aren't run, because they take minutes under qemu-user, measure time, or need openat2(2), which qemu-user
/// lacks.
const NOT_BY_QEMU: &[&str] = &[
    "large_files_that_have_their_names",
    "links_to_directories_count_as_those",
    "many_stars_need_no_more_time",
    "recent_places_are_known_again",
    "the_longest_journals_take_little_memory",
    "what_waits_is_done_several_at_a_time",
];
/// The number of directories in the copied tree. Each has about 190 entries of all kinds.
const DIRECTORIES: usize = 60;

/// The directory in which the kernel is configured to run programs of other machines.
const BINFMT: &str = "/proc/sys/fs/binfmt_misc";

/// Builds for `machine`, runs the tests, and copies a tree there and back.
///
/// # Errors
/// If a compiler or qemu-user is missing, a test fails, or a copy differs.
pub fn run(repository: &Path, machine: &Machine) -> anyhow::Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "this needs root: owners are copied");
    ensure!(*machine != Machine::here(), "this is such a machine: cargo xtask test");
    run_by_qemu(machine)?;
    let target = repository.join("target/foreign");
    test(machine, &target)?;
    let theirs = build(machine, &target)?;
    let ours = build_here(repository)?;
    copy(machine, &ours, &theirs, false)?;
    copy(machine, &ours, &theirs, true)
}

/// A cargo command for a machine, without debug information.
fn cargo_for(machine: &Machine, target: &Path, command: &str) -> anyhow::Result<Command> {
    let mut cargo = cargo();
    cargo.args([command, "--quiet", "--locked"]).env("CARGO_TARGET_DIR", target);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_DEV_STRIP", "symbols");
    machine.build_with(&mut cargo, Vec::new(), "")?;
    Ok(cargo)
}

fn test(machine: &Machine, target: &Path) -> anyhow::Result<()> {
    let mut test = cargo_for(machine, target, "test")?;
    test.args(["--no-fail-fast", "--lib"]);
    test.args(CRATES.iter().map(|name| format!("--package=linerate-{name}")));
    test.arg("--").args(NOT_BY_QEMU.iter().map(|name| format!("--skip={name}")));
    call(&mut test).with_context(|| format!("testing on {}", machine.name()))
}

fn build(machine: &Machine, target: &Path) -> anyhow::Result<Built> {
    call(cargo_for(machine, target, "build")?.args(["--package=linerate", "--package=linerate-agent"]))?;
    let built = target.join(machine.triple()).join("debug");
    Ok(Built { program: built.join("linerate"), agent: built.join("linerate-agent") })
}

/// The binaries for this machine, as the tests build them.
fn build_here(repository: &Path) -> anyhow::Result<Built> {
    let packages = ["--package=linerate", "--package=linerate-agent"];
    call(cargo().args(["build", "--quiet", "--locked"]).args(packages).env_remove("CARGO_BUILD_TARGET"))?;
    let built = target_directory(repository).join("debug");
    Ok(Built { program: built.join("linerate"), agent: built.join("linerate-agent") })
}

/// Configures the kernel to run that machine's programs with qemu-user, as the package binfmt-support would,
/// unless it already does.
fn run_by_qemu(machine: &Machine) -> anyhow::Result<()> {
    let name = format!("qemu-{}", machine.name());
    let qemu = PathBuf::from(format!("/usr/bin/{name}-static"));
    ensure!(qemu.exists(), "{} is missing: it is in Debian's qemu-user-static", qemu.display());
    if !Path::new(BINFMT).join("register").exists() {
        call(Command::new("mount").args(["-t", "binfmt_misc", "binfmt_misc", BINFMT]))?;
    }
    if Path::new(BINFMT).join(&name).exists() {
        return Ok(());
    }
    // The number of the machine in the header of an ELF file, elf(5).
    let number = match machine.name() {
        "x86_64" => 0x3e,
        "aarch64" => 0xb7,
        _ => 0xf3,
    };
    let magic = format!(
        r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x{number:02x}\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
    );
    let line = format!(":{name}:M::{magic}:{}:F", qemu.display());
    fs::write(Path::new(BINFMT).join("register"), line).context("telling the kernel of qemu-user")
}

/// Copies a tree to an end on that machine and back, and compares the result. Either the whole program or
/// only the agent is sent there.
fn copy(machine: &Machine, ours: &Built, theirs: &Built, with_agent: bool) -> anyhow::Result<()> {
    let directory = tempfile::Builder::new().prefix("linerate-foreign-").tempdir_in("/dev/shm")?;
    let top = directory.path();
    let program = installed(machine, ours, theirs, with_agent, top)?;
    let shell = other_shell(machine, top)?;
    let mut rng = Rng::with_seed(7);
    for number in 0..DIRECTORIES {
        let directory = top.join(format!("tree/{number}"));
        fs::create_dir_all(&directory)?;
        tree::kinds(&directory, &mut rng).context("making a tree")?;
    }
    let [here, there, back] = ["tree/", "there/", "back/"].map(|name| top.join(name).display().to_string());
    let far = |path: &str| format!("far:{path}");
    for (from, to) in [(here.clone(), far(&there)), (far(&there), back.clone())] {
        let mut sync = Command::new(&program);
        sync.args(["sync", "-a", "--hard-links", "--acls", "--xattrs", "--devices", "--rsh"]).arg(&shell);
        call(sync.args([&from, &to]))?;
        same(&here, to.trim_start_matches("far:"))?;
    }
    let entries = tree::names(Path::new(&here)).len();
    ensure!(entries >= 10_000, "the tree has {entries} entries only");
    let brought =
        Binary::of(String::new(), if with_agent { &theirs.agent } else { &theirs.program }.clone())?;
    let kept = top.join("home/.cache/linerate").join(format!("agent-{}", brought.id));
    ensure!(kept.exists(), "{} isn't what was brought", brought.file.display());
    let what = if with_agent { "an agent" } else { "a whole program" };
    println!("{entries} entries to {what} for {} and back: 0 differences", machine.name());
    Ok(())
}

/// Installs the program as packages do, together with the other machine's program or with its agent.
fn installed(
    machine: &Machine,
    ours: &Built,
    theirs: &Built,
    with_agent: bool,
    top: &Path,
) -> anyhow::Result<PathBuf> {
    let (program, beside) = (top.join("usr/bin/linerate"), top.join("usr").join(BESIDE));
    let other = beside.join(format!("{NAME}{}", machine.name()));
    for (from, to) in [(&ours.program, &program), (&theirs.program, &other)] {
        fs::create_dir_all(to.parent().expect("it has one"))?;
        fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    }
    if with_agent {
        let agent = beside.join(format!("{}{}{}", packed::NAME, machine.name(), packed::END));
        packed::write(&theirs.agent, &mut fs::File::create(agent)?).context("packing the agent")?;
    }
    Ok(program)
}

/// A remote shell that simulates a host of that kind of machine, with a separate home directory.
fn other_shell(machine: &Machine, top: &Path) -> anyhow::Result<PathBuf> {
    let shell = top.join("rsh");
    let home = top.join("home");
    fs::create_dir_all(home.join("bin"))?;
    let path = format!("{}:/usr/bin:/bin", home.join("bin").display());
    let uname = format!("#!/bin/sh\necho Linux {}\n", machine.name());
    let rsh = format!(
        "#!/bin/sh\nshift\nHOME={home} XDG_CACHE_HOME= PATH={path} exec sh -c \"$*\"\n",
        home = home.display()
    );
    for (path, text) in [(&home.join("bin/uname"), uname), (&shell, rsh)] {
        let mut file = fs::File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(PermissionsExt::from_mode(0o755))?;
    }
    Ok(shell)
}

/// Returns an error if rsync would change anything in the copy.
fn same(one: &str, other: &str) -> anyhow::Result<()> {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAX", "--dry-run", "--checksum", "--delete", "--itemize-changes", one, other]);
    let output = rsync.output().with_context(|| format!("running {}", show(&rsync)))?;
    let reported = [output.stdout, output.stderr].concat();
    if !reported.is_empty() || !output.status.success() {
        bail!("{one} and {other} differ:\n{}", String::from_utf8_lossy(&reported));
    }
    Ok(())
}
