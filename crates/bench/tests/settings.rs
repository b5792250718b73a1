//! Tests of the settings in the built-in studies, on interfaces of a separate network namespace.

use std::ffi::OsString;
use std::process::{Child, Command, Output, Stdio};

use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::Toolbox;
use linerate_bench::spec::{Value, Values, Word};
use linerate_testing::{has_all, is_root};

/// A network namespace that ends with its single process.
struct Namespace(Child);

impl Namespace {
    /// Makes a namespace with two interfaces of two queues each. If that is impossible, returns `None` and
    /// prints the reason.
    fn with_queues() -> Option<Namespace> {
        if !is_root("a network namespace needs root") || !has_all(&["unshare", "nsenter", "ip"]) {
            return None;
        }
        let script = "ip link add v0 numrxqueues 2 numtxqueues 2 type veth peer name v1 numrxqueues 2 numtxqueues 2 && \
                      echo ready && exec sleep 60";
        let mut process = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(process.stdout.take().unwrap()), &mut ready)
            .unwrap();
        assert_eq!(ready, "ready\n");
        Some(Namespace(process))
    }

    fn run(&self, words: &[Word], value: &str) -> String {
        let done = self.output(words, value);
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn output(&self, words: &[Word], value: &str) -> Output {
        let mut values = Values::default();
        values.insert("value", Value::One(value.into()));
        let argv: Vec<OsString> = words.iter().flat_map(|word| word.expand(&values).unwrap()).collect();
        let net = format!("--net=/proc/{}/ns/net", self.0.id());
        Command::new("nsenter").arg(net).args(argv).output().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The process would also end by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_backlog_is_set_and_ports_without_interrupts_say_so() {
    let Some(namespace) = Namespace::with_queues() else { return };
    let (file, text) = Study::built_in("workers").unwrap();
    let study = Study::parse(file, text, &Toolbox::built_in().unwrap()).unwrap();
    let setting = |name: &str| study.settings.iter().find(|setting| setting.name == name).unwrap();
    let backlog = setting("backlog");
    let before = namespace.run(&backlog.read, "");
    namespace.run(&backlog.write, "77");
    assert_eq!(namespace.run(&backlog.read, ""), "77");
    namespace.run(&backlog.write, &before);
    assert_eq!(namespace.run(&backlog.read, ""), before);
    let done = namespace.output(&setting("irqs").read, "");
    let reported = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && reported.contains("no port here has interrupts"), "{done:?}");
}

#[test]
fn receive_packet_steering_becomes_what_it_was_queue_by_queue() {
    let Some(namespace) = Namespace::with_queues() else { return };
    let (file, text) = Study::built_in("workers").unwrap();
    let study = Study::parse(file, text, &Toolbox::built_in().unwrap()).unwrap();
    let rps = study.settings.iter().find(|setting| setting.name == "rps").unwrap();
    assert_eq!(namespace.run(&rps.read, ""), "0");
    for (queue, mask) in ["1", "0", "3", "2"].iter().enumerate() {
        let path = format!("/sys/class/net/v{}/queues/rx-{}/rps_cpus", queue / 2, queue % 2);
        let script = format!("mount -t sysfs sysfs /sys; echo {mask} > {path}");
        let words = ["unshare", "--mount", "sh", "-c", &script].map(|word| Word::parse(word).unwrap());
        namespace.run(&words, "");
    }
    let before = namespace.run(&rps.read, "");
    assert_eq!(before, "1 0 3 2");
    namespace.run(&rps.write, "3");
    assert_eq!(namespace.run(&rps.read, ""), "3");
    namespace.run(&rps.write, &before);
    assert_eq!(namespace.run(&rps.read, ""), before);
}
