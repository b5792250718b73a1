//! tests/objections.txt: each check that a review by use looked at, what was wrong with it, and the test or source that answers.

use std::fs;
use std::path::Path;

use linerate_doctor::check::CHECKS;

/// A check that was wrong on the hosts that it looked for.
const GONE: [&str; 1] = ["irqbalance-conflict"];

#[test]
fn each_objection_has_an_answer_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("crates/doctor/tests/objections.txt")).unwrap();
    let (mut checks, mut wrong) = (0, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, objection, now, answers] = fields[..] else { panic!("four fields: {line}") };
        let is_gone = GONE.contains(&name);
        let is_check = CHECKS.iter().any(|check| check.name == name);
        checks += usize::from(is_gone || is_check);
        let is_known = is_check != is_gone || name.starts_with('+');
        if !is_known || objection.is_empty() || now.is_empty() || answers.is_empty() != is_gone {
            wrong.push(line.to_owned());
        }
        let lacking = answers.split(", ").filter(|answer| !answer.is_empty() && !exists(&root, answer));
        wrong.extend(lacking.map(|answer| format!("{name}: {answer}")));
    }
    assert_eq!((checks, wrong), (91, Vec::<String>::new()));
}

/// An address, a file, or a file and a test in it.
fn exists(root: &Path, answer: &str) -> bool {
    if answer.starts_with("https://") {
        return true;
    }
    let (file, test) = answer.split_once(' ').map_or((answer, None), |(file, test)| (file, Some(test)));
    let Ok(text) = fs::read_to_string(root.join(file)) else { return false };
    test.is_none_or(|test| {
        text.contains(&format!("#[test]\n    fn {test}()")) || text.contains(&format!("\nfn {test}()"))
    })
}
