use super::*;
use crate::sample::recording_of;

fn line(pid: u32, parent: u32, own: u64, children: u64, started: u64) -> String {
    format!("{pid} (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 {own} 0 {children} 0 20 0 1 0 {started} 0 0\n")
}

#[test]
fn a_child_that_ends_is_counted_once() {
    // The child had used 30 ticks in its last sample, and used 20 more ticks before its end. 7 ticks belong to another
    // child that no sample contains; these 7 ticks can't be distinguished from the 20.
    let first = line(10, 1, 100, 0, 5) + &line(11, 10, 0, 0, 5);
    let second = line(10, 1, 110, 0, 5) + &line(11, 10, 30, 0, 5);
    let third = line(10, 1, 120, 50 + 7, 5);
    let found = process_seconds(&recording_of(NAME, &[&first, &second, &third]));
    let ticks = found.iter().map(|of| (of.pid, (of.seconds * 100.0).round()));
    assert_eq!(ticks.collect::<Vec<_>>(), [(11, 57.0), (10, 20.0)]);
    assert_eq!(found[0].name, "a) b");
}

#[test]
fn descendants_that_end_together_are_counted_once_and_have_their_last_part() {
    // A child that uses no time itself. Its own child had used 138 ticks in its last sample, and 247 ticks at its end.
    // Before that, the first child had waited for another child.
    let first = line(10, 1, 3, 0, 5) + &line(11, 10, 0, 4, 6) + &line(12, 11, 0, 0, 7);
    let second = line(10, 1, 3, 0, 5) + &line(11, 10, 0, 4, 6) + &line(12, 11, 138, 0, 7);
    let third = line(10, 1, 4, 4 + 247, 5);
    // The tests use steps of two seconds, and steps that are shorter than the time between the last sample
    // and the end.
    for (seconds, of_child, of_parent) in [(2.0, 2.43, 0.02), (1.0, 2.38, 0.07)] {
        let mut recording = recording_of(NAME, &[&first, &second, &third]);
        recording.samples.iter_mut().for_each(|sample| sample.seconds *= seconds);
        let found = process_seconds(&recording);
        let of = |pid| found.iter().find(|of| of.pid == pid).map_or(0.0, |of| of.seconds);
        assert!((of(12) - of_child).abs() < 1e-9 && (of(10) - of_parent).abs() < 1e-9, "{found:?}");
        assert!((found.iter().map(|of| of.seconds).sum::<f64>() - 2.48).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn one_that_was_found_late_has_its_time_since_it_began() {
    // The child was started at second 1 of the recording. The first sample that contains it is that of second 4, when
    // the child had used 2.4 s.
    let child = line(11, 10, 240, 0, 150);
    let old = line(10, 1, 100, 0, 5);
    let mut recording = recording_of(
        NAME,
        &[&old, &old, &old, &old, &(old.clone() + &child), &old.replace(" 0 0 20", " 240 0 20")],
    );
    recording.about.boot = 0.5;
    let found = process_seconds(&recording);
    let of = |pid| found.iter().find(|of| of.pid == pid).unwrap().seconds;
    assert!((of(11) - 2.4).abs() < 1e-9 && of(10) == 0.0, "{found:?}");
    let time = process_times(&recording).into_iter().find(|of| of.pid == 11).unwrap();
    assert!((time.processors - 0.8).abs() < 1e-9 && time.seen == (1.0, 4.0), "{time:?}");
    let all = series(&recording).into_iter().find(|series| series.name == "11 a) b").unwrap();
    assert!(all.points.iter().all(|(_, percent)| (percent - 80.0).abs() < 1e-9), "{all:?}");
}

#[test]
fn waiting_for_a_device_is_seen() {
    let run = line(10, 1, 100, 0, 5);
    let wait = run.replace(") S ", ") D ").replace(" 100 0 0 0 ", " 190 0 0 0 ");
    let found = process_times(&recording_of(NAME, &[&run, &wait, &wait, &run.replace(" 100 0", " 190 0")]));
    assert_eq!((found[0].pid, found[0].threads, found[0].seen), (10, 1, (0.0, 3.0)));
    assert!(
        (found[0].waits - 2.0 / 3.0).abs() < 1e-9 && (found[0].processors - 0.3).abs() < 1e-9,
        "{found:?}"
    );
}

#[test]
fn one_that_was_found_late_counts_from_then_on() {
    let second = line(10, 1, 5000, 0, 5) + &line(12, 1, 40, 0, 90);
    let mut recording = recording_of(NAME, &["", &second, &second.replace("5000", "5010")]);
    recording.about.boot = 0.5;
    let found = process_seconds(&recording);
    assert_eq!(found.iter().map(|of| (of.pid, of.seconds)).collect::<Vec<_>>(), [(12, 0.4), (10, 0.1)]);
    assert!(series(&recording).iter().any(|series| series.name == "all"));
}

#[test]
fn time_in_user_mode_goes_to_those_who_wait() {
    // A process that started before the recording; a child from before the recording that ends; and a child
    // that is found late.
    let first = line(10, 1, 500, 0, 5) + &line(11, 10, 200, 0, 5);
    let last = line(10, 1, 510, 230 + 40, 5) + &line(12, 10, 25, 0, 150);
    let mut recording = recording_of(NAME, &[&first, &last]);
    recording.about.boot = 1.0;
    assert_eq!(user_seconds(&recording), Some(1.05));
    assert_eq!(user_seconds(&recording_of(NAME, &["", &last])), None);
    assert_eq!(user_seconds(&recording_of("cpu", &["x"])), None);
}

#[test]
fn descendants_are_found_and_those_that_ended_forgotten() {
    let mut child = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
    let options = SamplerOptions { processes: vec![child.id()], ..SamplerOptions::default() };
    let mut trees = Trees::new(&options);
    let mut read = || {
        let mut text = Vec::new();
        trees.read(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines().filter_map(ProcessStat::parse).collect::<Vec<_>>()
    };
    let is_sleep = |process: &&ProcessStat| process.name == "sleep";
    let deadline = Instant::now() + Duration::from_secs(10);
    let sleep = loop {
        if let Some(found) = read().iter().find(is_sleep) {
            break found.pid;
        }
        assert!(Instant::now() < deadline, "the child's child was never found");
    };
    let sleep = rustix::process::Pid::from_raw(sleep as i32).unwrap();
    rustix::process::kill_process(sleep, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
    assert!(read().is_empty());
}
