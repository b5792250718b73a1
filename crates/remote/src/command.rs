//! How the agent is called at the far end: as it is found there, or by a command of the user's, such as
//! `sudo linerate`.

/// The user's command around the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCommand {
    /// The words before the agent, with the space behind them; part of a shell's line.
    before: String,
    /// The path of linerate at the far end, quoted; `None`: the agent that is found or copied there.
    path: Option<String>,
    /// The agent's environment doesn't name an ssh agent.
    without_ssh_agent: bool,
}

impl AgentCommand {
    /// Reads a shell's line. Its last word must be linerate, or `also`: the name of the program whose command line this
    /// program takes.
    ///
    /// # Errors
    /// A message if the line ends in another word, or contains characters that far shells read differently.
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
            return Err(format!(
                "'{line}': its last word must be {names}linerate, in whose place the agent is called"
            ));
        }
        // A path to another program can't be used: that program doesn't speak our protocol.
        let path = (name != last && !is_other).then(|| last.to_owned());
        Ok(Self { before: before.to_owned(), path, without_ssh_agent: false })
    }

    /// This command, but its environment doesn't name an ssh agent. A connection that several logins share may have one.
    #[must_use]
    pub fn without_ssh_agent(self) -> Self {
        Self { without_ssh_agent: true, ..self }
    }

    /// The beginning of the line, before any other process starts.
    pub fn beginning(&self) -> &'static str {
        if self.without_ssh_agent { "unset SSH_AUTH_SOCK; " } else { "" }
    }

    /// The user's line, as [`Self::parse`] takes it.
    pub fn line(&self) -> String {
        format!("{}{}", self.before, self.path.as_deref().unwrap_or("linerate"))
    }

    /// True if the user gave no command of their own.
    pub fn is_usual(&self) -> bool {
        self.before.is_empty() && self.path.is_none()
    }

    /// The path of the agent to call, if the user named one; else the agent is found or copied.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// A shell's command that executes a program with the shell's own arguments.
    pub fn call_with_words(&self, program: &str) -> String {
        match self.before.as_str() {
            "" => format!("exec {program} \"$@\""),
            before => format!("{before}{program} \"$@\"; exit"),
        }
    }

    /// A shell's line, within single quotes, that executes the agent, or ends when the agent ends.
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
