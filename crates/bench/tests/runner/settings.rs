//! Tests that settings of hosts are changed, read back and restored.

use super::*;

#[test]
fn settings_are_set_read_back_and_put_back() {
    let trial = Trial::new(&[("see", "cat \"$2\"/../../value >> \"$2\"/../../seen; cp -r \"$1\" \"$2\"/")]);
    let file = trial.dir.path().join("value");
    std::fs::write(&file, "1 original\n").unwrap();
    let path = file.to_str().unwrap();
    let mut study = trial.study(&[("see", 1), ("see", 2), ("see", 3)]);
    // This command doesn't accept the value 3.
    let write = ["sh", "-c", "[ \"$1\" = 3 ] || echo \"$1\" | tr ' ' '\t' > \"$0\"", path, "{value}"];
    study.settings.push(setting("level", "b", &["cat", path], &write));
    study.cases[1].settings.insert("level".into(), "2 x".into());
    study.cases[2].settings.insert("level".into(), "3".into());
    let (record, _) = trial.run(&study, &mut |_| {});
    assert!(reason(&record, "see-1").starts_with("measured"), "{}", reason(&record, "see-1"));
    assert!(reason(&record, "see-2").starts_with("measured"), "{}", reason(&record, "see-2"));
    let failed = reason(&record, "see-3");
    assert!(failed.contains("level was set to \"3\" on host b, but reads back as"), "{failed}");
    let seen = std::fs::read_to_string(trial.dir.path().join("seen")).unwrap();
    assert!(seen.contains("1\toriginal") || seen.contains("1 original"), "{seen}");
    assert_eq!(seen.matches("2\tx").count(), 6, "two copies, three runs: {seen}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\toriginal\n");
    assert_eq!(record.cases[1].factors["level"], "2 x");
}

fn unreadable() -> SettingSpec {
    setting("knob", "a", &["sh", "-c", "echo no such knob >&2; exit 1"], &["true", "{value}"])
}

#[test]
fn a_setting_that_can_not_be_read_ends_the_study_before_it_begins() {
    let trial = Trial::new(&[("copy", "cp -r \"$1\" \"$2\"/")]);
    let mut study = trial.study(&[("copy", 1)]);
    study.settings.push(unreadable());
    study.cases[0].settings.insert("knob".into(), "1".into());
    let (work, out) = trial.places();
    let error = Runner::new(trial.setup(&study, &work, &out), beds(), &mut |_| {}).err().unwrap();
    assert!(error.to_string().contains("no such knob"), "{error}");
}

#[test]
fn a_host_may_lack_an_optional_setting_and_only_its_cases_are_unavailable() {
    let trial = Trial::new(&[("copy", "cp -r \"$1\" \"$2\"/")]);
    let mut study = trial.study(&[("copy", 1), ("copy", 2)]);
    study.settings.push(SettingSpec { optional: true, ..unreadable() });
    study.cases[1].settings.insert("knob".into(), "1".into());
    let (record, _) = trial.run(&study, &mut |_| {});
    assert!(reason(&record, "copy-1").starts_with("measured"), "{}", reason(&record, "copy-1"));
    let lacking = reason(&record, "copy-2");
    assert!(
        lacking.starts_with("unavailable: reading knob on host a") && lacking.contains("no such knob"),
        "{lacking}"
    );
}
