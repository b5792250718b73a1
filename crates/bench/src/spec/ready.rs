//! Ready-made settings of network ports. Studies can use them as factors without defining commands.

use super::study::SettingSpec;
use super::template::{Names, Word};

/// A setting's name, and its shell commands. `$1` is the interface; in `write`, `$2` is the value.
struct ReadySetting {
    name: &'static str,
    read: &'static str,
    write: &'static str,
}

/// A shell command that prints the value of one line of the output of `ethtool -k` or `ethtool -c`.
macro_rules! shown {
    ($option:literal, $line:literal) => {
        concat!(
            "v=$(ethtool ", $option, " \"$1\") || exit 1; v=$(echo \"$v\" | sed -n 's/^",
            $line,
            ":[[:space:]]*\\([^[:space:]]*\\).*/\\1/p'); [ -n \"$v\" ] && [ \"$v\" != n/a ] || { echo \"$1 has no ",
            $line,
            "\" >&2; exit 1; }; echo \"$v\""
        )
    };
}

macro_rules! offload {
    ($name:literal, $line:literal, $key:literal) => {
        ReadySetting {
            name: $name,
            read: shown!("-k", $line),
            write: concat!("ethtool -K \"$1\" ", $key, " \"$2\""),
        }
    };
}

/// Shell commands that read the queues in use, which `ethtool -l` prints last. A driver has combined queues,
/// or separate receive queues.
const QUEUES: &str = "all=$(ethtool -l \"$1\") || exit 1; now=$(echo \"$all\" | sed '1,/^Current/d'); \
    n=$(echo \"$now\" | sed -n 's/^Combined:[[:space:]]*\\([1-9][0-9]*\\).*/\\1/p'); k=combined; \
    [ -n \"$n\" ] || { k=rx; n=$(echo \"$now\" | sed -n 's/^RX:[[:space:]]*\\([0-9]*\\).*/\\1/p'); }";
const QUEUES_END: &str = "[ -n \"$n\" ] || { echo \"$1 states no queues\" >&2; exit 1; }; echo \"$n\"";
const QUEUES_WRITE: &str = "if [ $k = combined ]; then ethtool -L \"$1\" combined \"$2\"; \
    else ethtool -L \"$1\" rx \"$2\" tx \"$2\"; fi";

/// Shell commands that list the interrupts of a port: those of its device, or those with its name.
const INTERRUPTS: &str = "l=$(ls \"/sys/class/net/$1/device/msi_irqs\" 2>/dev/null); \
    [ -n \"$l\" ] || l=$(grep -w \"$1\" /proc/interrupts | sed 's/^ *\\([0-9]*\\):.*/\\1/'); \
    [ -n \"$l\" ] || { echo \"$1 has no interrupts of its own\" >&2; exit 1; }";

const READY: [ReadySetting; 6] = [
    ReadySetting {
        name: "mtu",
        read: "ip -o link show dev \"$1\" | sed 's/.* mtu \\([0-9]*\\) .*/\\1/'",
        write: "ip link set dev \"$1\" mtu \"$2\"",
    },
    offload!("offload-gro", "generic-receive-offload", "gro"),
    offload!("offload-gso", "generic-segmentation-offload", "gso"),
    offload!("offload-tso", "tcp-segmentation-offload", "tso"),
    offload!("offload-lro", "large-receive-offload", "lro"),
    ReadySetting {
        name: "coalesce-rx-usecs",
        read: shown!("-c", "rx-usecs"),
        write: "ethtool -C \"$1\" rx-usecs \"$2\"",
    },
];

/// The names of the ready-made settings.
pub(crate) fn names<'n>() -> impl Iterator<Item = &'n str> {
    READY.iter().map(|ready| ready.name).chain(["port-queues", "irq-affinity"])
}

/// The ready-made setting with this name, at these hosts; `None` if there is none.
pub(crate) fn ready(name: &str, hosts: &[String]) -> Option<SettingSpec> {
    let (read, write) = match name {
        "port-queues" => (format!("{QUEUES}; {QUEUES_END}"), format!("{QUEUES}; {QUEUES_WRITE}")),
        // The value is one list for all interrupts, or a list for each interrupt, separated by spaces.
        "irq-affinity" => (
            format!(
                "{INTERRUPTS}; v=$(for i in $l; do cat /proc/irq/$i/smp_affinity_list || exit 1; done) || exit 1; \
                 u=$(echo \"$v\" | sort -u); case $u in *\"\n\"*) echo $v ;; *) echo $u ;; esac"
            ),
            format!(
                "{INTERRUPTS}; w=$2; set -- $w; for i in $l; do echo \"$1\" > /proc/irq/$i/smp_affinity_list || exit 1; \
                 [ $# -eq 1 ] || shift; done"
            ),
        ),
        name => {
            let found = READY.iter().find(|ready| ready.name == name)?;
            (found.read.to_owned(), found.write.to_owned())
        }
    };
    // ethtool and similar tools are in directories that an ordinary PATH lacks.
    let words = |script: String, rest: &[&str]| {
        let line = format!("PATH=$PATH:/usr/sbin:/sbin; {script}").replace('{', "{{").replace('}', "}}");
        let words = ["sh", "-c", &line, "sh"].into_iter().chain(rest.iter().copied());
        words.map(|word| Word::parse_with(word, &Names::of_setting())).collect::<Result<Vec<_>, _>>().ok()
    };
    Some(SettingSpec {
        name: name.to_owned(),
        hosts: hosts.to_owned(),
        read: words(read, &["{interface}"])?,
        write: words(write, &["{interface}", "{value}"])?,
        optional: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_setting() {
        for name in names() {
            let setting = ready(name, &["a".into()]).unwrap();
            assert!(setting.write.iter().any(|word| word.mentions("value")), "{name}");
            assert!(setting.read.iter().any(|word| word.mentions("interface")), "{name}");
        }
    }

    /// Every command works in a POSIX shell, and reports that a port lacks the property.
    #[test]
    fn the_loopback_has_no_queues_and_no_interrupts() {
        use std::process::Command;
        let mut values = crate::spec::Values::default();
        values.insert("interface", crate::spec::template::one("lo"));
        values.insert("value", crate::spec::template::one("1"));
        for (name, reason) in [("irq-affinity", "has no interrupts of its own"), ("port-queues", "")] {
            let setting = ready(name, &["a".into()]).unwrap();
            for words in [&setting.read, &setting.write] {
                let argv = crate::spec::template::expand(words, &values).unwrap();
                let done = Command::new(&argv[0]).args(&argv[1..]).output().unwrap();
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(!done.status.success() && said.contains(reason), "{name}: {done:?}");
                assert!(!said.contains("yntax"), "{said}");
            }
        }
        assert_eq!(ready("speed", &["a".into()]), None);
    }
}
