//! The command that calls the agent at the far end. Usually the command only calls the agent that is found or copied
//! there; the user may give another command, such as `sudo linerate`.

/// The command that calls the agent at the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCommand {
    /// The words before the agent, with the space after these words, as part of a shell's command line.
    before: String,
    /// The quoted path of linerate at the far end; `None` means the agent that is found or copied there.
    path: Option<String>,
    /// True if the variable that names an ssh agent is removed from the agent's environment.
    without_ssh_agent: bool,
}

impl AgentCommand {
    /// Parses a command line for a shell. The last word of the line must be linerate or the path of linerate; or
    /// `also`, the name of the program in whose place this program was called (such as rsync).
    ///
    /// # Errors
    /// A message, if the line ends in another word, or contains characters that not all far shells read in the same
    /// way.
    pub fn parse(line: &str, also: Option<&str>) -> Result<Self, String> {
        let line = line.trim();
        if let Some(unfit) = line.chars().find(|c| c.is_control() || "\\!".contains(*c)) {
            return Err(format!(
                "{line:?}: far shells don't agree on {unfit:?}; use a script at the far end"
            ));
        }
        let start = line.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let (before, last) = line.split_at(start);
        let name = last.rsplit('/').next().unwrap_or(last);
        let is_whole =
            shlex::split(line).is_some() && shlex::split(last).is_some_and(|words| words == [last]);
        let is_other = also == Some(name);
        if !is_whole || !(name == "linerate" || is_other) {
            let names = also.map_or_else(String::new, |also| format!("{also} or "));
            return Err(format!("'{line}': the last word must be {names}linerate, which the agent replaces"));
        }
        // A path to another program can't be used, because that program doesn't speak this program's protocol.
        let path = (name != last && !is_other).then(|| last.to_owned());
        Ok(Self { before: before.to_owned(), path, without_ssh_agent: false })
    }

    /// This command, but the variable that names an ssh agent is removed from the environment of linerate's agent. If
    /// several logins share a connection, that variable may be set although this login forwards no ssh agent.
    #[must_use]
    pub fn without_ssh_agent(self) -> Self {
        Self { without_ssh_agent: true, ..self }
    }

    /// The beginning of the far shell's command line, which has its effect before any other process starts.
    pub fn beginning(&self) -> &'static str {
        if self.without_ssh_agent { "unset SSH_AUTH_SOCK; " } else { "" }
    }

    /// The user's command line, in the form that [`Self::parse`] accepts.
    pub fn line(&self) -> String {
        format!("{}{}", self.before, self.path.as_deref().unwrap_or("linerate"))
    }

    /// True if the user gave no command.
    pub fn is_usual(&self) -> bool {
        self.before.is_empty() && self.path.is_none()
    }

    /// The path of the agent to call, if the user named a path; `None` if the agent is found or copied.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// A shell command that executes `program` with the arguments of the shell.
    pub fn call_with_words(&self, program: &str) -> String {
        match self.before.as_str() {
            "" => format!("exec {program} \"$@\""),
            before => format!("{before}{program} \"$@\"; exit"),
        }
    }

    /// A shell command that executes `agent` in place of the shell, or ends the shell when `agent` ends. The command is
    /// for use inside single quotes.
    pub fn call(&self, agent: &str) -> String {
        match self.before.as_str() {
            "" => format!("exec {agent} agent"),
            before => format!("{}{agent} agent; exit", before.replace('\'', "'\\''")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str, also: Option<&str>) -> Result<String, String> {
        AgentCommand::parse(line, also).map(|command| command.call(command.path().unwrap_or("A")))
    }

    #[test]
    fn the_last_word_makes_way_for_the_agent() {
        for (line, called) in [
            ("linerate", "exec A agent"),
            ("rsync", "exec A agent"),
            ("/usr/local/bin/rsync", "exec A agent"),
            ("sudo rsync", "sudo A agent; exit"),
            ("sudo -u 'the other' /opt/rsync", r"sudo -u '\''the other'\'' A agent; exit"),
            ("ionice -c3 nice rsync", "ionice -c3 nice A agent; exit"),
            ("cd /x && rsync", "cd /x && A agent; exit"),
            ("sudo /opt/linerate", "sudo /opt/linerate agent; exit"),
            ("~/bin/linerate", "exec ~/bin/linerate agent"),
        ] {
            assert_eq!(call(line, Some("rsync")).as_deref(), Ok(called), "{line}");
        }
        assert!(AgentCommand::parse("rsync", Some("rsync")).unwrap().is_usual());
        for line in ["", "sudo", "rsync --fake", "sudo 'x rsync", "sudo rsync\nrm", "a\\ b rsync", "$(rsync"]
        {
            assert!(call(line, Some("rsync")).is_err(), "{line}");
        }
        assert!(call("sudo rsync", None).unwrap_err().contains("must be linerate"));
    }
}
