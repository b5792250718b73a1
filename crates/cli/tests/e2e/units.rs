//! Tests of the examples that run linerate automatically: systemd's units, in a separate systemd manager that
//! applies their hardening; Ansible's playbook; and the guide's line for cron.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_testing::{has, skip};

use crate::bed::{Case, args, case};
use crate::support::Run;
use crate::tree::{assert_alike, make_mixed, write};

/// The paths of systemd's manager, which isn't in PATH.
const SYSTEMD: [&str; 2] = ["/lib/systemd/systemd", "/usr/lib/systemd/systemd"];
/// The mount points of control groups, of version 2 and of both mixed layouts with version 1.
const GROUPS: [&str; 3] = [
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/systemd/cgroup.procs",
    "/sys/fs/cgroup/unified/cgroup.procs",
];
/// The path of the program in the units, which the test replaces.
const PROGRAM: &str = "/usr/bin/linerate";
const ENVIRONMENT: &str = "/etc/linerate/sync/";
/// The greatest exposure that `systemd-analyze security` may report, in tenths; it calls less than 5 OK.
const EXPOSURE: &str = "25";

/// A script that starts a separate systemd user manager as root, in the lab's network and in its own control
/// groups, until the unit `$2` has run. The manager has only the units in `$1`, no generators and no
/// controllers.
const MANAGER: &str = r#"
set -eu
units=$1 unit=$2 result=$3 manager=$4 name=linerate-test-$$
clean() {
  for top in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    if [ -d "$top/$name" ]; then find "$top/$name" -depth -type d -exec rmdir {} \; ; fi
  done
}
mkdir -p "$units/run"
(
  for top in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ -e "$top/cgroup.procs" ] || continue
    mkdir "$top/$name"
    sh -c 'echo $PPID' >"$top/$name/cgroup.procs"
  done
  exec unshare --mount --propagation private sh -eu -c '
    for other in /sys/fs/cgroup/*/; do
      case $other in */systemd/ | */unified/ | */linerate-test-*) continue ;; esac
      if [ -e "$other/cgroup.clone_children" ]; then mount -t tmpfs none "$other"; fi
    done
    for generators in /usr/lib/systemd/user-generators /usr/lib/systemd/user-environment-generators; do
      if [ -d "$generators" ]; then mount -t tmpfs none "$generators"; fi
    done
    # As on a booted system: where /run is no mount, the units would get an empty one.
    mount --rbind /run /run
    mkdir -p /run/systemd && mount -t tmpfs none /run/systemd && mkdir -p /run/systemd/system /run/systemd/inaccessible/dir
    cd /run/systemd/inaccessible && touch reg && mkfifo fifo && mknod chr c 0 0 && mknod blk b 0 0 && chmod 0 *
    export XDG_RUNTIME_DIR="$1/run" SYSTEMD_UNIT_PATH="$1:/usr/lib/systemd/user" SYSTEMD_LOG_TARGET=null
    exec "$3" --user --unit="$2"' sh "$units" "$unit" "$manager"
) &
for wait in $(seq 400); do
  if [ -s "$result" ] || ! kill -0 $!; then break; fi
  sleep 0.1
done
kill $! || true
wait $! || true
clean
test -s "$result"
"#;

/// The text of an example file.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Writes the units to a separate directory, with the test's program, and the environment of the instance
/// `name`.
fn units(case: &Case, name: &str, environment: &str, more: &str) -> PathBuf {
    let units = case.aside("units");
    let service = example("systemd/linerate-sync@.service");
    assert!(service.contains(PROGRAM) && service.contains(ENVIRONMENT));
    let service = service.replace(PROGRAM, &case.bed.program().display().to_string());
    let service = service.replace(ENVIRONMENT, &format!("{}/", units.display()));
    fs::write(units.join("linerate-sync@.service"), service + more).unwrap();
    fs::write(units.join("linerate-sync@.timer"), example("systemd/linerate-sync@.timer")).unwrap();
    fs::write(units.join(format!("{name}.env")), environment).unwrap();
    units
}

fn analyze(words: &[&str], files: &[PathBuf]) -> String {
    let run = Command::new("systemd-analyze").args(words).args(files).output().expect("it runs");
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(run.status.success(), "{words:?}: {said}");
    said
}

#[test]
fn systemd_takes_the_units_and_finds_little_exposed() {
    let Some(case) = case() else { return };
    if !has("systemd-analyze") {
        return;
    }
    let units = units(&case, "x", "", "");
    let files = ["linerate-sync@.service", "linerate-sync@.timer"].map(|name| units.join(name));
    let said = analyze(&["verify", "--man=no"], &files);
    assert_eq!(said, "");
    analyze(&["security", "--offline=true", "--threshold", EXPOSURE], &files[..1]);
    analyze(&["calendar"], &[case_calendar().into()]);
}

fn case_calendar() -> String {
    let timer = example("systemd/linerate-sync@.timer");
    timer.lines().find_map(|line| line.strip_prefix("OnCalendar=")).expect("it has a time").to_owned()
}

#[test]
fn the_service_mirrors_a_tree_over_ssh_under_its_hardening() {
    let Some(case) = case() else { return };
    let Some(manager) = SYSTEMD.iter().find(|path| Path::new(path).exists()) else {
        return skip("systemd", "systemd isn't installed");
    };
    if !GROUPS.iter().any(|groups| fs::File::options().write(true).open(groups).is_ok()) {
        return skip("cgroups", "no control groups can be made here");
    }
    make_mixed(&case.near.join("tree"));
    // Somebody else's private file, and a directory for metrics that is another user's.
    write(case.near.join("tree/private"), "x");
    fs::set_permissions(case.near.join("tree/private"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(case.near.join("tree/private"), Some(1234), Some(1234)).unwrap();
    // Not below /dev or /tmp, which the unit has others of.
    let place = tempfile::Builder::new().prefix("linerate-test-").tempdir_in("/var/lib").expect("root may");
    let [metrics, results, closed] = ["metrics", "results", "closed"].map(|name| place.path().join(name));
    [&metrics, &results, &closed].iter().for_each(|made| fs::create_dir(made).unwrap());
    std::os::unix::fs::chown(&metrics, Some(1234), Some(1234)).unwrap();
    let (result, config) = (results.join("ended"), case.bed.lab.ssh_config());
    let environment = format!(
        "SOURCE={}/tree/\nDESTINATION=b:{}\nOPTIONS=-F {} --delete --metrics {}/night.prom\n",
        case.near.display(),
        case.far.display(),
        config.display(),
        metrics.display(),
    );
    // The directories of the test are in place of those that the unit may write to and see.
    let more = format!(
        "ReadWritePaths={metrics} {results}\nEnvironment=PATH={path}\nStandardError=append:{results}/said\n\
         ExecStartPre=/bin/sh -c '! touch {closed}/written && grep -q ^Seccomp:.2 /proc/self/status'\n\
         ExecStopPost=/bin/sh -c 'echo $SERVICE_RESULT $EXIT_STATUS >{ended}'\n",
        metrics = metrics.display(),
        results = results.display(),
        path = std::env::var("PATH").unwrap_or_default(),
        closed = closed.display(),
        ended = result.display(),
    );
    let units = units(&case, "night", &environment, &more);
    let words = args!["sh", "-c", MANAGER, "sh", &units, "linerate-sync@night.service", &result, *manager];
    let run = case.start_with(words, Vec::new()).end();
    let ended = fs::read_to_string(&result).unwrap_or_default();
    let said = fs::read_to_string(result.with_file_name("said")).unwrap_or_default();
    assert_eq!(ended, "success 0\n", "{said}\n{run}");
    assert_alike(&case.near.join("tree"), &case.far);
    let written = fs::read_to_string(metrics.join("night.prom")).unwrap();
    assert!(written.contains("linerate_run_exit_code{task=\"night\"} 0\n"), "{written}");
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0, "the host's files are read-only");
}

/// A PATH with a script that runs linerate with this ssh configuration.
pub fn path_with_linerate(case: &Case, config: &Path) -> String {
    let bin = case.aside("path");
    let script = format!(
        "#!/bin/sh\ncommand=$1\nshift\nexec '{}' \"$command\" -F '{}' \"$@\"\n",
        case.bed.program().display(),
        config.display(),
    );
    linerate_testing::write_script(&bin.join("linerate"), &script);
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn the_playbook_mirrors_a_tree_and_says_whether_something_changed() {
    let Some(case) = case() else { return };
    if !has("ansible-playbook") {
        return;
    }
    make_mixed(&case.near.join("tree"));
    write(case.far.join("old"), "x");
    fs::write(case.near.join("mirror.yml"), example("ansible/mirror.yml")).unwrap();
    let path = format!("PATH={}", path_with_linerate(&case, &case.bed.lab.ssh_config()));
    let home = format!("HOME={}", case.aside("home").display());
    let play_with = |option: &str, source: &str, destination: &str| -> Run {
        let words = args!["env", &path, &home, "ANSIBLE_NOCOLOR=1", "LC_ALL=C.UTF-8", "ansible-playbook"];
        let given = format!("source={source} destination={destination}");
        let python = "ansible_python_interpreter=/usr/bin/python3";
        case.start_with(
            words,
            args!["-i", "localhost,", "-c", "local", option, "-e", given, "-e", python, "mirror.yml"],
        )
        .end()
    };
    let play = |source: &str, destination: &str| play_with("--diff", source, destination);
    let far = format!("b:{}", case.far.display());
    let first = play("tree/", &far).exits(0);
    assert!(first.out.contains("changed=1 ") && first.out.contains("1 entries deleted"), "{first}");
    assert_alike(&case.near.join("tree"), &case.far);
    let second = play("tree/", &far).exits(0);
    assert!(second.out.contains("changed=0 ") && second.out.contains("0 of 6 files sent"), "{second}");
    // No file is sent, and it is a change all the same.
    let changes: [fn(&Path); 3] = [
        |tree| symlink("nowhere", tree.join("new link")).unwrap(),
        |tree| fs::create_dir(tree.join("new directory")).unwrap(),
        |tree| fs::set_permissions(tree.join("new directory"), fs::Permissions::from_mode(0o700)).unwrap(),
    ];
    for change in changes {
        change(&case.near.join("tree"));
        let changed = play("tree/", &far).exits(0);
        assert!(changed.out.contains("changed=1 ") && changed.out.contains("0 of 6 files sent"), "{changed}");
    }
    let checked = play_with("--check", "tree/", &far).exits(0);
    assert!(checked.out.contains("skipped=2 "), "{checked}");
    let failed = play("missing/", &far);
    assert!(failed.code != Some(0) && failed.out.contains("failed=1 "), "{failed}");
}

/// The first code block of this kind on the guide's page.
fn block_of_the_guide(kind: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/unattended.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once(&format!("```{kind}\n")).expect("the page has such a block");
    block.split("```").next().expect("a split has a first part").to_owned()
}

#[test]
fn the_guide_has_the_task_of_the_playbook() {
    let indented = |line: &str| format!("    {line}\n");
    let task: String = block_of_the_guide("yaml").lines().map(indented).collect();
    assert!(example("ansible/mirror.yml").contains(&format!("  tasks:\n{task}\n")), "{task}");
}

/// The guide's line for cron: the times, the user, and the command.
fn cron_line() -> (Vec<String>, String) {
    let block = block_of_the_guide("cron");
    let line = block.lines().find(|line| !line.starts_with('#')).expect("a line");
    let mut words = line.split_whitespace();
    let when = words.by_ref().take(6).map(str::to_owned).collect();
    (when, words.collect::<Vec<_>>().join(" "))
}

#[test]
fn the_line_for_cron_is_quiet_unless_something_fails() {
    let Some(case) = case() else { return };
    let (when, command) = cron_line();
    assert!(
        when[..5].iter().all(|field| field == "*" || field.parse::<u8>().is_ok_and(|n| n < 60)),
        "{when:?}"
    );
    assert_eq!(when[5], "root");
    make_mixed(&case.near.join("tree"));
    let near = case.near.display();
    let mut here = command.clone();
    for (written, path) in [
        ("/srv/data/ ", format!("{near}/tree/ ")),
        ("backup:/srv/data", format!("b:{}", case.far.display())),
        ("/var/lib/prometheus/node-exporter/", format!("{near}/")),
    ] {
        assert!(here.contains(written), "{command}");
        here = here.replace(written, &path);
    }
    let path = format!("PATH={}", path_with_linerate(&case, &case.bed.lab.ssh_config()));
    let cron = |line: &str| {
        let home = format!("HOME={}", case.aside("home").display());
        case.start_with(
            args!["env", "-i", &path, &home, "LINERATE_NO_CONFIG=1", "sh", "-c", line],
            Vec::new(),
        )
        .end()
    };
    let run = cron(&here).exits(0);
    assert!(run.out.is_empty() && run.err.is_empty(), "cron sends what is printed: {run}");
    assert_alike(&case.near.join("tree"), &case.far);
    assert!(case.near.join("nightly.prom").exists());
    let run = cron(&here.replace("/tree/ ", "/missing/ ")).exits(2);
    assert!(run.err.contains("missing"), "{run}");
}
