//! Tests of settings that can't be restored.

use super::*;

/// The warnings of a study whose setting is changed by `write`, and the final value of the setting.
fn after(write: &str) -> (Vec<String>, String) {
    let trial = Trial::new(&[("copy", "cp -r \"$1\" \"$2\"/")]);
    let file = trial.dir.path().join("knob");
    std::fs::write(&file, "original\n").unwrap();
    let path = file.to_str().unwrap();
    let mut study = trial.study(&[("copy", 1)]);
    let write = ["sh", "-c", write, path, "{value}"];
    study.settings.push(setting("knob", "a", &["cat", path], &write));
    study.cases[0].settings.insert("knob".into(), "other".into());
    let mut warnings = Vec::new();
    trial.run(&study, &mut |event| {
        if let Event::NotPutBack(reason) = event {
            warnings.push(reason.to_owned());
        }
    });
    (warnings, std::fs::read_to_string(&file).unwrap())
}

#[test]
fn what_is_not_put_back_is_reported() {
    assert_eq!(after("echo \"$1\" > \"$0\""), (Vec::new(), "original\n".into()));
    let (warnings, there) = after("echo other > \"$0\"");
    assert_eq!((warnings.len(), there.as_str()), (1, "other\n"));
    assert!(warnings[0].contains("knob on host a was \"original\" before the study and is \"other\" now"));
    let (warnings, there) = after("[ \"$1\" = other ] && echo other > \"$0\"");
    assert!(warnings[0].contains("restoring knob on host a"), "{warnings:?}");
    assert_eq!((warnings.len(), there.as_str()), (2, "other\n"));
}
