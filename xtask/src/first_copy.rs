//! Measures the first copy to a host: the bytes that it sends there, and its time in comparison with a plain
//! ssh command.

use anyhow::{Context, bail, ensure};
use linerate_lab::{End, Lab, LabOptions, parse_link};
use linerate_remote::binary::LIBRARY;
use linerate_remote::packed;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::machine::Machine;
use crate::release::MOST_BROUGHT;
use crate::sizes;

/// The link between the two hosts.
const LINK: &str = "100mbit";
/// The greatest number of seconds by which a first copy may take longer than a command run by ssh.
const MOST_SECONDS: f64 = 1.0;

/// The measured commands, each with a description, the installation that it uses (with or without the agent; empty for
/// ssh), and whether the far host is new to linerate.
const RUNS: [(&str, &str, bool); 4] = [
    ("ssh, a command", "", false),
    ("copy to a new host, with the agent", "with", true),
    ("copy to a new host, of the whole program", "without", true),
    ("copy to a host that has had one", "with", false),
];

/// The lab, the two installations, and the home directories at the far end.
struct Newcomers {
    lab: Lab,
    directory: tempfile::TempDir,
}

/// Measures each command `--tries` times.
///
/// # Errors
/// If no lab can be made, a copy fails, or a bound doesn't hold.
pub fn run(repository: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let (mut program, mut agent, mut tries) =
        (repository.join("dist/linerate"), repository.join("dist/linerate-agent"), 7);
    for pair in arguments.chunks(2) {
        match pair {
            [option, value] if option == "--program" => program = std::path::absolute(value)?,
            [option, value] if option == "--agent" => agent = std::path::absolute(value)?,
            [option, value] if option == "--tries" => tries = value.parse().context("--tries")?,
            _ => bail!("first-copy takes --program, --agent and --tries, not '{}'", pair.join(" ")),
        }
    }
    if arguments.is_empty() && Machine::here().name() == "x86_64" {
        sizes::check(repository, &program, &agent)?;
    }
    let newcomers = Newcomers::up(&program, &agent)?;
    let measured = newcomers.measure(tries);
    newcomers.lab.down()?;
    report(&measured?)
}

/// Prints the medians; returns an error if a bound doesn't hold.
fn report(measured: &[Vec<(f64, u64)>]) -> anyhow::Result<()> {
    let medians: Vec<_> =
        measured.iter().map(|runs| (median(runs, |run| run.0), median(runs, |run| run.1 as f64))).collect();
    let ssh = medians[0].0;
    for ((name, ..), (seconds, bytes)) in RUNS.iter().zip(&medians) {
        println!("{name:42} {seconds:.2} s, {:+.2} s beyond ssh; {:.2} MB sent", seconds - ssh, bytes * 1e-6);
    }
    let (seconds, bytes) = medians[1];
    ensure!(bytes <= MOST_BROUGHT as f64, "more than {MOST_BROUGHT} bytes were sent to a new host");
    ensure!(seconds - ssh <= MOST_SECONDS, "a first copy took more than {MOST_SECONDS} s longer than ssh");
    Ok(())
}

fn median(runs: &[(f64, u64)], value: impl Fn(&(f64, u64)) -> f64) -> f64 {
    let mut values: Vec<_> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Newcomers {
    fn up(program: &Path, agent: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("linerate-first-").tempdir()?;
        for name in ["with", "without"] {
            let binaries = directory.path().join(name).join("bin");
            fs::create_dir_all(&binaries)?;
            let to = binaries.join("linerate");
            fs::copy(program, &to)
                .with_context(|| format!("copying {}: cargo xtask dist", program.display()))?;
        }
        let library = directory.path().join("with").join(LIBRARY);
        fs::create_dir_all(&library)?;
        let packed = library.join(format!("{}{}{}", packed::NAME, Machine::here().name(), packed::END));
        packed::write(agent, &mut File::create(packed)?)
            .with_context(|| format!("packing {}: cargo xtask dist", agent.display()))?;
        fs::write(directory.path().join("file"), "a small file\n")?;
        let lab = Lab::up(&LabOptions { link: parse_link(LINK)?, ..LabOptions::default() })?;
        let shell = format!(
            "#!/bin/sh\nexec ssh -F {} \"$1\" \"export HOME=$FAR_HOME XDG_CACHE_HOME=; $2\"\n",
            lab.ssh_config().display()
        );
        let newcomers = Self { lab, directory };
        fs::write(newcomers.shell(), shell)?;
        fs::set_permissions(newcomers.shell(), Permissions::from_mode(0o755))?;
        Ok(newcomers)
    }

    fn shell(&self) -> PathBuf {
        self.directory.path().join("rsh")
    }

    /// The seconds and the sent bytes of each try of each command.
    fn measure(&self, tries: usize) -> anyhow::Result<Vec<Vec<(f64, u64)>>> {
        // After this copy, the host of the last measured command isn't new any more.
        self.once(1, 0)?;
        let mut measured = vec![Vec::new(); RUNS.len()];
        for number in 1..=tries {
            let mut order: Vec<_> = (0..RUNS.len()).collect();
            fastrand::shuffle(&mut order);
            for at in order {
                measured[at].push(self.once(at, number)?);
            }
        }
        Ok(measured)
    }

    fn once(&self, at: usize, number: usize) -> anyhow::Result<(f64, u64)> {
        let (name, installation, is_new) = RUNS[at];
        let top = self.directory.path();
        let home =
            top.join(if is_new { format!("home-{installation}-{number}") } else { "home-with-0".into() });
        fs::create_dir_all(&home)?;
        let words: Vec<OsString> = if installation.is_empty() {
            vec![self.shell().into(), "b".into(), "true".into()]
        } else {
            let to = format!("b:{}", home.join("copied").display());
            let cp = [
                top.join(installation).join("bin/linerate").into(),
                "cp".into(),
                "-q".into(),
                "--rsh".into(),
            ];
            cp.into_iter().chain([self.shell().into(), top.join("file").into(), to.into()]).collect()
        };
        let mut command = self.lab.place(End::A).command(&words)?;
        command.env("FAR_HOME", &home);
        let (before, begun) = (self.sent()?, Instant::now());
        let output = command.output().with_context(|| format!("running {name}"))?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        Ok((seconds, self.sent()? - before))
    }

    /// The number of bytes that the near host's ports have sent.
    fn sent(&self) -> anyhow::Result<u64> {
        let cat = ["cat", "/proc/net/dev"].map(OsString::from);
        let text = String::from_utf8(self.lab.place(End::A).command(&cat)?.output()?.stdout)?;
        let ports = text.lines().filter_map(|line| line.split_once(':'));
        let counted = ports.filter(|(port, _)| port.trim() != "lo");
        let sent = counted.map(|(_, counts)| counts.split_whitespace().nth(8)?.parse::<u64>().ok());
        sent.sum::<Option<u64>>().context("/proc/net/dev has other fields")
    }
}
