//! Connections that several logins share (ssh's `ControlMaster`). If the user's ssh agent is forwarded over
//! such a connection, all logins that share it can use the agent, whatever options they have.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

use super::{LoginOptions, bare_host};

/// Returns the options of a login. If the login must not use the user's agent, but could share a connection that may
/// forward the agent, the returned options request a separate connection.
pub fn not_with_an_agent(login: LoginOptions, host: &OsStr) -> LoginOptions {
    if !login.keeps_agent || login.rsh.is_some() || !may_share_an_agent(&login, host) {
        return login;
    }
    let mut login = login;
    // Of several options with the same name, ssh uses the first.
    login.option.insert(0, "ControlPath=none".into());
    login
}

/// True if ssh's configuration for the host names a connection to share and forwards the agent; also true if
/// that can't be determined.
fn may_share_an_agent(login: &LoginOptions, host: &OsStr) -> bool {
    let plain = LoginOptions { keeps_agent: false, ..login.clone() };
    let settings = plain.ssh().and_then(|words| settings(&words, &bare_host(host)));
    settings.is_none_or(|settings| !settings.contains("forwardagent ") || shares_agent(&settings))
}

/// The output of `ssh -G` for a host: the configuration that follows from the command line `words` and ssh's files;
/// `None` if ssh fails.
pub fn settings(words: &[OsString], host: &OsStr) -> Option<String> {
    let (program, options) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(options).arg("-G").arg("--").arg(host).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// True if the settings (the output of `ssh -G`) share a connection that forwards the agent.
fn shares_agent(settings: &str) -> bool {
    let of = |name: &str| settings.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let forwards = of("forwardagent").is_none_or(|value| value != "no");
    forwards && of("controlpath").is_some_and(|path| path != "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shared_connection_that_forwards_the_agent_is_avoided() {
        for (settings, shares) in [
            ("forwardagent yes\ncontrolpath /c/%C\n", true),
            ("controlpath /c/%C\nforwardagent /run/agent\n", true),
            ("forwardagent no\ncontrolpath /c/%C\n", false),
            ("forwardagent yes\ncontrolpath none\n", false),
            ("forwardagent yes\n", false),
        ] {
            assert_eq!(shares_agent(settings), shares, "{settings}");
        }
    }
}
