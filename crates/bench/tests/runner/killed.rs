//! Tests that the next sweep restores the settings of a killed study.

use super::*;

/// The environment variable with the directory in which [`a_study_for_killing`] runs.
const KILLED: &str = "LINERATE_TEST_KILLED";

/// A study with a setting that is a file, and with a case that changes it.
fn with_setting(trial: &Trial, file: &Path) -> Study {
    let path = file.to_str().unwrap();
    let mut study = trial.study(&[("slow", 1)]);
    let write = ["sh", "-c", "echo \"$1\" > \"$0\"", path, "{value}"];
    study.settings.push(setting("level", "a", &["cat", path], &write));
    study.cases[0].settings.insert("level".into(), "changed".into());
    study
}

/// This isn't a separate test, but the process that the next test kills.
#[test]
fn a_study_for_killing() {
    let Some(dir) = std::env::var_os(KILLED) else { return };
    let trial = Trial::new(&[("slow", "cp -r \"$1\" \"$2\"/; sleep 1")]);
    let study = with_setting(&trial, &Path::new(&dir).join("value"));
    std::fs::write(Path::new(&dir).join("trial"), trial.dir.path().to_str().unwrap()).unwrap();
    trial.run(&study, &mut |_| {});
}

#[test]
fn what_a_killed_study_had_set_is_put_back_by_the_next_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("value");
    std::fs::write(&file, "original\n").unwrap();
    let now = || std::fs::read_to_string(&file).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::a_study_for_killing"])
        .env(KILLED, dir.path())
        .spawn()
        .unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while now() != "changed\n" && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(now(), "changed\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(now(), "changed\n", "a kill -9 leaves it changed");
    linerate_lab::sweep().unwrap();
    assert_eq!(now(), "original\n");
    let left = std::fs::read_to_string(dir.path().join("trial")).unwrap();
    std::fs::remove_dir_all(left).unwrap();
}
