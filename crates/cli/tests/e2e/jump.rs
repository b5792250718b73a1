//! Tests with a jump host: only the lab's far host reaches the far end, so the data goes through ssh too.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_lab::End;
use rustix::process::Signal;

use crate::bed::{Case, args, case};
use crate::support::{Running, within};
use crate::tree::{assert_alike, make_mixed};

const PORT: u16 = 2222;

/// An ssh server on host b that listens only on its loopback, and the ssh configuration in which it is
/// `inner`.
struct Inner {
    server: Running,
    config: PathBuf,
    log: PathBuf,
}

impl Inner {
    fn start(case: &Case) -> Self {
        let lab = case.bed.lab.ssh_config();
        let directory = case.aside("inner");
        let server = fs::read_to_string(lab.with_file_name("sshd_config")).expect("the lab has made it");
        let kept =
            server.lines().filter(|line| !line.starts_with("ListenAddress") && !line.starts_with("Port"));
        let text: String = kept.map(|line| format!("{line}\n")).collect();
        let (settings, config, log) =
            (directory.join("sshd_config"), directory.join("ssh_config"), directory.join("log"));
        fs::write(&settings, format!("Port {PORT}\nListenAddress 127.0.0.1\n{text}")).expect("writable");
        let host = format!("Host inner\n    HostName 127.0.0.1\n    Port {PORT}\n");
        let lab = fs::read_to_string(lab).expect("the lab has made it");
        fs::write(&config, host + &lab).expect("writable");
        let words = args!["/usr/sbin/sshd", "-D", "-E", &log, "-f", &settings];
        let server = Running::start(case.bed.lab.place(End::B).command(&words).expect("well-formed"));
        let inner = Self { server, config, log };
        assert!(within(Duration::from_secs(10), || inner.said("Server listening")), "{}", inner.words());
        inner
    }

    fn words(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn said(&self, words: &str) -> bool {
        self.words().contains(words)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.server.signal(Signal::TERM);
    }
}

fn inner(path: &Path) -> String {
    format!("inner:{}", path.display())
}

#[test]
fn a_tree_goes_through_a_jump_host_and_back() {
    let Some(case) = case() else { return };
    let inner_end = Inner::start(&case);
    let (tree, to) = (case.near.join("tree"), case.far.join("to"));
    make_mixed(&tree);
    let cp = |jump: &[&str], from: String, to: String| {
        let mut words = args![case.bed.program(), "cp", "-F", &inner_end.config];
        words.extend(jump.iter().map(std::ffi::OsString::from));
        case.start_with(words, args!["-v", "-r", from, to]).end()
    };
    let refused = cp(&[], "tree".into(), inner(&to));
    assert_eq!(refused.code, Some(5), "it can be reached without the jump host: {refused}");
    cp(&["-J", "b"], "tree".into(), inner(&to)).exits(0).says(&["data connection: through ssh"]);
    assert_alike(&tree, &to);
    cp(&["-J", "b"], inner(&to), "back".into()).exits(0);
    assert_alike(&tree, &case.near.join("back"));
    assert!(inner_end.said("Accepted publickey"), "nobody logged in there: {}", inner_end.words());
}
