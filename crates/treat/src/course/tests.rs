use std::time::Duration;

use linerate_doctor::remedy::Queues;

use super::*;
use crate::journal::Shelf;
use crate::plan::TreatmentPlan;
use crate::port::PortIdentity;
use crate::testing::{Pretended, sysctl};

mod several;

fn steps() -> Vec<PlannedStep> {
    let step = |setting: Setting, before: &str, new: &str| PlannedStep {
        checks: vec!["tcp-buffers".into()],
        setting,
        before: before.into(),
        new: new.into(),
        owner: None,
        kept: None,
    };
    let eth0 = || "eth0".to_owned();
    vec![
        step(sysctl("net.ipv4.tcp_rmem"), "4096 131072 6291456", "4096 131072 33554432"),
        step(sysctl("net.ipv4.tcp_ecn"), "0", "2"),
        step(Setting::Channels { port: eth0(), queues: Queues::Combined }, "1", "4"),
        step(Setting::Rps { port: eth0(), queue: 0 }, "0", "f"),
    ]
}

fn shelf() -> (tempfile::TempDir, Shelf) {
    let directory = tempfile::tempdir().unwrap();
    let shelf = Shelf::open(&directory.path().join("state")).unwrap();
    (directory, shelf)
}

fn applied(shelf: &Shelf, host: &mut Pretended) -> (TreatmentJournal, Vec<StepFate>) {
    let (mut journal, mut fates) = (shelf.begin(steps(), 60, host).unwrap(), Vec::new());
    apply(&mut journal, host, &mut |_, fate| fates.push(fate.clone())).unwrap();
    (journal, fates)
}

#[test]
fn what_is_applied_can_be_undone_again_and_again() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let before = host.values.clone();
    let (journal, fates) = applied(&shelf, &mut host);
    assert!(fates.iter().all(|fate| matches!(fate, StepFate::Holds(_))), "{fates:?}");
    assert_eq!((journal.standing(), host.values == before), (TreatmentStanding::Unconfirmed, false));
    for _ in 0..2 {
        let mut journal = shelf.journal(&journal.id).unwrap();
        let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
        assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "{ends:?}");
        assert_eq!((&host.values, journal.standing()), (&before, TreatmentStanding::Undone));
    }
    assert!(outstanding(&shelf.journal(&journal.id).unwrap()).is_empty());
}

/// The program may die at any moment: before and after each reading and each write.
#[test]
fn wherever_it_was_cut_off_everything_can_be_undone() {
    for deaths in 0..60 {
        let (_directory, shelf) = shelf();
        let mut host = Pretended::of(&steps());
        let before = host.values.clone();
        let id = shelf.begin(steps(), 60, &mut host).unwrap().id;
        host.dies_after = Some(deaths);
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            apply(&mut shelf.journal(&id).unwrap(), &mut host, &mut |_, _| {}).unwrap();
        }));
        // The program that undoes the treatment may die as well.
        host.dies_after = Some(deaths % 7);
        let back = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            undo(&mut shelf.journal(&id).unwrap(), &mut host, UndoneBy::UndoTimer).unwrap();
        }));
        host.dies_after = None;
        undo(&mut shelf.journal(&id).unwrap(), &mut host, UndoneBy::NextRun).unwrap();
        assert_eq!(host.values, before, "after {deaths}: {} {}", died.is_err(), back.is_err());
    }
}

#[test]
fn what_a_host_refuses_or_rounds_is_reported_as_it_is() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    host.refused = Some(sysctl("net.ipv4.tcp_ecn"));
    host.rounded = Some((sysctl("net.ipv4.tcp_rmem"), "4096 131072 8388608".into()));
    let (_, fates) = applied(&shelf, &mut host);
    assert_eq!(fates[0], StepFate::Holds("4096 131072 8388608".into()));
    assert_eq!(fates[1], StepFate::Refused("Invalid argument".into()));
    // A host may set a lower value than the former one; the step is then undone.
    let mut host = Pretended::of(&steps());
    host.rounded = Some((sysctl("net.ipv4.tcp_rmem"), "4096 131072 65536".into()));
    let before = host.values.clone();
    let (_, fates) = applied(&shelf, &mut host);
    assert!(matches!(&fates[0], StepFate::Refused(why) if why.contains("less than before")), "{fates:?}");
    assert_eq!(host.values[&sysctl("net.ipv4.tcp_rmem")], before[&sysctl("net.ipv4.tcp_rmem")]);
}

#[test]
fn what_was_refused_is_not_counted_when_the_rest_is_undone() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    host.refused = Some(sysctl("net.ipv4.tcp_ecn"));
    let (mut journal, _) = applied(&shelf, &mut host);
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert_eq!(ends.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [3, 2, 0]);
    // This host sets a lower value, and then refuses the former value, which is therefore still to be restored.
    let mut host = Pretended::of(&steps());
    host.rounded = Some((sysctl("net.ipv4.tcp_ecn"), "-1".into()));
    host.refused_value = Some((sysctl("net.ipv4.tcp_ecn"), "0".into()));
    let (mut journal, fates) = applied(&shelf, &mut host);
    assert!(matches!(&fates[1], StepFate::Refused(why) if why.contains("can't be set again")), "{fates:?}");
    host.refused_value = None;
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert_eq!((ends.len(), host.values[&sysctl("net.ipv4.tcp_ecn")].as_str()), (4, "0"));
}

#[test]
fn what_others_changed_since_stays_unless_the_user_insists() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let before = host.values.clone();
    let (mut journal, _) = applied(&shelf, &mut host);
    host.values.insert(sysctl("net.ipv4.tcp_ecn"), "1".into());
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert!(
        matches!(&ends[2], (1, WayBack::SetByOthers(why)) if why.contains("is 1, which somebody else")),
        "{ends:?}"
    );
    assert_eq!(host.values[&sysctl("net.ipv4.tcp_ecn")], "1");
    assert_eq!(outstanding(&journal), [1]);
    undo(&mut journal, &mut host, UndoneBy::InsistingUser).unwrap();
    assert_eq!(host.values, before);
}

#[test]
fn after_a_restart_only_what_was_kept_is_restored() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let (mut journal, _) = applied(&shelf, &mut host);
    journal.note(TreatmentEvent::Confirmed).unwrap();
    journal
        .note(TreatmentEvent::Kept { steps: vec![1], files: Vec::new(), system: None, by_address: false })
        .unwrap();
    let path = shelf.path().join(&journal.id).join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&journal.head.place.boot, "another")).unwrap();
    let mut journal = shelf.journal(&journal.id).unwrap();
    assert!(journal.is_of_earlier_start());
    let now = host.values.clone();
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert_eq!(ends, [(1, WayBack::Restored)]);
    let changed = now.iter().filter(|(setting, value)| host.values[*setting] != **value);
    assert_eq!(changed.map(|(setting, _)| setting.clone()).collect::<Vec<_>>(), [sysctl("net.ipv4.tcp_ecn")]);
}

type Damage = dyn Fn(&str) -> Vec<u8>;

/// Changes the file of a treatment's journal by `damage`, and reads the journal again.
fn damaged(shelf: &Shelf, id: &str, damage: impl Fn(&str) -> Vec<u8>) -> TreatmentJournal {
    let path = shelf.path().join(id).join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, damage(&text)).unwrap();
    shelf.journal(id).unwrap()
}

fn cut_after_the_first_line(text: &str) -> Vec<u8> {
    text.as_bytes()[..text.find('\n').unwrap() + 6].to_vec()
}

fn zeros_in(word: &'static str) -> impl Fn(&str) -> Vec<u8> {
    move |text| text.replace(word, &"\0".repeat(word.len())).into_bytes()
}

#[test]
fn a_damaged_journal_still_takes_everything_back() {
    let damages: [(&str, &Damage); 6] = [
        ("cut", &cut_after_the_first_line),
        ("changing", &zeros_in("\"changing\"")),
        ("changed", &zeros_in("\"changed\"")),
        ("applied", &zeros_in("\"applied\"")),
        ("lines are missing", &|text| {
            let lines = text.lines().filter(|line| !line.contains("\"changing\""));
            lines.collect::<Vec<_>>().join("\n").into_bytes()
        }),
        ("all lines are missing", &|text| text.lines().next().unwrap().as_bytes().to_vec()),
    ];
    for undoer in [UndoneBy::User, UndoneBy::UndoTimer, UndoneBy::NextRun] {
        for (name, damage) in &damages {
            let (_directory, shelf) = shelf();
            let mut host = Pretended::of(&steps());
            let before = host.values.clone();
            let (journal, _) = applied(&shelf, &mut host);
            let mut journal = damaged(&shelf, &journal.id, damage);
            let ends = undo(&mut journal, &mut host, undoer).unwrap();
            assert_eq!((ends.len(), &host.values), (4, &before), "{name} {undoer:?}: {ends:?}");
            assert_eq!(outstanding(&shelf.journal(&journal.id).unwrap()), [0_usize; 0], "{name}");
        }
    }
}

#[test]
fn a_damaged_journal_never_hides_what_it_lost() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let before = host.values.clone();
    let (journal, _) = applied(&shelf, &mut host);
    // The journal says that the treatment was undone, but nothing was restored.
    let mut journal = damaged(&shelf, &journal.id, cut_after_the_first_line);
    journal.note(TreatmentEvent::Undone { by: "undo timer".into() }).unwrap();
    host.values.insert(sysctl("net.ipv4.tcp_ecn"), "1".into());
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert!(matches!(&ends[2], (1, WayBack::Left(why)) if why.contains("damaged")), "{ends:?}");
    undo(&mut journal, &mut host, UndoneBy::InsistingUser).unwrap();
    assert_eq!(host.values, before);
}

/// The undo timer has read the journal before the damage.
#[test]
fn what_a_process_knows_survives_the_file() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let (mut journal, _) = applied(&shelf, &mut host);
    let known = journal.events.clone();
    damaged(&shelf, &journal.id, cut_after_the_first_line).note(TreatmentEvent::Confirmed).unwrap();
    journal.refresh().unwrap();
    assert_eq!((&journal.events[..known.len()], journal.events.len()), (&known[..], known.len() + 1));
    assert_eq!((journal.standing(), journal.is_damaged()), (TreatmentStanding::Confirmed, true));
}

fn resetting(masks: &[(u32, &str)]) -> Pretended {
    let mut host = Pretended::of(&steps());
    let channels = Setting::Channels { port: "eth0".into(), queues: Queues::Combined };
    for (queue, mask) in masks {
        let xps = Setting::Xps { port: "eth0".into(), queue: *queue };
        host.values.insert(xps.clone(), (*mask).into());
        host.reset.push((channels.clone(), xps, "1".into()));
    }
    host
}

#[test]
fn what_a_step_changes_by_the_way_comes_back_too() {
    let (_directory, shelf) = shelf();
    let mut host = resetting(&[(0, "3"), (1, "c")]);
    // A mask that is a step of its own was reset before that step.
    let rps = Setting::Rps { port: "eth0".into(), queue: 0 };
    host.reset.push((host.reset[0].0.clone(), rps, "0".into()));
    let before = host.values.clone();
    let (mut journal, fates) = applied(&shelf, &mut host);
    assert!(matches!(fates[3], StepFate::Holds(_)) && host.values != before, "{fates:?}");
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "{ends:?}");
    assert_eq!(host.values, before);
}

/// A bridge takes the MTU of its only port.
#[test]
fn what_an_earlier_step_brought_about_holds() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let [channels, rps] = [2, 3].map(|step| steps()[step].setting.clone());
    host.reset.push((channels, rps, "f".into()));
    let before = host.values.clone();
    let (mut journal, fates) = applied(&shelf, &mut host);
    assert_eq!((&fates[3], journal.before(3)), (&StepFate::Holds("f".into()), None));
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "{ends:?}");
    assert_eq!(host.values, before);
}

#[test]
fn what_stays_changed_by_the_way_is_said() {
    let (_directory, shelf) = shelf();
    let mut host = resetting(&[(0, "3"), (1, "c")]);
    let xps = |queue| Setting::Xps { port: "eth0".into(), queue };
    let before = host.values.clone();
    let (mut journal, _) = applied(&shelf, &mut host);
    host.values.insert(xps(0), "f".into());
    host.refused = Some(xps(1));
    let of = |ends: &[(usize, WayBack)]| match ends.iter().find(|(step, _)| *step == 2) {
        Some((_, WayBack::Left(why))) => why.clone(),
        other => panic!("{other:?}"),
    };
    let why = of(&undo(&mut journal, &mut host, UndoneBy::User).unwrap());
    assert!(why.contains("xps_cpus of eth0's queue 1 was c before: Invalid argument"), "{why}");
    host.refused = None;
    let why = of(&undo(&mut journal, &mut host, UndoneBy::User).unwrap());
    assert!(why.contains("queue 0 is f, which somebody else has set"), "{why}");
    undo(&mut journal, &mut host, UndoneBy::InsistingUser).unwrap();
    assert_eq!(host.values, before);
}

#[test]
fn a_plan_that_is_out_of_date_changes_nothing() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    host.values.insert(sysctl("net.ipv4.tcp_ecn"), "1".into());
    let (journal, fates) = applied(&shelf, &mut host);
    assert!(matches!(&fates[1], StepFate::Refused(why) if why.contains("but was")), "{fates:?}");
    assert_eq!((host.values[&sysctl("net.ipv4.tcp_ecn")].as_str(), journal.before(1)), ("1", None));
}

#[test]
fn what_was_undone_long_ago_is_forgotten() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let (mut old, _) = applied(&shelf, &mut host);
    undo(&mut old, &mut host, UndoneBy::User).unwrap();
    let (kept, _) = applied(&shelf, &mut host);
    let age = |id: &str, begun: u64| {
        let path = shelf.path().join(id).join("journal.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(&format!("\"begun\":{begun}"), "\"begun\":1000")).unwrap();
    };
    shelf.tidy();
    assert_eq!(shelf.all().0.len(), 2, "both are young");
    age(&old.id, old.head.begun);
    age(&kept.id, kept.head.begun);
    shelf.tidy();
    let left: Vec<_> = shelf.all().0.into_iter().map(|journal| journal.id).collect();
    assert_eq!(left, [kept.id], "what wasn't undone stays");
}

#[test]
fn one_at_a_time() {
    let (_directory, shelf) = shelf();
    let held = shelf.lock(Duration::ZERO).unwrap();
    assert!(shelf.lock(Duration::from_millis(30)).unwrap_err().contains("another linerate doctor"));
    drop(held);
    shelf.lock(Duration::ZERO).unwrap();
}

fn port(name: &str, index: u32) -> PortIdentity {
    PortIdentity { name: name.into(), index, mac: None }
}

fn rps(port: &str) -> Setting {
    Setting::Rps { port: port.into(), queue: 0 }
}

/// The steps' port has another name now, and another port has its former name.
#[test]
fn a_port_with_another_name_is_restored_and_its_namesake_is_left() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended { ports: vec![port("eth0", 7)], ..Pretended::of(&steps()) };
    let before = host.values.clone();
    let (mut journal, _) = applied(&shelf, &mut host);
    host.ports = vec![port("eth1", 7), port("eth0", 8)];
    let of_eth0: Vec<_> =
        host.values.keys().filter(|setting| setting.port() == Some("eth0")).cloned().collect();
    for setting in &of_eth0 {
        let value = host.values[setting].clone();
        host.values.insert(setting.clone().of_port("eth1"), value);
    }
    let now = host.values.clone();
    let ends = undo(&mut journal, &mut host, UndoneBy::UndoTimer).unwrap();
    assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "{ends:?}");
    for setting in &of_eth0 {
        assert_eq!(host.values[setting], now[setting], "another port's");
        assert_eq!(host.values[&setting.clone().of_port("eth1")], before[setting]);
    }
}

#[test]
fn a_port_that_is_gone_leaves_its_namesake_alone() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended { ports: vec![port("eth0", 7)], ..Pretended::of(&steps()) };
    let (mut journal, _) = applied(&shelf, &mut host);
    host.ports = vec![port("eth0", 8)];
    for undoer in [UndoneBy::User, UndoneBy::InsistingUser] {
        let ends = undo(&mut journal, &mut host, undoer).unwrap();
        let left = WayBack::Left("the port eth0 is gone: nothing to restore".into());
        assert_eq!(ends.iter().filter(|(_, end)| *end == left).count(), 2, "{ends:?}");
        assert_eq!(host.values[&rps("eth0")], "f");
    }
}

#[test]
fn a_port_that_changes_before_its_step_is_left() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended { ports: vec![port("eth0", 7)], ..Pretended::of(&steps()) };
    let mut journal = shelf.begin(steps(), 60, &mut host).unwrap();
    host.ports = vec![port("eth1", 7), port("eth0", 8)];
    let mut fates = Vec::new();
    apply(&mut journal, &mut host, &mut |_, fate| fates.push(fate.clone())).unwrap();
    assert!(matches!(&fates[3], StepFate::Refused(why) if why.contains("another name now")), "{fates:?}");
    assert_eq!(host.values[&rps("eth0")], "0");
}

/// The kernel takes a discipline's quantum from the MTU at that moment.
#[test]
fn disciplines_are_restored_after_mtus() {
    let (_directory, shelf) = shelf();
    let (mtu, qdisc) = (Setting::Mtu { port: "eth0".into() }, Setting::Qdisc { port: "eth0".into() });
    let step = |setting: &Setting, before: &str, new: &str| PlannedStep {
        setting: setting.clone(),
        before: before.into(),
        new: new.into(),
        ..steps()[0].clone()
    };
    let steps =
        vec![step(&qdisc, "fq_codel", "fq"), step(&mtu, "1500", "9000"), step(&qdisc, "fq_codel", "fq")];
    let mut host = Pretended::of(&steps);
    let plan = TreatmentPlan::again(steps.clone(), &mut host);
    assert_eq!(plan.steps[0].setting, mtu, "the MTU comes first");
    let mut journal = shelf.begin(steps[..2].to_vec(), 60, &mut host).unwrap();
    apply(&mut journal, &mut host, &mut |_, _| {}).unwrap();
    let ends = undo(&mut journal, &mut host, UndoneBy::UndoTimer).unwrap();
    assert_eq!(ends.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [1, 0]);
    let mut journal = shelf.begin(steps[1..].to_vec(), 60, &mut host).unwrap();
    apply(&mut journal, &mut host, &mut |_, _| {}).unwrap();
    let ends = undo(&mut journal, &mut host, UndoneBy::UndoTimer).unwrap();
    assert_eq!(ends.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [0, 1]);
}
