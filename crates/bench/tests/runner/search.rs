//! Tests of cases with a search for the best level of a parameter.

use linerate_bench::metric::Metric;
use linerate_bench::stats::summaries;

use super::*;

/// A tool that makes one request per user, and whose search finds seven users.
const SEARCHING: &str = r#"
name = "asks"
moves = "requests"
command = ["sh", "-c", 'echo "{{\"n\":$1,\"t\":0.001}}"', "sh", "{users}"]
[parameters]
users = 240
[search]
parameter = "users"
command = ["sh", "-c", 'test "$1" = auto && echo "{{\"found\":7,\"steps\":[{{\"count\":7,\"reached\":9.5}}]}}"', "sh", "{users}"]
read = "last-line"
found = "/found"
steps = "/steps"
[result]
read = "last-line"
transactions = "/n"
seconds = "/t"
"#;

#[test]
fn a_run_has_the_level_that_a_search_before_it_found() {
    let mut trial = Trial::new(&[]);
    trial.add(SEARCHING);
    trial.add(&SEARCHING.replace("\"asks\"", "\"fails\"").replace("= auto &&", "= never || exit 5;"));
    let case = |tool: &str| {
        format!(
            "[[case]]\nid = \"{tool}-{{users}}\"\ntool = \"{tool}\"\n[case.with]\nusers = [3, \"auto\"]\n"
        )
    };
    let text = format!("{HEAD}{}{}", case("asks"), case("fails"));
    let study = Study::parse("trial.toml", &text, &trial.tools).unwrap();
    let (record, dir) = trial.run(&study, &mut |_| {});
    let asked = |id: &str| {
        let run = record.runs.iter().find(|run| run.case == id).unwrap();
        let Outcome::Measured(measures) = &run.outcome else { panic!("{}", reason(&record, id)) };
        (measures.transactions, measures.found.as_ref().map(|found| (found.level, found.steps.len())))
    };
    assert_eq!(asked("asks-3"), (Some(3), None));
    assert_eq!(asked("asks-auto"), (Some(7), Some((7, 1))));
    assert_eq!(asked("fails-3"), (Some(3), None), "where nothing is looked for, nothing can fail");
    assert!(reason(&record, "fails-auto").contains("searching for the best users: exit status: 5"));
    let stored = store::load(&dir).unwrap().record;
    assert_eq!(stored.runs.iter().filter(|run| run.case == "asks-auto").count(), 2);
    let found = summaries(&stored, None).into_iter().find(|s| s.case.id == "asks-auto").unwrap();
    assert_eq!((found.of(Metric::Found).unwrap().median, found.searched.as_deref()), (7.0, Some("users")));
}
