//! How to reach the far host: by the user's ssh and its options, or by another remote shell.

mod configured;
mod shared;

use clap::Args;
use linerate_remote::agent_command::AgentCommand;
use linerate_remote::binary::FarPart;
use linerate_remote::far_end::{FarEnd, StartError, quiet_ssh_options};
use linerate_remote::host_agent::AnotherProtocol;
use linerate_remote::patience::Patience;
use linerate_wire::path::printable;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use super::config::current;
use super::failure::Failure;
use crate::exit::Code;
pub use shared::settings as ssh_settings;

/// Options that are passed to ssh unchanged.
#[derive(Debug, Clone, Default, Args)]
pub struct LoginOptions {
    /// Port of the far ssh server
    #[arg(short = 'P', value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "ssh")]
    pub port: Option<u16>,
    /// File with the private key
    #[arg(short = 'i', value_name = "FILE", help_heading = "ssh")]
    pub identity: Vec<OsString>,
    /// ssh's configuration file
    #[arg(short = 'F', value_name = "FILE", help_heading = "ssh")]
    pub config: Option<OsString>,
    /// Jump host
    #[arg(short = 'J', value_name = "DESTINATION", help_heading = "ssh")]
    pub jump: Option<OsString>,
    /// Option of ssh, as in its configuration file
    #[arg(short = 'o', value_name = "OPTION", help_heading = "ssh")]
    pub option: Vec<OsString>,
    /// IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6", help_heading = "ssh")]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', help_heading = "ssh")]
    pub ipv6: bool,
    /// Remote shell instead of ssh, called as CMD HOST COMMAND
    ///
    /// linerate splits CMD into words as a shell does.
    #[arg(short = 'e', long, value_name = "CMD", help_heading = "ssh")]
    pub rsh: Option<String>,
    /// A program that is run instead of ssh, and takes ssh's options.
    #[arg(skip)]
    pub program: Option<OsString>,
    /// True if the user's ssh agent isn't forwarded to the far host.
    #[arg(skip)]
    pub keeps_agent: bool,
    /// Command that starts linerate at the far end: 'sudo linerate'
    ///
    /// COMMAND is a line that sh interprets on the far host. Its last word is the path of a program on the far host, or
    /// the word linerate, which stands for the agent that linerate finds there or copies there.
    #[arg(long, value_name = "COMMAND", value_parser = agent_command, help_heading = "ssh")]
    pub agent_command: Option<AgentCommand>,
    /// Never copy linerate to a far host that lacks it
    #[arg(long, help_heading = "ssh")]
    pub no_install: bool,
    /// Read no configuration file
    #[arg(long, help_heading = "ssh")]
    pub no_config: bool,
}

impl LoginOptions {
    /// The far end on `host`, which may be preceded by `USER@`. The time limit of the login lets a user type a
    /// password. The far host needs only an agent.
    ///
    /// # Errors
    /// If the remote shell's command can't be split into words.
    pub fn far_end(&self, host: &OsStr, quiet: bool) -> Result<FarEnd, Failure> {
        let own = shared::not_with_an_agent(self.configured(host)?, host);
        if let (None, Some(rsh), false) = (&self.rsh, &own.rsh, quiet) {
            // Another remote shell decides itself what the host's name means, so the user should know about it.
            let rsh = printable(rsh.as_bytes());
            crate::print::inform(&format!("linerate: the remote shell is '{rsh}', as configured"));
        }
        Ok(FarEnd {
            rsh: own.shell(quiet).map_err(Failure::usage)?,
            host: bare_host(host),
            install: !own.no_install,
            part: FarPart::Agent,
            command: match own.agent_command.unwrap_or_default() {
                command if own.keeps_agent => command.without_ssh_agent(),
                command => command,
            },
            patience: Patience::LOGIN,
        })
    }

    /// These options, completed by the configuration: an option that the user didn't give gets the value that is
    /// configured for the host.
    ///
    /// # Errors
    /// If a configured value is wrong.
    pub fn configured(&self, host: &OsStr) -> Result<Self, Failure> {
        configured::fill(self, current(), host).map_err(Failure::usage)
    }

    /// These options, without forwarding the user's ssh agent, whatever the configuration says.
    pub fn keeping_agent(&self) -> Self {
        Self { keeps_agent: true, ..self.clone() }
    }

    /// The command line that calls ssh; `None` if another remote shell is named.
    pub fn ssh(&self) -> Option<Vec<OsString>> {
        if self.rsh.is_some() { None } else { self.shell(true).ok() }
    }

    fn shell(&self, quiet: bool) -> Result<Vec<OsString>, String> {
        if let Some(rsh) = &self.rsh {
            if self.has_ssh_options() {
                let message = "-P, -i, -F, -J, -o, -4 and -6 are options of ssh: write them, or equivalent ones, into --rsh";
                return Err(message.into());
            }
            let words = shell_words(rsh).map_err(|why| format!("--rsh {why}"))?;
            return Ok(words.into_iter().map(OsString::from).collect());
        }
        let mut words = vec![self.program.clone().unwrap_or_else(|| "ssh".into())];
        words.extend(quiet_ssh_options().map(OsStr::to_owned));
        let mut pair = |flag: &str, value: &OsStr| words.extend([OsString::from(flag), value.to_owned()]);
        self.port.iter().for_each(|port| pair("-p", OsStr::new(&port.to_string())));
        self.identity.iter().for_each(|file| pair("-i", file));
        self.config.iter().for_each(|file| pair("-F", file));
        self.jump.iter().for_each(|host| pair("-J", host));
        if self.keeps_agent {
            // ssh uses the first of several ForwardAgent options. Other remote shells have their own options.
            pair("-o", OsStr::new("ForwardAgent=no"));
        }
        self.option.iter().for_each(|option| pair("-o", option));
        words.extend(
            [(self.ipv4, "-4"), (self.ipv6, "-6")].iter().filter(|(on, _)| *on).map(|(_, f)| f.into()),
        );
        if quiet {
            // ssh's own -q would also hide the reason why a login failed.
            words.extend(["-o", "LogLevel=ERROR"].map(OsString::from));
        }
        Ok(words)
    }

    /// These options as they are written on this program's command line, quoted for a shell, each preceded by
    /// a space. They are for commands that are printed.
    pub fn reported(&self) -> String {
        let mut words: Vec<OsString> = Vec::new();
        let mut pair = |flag: &str, value: &OsStr| words.extend([OsString::from(flag), value.to_owned()]);
        self.port.iter().for_each(|port| pair("-P", OsStr::new(&port.to_string())));
        self.identity.iter().for_each(|file| pair("-i", file));
        self.config.iter().for_each(|file| pair("-F", file));
        self.jump.iter().for_each(|host| pair("-J", host));
        self.option.iter().for_each(|option| pair("-o", option));
        self.rsh.iter().for_each(|shell| pair("--rsh", OsStr::new(shell)));
        self.agent_command.iter().for_each(|command| pair("--agent-command", OsStr::new(&command.line())));
        let flags = [
            (self.ipv4, "-4"),
            (self.ipv6, "-6"),
            (self.no_install, "--no-install"),
            (self.no_config, "--no-config"),
        ];
        words.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag.into()));
        words.iter().map(|word| format!(" {}", shell_word(word))).collect()
    }

    fn has_ssh_options(&self) -> bool {
        let single = self.port.is_some() || self.config.is_some() || self.jump.is_some();
        single || self.ipv4 || self.ipv6 || !self.identity.is_empty() || !self.option.is_empty()
    }
}

fn agent_command(line: &str) -> Result<AgentCommand, String> {
    AgentCommand::parse(line, None)
}

/// The host without the brackets around an IPv6 address. ssh doesn't accept these brackets, which only separate the
/// address from a path.
pub fn bare_host(host: &OsStr) -> OsString {
    let bytes = host.as_bytes();
    let at = bytes.iter().rposition(|&b| b == b'@').map_or(0, |at| at + 1);
    match bytes[at..].strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
        Some(address) => OsStr::from_bytes(&[&bytes[..at], address].concat()).to_owned(),
        None => host.to_owned(),
    }
}

/// The failure to report if a far end could not be started.
pub fn not_started(error: &StartError, interrupted: &AtomicBool) -> Failure {
    if interrupted.load(Ordering::Relaxed) {
        return Failure("interrupted".into(), Code::Interrupted);
    }
    let code = match error {
        StartError::Host => Code::Usage,
        StartError::Ended { code: Some(code), .. } => Code::Shell(*code),
        _ => Code::FarEnd,
    };
    Failure(error.to_string(), code)
}

/// The exit code for an agent that runs but doesn't answer questions about its host.
pub fn unanswered(error: &io::Error) -> Code {
    if AnotherProtocol::is_reason(error) { Code::Version } else { Code::FarEnd }
}

/// Splits the command line of a remote shell into words; there is at least one.
///
/// # Errors
/// A message that begins with the user's text.
pub fn shell_words(shell: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(shell).filter(|words| !words.is_empty());
    words.ok_or_else(|| format!("'{shell}' is empty, or its quotes don't match"))
}

/// Quotes a word of a command that is printed, so that a shell reads it as one word.
pub fn shell_word(word: &OsStr) -> String {
    let word = printable(word.as_bytes()).to_string();
    shlex::try_quote(&word).map_or(word.clone(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_reported_as_they_were_given() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            login: LoginOptions,
        }
        let reported = |words: &[&str]| Line::parse_from([&["x"], words].concat()).login.reported();
        assert_eq!(reported(&[]), "");
        let line = " -P 2222 -i key -F 'my config' -J jump -o 'User=root' --agent-command 'sudo linerate' -4 --no-install --no-config";
        let words = shell_words(line).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(shell_words(&reported(&words)).unwrap(), words);
        assert_eq!(reported(&["--rsh", "ssh -q"]), " --rsh 'ssh -q'");
    }

    #[test]
    fn brackets_are_for_us_not_for_ssh() {
        assert_eq!(bare_host(OsStr::new("u@[fd00::1]")), "u@fd00::1");
        assert_eq!(bare_host(OsStr::new("[::1]")), "::1");
        assert_eq!(bare_host(OsStr::new("host")), "host");
    }
}
