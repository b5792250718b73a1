//! The ssh servers of a lab, on the far host or on all hosts of sites: their keys and configuration, their start and
//! end, and a test login.

use std::ffi::OsString;
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
use crate::sites::{self, SiteHost};
use crate::state::{Description, LabHost, LinkPort, write_private};
use crate::tool::{SSH, SSH_KEYGEN, SSHD};

/// The longest time to wait for an answer. Normally a tenth of a second is enough, but not on a host under full load.
const SSH_TIMEOUT: Duration = Duration::from_secs(20);

/// A running ssh server. Dropping this value doesn't end the server; [`SshServer::stop`] does.
#[derive(Debug)]
pub(crate) struct SshServer(Child);

/// The client configuration in a lab's directory, for `ssh -F`.
pub(crate) fn client_config(directory: &Path) -> PathBuf {
    directory.join("ssh_config")
}

/// Writes the keys and the configuration of client and server to the lab's directory.
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
    // Each host of a site listens in its own namespace, so no address needs to be given.
    let listen: String =
        if lab.sites.is_empty() { lab.b.ports().iter().map(listen_text).collect() } else { String::new() };
    write("sshd_config", &server_text(directory, lab, &user, &listen))?;
    write("ssh_config", &client_text(directory, lab, &user))
}

/// The names and contents of the files for the ssh servers of guests that are virtual machines. These servers have the
/// same keys as host b. In the guest, the files are below `to`.
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

/// A host with an ssh server, and its hostname if that differs from this host's.
struct Served<'a> {
    host: &'a LabHost,
    name: Option<&'a str>,
}

impl SshServer {
    /// Starts sshd on the far host, or on all hosts of sites. Waits until each server answers and a login from the near
    /// host to the far host works. The first server returned is the far host's. Unless `kept`, the servers end with
    /// this process, even if it is killed.
    pub(crate) fn start_all(directory: &Path, lab: &Description, kept: bool) -> Result<Vec<Self>, LabError> {
        make_separation_directory()?;
        let mut servers = Vec::new();
        match start_and_prove(directory, lab, kept, &mut servers) {
            Ok(()) => Ok(servers),
            Err(error) => {
                Self::stop_all(servers);
                Err(error)
            }
        }
    }

    pub(crate) fn process(&self) -> &Process {
        self.0.process()
    }

    /// Ends the listening processes and waits for them. Their sessions are separate processes in the namespaces.
    pub(crate) fn stop_all(servers: Vec<Self>) {
        Child::stop_all(servers.into_iter().map(|server| server.0).collect());
    }
}

fn start_and_prove(
    directory: &Path,
    lab: &Description,
    kept: bool,
    servers: &mut Vec<SshServer>,
) -> Result<(), LabError> {
    let served = served(lab);
    for served in &served {
        let failed = |reason| LabError::Sshd { reason, log: "nothing".into() };
        let command = server_command(directory, served, kept)?;
        servers.push(SshServer(Child::spawn("sshd", command).map_err(failed)?.0));
    }
    let near = File::open(lab.a.namespace_path());
    let near = near.map_err(LabError::file("opening", &lab.a.namespace_path()))?;
    for (served, server) in served.iter().zip(&*servers) {
        answers(&near, served.host, server).map_err(|reason| unusable(directory, served, reason))?;
    }
    log_in(directory, near).map_err(|reason| unusable(directory, &served[0], reason))
}

/// The hosts with an ssh server, the far host first.
fn served(lab: &Description) -> Vec<Served<'_>> {
    let mut hosts: Vec<Served<'_>> =
        lab.site_hosts().map(|site| Served { host: &site.host, name: Some(&site.name) }).collect();
    match hosts.iter().position(|served| *served.host == lab.b) {
        Some(far) => hosts.swap(0, far),
        None => hosts.push(Served { host: &lab.b, name: None }),
    }
    hosts
}

fn unusable(directory: &Path, served: &Served<'_>, reason: String) -> LabError {
    LabError::Sshd { reason, log: last_lines(&log_file(directory, served)) }
}

/// Waits until a server answers the near host.
fn answers(near: &File, host: &LabHost, server: &SshServer) -> Result<(), String> {
    let answered = netns::inside(near.as_fd(), || {
        wait_until(SSH_TIMEOUT, || !server.process().is_alive() || speaks_ssh(host.address))
    });
    match answered {
        Err(error) => Err(format!("entering the near host's namespace: {error}")),
        Ok(_) if !server.process().is_alive() => Err("the server ended".into()),
        Ok(false) => Err(format!("the server doesn't answer within {SSH_TIMEOUT:?}")),
        Ok(true) => Ok(()),
    }
}

/// Makes one login from the near host, as a test of keys, account and configuration.
fn log_in(directory: &Path, near: File) -> Result<(), String> {
    let mut command = Command::new(SSH.find().map_err(|error| error.to_string())?);
    command.arg("-F").arg(client_config(directory)).args(["b", "true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    netns::enter(&mut command, near.into());
    let mut child = command.spawn().map_err(|error| format!("starting ssh: {error}"))?;
    let ended = wait_until(SSH_TIMEOUT, || !matches!(child.try_wait(), Ok(None)));
    if !ended {
        // This also closes the child's end of the pipe, so that the read below can't hang.
        let _ = child.kill();
    }
    let done = child.wait_with_output().map_err(|error| format!("waiting for ssh: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    match done.status.success() {
        true => Ok(()),
        false if !ended => Err(format!("a test login by ssh didn't finish within {SSH_TIMEOUT:?}: {said}")),
        false => Err(format!("a login failed: {said}")),
    }
}

/// True if an ssh server answers at this address.
pub(crate) fn speaks_ssh(address: Ipv4Addr) -> bool {
    let mut greeting = [0; 4];
    let read = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.read_exact(&mut greeting)
    };
    let connected = TcpStream::connect_timeout(&SocketAddr::from((address, 22)), Duration::from_secs(3));
    connected.and_then(read).is_ok() && greeting == *b"SSH-"
}

fn server_command(directory: &Path, served: &Served<'_>, kept: bool) -> Result<Command, LabError> {
    let path = served.host.namespace_path();
    let namespace = File::open(&path).map_err(LabError::file("opening", &path))?;
    let log = log_file(directory, served);
    let output = File::create(&log).map_err(LabError::file("making", &log))?;
    let mut command = Command::new(SSHD.find()?);
    command.arg("-D").arg("-e").arg("-f").arg(directory.join("sshd_config"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    settle(&mut command, namespace, (!kept).then_some(Signal::TERM));
    if let Some(name) = served.name {
        netns::name_host(&mut command, name.into());
    }
    Ok(command)
}

fn make_key(directory: &Path, name: &str) -> Result<String, LabError> {
    let path = directory.join(name);
    let arguments = ["-q", "-t", "ed25519", "-N", "", "-C", "linerate-lab", "-f"].map(AsRef::as_ref);
    SSH_KEYGEN.run(&[&arguments[..], &[path.as_os_str()]].concat())?;
    let public = path.with_extension("pub");
    std::fs::read_to_string(&public).map_err(LabError::file("reading", &public))
}

/// Creates /run/sshd: root's sshd confines its unprivileged process to this directory, but the distribution creates it
/// only at the start of its own ssh service.
fn make_separation_directory() -> Result<(), LabError> {
    let path = Path::new("/run/sshd");
    let made = std::fs::DirBuilder::new().mode(0o755).recursive(true).create(path);
    made.map_err(LabError::file("making", path))
}

fn server_text(directory: &Path, lab: &Description, user: &str, listen: &str) -> String {
    // PAM slows a login, and may print messages or refuse the login, so it is only used for a locked account, which
    // sshd admits only with PAM.
    let pam = if account::is_locked(user) { "yes" } else { "no" };
    let (path, name, of_sites) = (account::search_path(), &lab.name, login_variables(directory, lab));
    let directory = directory.display();
    // SHLVL=1 keeps bash from running the user's .bashrc at each login, which would take time in every measurement.
    // StrictModes is off, because in a user namespace the owner of the directories above the keys is "nobody", which
    // the check would refuse; the keys' directory itself is closed to other users.
    format!(
        "Port 22\n{listen}\
         HostKey {directory}/host_key\nAuthorizedKeysFile {directory}/authorized_keys\n\
         AuthenticationMethods publickey\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nAllowUsers {user}\nStrictModes no\nUsePAM {pam}\nUseDNS no\n\
         PidFile none\nMaxStartups 1000\nMaxSessions 1000\nLoginGraceTime 60\n\
         PrintMotd no\nPrintLastLog no\nBanner none\nPermitUserRC no\nX11Forwarding no\n\
         AcceptEnv LANG LC_*\nSetEnv PATH={path} LINERATE_LAB={name} SHLVL=1{of_sites}\nSubsystem sftp internal-sftp\n"
    )
}

/// Environment variables of a login on a host of a site. With them, a command can log in to any other host of the
/// sites.
fn login_variables(directory: &Path, lab: &Description) -> String {
    let variables = sites::environment(lab);
    let config = ("LINERATE_LAB_SSH_CONFIG", client_config(directory).into_os_string());
    let config = (!variables.is_empty()).then_some(config);
    // Values are quoted, because a value may be a list.
    let text = |(name, value): (&str, OsString)| format!(" \"{name}={}\"", value.to_string_lossy());
    config.into_iter().chain(variables).map(text).collect()
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
    let site_host = |host: &SiteHost| format!("Host {}\n    HostName {}\n", host.name, host.host.address);
    let hosts: String = lab.site_hosts().map(site_host).collect();
    format!(
        "{host6}{further}{guests}{hosts}Host b b4 {address}\n    HostName {address}\nHost *\n    User {user}\n    Port 22\n    \
         IdentityFile {directory}/user_key\n    IdentitiesOnly yes\n    IdentityAgent none\n    \
         UserKnownHostsFile {directory}/known_hosts\n    GlobalKnownHostsFile /dev/null\n    \
         HostKeyAlias linerate-lab-b\n    StrictHostKeyChecking yes\n    UpdateHostKeys no\n    \
         PreferredAuthentications publickey\n    BatchMode yes\n    ControlPath none\n    ConnectTimeout 10\n"
    )
}

/// All names of hosts with an ssh server. The file of known hosts lists all of them, because programs that use libssh
/// don't know HostKeyAlias.
fn known_names(lab: &Description) -> String {
    let machines = lab.machines();
    let hosts = lab.site_hosts().map(|host| &host.host).filter(|host| **host != lab.b);
    let hosts = std::iter::once(&lab.b).chain(machines).chain(hosts);
    let ports: Vec<LinkPort> = hosts.flat_map(LabHost::ports).collect();
    let addresses = ports.iter().map(|port| port.address.to_string());
    let addresses6 = ports.iter().filter_map(|port| Some(port.address6?.to_string()));
    let names = ["linerate-lab-b", "b", "b4", "b6"].map(str::to_owned).into_iter();
    let guests = (0..machines.len()).map(|number| format!("g{number}"));
    let hosts = lab.site_hosts().map(|host| host.name.clone());
    names.chain(guests).chain(hosts).chain(addresses).chain(addresses6).collect::<Vec<_>>().join(",")
}

fn log_file(directory: &Path, served: &Served<'_>) -> PathBuf {
    directory.join(served.name.map_or_else(|| "sshd.log".into(), |name| format!("sshd-{name}.log")))
}
