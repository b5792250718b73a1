//! A test bed with three hosts: the lab's two hosts, each with a separate ssh server, and a third host on
//! which the command is run.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use linerate_lab::End;
use rustix::process::Signal;

use crate::bed::{Case, args, case, case_with_link, case_with_own_link};
use crate::support::{Run, Running, processes_with, within};

/// The number of the next network for a third host in the shared lab.
static NETWORKS: AtomicU32 = AtomicU32::new(1);

/// The two far hosts, by their names in commands, and their ends of the lab.
pub const HOSTS: [(&str, End); 2] = [("src", End::A), ("dst", End::B)];

/// A third host, and the ssh servers of the other two. The hosts share one file system: the source is in
/// `case.near`, the destination in `case.far`.
pub struct Trio {
    pub case: Case,
    /// A process that keeps the third host's network namespace open.
    holder: Running,
    servers: Vec<Running>,
    directory: PathBuf,
    number: u32,
}

/// A third host in the shared lab; `None` if no lab can be made.
pub fn trio() -> Option<Trio> {
    Some(Trio::of(case()?))
}

/// A third host in a separate lab, with this link between source and destination.
pub fn trio_with_own_link(link: &str) -> Option<Trio> {
    Some(Trio::of(case_with_own_link(link)?))
}

/// Like [`trio_with_own_link`], while no other test runs: for tests that measure time.
pub fn trio_with_link(link: &str) -> Option<Trio> {
    Some(Trio::of(case_with_link(link)?))
}

impl Trio {
    fn of(case: Case) -> Self {
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let words =
            ["--pdeathsig", "KILL", "unshare", "-n", "sh", "-c", "ip link set lo up; exec sleep 1000"];
        let mut holder = Command::new("setpriv");
        holder.args(words);
        let directory = case.aside("trio");
        let mut trio = Self { case, holder: Running::start(holder), servers: Vec::new(), directory, number };
        assert!(within(Duration::from_secs(5), || trio.has_own_network()), "no network of its own");
        for (name, end) in HOSTS {
            trio.connect(name, end);
            let server = trio.serve(name, end);
            trio.servers.push(server);
        }
        trio.write_client_config();
        trio
    }

    fn has_own_network(&self) -> bool {
        let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        network(&self.holder.pid().to_string()).is_some_and(|own| Some(own) != network("self"))
    }

    fn address(&self, end: End, of: u8) -> String {
        let network = if end == End::A { 99 } else { 98 };
        format!("10.{network}.{}.{of}", self.number)
    }

    /// The address at which the client reaches a far host.
    pub fn host_address(&self, end: End) -> String {
        self.address(end, 2)
    }

    fn connect(&self, name: &str, end: End) {
        let (near, far) = (format!("{name}-c{}", self.number), format!("{name}-h{}", self.number));
        let (holder, host) = (self.holder.pid().to_string(), &self.case.bed.lab.host(end).namespace);
        ip(&["link", "add", &near, "netns", &holder, "type", "veth", "peer", "name", &far, "netns", host]);
        let inside = |words: &str| {
            let mut command = Command::new("nsenter");
            command.args(["-t", &holder, "-n", "ip"]).args(words.split(' '));
            assert!(command.status().unwrap().success(), "{words}");
        };
        inside(&format!("addr add {}/24 dev {near}", self.address(end, 1)));
        inside(&format!("link set {near} up"));
        ip(&["-n", host, "addr", "add", &format!("{}/24", self.address(end, 2)), "dev", &far]);
        ip(&["-n", host, "link", "set", &far, "up"]);
    }

    /// Adds a route from one far host to the client's address of the other far host. Without it, the hosts
    /// only have the link between them.
    pub fn let_reach(&self, end: End, other: End) {
        let (lab, address) = (&self.case.bed.lab, self.host_address(other));
        let through = lab.address(other).to_string();
        ip(&["-n", &lab.host(end).namespace, "route", "add", &address, "via", &through]);
    }

    /// Starts an ssh server with its own key, and with a mark in the environment of its processes.
    fn serve(&self, name: &str, end: End) -> Running {
        let key = self.key(name);
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
        assert!(made.unwrap().success());
        fs::copy(key.with_extension("pub"), self.authorized(name)).expect("writable");
        let lab = self.case.bed.lab.ssh_config();
        let text = fs::read_to_string(lab.with_file_name("sshd_config")).expect("the lab has made it");
        let kept = text
            .lines()
            .filter(|line| !line.starts_with("ListenAddress") && !line.starts_with("AuthorizedKeysFile"));
        let marked = |line: &str| match line.strip_prefix("SetEnv ") {
            Some(rest) => {
                let state = self.state(name);
                format!("SetEnv {} XDG_STATE_HOME={} {rest}\n", self.mark(name), state.display())
            }
            None => format!("{line}\n"),
        };
        let text: String = kept.map(marked).collect();
        let own = format!(
            "ListenAddress {}\nAuthorizedKeysFile {}\n",
            self.address(end, 2),
            self.authorized(name).display()
        );
        let (settings, log) =
            (self.directory.join(format!("{name}.sshd")), self.directory.join(format!("{name}.log")));
        fs::write(&settings, own + &text).expect("writable");
        let words = args!["/usr/sbin/sshd", "-D", "-E", &log, "-f", &settings];
        let server = Running::start(self.case.bed.lab.place(end).command(&words).expect("well-formed"));
        let said = || fs::read_to_string(&log).unwrap_or_default();
        assert!(within(Duration::from_secs(10), || said().contains("Server listening")), "{}", said());
        server
    }

    /// The path of the private key with which the client logs in to a host.
    pub fn key(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}_key"))
    }

    /// The path of the file with the keys that a host accepts.
    pub fn authorized(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.authorized"))
    }

    /// Makes each login to a host run `linerate agent` with these options.
    pub fn restrict(&self, name: &str, options: &str) {
        let public = fs::read_to_string(self.key(name).with_extension("pub")).expect("made");
        let program = self.case.bed.program();
        let line = format!("restrict,command=\"{} agent {options}\" {public}", program.display());
        fs::write(self.authorized(name), line).expect("writable");
    }

    /// The directory in which a host keeps its states.
    pub fn state(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.state"))
    }

    fn mark(&self, name: &str) -> String {
        format!("LINERATE_TEST_HOST={name}:{}", self.directory.display())
    }

    /// The processes of this test's logins to a host.
    pub fn processes(&self, name: &str) -> Vec<i32> {
        processes_with(&self.mark(name))
    }

    /// The path of the client's ssh configuration.
    pub fn config(&self) -> PathBuf {
        self.directory.join("ssh_config")
    }

    fn write_client_config(&self) {
        let lab = fs::read_to_string(self.case.bed.lab.ssh_config()).expect("the lab has made it");
        let (_, all) = lab.split_once("Host *\n").expect("the lab has made it");
        let kept =
            all.lines().filter(|line| !line.contains("IdentityFile") && !line.contains("IdentityAgent"));
        let hosts: String = HOSTS
            .iter()
            .map(|(name, end)| {
                let key = self.key(name);
                format!(
                    "Host {name}\n    HostName {}\n    IdentityFile {}\n",
                    self.host_address(*end),
                    key.display()
                )
            })
            .collect();
        let all: String = kept.map(|line| format!("{line}\n")).collect();
        fs::write(self.config(), format!("{hosts}Host *\n{all}")).expect("writable");
    }

    /// A path at the source, as an argument.
    pub fn src(&self, path: &str) -> OsString {
        format!("src:{}", self.case.near.join(path).display()).into()
    }

    /// A path at the destination, as an argument.
    pub fn dst(&self, path: &str) -> OsString {
        format!("dst:{}", self.case.far.join(path).display()).into()
    }

    /// Starts a linerate command on the third host.
    pub fn start(&self, command: &str, args: Vec<OsString>) -> Running {
        self.start_with(args![self.case.bed.program(), command, "-F", self.config()], args)
    }

    /// Starts a linerate command on the third host, with words before the command line.
    pub fn start_with(&self, words: Vec<OsString>, args: Vec<OsString>) -> Running {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.pid().to_string(), "-n"]).args(words).args(args);
        command.current_dir(self.client()).env("LINERATE_TEST_NEAR", &self.directory);
        Running::start(command)
    }

    /// The client's working directory.
    pub fn client(&self) -> PathBuf {
        self.case.aside("client")
    }

    #[track_caller]
    pub fn run(&self, command: &str, args: Vec<OsString>) -> Run {
        self.start(command, args).end()
    }

    /// Runs `linerate scp` with these arguments.
    #[track_caller]
    pub fn run_scp(&self, args: Vec<OsString>) -> Run {
        self.start_with(args![self.case.bed.program(), "scp", "-F", self.config()], args).end()
    }

    #[track_caller]
    pub fn cp(&self, args: Vec<OsString>) -> Run {
        self.run("cp", args)
    }

    #[track_caller]
    pub fn sync(&self, args: Vec<OsString>) -> Run {
        self.run("sync", args)
    }

    /// The source tree and the path of its copy.
    pub fn trees(&self) -> (PathBuf, PathBuf) {
        (self.case.near.join("tree"), self.case.far.join("to"))
    }

    /// The bytes that have passed through the client's network interfaces.
    pub fn client_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/net/dev", self.holder.pid())).expect("it is there");
        let of = |line: &str| {
            let (card, counts) = line.split_once(':')?;
            let counts: Vec<u64> = counts.split_whitespace().filter_map(|count| count.parse().ok()).collect();
            (card.trim() != "lo").then(|| counts[0] + counts[8])
        };
        text.lines().filter_map(of).sum()
    }

    /// Ends the ssh servers and all logins.
    pub fn stop_servers(&self) {
        for server in &self.servers {
            server.signal(Signal::TERM);
        }
        let are_gone = || {
            let all = HOSTS.iter().flat_map(|(name, _)| self.processes(name));
            let is_login = |pid: i32| {
                fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("sshd"))
            };
            !all.into_iter().any(is_login)
        };
        assert!(within(Duration::from_secs(5), are_gone), "a login is left");
    }

    /// Checks that no process is left at either far host.
    #[track_caller]
    pub fn assert_all_gone(&self) {
        self.assert_gone_within(Duration::from_secs(8));
    }

    /// Checks that no process is left at either far host after `patience`, for a copy that may first continue
    /// to its end.
    #[track_caller]
    pub fn assert_gone_within(&self, patience: Duration) {
        let left = || HOSTS.map(|(name, _)| self.processes(name));
        let gone = within(patience, || left().iter().all(Vec::is_empty));
        assert!(gone, "left: {:?}", left());
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        for server in &self.servers {
            server.signal(Signal::TERM);
        }
        self.holder.signal(Signal::KILL);
    }
}

#[track_caller]
fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {words:?}");
}
