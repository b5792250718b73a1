//! The account that logs in to the far host: the user who runs the lab.

use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::tool;

/// The name of the user who runs this program.
pub(crate) fn user_name() -> Result<String, LabError> {
    // id(1) uses every source of accounts that the system has, not only /etc/passwd.
    tool::output(std::process::Command::new("id").arg("-un")).map(|name| name.trim().to_owned())
}

/// True if the shadow file locks this account ("!" before the password). sshd then refuses even a key, unless
/// PAM decides. If the file can't be read, the account counts as not locked.
pub(crate) fn is_locked(user: &str) -> bool {
    let shadow = std::fs::read_to_string("/etc/shadow").unwrap_or_default();
    let password = line_of(&shadow, user).and_then(|line| line.split(':').nth(1));
    password.is_some_and(|password| password.starts_with('!'))
}

/// The account database, in which this user's line is changed so that sshd admits the user by key: the password field
/// is `*`, and the login shell exists. A user without a line gets one.
pub(crate) fn admitting_passwd(passwd: &str, user: &str, ids: (u32, u32), home: &str) -> String {
    let own = line_of(passwd, user)
        .map(|line| line.split(':').collect::<Vec<_>>())
        .filter(|fields| fields.len() == 7);
    let (id, group) = (ids.0.to_string(), ids.1.to_string());
    let fallback = vec![user, "*", &id, &group, "", home, "/bin/sh"];
    let mut fields = own.unwrap_or(fallback);
    fields[1] = "*";
    if !is_login_shell(fields[6]) {
        fields[6] = "/bin/sh";
    }
    let others = passwd.lines().filter(|line| line.split(':').next() != Some(user));
    others.chain([fields.join(":").as_str()]).map(|line| format!("{line}\n")).collect()
}

/// A shadow file with only this user: no password, not locked, no expiry.
pub(crate) fn admitting_shadow(user: &str) -> String {
    format!("{user}:*:::::::\n")
}

/// root's standard search path on Debian (login.defs); sshd's own default is shorter.
pub(crate) fn search_path() -> &'static str {
    // An ordinary user also gets root's search path, because users of a lab need ip, tc and ss.
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

fn line_of<'a>(database: &'a str, user: &str) -> Option<&'a str> {
    database.lines().find(|line| line.split(':').next() == Some(user))
}

fn is_login_shell(shell: &str) -> bool {
    let path = PathBuf::from(shell);
    let refuses = path.file_name().is_some_and(|name| name == "nologin" || name == "false");
    !refuses && Path::new(shell).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

    #[test]
    fn a_user_without_a_shell_gets_one_and_others_stay() {
        let made = admitting_passwd(PASSWD, "nobody", (65534, 65534), "/");
        assert_eq!(made, "root:x:0:0:root:/root:/bin/sh\nnobody:*:65534:65534:nobody:/nonexistent:/bin/sh\n");
    }

    #[test]
    fn a_user_without_a_line_or_with_a_torn_one_gets_a_whole_one() {
        let made = admitting_passwd(PASSWD, "eve", (12345, 7), "/home/eve");
        assert!(made.ends_with("eve:*:12345:7::/home/eve:/bin/sh\n"), "{made}");
        assert_eq!(admitting_passwd("eve:x:1\n", "eve", (1, 2), "/h"), "eve:*:1:2::/h:/bin/sh\n");
    }

    #[test]
    fn a_name_that_begins_another_is_not_it() {
        assert_eq!(line_of("rooty:a\nroot:b\n", "root"), Some("root:b"));
    }
}
