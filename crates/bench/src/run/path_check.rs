//! Checks two hosts before a study: whether the addresses answer, whether host a can log in to host b, and
//! whether there is enough space. A study takes minutes, so it should not fail late.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::spec::study::{DatasetSpec, Sizes, Study};
use crate::spec::template::{self, expand};
use crate::spec::tool::{Server, Tool, Toolbox};

use super::bed::{self, Bed, End};
use super::process::{self, Stop, tail};
use super::{programs, server};

/// The longest time to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// The port that this check uses; it is below the ports of the tools' servers.
const PORT: u16 = 4200;
/// The range of all ports that a study uses: of this check, of the requests that run beside tools, and of
/// tools.
const PORTS: &str = "4200 to 6800";

/// The parameters of a check.
pub struct PathCheck<'a> {
    /// The bed with the two hosts.
    pub bed: &'a dyn Bed,
    /// The study that will run on the path.
    pub study: &'a Study,
    /// The tools of the study.
    pub tools: &'a Toolbox,
    /// A directory for outputs.
    pub work: &'a Path,
    /// The flag that is set when the user stops the study.
    pub stop: &'a Stop,
}

impl PathCheck<'_> {
    /// Checks everything that the study's tools need from the path.
    ///
    /// # Errors
    /// A message with the first missing item, the tools that need it, and advice.
    pub fn run(&self) -> Result<(), String> {
        self.check_addresses()?;
        self.check_login()?;
        self.check_room()
    }

    /// The installed tools of the study for which `needs` is true, as text; `None` if there are none.
    fn needing(&self, needs: impl Fn(&Tool) -> bool) -> Option<String> {
        let tools = self.study.cases.iter().filter_map(|case| self.tools.get(&case.tool));
        let mut names: Vec<&str> = tools
            .filter(|tool| needs(tool) && programs::unavailable(tool, self.bed).is_none())
            .map(|tool| tool.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn check_addresses(&self) -> Result<(), String> {
        let beside = self.study.cases.iter().any(|case| case.beside);
        let needing = self.needing(|tool| tool.server.is_some());
        let Some(tools) = needing.or_else(|| beside.then(|| "requests beside cases".to_owned())) else {
            return Ok(());
        };
        let values = |end, copy| bed::values_at(self.bed, end, copy, Path::new("linerate"), PORT);
        let listens = Server::of_requests()?;
        let output = self.work.join("path-server");
        let started = server::start(&listens, self.bed, None, &values(End::B, 0), &output, self.stop);
        let _server = started.map_err(|e| format!("testing the path: listening on port {PORT} at b: {e}"))?;
        for (copy, address) in self.bed.addresses().iter().enumerate() {
            let words = ["{linerate}", "load", "rr", "--warm-up", "0", "--seconds", "0.1", "--connect"];
            let words = template::parse(&[&words[..], &["{url_host}:{port}"]].concat())?;
            let argv = expand(&words, &values(End::A, copy))?;
            self.output(End::A, &argv).map_err(|e| {
                format!(
                    "testing the path: {address} doesn't answer a on TCP port {PORT}, which {tools} need: {e}; open ports {PORTS} from a to b, or name b's addresses on the path by --address-b"
                )
            })?;
        }
        Ok(())
    }

    fn check_login(&self) -> Result<(), String> {
        let logs_in = |tool: &Tool| tool.command.iter().any(|word| word.mentions("host"));
        let Some(tools) = self.needing(logs_in) else { return Ok(()) };
        let words = [
            "ssh",
            "-F",
            "{ssh_config}",
            "-n",
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=5",
            "{host}",
            "true",
        ];
        let argv = expand(&template::parse(&words)?, &bed::values(self.bed, 0))?;
        let host = self.bed.host();
        self.output(End::A, &argv).map(drop).map_err(|e| {
            format!(
                "testing the path: a can't log in to b as {host}, which {tools} need: {e}; `ssh {host} true` on a must work \
                 without questions"
            )
        })
    }

    fn check_room(&self) -> Result<(), String> {
        let Some(work) = self.bed.work() else { return Ok(()) };
        let sizes = || self.study.datasets.iter().map(bytes);
        let (source, arrived) = (sizes().sum::<u64>(), sizes().max().unwrap_or(0));
        let both = if self.bed.shares_processors() { arrived } else { 0 };
        for (name, end, needed) in [("a", End::A, source.saturating_add(both)), ("b", End::B, arrived)] {
            let argv = [OsString::from("df"), "--output=avail".into(), "-B1".into(), work.clone().into()];
            let shown =
                self.output(end, &argv).map_err(|e| format!("checking the free space at {name}: {e}"))?;
            let free: Option<u64> = shown.lines().last().and_then(|line| line.trim().parse().ok());
            if let Some(free) = free.filter(|free| *free < needed) {
                let [free, needed] = [free, needed].map(linerate_quantity::Bytes::of);
                return Err(format!(
                    "testing the hosts: {name} has {free} free in {}, but the study's data needs {needed}; free space, or choose less data by --size",
                    work.parent().unwrap_or(&work).display()
                ));
            }
        }
        Ok(())
    }

    fn output(&self, end: End, argv: &[OsString]) -> Result<String, String> {
        let command = self.bed.command(end, argv).map_err(|e| e.to_string())?;
        let done =
            process::run(vec![command], self.work, ANSWER_TIMEOUT, self.stop).map_err(|e| e.to_string())?;
        let output = done.outputs.first().ok_or("nothing ran")?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(tail(&output.stderr))
    }
}

fn bytes(set: &DatasetSpec) -> u64 {
    match set.sizes {
        Sizes::LogNormal { total, .. } => total,
        Sizes::Fixed { files, size } => files.saturating_mul(size),
    }
}
