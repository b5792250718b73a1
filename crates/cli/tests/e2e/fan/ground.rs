//! A test bed with several far hosts: separate ssh servers at the lab's far end, each with a mark in the
//! environment of its processes.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use linerate_lab::End;
use rustix::process::Signal;

use crate::bed::{Case, args, case, case_with_link, case_with_own_link};
use crate::restricted::Login;
use crate::support::{Run, Running, processes_with, within};

/// The first server's port; and how many ports after it other tests of this process have taken.
const PORTS: u16 = 2300;
static TAKEN: AtomicU16 = AtomicU16::new(0);

/// The hosts h0, h1 and so on, each with a separate directory for its destination.
pub struct Fleet {
    pub case: Case,
    pub hosts: usize,
    servers: Vec<Running>,
    directory: PathBuf,
}

/// Makes this number of hosts in the shared lab; `None` if no lab can be made.
pub fn fleet(hosts: usize) -> Option<Fleet> {
    Some(Fleet::of(case()?, hosts))
}

/// Makes hosts in a separate lab, with this link to all of them.
pub fn fleet_with_own_link(hosts: usize, link: &str) -> Option<Fleet> {
    Some(Fleet::of(case_with_own_link(link)?, hosts))
}

/// Like [`fleet_with_own_link`], while no other test runs: for tests that measure time.
pub fn fleet_with_link(hosts: usize, link: &str) -> Option<Fleet> {
    Some(Fleet::of(case_with_link(link)?, hosts))
}

impl Fleet {
    fn of(case: Case, hosts: usize) -> Self {
        let directory = case.aside("fleet");
        let mut fleet = Self { case, hosts, servers: Vec::new(), directory };
        let (base, address) = (Self::free_ports(), fleet.case.bed.lab.address(End::B));
        let lab = fs::read_to_string(fleet.case.bed.lab.ssh_config()).expect("the lab has made it");
        let (_, all) = lab.split_once("Host *\n").expect("the lab has made it");
        let all: String = all
            .lines()
            .filter(|line| !line.trim_start().starts_with("Port "))
            .map(|line| format!("{line}\n"))
            .collect();
        let mut config = String::new();
        for number in 0..hosts {
            let port = base + number as u16;
            config += &format!(
                "Host h{number}\n    HostName {address}\n    Port {port}\n    HostKeyAlias {address}\n"
            );
            let server = fleet.serve(number, &format!("{address}:{port}"));
            fleet.servers.push(server);
            fs::create_dir(fleet.at(number)).expect("writable");
        }
        // The program is there once the first copy has ended, for all of them.
        fleet.case.bring_program();
        // Nobody listens there.
        config += &format!("Host nowhere\n    HostName {address}\n    Port 9\n");
        fs::write(fleet.config(), config + "Host *\n" + &all).expect("writable");
        fleet
    }

    /// Tests run at the same time, in other processes too.
    fn free_ports() -> u16 {
        PORTS + (std::process::id() % 200) as u16 * 128 + TAKEN.fetch_add(8, Ordering::Relaxed) % 128
    }

    fn serve(&self, number: usize, listen: &str) -> Running {
        let lab = self.case.bed.lab.ssh_config().with_file_name("sshd_config");
        let text = fs::read_to_string(lab).expect("the lab has made it");
        let kept =
            text.lines().filter(|line| !line.starts_with("ListenAddress") && !line.starts_with("Port "));
        let marked = |line: &str| match line.strip_prefix("SetEnv ") {
            Some(rest) => format!("SetEnv {} {rest}\n", self.mark(number)),
            None => format!("{line}\n"),
        };
        let text: String = kept.map(marked).collect();
        let (settings, log) = (self.file(number, "sshd"), self.file(number, "log"));
        fs::write(&settings, format!("ListenAddress {listen}\n{text}")).expect("writable");
        let words = args!["/usr/sbin/sshd", "-D", "-E", &log, "-f", &settings];
        let server = Running::start(self.case.bed.lab.place(End::B).command(&words).expect("well-formed"));
        let said = || fs::read_to_string(&log).unwrap_or_default();
        assert!(within(Duration::from_secs(10), || said().contains("Server listening")), "{}", said());
        server
    }

    fn file(&self, number: usize, end: &str) -> PathBuf {
        self.directory.join(format!("h{number}.{end}"))
    }

    fn mark(&self, number: usize) -> String {
        format!("LINERATE_TEST_HOST=h{number}:{}", self.directory.display())
    }

    /// The processes of the logins to a host.
    pub fn processes(&self, number: usize) -> Vec<i32> {
        processes_with(&self.mark(number))
    }

    /// Sends a signal to all processes of the logins to a host.
    pub fn signal(&self, number: usize, signal: Signal) {
        self.processes(number).into_iter().for_each(|pid| crate::support::send(pid, signal));
    }

    /// Stops and continues a host alternately until `is_done`; returns false if that takes longer than a
    /// minute. Each stop is shorter than the timeouts of others. Meanwhile the host receives only what fits
    /// in its socket buffers: far less than a quarter of the possible rate.
    pub fn slows_down(&self, number: usize, is_done: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            self.signal(number, Signal::STOP);
            std::thread::sleep(Duration::from_secs(6));
            self.signal(number, Signal::CONT);
            // Long enough that a busy machine lets the host receive something.
            std::thread::sleep(Duration::from_millis(50));
            if is_done() {
                return true;
            }
        }
        false
    }

    /// Restricts later logins to a host to an agent that may only use the host's directory.
    pub fn restrict(&self, number: usize) {
        let (program, below) = (self.case.bed.program(), self.at(number));
        let login =
            Login::forced(&self.case, &format!("{} agent --below {}", program.display(), below.display()));
        let key = login.config.with_extension("");
        let (host, config) =
            (format!("Host h{number}\n"), fs::read_to_string(self.config()).expect("written"));
        let with_key = format!("{host}    IdentityFile {}\n", key.display());
        fs::write(self.config(), config.replace(&host, &with_key)).expect("writable");
    }

    /// Makes later logins to a host fail.
    pub fn lose(&self, number: usize) {
        let config = fs::read_to_string(self.config()).expect("written");
        let host = format!("Host h{number}\n");
        fs::write(self.config(), config.replace(&host, &format!("{host}    Port 9\n"))).expect("writable");
    }

    fn config(&self) -> PathBuf {
        self.directory.join("ssh_config")
    }

    /// The directory that holds a host's destinations.
    pub fn at(&self, number: usize) -> PathBuf {
        self.case.far.join(format!("h{number}"))
    }

    /// `--to` options for all hosts, with a path below each host's directory.
    pub fn to(&self, path: &str) -> Vec<OsString> {
        (0..self.hosts).flat_map(|number| args!["--to", self.place(number, path)]).collect()
    }

    /// A path at a host, in the form `HOST:PATH`.
    pub fn place(&self, number: usize, path: &str) -> String {
        format!("h{number}:{}", self.at(number).join(path).display())
    }

    /// Starts a command with `--to` options for all hosts.
    pub fn start(&self, command: &str, mut args: Vec<OsString>) -> Running {
        args.extend(self.to("to"));
        self.start_only(command, args)
    }

    /// Starts a command without `--to` options.
    pub fn start_only(&self, command: &str, args: Vec<OsString>) -> Running {
        self.case.start_with(args![self.case.bed.program(), command, "-F", self.config()], args)
    }

    #[track_caller]
    pub fn cp(&self, args: Vec<OsString>) -> Run {
        self.start("cp", args).end()
    }

    /// Waits until a host has a number of files in a directory.
    #[track_caller]
    pub fn wait_for_files(&self, running: &Running, number: usize, path: &str, files: usize) {
        let has = || fs::read_dir(self.at(number).join(path)).is_ok_and(|all| all.count() >= files);
        assert!(within(Duration::from_secs(20), has), "nothing came to h{number}: {}", running.said());
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for server in &self.servers {
            server.signal(Signal::TERM);
        }
    }
}
