//! Tests of `linerate bench --hosts`, in which a lab's hosts represent two real hosts.
//!
//! All tests need root and the distribution's ssh; without these they print a line and pass.

#[path = "support/mod.rs"]
mod support;

use std::fs;
use std::process::Command;
use std::sync::Mutex;

use linerate_testing::{has_all, is_root};
use serde_json::Value;
use support::{Run, Running};
use tempfile::TempDir;

/// A study with everything that involves two hosts: memory, files in one and in two slices, a server at the
/// far end, a tool that needs an environment variable, and a setting at each host.
const STUDY: &str = r#"
name = "between"
title = "Two hosts"
settle = "0 s"
blocks = 1

[[link]]
name = "path"
rate = "open"

[[dataset]]
name = "tree"
kind = "log-normal"
size = "3 MB"
mean = "100 KB"

[[setting]]
name = "knob"
hosts = ["a", "b"]
read = ["cat", "KNOB"]
write = ["sh", "-c", 'echo "$1" > KNOB; echo "$1 $SSH_CONNECTION" >> KNOB.log', "sh", "{value}"]

[[case]]
id = "memory"
tool = "linerate-stream"
streams = 2
with = { seconds = 1 }

[[case]]
id = "cp"
tool = "linerate-cp"
beside = "rr"

[[case]]
id = "scp-{streams}"
tool = "scp"
streams = [1, 2]

[[case]]
id = "server"
tool = "talks"
[case.with]
knob = "right"
"#;

/// A server that continues after its connection is closed unless it is killed, and a client that needs its
/// environment.
const TALKS: &str = r#"
name = "talks"
moves = "nothing"
command = ["bash", "-c", "[ \"$WORD\" = 'two words' ] && exec 3<>/dev/tcp/{address}/22 && head -c 4 <&3"]
[environment]
WORD = "two words"
[server]
command = ["sh", "-c", "echo ready; exec sleep 7531"]
ready = "ready"
"#;

/// A script that starts an ssh server at host a, whose users have separate home directories in `$PWD/homes`,
/// and writes an ssh configuration for both hosts.
const SERVER_AT_A: &str = r#"
lab=$(dirname "$LINERATE_LAB_SSH_CONFIG"); mkdir -p homes/a/.ssh
echo "Include $LINERATE_LAB_SSH_CONFIG" > homes/a/.ssh/config
sed -e '/^ListenAddress/d' -e "s#^SetEnv .*#& HOME=$PWD/homes/a#" "$lab/sshd_config" > sshd_a
echo "ListenAddress $LINERATE_LAB_ADDRESS_A" >> sshd_a
printf 'Include %s\nHost a\n    HostName %s\n' "$LINERATE_LAB_SSH_CONFIG" "$LINERATE_LAB_ADDRESS_A" > both
$(command -v sshd || echo /usr/sbin/sshd) -D -e -f "$PWD/sshd_a" 2> sshd_a.log & server=$!
until grep -q listening sshd_a.log; do kill -0 $server || exit 99; sleep 0.1; done
"#;

/// Held by each test, since each checks for remains on this machine; so only one study runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A script that prints the remains of a study at its hosts on standard error. Data of a study that is still
/// running isn't counted.
const LEFT: &str = r#"
for left in /dev/shm/linerate-data-*; do
  owner=${left#*linerate-data-}
  [ ! -e $left ] || kill -0 ${owner%%-*} 2>/dev/null || echo left behind: $left >&2
done
pgrep -f 'sleep 753[1]' >&2
"#;

/// A directory with the study and its tool, for its results. If no lab can be made, prints the reason and
/// returns `None`.
fn desk() -> Option<TempDir> {
    if !is_root("a lab with an ssh server at both hosts needs root") || !has_all(&["sshd", "scp"]) {
        return None;
    }
    let desk = support::directory("linerate-hosts-");
    let at = |path: &str| desk.path().join(path);
    fs::create_dir(at("tools")).expect("a new directory");
    fs::write(at("tools/talks.toml"), TALKS).expect("a new file");
    fs::write(at("knob"), "left\n").expect("a new file");
    let knob = at("knob");
    fs::write(at("between.toml"), STUDY.replace("KNOB", knob.to_str().expect("plain"))).expect("a new file");
    Some(desk)
}

/// Links that two plain ports can replace, and links that they can't. The ports have no shaper.
const LINKS: &str = r#"
name = "between"
title = "Links"
settle = "0 s"
blocks = 1
[[link]]
name = "one"
rate = "10gbit"
[[link]]
name = "two"
rate = "10gbit"
count = 2
[[link]]
name = "eight"
rate = "10gbit"
count = 8
[[link]]
name = "guests"
rate = "10gbit"
guests = 8
[[link]]
name = "queues"
rate = "10gbit"
queues = 16
[[case]]
id = "pairs-{link}"
tool = "linerate-pairs"
streams = 4
link = ["one", "two", "eight", "guests", "queues"]
with = { seconds = 1, ramp = 0.1 }
"#;

/// A study with a load generator of each kind.
const GENERATORS: &str = r#"
name = "between"
title = "Generators"
settle = "0 s"
blocks = 1
[[link]]
name = "one"
rate = "10gbit"
[[case]]
id = "pairs-six"
tool = "linerate-pairs"
with = { seconds = 1, ramp = 0.1 }
[[case]]
id = "{tool}-six"
tool = "iperf3"
with = { seconds = 1 }
[[case]]
id = "{tool}-six"
tool = "nuttcp"
with = { seconds = 1 }
[[case]]
id = "{tool}-six"
tool = "linerate-rr"
with = { seconds = 1, ramp = 0.1 }
[[case]]
id = "{tool}-six"
tool = "linerate-http"
with = { seconds = 1, ramp = 0.1, users = 4 }
[[case]]
id = "{tool}-six"
tool = "linerate-http-nginx"
with = { seconds = 1, ramp = 0.1, users = 4 }
[[case]]
id = "{tool}-six"
tool = "linerate-tile"
with = { seconds = 1, ramp = 0.1, tiles = 1 }
"#;

/// A script that adds IPv6 addresses to the first port of both hosts.
const SIX: &str = "ip addr add fd77::1/64 dev $(ip -o -4 addr | grep -F \" $LINERATE_LAB_ADDRESS_A/\" | awk '{print $2}') nodad
far=$(ip netns exec $LINERATE_LAB_NETNS_B ip -o -4 addr | grep -F \" $LINERATE_LAB_ADDRESS_B/\" | awk '{print $2}')
ip netns exec $LINERATE_LAB_NETNS_B ip addr add fd77::2/64 dev $far nodad
";

/// Runs a shell script on a lab's near host. In the script, `BENCH` is replaced by this program and the
/// study.
fn on_lab(desk: &TempDir, lab: &[&str], script: &str) -> Run {
    let linerate = env!("CARGO_BIN_EXE_linerate");
    let bench = format!("{linerate} bench between.toml --tools tools --out out --json");
    let mut command = Command::new(linerate);
    command.args(["lab", "run"]).args(lab).args(["--", "sh", "-c", &script.replace("BENCH", &bench)]);
    command.current_dir(desk.path()).env("XDG_CACHE_HOME", desk.path().join("cache"));
    Running::start(command).end_within(2 * support::PATIENCE)
}

/// The record of a study; checks its output and that nothing was left behind.
#[track_caller]
fn record_of(desk: &TempDir, run: &Run) -> Value {
    assert_eq!(run.out.lines().count(), 1, "{run}");
    let shown: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run}"));
    let rows = shown["cases"].as_array().expect("a list of cases");
    assert_eq!(rows.len(), 5, "{shown}");
    for row in rows {
        assert!(row["reason"].is_null() && row["failed"] == 0, "{row}");
    }
    assert!(!run.err.contains("left behind: "), "data was left behind: {run}");
    assert!(!run.err.lines().any(|line| line.parse::<u32>().is_ok()), "a server was left behind: {run}");
    assert_eq!(fs::read_to_string(desk.path().join("knob")).expect("it is there"), "left\n");
    for run in stored_lines(desk, "runs.jsonl") {
        let times = run["latency"]["count"].as_u64();
        assert_eq!(times.is_some_and(|count| count > 0), run["case"] == "cp", "{run}");
    }
    stored(desk, "record.json")
}

fn stored(desk: &TempDir, name: &str) -> Value {
    let mut results = fs::read_dir(desk.path().join("out")).expect("results").flatten();
    let path = results.next().expect("one directory of results").path().join(name);
    serde_json::from_slice(&fs::read(path).expect("stored")).expect("JSON")
}

fn stored_lines(desk: &TempDir, name: &str) -> Vec<Value> {
    let mut results = fs::read_dir(desk.path().join("out")).expect("results").flatten();
    let path = results.next().expect("one directory of results").path().join(name);
    let text = fs::read_to_string(path).expect("stored");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_host_here_and_one_over_ssh_are_measured() {
    let Some(desk) = desk() else { return };
    let script = format!(
        "BENCH --hosts a=local,b=ssh:b,switch=ssh:b --rsh \"ssh -F $LINERATE_LAB_SSH_CONFIG\"; code=$?; {LEFT} exit $code"
    );
    let _alone = ALONE.lock();
    let run = on_lab(&desk, &[], &script).exits(0);
    let record = record_of(&desk, &run);
    assert_eq!((&record["shared_processors"], &record["link"]["mtu"]), (&true.into(), &1500.into()));
    // The third host is b's under another name: its port receives what b's does.
    assert_eq!(
        (&record["hosts"][2]["name"], record["hosts"].as_array().map(Vec::len)),
        (&"switch".into(), Some(3))
    );
    for run in stored_lines(&desk, "runs.jsonl") {
        let series = run["series"].as_array().expect("series").iter();
        let of = |host: &str| -> Vec<&str> {
            series.clone().filter(|s| s["host"] == host).filter_map(|s| s["name"].as_str()).collect()
        };
        assert!(of("switch").contains(&"cpu all busy"), "{run}");
        assert!(
            run["case"] != "memory" || of("switch").iter().any(|name| name.ends_with(" received packets")),
            "{run}"
        );
        let recordings = run["recordings"].as_array().expect("recordings");
        assert_eq!(recordings.len(), 3, "{run}");
    }
}

/// The study is run from a third host, which reaches both hosts by ssh.
#[test]
fn two_hosts_over_ssh_are_measured_from_a_third() {
    let Some(desk) = desk() else { return };
    let bench = "ip netns exec $LINERATE_LAB_NETNS_GUESTS env -u LINERATE_LAB_SSH_CONFIG \
                 BENCH --hosts a=ssh:a,b=ssh:root@b --rsh \"ssh -F $PWD/both\"; code=$?";
    let script = format!("{SERVER_AT_A} {bench}; kill $server; {LEFT} exit $code");
    let _alone = ALONE.lock();
    let run = on_lab(&desk, &["--guests", "1"], &script).exits(0);
    let record = record_of(&desk, &run);
    assert_eq!(record["link"]["mtu"], 1500);
    let cache = desk.path().join("homes/a/.cache/linerate");
    assert!(fs::read_dir(cache).is_ok_and(|agents| agents.count() == 1), "a's agent isn't at a");
    // What the knobs' commands saw: each ran where its host's ssh server is.
    let turned = fs::read_to_string(desk.path().join("knob.log")).expect("turned");
    let servers = |value: &str| -> Vec<String> {
        let lines = turned.lines().filter(|line| line.starts_with(value));
        lines.filter_map(|line| line.split(' ').nth(3).map(str::to_owned)).collect()
    };
    let (set, back) = (servers("right"), servers("left"));
    assert!(set.len() >= 2 && set[0] != set[1] && set[0].contains('.'), "{turned}");
    assert!(back.contains(&set[0]) && back.contains(&set[1]), "{turned}");
}

/// A path must not be measured under the name of a link that it can't replace. A veth reports 10 Gbit/s,
/// which doesn't count as a rate.
#[test]
fn a_path_of_two_ports_has_two_links_at_most() {
    let Some(desk) = desk() else { return };
    fs::write(desk.path().join("between.toml"), LINKS).expect("a new file");
    let script = "BENCH --hosts a=local,b=ssh:b --rsh \"ssh -F $LINERATE_LAB_SSH_CONFIG\" \
                  --address-b $(echo $LINERATE_LAB_ADDRESSES_B | tr ' ' ,)";
    let _alone = ALONE.lock();
    let run = on_lab(&desk, &["--links", "2"], script).exits(0);
    let shown: Value = serde_json::from_str(&run.out).expect("JSON");
    for row in shown["cases"].as_array().expect("cases") {
        let (id, reason) = (row["case"]["id"].as_str().expect("an id"), row["reason"].as_str());
        let expected = match id {
            "pairs-eight" => Some("leads to only 2 of b's addresses"),
            "pairs-guests" => Some("has no guests"),
            "pairs-queues" => Some("receive queues at"),
            _ => None,
        };
        match expected {
            Some(part) => assert!(reason.is_some_and(|r| r.contains(part) && r.contains("; ")), "{row}"),
            None if reason.is_some_and(|r| r.contains("isn't installed")) => {}
            None => assert!(reason.is_none() && row["failed"] == 0, "{row}"),
        }
    }
    let record = stored(&desk, "record.json");
    assert!(record["links"][1]["link"]["kind"].as_str().is_some_and(|kind| kind.contains(" + ")), "{record}");
    assert!(record["links"][0]["link"]["bits_per_second"].is_null(), "{}", record["links"]);
    // Both ports carried the pairs.
    let runs = stored_lines(&desk, "runs.jsonl");
    let two = runs.iter().find(|run| run["case"] == "pairs-two").expect("it ran");
    let ports = two["connections"].as_array().expect("connections");
    assert_eq!(ports.len(), 2, "{two}");
}

#[test]
fn every_generator_takes_an_address_of_ipv6() {
    let Some(desk) = desk() else { return };
    fs::write(desk.path().join("between.toml"), GENERATORS).expect("a new file");
    let script = format!(
        "{SIX} BENCH --hosts a=local,b=ssh:b --rsh \"ssh -F $LINERATE_LAB_SSH_CONFIG\" --address-b fd77::2"
    );
    let _alone = ALONE.lock();
    let run = on_lab(&desk, &[], &script).exits(0);
    let shown: Value = serde_json::from_str(&run.out).expect("JSON");
    let rows = shown["cases"].as_array().expect("cases");
    assert_eq!(rows.len(), 7, "{shown}");
    for row in rows {
        let absent = row["reason"].as_str().is_some_and(|reason| reason.contains("isn't installed"));
        assert!(absent || row["reason"].is_null() && row["failed"] == 0, "{row}");
    }
    for run in stored_lines(&desk, "runs.jsonl") {
        for port in run["connections"].as_array().into_iter().flatten() {
            assert!(port["port"].as_str().is_some_and(|port| port.starts_with("[fd77::2]:")), "{run}");
        }
    }
}

/// Ready settings of the port, over ssh as well as here.
const PORTS: &str = r#"
name = "between"
title = "Ports"
settle = "0 s"
blocks = 1
[[link]]
name = "path"
rate = "open"
[[setting]]
name = "mtu"
hosts = "b"
[[case]]
id = "gro-{offload-gro}"
tool = "looks"
with = { offload-gro = ["off", "on"] }
[[case]]
id = "mtu-{mtu}"
tool = "looks"
with = { mtu = [1400, 70000] }
[[case]]
id = "usecs"
tool = "looks"
with = { coalesce-rx-usecs = 50 }
[[case]]
id = "queues-{port-queues}"
tool = "looks"
with = { port-queues = [1, 4096] }
"#;

/// A tool that writes the settings of host b's port to a file.
const LOOKS: &str = r#"
name = "looks"
moves = "nothing"
command = ["ssh", "-F", "{ssh_config}", "{host}", '''PATH=$PATH:/sbin:/usr/sbin
p=$(ip -o -4 addr | grep -F " {address}/" | tr -s " " | cut -d" " -f2)
echo $(ip -o link show $p | sed "s/.* mtu //; s/ .*//") $(ethtool -k $p | grep generic-receive) >> SEEN''']
"#;

/// The state of all ports of both hosts.
const STATE: &str = "for n in $LINERATE_LAB_NETNS_A $LINERATE_LAB_NETNS_B; do
  for p in $(ip netns exec $n ls /sys/class/net); do ip -n $n -o link show $p | sed 's/.* mtu/mtu/'; ip netns exec $n ethtool -k $p; ip netns exec $n ethtool -l $p; done
done 2>&1";

#[test]
fn settings_of_ports_are_set_and_restored() {
    let Some(desk) = desk() else { return };
    if !has_all(&["ethtool"]) {
        return;
    }
    let seen = desk.path().join("seen");
    fs::write(desk.path().join("between.toml"), PORTS).expect("a new file");
    let looks = LOOKS.replace("SEEN", seen.to_str().expect("plain"));
    fs::write(desk.path().join("tools/looks.toml"), looks).expect("a new file");
    let script = format!(
        "({STATE}) > before; BENCH --hosts a=local,b=ssh:b --rsh \"ssh -F $LINERATE_LAB_SSH_CONFIG\" || exit
         ({STATE}) > after; cmp before after >&2"
    );
    let _alone = ALONE.lock();
    let run = on_lab(&desk, &[], &script).exits(0);
    let shown: Value = serde_json::from_str(&run.out).expect("JSON");
    let reason = |id: &str| {
        let mut rows = shown["cases"].as_array().expect("cases").iter();
        let row = rows.find(|row| row["case"]["id"] == id).unwrap_or_else(|| panic!("{shown}"));
        row["reason"].as_str().unwrap_or_default().to_owned()
    };
    for measured in ["gro-off", "gro-on", "mtu-1400", "queues-1"] {
        assert_eq!(reason(measured), "", "{measured}");
    }
    // The kernel's own words.
    assert!(reason("mtu-70000").contains("mtu greater than device maximum"), "{}", reason("mtu-70000"));
    assert!(reason("queues-4096").contains("setting port-queues to \"4096\""), "{}", reason("queues-4096"));
    assert!(reason("usecs").contains("reading coalesce-rx-usecs"), "{}", reason("usecs"));
    let seen = fs::read_to_string(seen).expect("it looked");
    assert!(seen.contains("1400 ") && seen.contains("receive-offload: off"), "{seen}");
    assert!(fs::metadata(desk.path().join("before")).expect("it is there").len() > 1000);
}

/// A firewall, a login that asks a question and a full disk are reported at once, with the tools that they
/// affect.
#[test]
fn a_path_that_does_not_carry_the_study_is_reported_before_it() {
    let Some(desk) = desk() else { return };
    let _alone = ALONE.lock();
    let hosts = "--hosts a=local,b=ssh:b --rsh \"ssh -F $LINERATE_LAB_SSH_CONFIG\"";
    // Packets to this address reach host b, which doesn't answer.
    let lost = "ip route add 10.99.99.9 via $LINERATE_LAB_ADDRESS_B";
    let run = on_lab(&desk, &[], &format!("{lost}; BENCH {hosts} --address-b 10.99.99.9")).exits(1);
    let run = run.says(&["doesn't answer a on TCP port 4200, which", "talks", "--address-b"]);
    assert!(run.time < std::time::Duration::from_secs(40), "{run}");
    let run = on_lab(&desk, &[], &format!("BENCH {hosts} --size 900TB")).exits(1);
    run.says(&["a has ", " free in ", "1.80 PB", "--size"]);
    // Host a's own ssh configuration names a key that doesn't exist.
    let own = "sed 's/IdentityFile .*/IdentityFile none/' $LINERATE_LAB_SSH_CONFIG > own";
    let wrong = "--hosts a=local,b=netns:$(readlink -f /run/netns/$LINERATE_LAB_NETNS_B) --address-b $LINERATE_LAB_ADDRESS_B";
    let run = on_lab(&desk, &[], &format!("{own}; BENCH {wrong} --rsh \"ssh -F $PWD/own\"")).exits(1);
    run.says(&["a can't log in to b as", "linerate-cp, linerate-stream, scp", "without questions"]);
}
