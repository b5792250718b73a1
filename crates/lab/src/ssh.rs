//! The far host's ssh server: its keys and configuration, its life, and the proof that a login works.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use linerate_sys::netns;
use rustix::process::Signal;

use crate::account;
use crate::child::{Child, last_lines, settle};
use crate::error::LabError;
use crate::process::{Process, wait_until};
use crate::state::{Description, LabHost, LinkPort, write_private};
use crate::tool::{SSH, SSH_KEYGEN, SSHD};

/// The longest wait for an answer, for a host under full load; normally a tenth of a second suffices.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running ssh server. Dropping it doesn't end the server; [`SshServer::stop`] does.
#[derive(Debug)]
pub(crate) struct SshServer(Child);

/// The client configuration in a lab's directory, for `ssh -F`.
pub(crate) fn client_config(directory: &Path) -> PathBuf {
    directory.join("ssh_config")
}

/// Writes keys, and the configuration of both sides, to the lab's directory.
pub(crate) fn prepare(directory: &Path, lab: &Description) -> Result<(), LabError> {
    let user = account::user_name()?;
    let host_key = make_key(directory, "host_key")?;
    let user_key = make_key(directory, "user_key")?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        write_private(&path, text.as_bytes()).map_err(LabError::file("writing", &path))
    };
    write("authorized_keys", &user_key)?;
    write("known_hosts", &format!("{} {host_key}", known_names(lab)))?;
    let listen: String = lab.b.ports().iter().map(listen_text).collect();
    write("sshd_config", &server_text(directory, lab, &user, &listen))?;
    write("ssh_config", &client_text(directory, lab, &user))
}

/// The files of the ssh servers of guests that are virtual machines, which have the same keys: name and
/// contents. They lie below `to` there.
pub(crate) fn guest_files(
    directory: &Path,
    to: &Path,
    lab: &Description,
) -> Result<Vec<(&'static str, Vec<u8>)>, LabError> {
    let read = |name: &'static str| {
        let path = directory.join(name);
        std::fs::read(&path).map(|bytes| (name, bytes)).map_err(LabError::file("reading", &path))
    };
    let config = server_text(to, lab, "root", "").into_bytes();
    Ok(vec![read("host_key")?, read("authorized_keys")?, ("sshd_config", config)])
}

impl SshServer {
    /// Starts sshd on the far host and waits until a login from the near one works. Unless `kept`, it ends
    /// with this process in any case.
    pub(crate) fn start(directory: &Path, lab: &Description, kept: bool) -> Result<Self, LabError> {
        make_separation_directory()?;
        let failed = |reason| LabError::Sshd { reason, log: "nothing".into() };
        let (child, _) = Child::spawn("sshd", server_command(directory, &lab.b, kept)?).map_err(failed)?;
        let server = Self(child);
        match server.prove(directory, lab) {
            Ok(()) => Ok(server),
            Err(reason) => {
                server.stop();
                Err(LabError::Sshd { reason, log: last_lines(&log_file(directory)) })
            }
        }
    }

    pub(crate) fn process(&self) -> &Process {
        self.0.process()
    }

    /// Ends the listener and waits for it. Its sessions are other processes of the namespace.
    pub(crate) fn stop(self) {
        self.0.stop();
    }

    fn prove(&self, directory: &Path, lab: &Description) -> Result<(), String> {
        let near = File::open(lab.a.namespace_path()).map_err(|error| error.to_string())?;
        let answered = netns::inside(near.as_fd(), || {
            wait_until(PATIENCE, || !self.process().is_alive() || speaks_ssh(lab.b.address))
        });
        match answered {
            Err(error) => Err(format!("entering {}: {error}", lab.a.namespace)),
            Ok(_) if !self.process().is_alive() => Err("it ended".into()),
            Ok(false) => Err(format!("it doesn't answer within {PATIENCE:?}")),
            Ok(true) => log_in(directory, near),
        }
    }
}

/// One login from the near host, which proves keys, account and configuration.
fn log_in(directory: &Path, near: File) -> Result<(), String> {
    let mut command = Command::new(SSH.find().map_err(|error| error.to_string())?);
    command.arg("-F").arg(client_config(directory)).args(["b", "true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    netns::enter(&mut command, near.into());
    let mut child = command.spawn().map_err(|error| format!("starting ssh: {error}"))?;
    let ended = wait_until(PATIENCE, || !matches!(child.try_wait(), Ok(None)));
    if !ended {
        // This ends its pipe too, so that the read below can't hang.
        let _ = child.kill();
    }
    let done = child.wait_with_output().map_err(|error| format!("waiting for ssh: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    match done.status.success() {
        true => Ok(()),
        false if !ended => Err(format!("a test login by ssh didn't finish within {PATIENCE:?}: {said}")),
        false => Err(format!("a login failed: {said}")),
    }
}

/// True if an ssh server answers there.
pub(crate) fn speaks_ssh(address: Ipv4Addr) -> bool {
    let mut greeting = [0; 4];
    let read = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.read_exact(&mut greeting)
    };
    let connected = TcpStream::connect_timeout(&SocketAddr::from((address, 22)), Duration::from_secs(3));
    connected.and_then(read).is_ok() && greeting == *b"SSH-"
}

fn server_command(directory: &Path, host: &LabHost, kept: bool) -> Result<Command, LabError> {
    let path = host.namespace_path();
    let namespace = File::open(&path).map_err(LabError::file("opening", &path))?;
    let log = log_file(directory);
    let output = File::create(&log).map_err(LabError::file("making", &log))?;
    let mut command = Command::new(SSHD.find()?);
    command.arg("-D").arg("-e").arg("-f").arg(directory.join("sshd_config"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    settle(&mut command, namespace, (!kept).then_some(Signal::TERM));
    Ok(command)
}

fn make_key(directory: &Path, name: &str) -> Result<String, LabError> {
    let path = directory.join(name);
    let arguments = ["-q", "-t", "ed25519", "-N", "", "-C", "linerate-lab", "-f"].map(AsRef::as_ref);
    SSH_KEYGEN.run(&[&arguments[..], &[path.as_os_str()]].concat())?;
    let public = path.with_extension("pub");
    std::fs::read_to_string(&public).map_err(LabError::file("reading", &public))
}

/// Root's sshd confines its unprivileged half to this directory, which the distribution creates only at the
/// start of its own service.
fn make_separation_directory() -> Result<(), LabError> {
    let path = Path::new("/run/sshd");
    let made = std::fs::DirBuilder::new().mode(0o755).recursive(true).create(path);
    made.map_err(LabError::file("making", path))
}

fn server_text(directory: &Path, lab: &Description, user: &str, listen: &str) -> String {
    let directory = directory.display();
    // PAM slows a login and may print or refuse; it is used only if it alone admits a locked account.
    let pam = if account::is_locked(user) { "yes" } else { "no" };
    let (path, name) = (account::search_path(), &lab.name);
    // SHLVL: a nested shell doesn't run the user's .bashrc at each login, whose time would be in every
    // measurement. StrictModes is off: the keys' directory is closed to others, and in a user namespace the
    // owner of the directories above it is "nobody", which the check would refuse.
    format!(
        "Port 22\n{listen}\
         HostKey {directory}/host_key\nAuthorizedKeysFile {directory}/authorized_keys\n\
         AuthenticationMethods publickey\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nAllowUsers {user}\nStrictModes no\nUsePAM {pam}\nUseDNS no\n\
         PidFile none\nMaxStartups 1000\nMaxSessions 1000\nLoginGraceTime 60\n\
         PrintMotd no\nPrintLastLog no\nBanner none\nPermitUserRC no\nX11Forwarding no\n\
         AcceptEnv LANG LC_*\nSetEnv PATH={path} LINERATE_LAB={name} SHLVL=1\nSubsystem sftp internal-sftp\n"
    )
}

fn listen_text(port: &LinkPort) -> String {
    let listen6 = port.address6.map_or_else(String::new, |address| format!("ListenAddress [{address}]\n"));
    format!("ListenAddress {}\n{listen6}", port.address)
}

fn client_text(directory: &Path, lab: &Description, user: &str) -> String {
    let directory = directory.display();
    let LabHost { address, address6, .. } = &lab.b;
    let host6 =
        address6.map_or_else(String::new, |address| format!("Host b6 {address}\n    HostName {address}\n"));
    let further = lab.b.further.iter().map(|port| port.address);
    let further: String =
        further.map(|address| format!("Host {address}\n    HostName {address}\n")).collect();
    let machines = lab.machines().iter().enumerate();
    let guest = |(number, guest): (usize, &LabHost)| {
        let addresses: Vec<String> = guest.ports().iter().map(|port| port.address.to_string()).collect();
        let further = addresses.iter().skip(1).map(|address| format!("Host {address}\n    User root\n"));
        let first = &addresses[0];
        format!(
            "Host g{number} {first}\n    HostName {first}\n    User root\n{}",
            further.collect::<String>()
        )
    };
    let guests: String = machines.map(guest).collect();
    format!(
        "{host6}{further}{guests}Host b b4 {address}\n    HostName {address}\nHost *\n    User {user}\n    Port 22\n    \
         IdentityFile {directory}/user_key\n    IdentitiesOnly yes\n    IdentityAgent none\n    \
         UserKnownHostsFile {directory}/known_hosts\n    GlobalKnownHostsFile /dev/null\n    \
         HostKeyAlias linerate-lab-b\n    StrictHostKeyChecking yes\n    UpdateHostKeys no\n    \
         PreferredAuthentications publickey\n    BatchMode yes\n    ControlPath none\n    ConnectTimeout 10\n"
    )
}

/// All names of hosts with an ssh server: programs on libssh don't know HostKeyAlias.
fn known_names(lab: &Description) -> String {
    let machines = lab.machines();
    let ports: Vec<LinkPort> = std::iter::once(&lab.b).chain(machines).flat_map(LabHost::ports).collect();
    let addresses = ports.iter().map(|port| port.address.to_string());
    let addresses6 = ports.iter().filter_map(|port| Some(port.address6?.to_string()));
    let names = ["linerate-lab-b", "b", "b4", "b6"].map(str::to_owned).into_iter();
    let guests = (0..machines.len()).map(|number| format!("g{number}"));
    names.chain(guests).chain(addresses).chain(addresses6).collect::<Vec<_>>().join(",")
}

fn log_file(directory: &Path) -> PathBuf {
    directory.join("sshd.log")
}
