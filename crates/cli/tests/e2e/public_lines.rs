//! Tests with published command lines of rsync, which are given to rsync and to `linerate rsync`.
//! `public/rsync.txt` has the lines with their origins. `LINERATE_TEST_LINES=WORDS` selects lines that
//! contain these words.

mod ground;
mod trees;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use linerate_testing::has;

use self::ground::{Ground, Program, Steps};

const LINES: &str = include_str!("public/rsync.txt");

/// A command line from the file.
#[derive(Clone)]
struct PublicLine {
    source: &'static str,
    text: &'static str,
    expected: Expected,
}

#[derive(Clone, PartialEq)]
enum Expected {
    Alike,
    /// linerate refuses the line, with this text in its message.
    Refused(&'static str),
    /// The result differs from rsync's, for this reason.
    Differs(&'static str),
}

/// The result of a line: success, or all differences.
type Verdict = Result<(), String>;

#[test]
fn lines_of_others_do_what_they_do_with_rsync() {
    if !has("rsync") {
        return;
    }
    let lines = chosen();
    let verdicts = judge(&Ground::make(), &lines);
    let wrong: Vec<_> = lines
        .iter()
        .zip(&verdicts)
        .filter_map(|(line, verdict)| {
            Some(format!("[{}]\n{}\n{}", line.source, line.text, wrong(line, verdict)?))
        })
        .collect();
    println!("{}", sum(&lines));
    assert!(wrong.is_empty(), "{} of {} lines:\n\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}

#[test]
fn each_line_of_others_is_there_once_and_most_are_alike() {
    let lines = all();
    let words: BTreeSet<_> =
        lines.iter().map(|line| shlex::split(line.text).expect("a shell's words")).collect();
    assert_eq!(words.len(), lines.len(), "two lines are equal");
    let differ = lines.iter().filter(|line| matches!(line.expected, Expected::Differs(_))).count();
    assert!(differ * 100 <= lines.len() * 3, "{}", sum(&lines));
}

fn chosen() -> Vec<PublicLine> {
    let wanted = std::env::var("LINERATE_TEST_LINES").unwrap_or_default();
    all().into_iter().filter(|line| line.text.contains(&wanted)).collect()
}

fn all() -> Vec<PublicLine> {
    let mut source = "";
    let mut found = Vec::new();
    for line in LINES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(place) => source = place,
            None => found.push(parse(source, line)),
        }
    }
    found
}

fn parse(source: &'static str, line: &'static str) -> PublicLine {
    let (text, expected) = match line.split_once(" => ") {
        None => (line, Expected::Alike),
        Some((text, reason)) => match reason.split_once(' ').expect("a word and its reason") {
            ("refused", named) => (text, Expected::Refused(named)),
            ("differs", why) => (text, Expected::Differs(why)),
            _ => panic!("{line}: neither refused nor differs"),
        },
    };
    PublicLine { source, text, expected }
}

/// Tests the lines, several at a time; the results are in the order of the lines.
fn judge(ground: &Ground, lines: &[PublicLine]) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![Ok(()); lines.len()]);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((number, line)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, lines.get(n)?)))
                {
                    let verdict = judge_one(ground, number, line);
                    verdicts.lock().expect("no judge panics")[number] = verdict;
                }
            });
        }
    });
    verdicts.into_inner().expect("no judge panics")
}

fn judge_one(ground: &Ground, number: usize, line: &PublicLine) -> Verdict {
    if let Expected::Refused(named) = line.expected {
        return ground.refuses(number, line.text, named);
    }
    let [ours, theirs] =
        [Program::Linerate, Program::Rsync].map(|program| ground.steps(number, program, line.text));
    compare(&ours, &theirs)
}

fn compare(ours: &Steps, theirs: &Steps) -> Verdict {
    let mut against = String::new();
    for (ours, theirs) in ours.iter().zip(theirs) {
        ours.compare(theirs, &mut against);
    }
    if against.is_empty() { Ok(()) } else { Err(against) }
}

/// The reason why a result isn't the expected one; `None` if it is.
fn wrong(line: &PublicLine, verdict: &Verdict) -> Option<String> {
    match (&line.expected, verdict) {
        (Expected::Differs(why), Ok(())) => {
            Some(format!("  is alike now, though the file says: differs {why}\n"))
        }
        (Expected::Alike | Expected::Refused(_), Err(against)) => Some(against.clone()),
        _ => None,
    }
}

fn sum(lines: &[PublicLine]) -> String {
    let count = |is: fn(&Expected) -> bool| lines.iter().filter(|line| is(&line.expected)).count();
    let mut text = format!("{} lines of rsync", lines.len());
    for (name, is) in [
        ("alike", (|expected| *expected == Expected::Alike) as fn(&Expected) -> bool),
        ("refused by name", |expected| matches!(expected, Expected::Refused(_))),
        ("differ", |expected| matches!(expected, Expected::Differs(_))),
    ] {
        write!(text, ", {} {name}", count(is)).expect("a string");
    }
    text
}
