//! Exports a plan as a Kubernetes Job, with the volumes that its tasks need.

use anyhow::{bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::export::{ExportedTask, JobShape};
use crate::plan::FleetPlan;

/// A directory that a task needs, which is mounted as a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobPlace {
    /// The plan's directory.
    Plan,
    /// The source directory.
    Source,
    /// The destination directory, if it isn't on another host.
    Destination,
}

/// The kind of volume that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobVolume {
    /// A PersistentVolumeClaim with this name.
    Claim(String),
    /// A directory with this path on each node.
    Node(String),
}

/// The volumes that the user chose, by place.
pub type JobVolumes = BTreeMap<JobPlace, JobVolume>;

impl JobPlace {
    /// All places that can be volumes.
    const ALL: [Self; 3] = [Self::Plan, Self::Source, Self::Destination];

    /// The name of the place in options and volumes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Source => "source",
            Self::Destination => "destination",
        }
    }

    /// The path at which the volume is mounted in a task's container, which is the path in the plan.
    fn path<'a>(self, task: &'a ExportedTask, plan: &'a FleetPlan) -> &'a str {
        match self {
            Self::Plan => &task.plan,
            Self::Source => &plan.source,
            Self::Destination => &plan.destination,
        }
    }

    /// Kubernetes's type of the directory, if the volume is a directory of each node.
    fn kind(self) -> &'static str {
        if self == Self::Destination { "DirectoryOrCreate" } else { "Directory" }
    }

    /// Parses `PLACE=CLAIM` or `PLACE=/PATH`, the value of the user's option.
    ///
    /// # Errors
    /// A message if there is no such place, or Kubernetes accepts no such volume.
    pub fn parse(text: &str) -> Result<(Self, JobVolume), String> {
        let (place, volume) =
            text.split_once('=').ok_or("write plan=CLAIM, or plan=/PATH for a directory of each node")?;
        let place = Self::ALL.into_iter().find(|one| one.name() == place);
        let place = place.ok_or("the volumes are plan, source and destination")?;
        if volume.starts_with('/') {
            let is_plain = volume.split('/').all(|part| part != "..");
            return is_plain
                .then(|| (place, JobVolume::Node(volume.to_owned())))
                .ok_or_else(|| "write the path without ..".to_owned());
        }
        // By RFC 1123, a name consists of labels that are separated by dots.
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_label = |label: &str| {
            label.starts_with(is_inner)
                && label.ends_with(is_inner)
                && label.chars().all(|c| is_inner(c) || c == '-')
        };
        let is_name = volume.len() <= 253 && volume.split('.').all(is_label);
        is_name.then(|| (place, JobVolume::Claim(volume.to_owned()))).ok_or_else(|| {
            "a claim's name has lower-case letters, digits, dashes and dots; a path begins with a slash"
                .to_owned()
        })
    }
}

/// An indexed Job of Kubernetes, as JSON, which `kubectl apply -f -` takes. Each directory that a task uses has a
/// volume: the one in `volumes`, or if there is none, the claim `linerate-plan`, `linerate-source` or
/// `linerate-destination`. If the destination is on other hosts, the tasks get the files of ~/.ssh from the secret
/// `linerate-ssh`.
///
/// # Errors
/// If a directory can't be mounted, or a word of the command has a zero byte.
pub fn kubernetes_job(
    task: &ExportedTask,
    shape: &JobShape,
    image: &str,
    plan: &FleetPlan,
    volumes: &JobVolumes,
) -> anyhow::Result<String> {
    let (mounts, volumes): (Vec<_>, Vec<_>) = mounts(task, plan, volumes)?.into_iter().unzip();
    let job: Value = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": format!("linerate-fleet-{}-{}", plan.id.get(..8).unwrap_or("plan"), plan.round) },
        "spec": {
            "completionMode": "Indexed",
            "completions": shape.shards,
            "parallelism": shape.at_once,
            "backoffLimitPerIndex": 3,
            "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "linerate",
                    "image": image,
                    "command": ["/bin/sh", "-c"],
                    "args": [script(task)?],
                    "volumeMounts": mounts,
                }],
                "volumes": volumes,
            } },
        },
    });
    Ok(printed(&serde_json::to_string_pretty(&job)?) + "\n")
}

/// The shell script that a container runs. `$` is written as `$$`, because Kubernetes replaces `$(NAME)`.
fn script(task: &ExportedTask) -> anyhow::Result<String> {
    Ok(format!("exec {}", task.line("\"$JOB_COMPLETION_INDEX\"")?).replace('$', "$$"))
}

/// The volumes of a task, and the paths at which they are mounted.
fn mounts(
    task: &ExportedTask,
    plan: &FleetPlan,
    volumes: &JobVolumes,
) -> anyhow::Result<Vec<(Value, Value)>> {
    let is_local = plan.hosts.is_empty();
    if !is_local && volumes.contains_key(&JobPlace::Destination) {
        bail!("DST is on other hosts, so the tasks can't have a volume for the destination");
    }
    let places = JobPlace::ALL.into_iter().filter(|place| is_local || *place != JobPlace::Destination);
    let mut mounts = Vec::new();
    for place in places {
        let (name, path) = (place.name(), place.path(task, plan));
        ensure!(!path.contains(':'), "Kubernetes mounts nothing at a path with a colon: {path}");
        let is_twice = place != JobPlace::Plan && path == task.plan;
        ensure!(!is_twice, "Kubernetes mounts only one volume at {path}: make the plan in another directory");
        let mount = json!({ "name": name, "mountPath": path, "readOnly": place == JobPlace::Source });
        mounts.push((mount, volume(place, volumes.get(&place))));
    }
    if !is_local {
        let secret = json!({ "secretName": "linerate-ssh", "defaultMode": 0o600 });
        let mount = json!({ "name": "ssh", "mountPath": "/root/.ssh", "readOnly": true });
        mounts.push((mount, json!({ "name": "ssh", "secret": secret })));
    }
    Ok(mounts)
}

fn volume(place: JobPlace, named: Option<&JobVolume>) -> Value {
    let name = place.name();
    let claim = |claim: &str| json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } });
    match named {
        Some(JobVolume::Node(path)) => {
            json!({ "name": name, "hostPath": { "path": path, "type": place.kind() } })
        }
        Some(JobVolume::Claim(named)) => claim(named),
        None => claim(&format!("linerate-{name}")),
    }
}

/// Escapes JSON so that it is also valid YAML, which allows fewer characters.
fn printed(json: &str) -> String {
    let is_printable = |c: char| match c {
        '\u{2028}' | '\u{2029}' | '\u{feff}' => false,
        ' '..='~' | '\n' | '\u{a0}'..='\u{fffd}' | '\u{10000}'.. => true,
        _ => false,
    };
    let shown = |c: char| if is_printable(c) { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    json.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn task(plan: &str) -> ExportedTask {
        let options = ["-i", "/home/a b/k", "--bwlimit", "$x"].map(str::to_owned).to_vec();
        ExportedTask { program: "/opt/line rate".into(), plan: plan.into(), options }
    }

    fn job(hosts: &[&str], volumes: &[&str]) -> Value {
        let volumes = volumes.iter().map(|text| JobPlace::parse(text).unwrap()).collect();
        let shape = JobShape { shards: 16, at_once: 4, ..JobShape::default() };
        let text =
            kubernetes_job(&task("/p/\u{e9}\u{7f}\u{1f600}"), &shape, "i:1", &plan(hosts), &volumes).unwrap();
        check(&text);
        serde_json::from_str(&text).unwrap()
    }

    /// The volume at each mounted path. The test fails if a path is mounted twice.
    fn mounted(job: &Value) -> BTreeMap<String, String> {
        let pod = &job["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().unwrap();
        let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
        assert_eq!(volumes.len(), mounts.len(), "{job}");
        let found = mounts.iter().map(|mount| {
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            let mode = if mount["readOnly"] == true { "ro" } else { "rw" };
            let mut source = volume.clone();
            source.as_object_mut().unwrap().remove("name");
            (mount["mountPath"].as_str().unwrap().to_owned(), format!("{mode} {source}"))
        });
        found.collect()
    }

    /// Parses the Job with the strict parsers that are installed on this machine.
    fn check(text: &str) {
        let same = "import json, sys, yaml; t = sys.stdin.read(); assert yaml.safe_load(t) == json.loads(t)";
        let can = |module: &str| {
            let run = Command::new("python3")
                .args(["-c", &format!("import {module}")])
                .stderr(Stdio::null())
                .status();
            run.is_ok_and(|status| status.success())
        };
        if can("yaml") {
            fed(Command::new("python3").args(["-c", same]), text);
        }
        let mut kubectl = Command::new("kubectl");
        let is_there = kubectl.args(["version", "--client"]).stdout(Stdio::null()).stderr(Stdio::null());
        if is_there.status().is_ok_and(|status| status.success()) {
            let words = ["set", "image", "--local", "-f", "-", "-o", "json", "linerate=i:2"];
            let typed: Value =
                serde_json::from_slice(&fed(Command::new("kubectl").args(words), text)).unwrap();
            assert_has(&typed, &serde_json::from_str(&text.replace("\"i:1\"", "\"i:2\"")).unwrap());
        }
    }

    fn fed(command: &mut Command, text: &str) -> Vec<u8> {
        let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        run.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let done = run.wait_with_output().unwrap();
        assert!(done.status.success(), "{command:?}: {text}");
        done.stdout
    }

    /// Checks that `all` contains every field of `some` with the same value. kubectl's types drop unknown
    /// fields, and don't print fields that are false.
    fn assert_has(all: &Value, some: &Value) {
        match (all, some) {
            (Value::Object(all), Value::Object(some)) => {
                let absent = Value::Bool(false);
                some.iter().for_each(|(name, value)| assert_has(all.get(name).unwrap_or(&absent), value));
            }
            (Value::Array(all), Value::Array(some)) => {
                assert_eq!(all.len(), some.len());
                all.iter().zip(some).for_each(|(all, some)| assert_has(all, some));
            }
            _ => assert_eq!(all, some),
        }
    }

    #[test]
    fn each_directory_that_a_task_sees_is_a_volume() {
        let claim = |mode: &str, name: &str| {
            format!("{mode} {{\"persistentVolumeClaim\":{{\"claimName\":\"{name}\"}}}}")
        };
        let own = "/p/\u{e9}\u{7f}\u{1f600}".to_owned();
        let common =
            [(own.clone(), claim("rw", "linerate-plan")), ("/a".to_owned(), claim("ro", "linerate-source"))];
        let local = common.iter().cloned().chain([("/b".to_owned(), claim("rw", "linerate-destination"))]);
        assert_eq!(mounted(&job(&[], &[])), local.collect());
        let ssh = "ro {\"secret\":{\"defaultMode\":384,\"secretName\":\"linerate-ssh\"}}".to_owned();
        let far = common.iter().cloned().chain([("/root/.ssh".to_owned(), ssh)]);
        assert_eq!(mounted(&job(&["h", "g"], &[])), far.collect());
        let named = mounted(&job(&[], &["plan=my.plan-1", "source=/lustre/a", "destination=/scratch/b"]));
        let node = |mode: &str, path: &str, kind: &str| {
            format!("{mode} {{\"hostPath\":{{\"path\":\"{path}\",\"type\":\"{kind}\"}}}}")
        };
        let wanted = [
            (own, claim("rw", "my.plan-1")),
            ("/a".to_owned(), node("ro", "/lustre/a", "Directory")),
            ("/b".to_owned(), node("rw", "/scratch/b", "DirectoryOrCreate")),
        ];
        assert_eq!(named, wanted.into());
    }

    #[test]
    fn what_kubernetes_can_not_mount_is_refused() {
        for wrong in [
            "plan",
            "plan=",
            "ssh=x",
            "source=Claim",
            "source=a_b",
            "source=-a",
            "source=a..b",
            "plan=/a/../b",
        ] {
            assert!(JobPlace::parse(wrong).is_err(), "{wrong}");
        }
        let refused = |path: &str, hosts: &[&str], volumes: &[&str]| {
            let volumes = volumes.iter().map(|text| JobPlace::parse(text).unwrap()).collect();
            kubernetes_job(&task(path), &JobShape::default(), "i", &plan(hosts), &volumes)
                .unwrap_err()
                .to_string()
        };
        assert!(refused("/a:b", &[], &[]).contains("with a colon: /a:b"));
        assert!(refused("/b", &[], &[]).contains("only one volume at /b"));
        assert!(refused("/p", &["h"], &["destination=x"]).contains("DST is on other hosts"));
    }

    #[test]
    fn kubernetes_replaces_nothing_in_the_words_of_a_task() {
        let script = script(&task("/p/$(HOME)$$(x)")).unwrap();
        assert!(!script.replace("$$", "").contains('$'), "no $ is left for a reference: {script}");
        let replaced = script.replace("$$", "$");
        assert!(replaced.contains("'/p/$(HOME)$$(x)' --shard \"$JOB_COMPLETION_INDEX\""), "{replaced}");
    }
}
