//! Tests of an undoing after another one was interrupted, and of undoing several treatments of the same settings.

use super::*;

/// A setting that an interrupted undo has reset as a side effect doesn't count as changed by somebody else.
#[test]
fn an_undoing_that_was_cut_off_is_finished_by_the_next() {
    let mut cut = 0;
    for deaths in 0..60 {
        let (_directory, shelf) = shelf();
        let mut host = resetting(&[(0, "3"), (1, "c")]);
        let before = host.values.clone();
        let (journal, _) = applied(&shelf, &mut host);
        // The masks that the step resets are set by the doctor's user.
        for queue in 0..2 {
            let xps = Setting::Xps { port: "eth0".into(), queue };
            host.reset.push((
                Setting::Channels { port: "eth0".into(), queues: Queues::Combined },
                xps,
                "0".into(),
            ));
        }
        host.dies_after = Some(deaths);
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            undo(&mut shelf.journal(&journal.id).unwrap(), &mut host, UndoneBy::User)
        }));
        cut += usize::from(died.is_err());
        host.dies_after = None;
        let ends = undo(&mut shelf.journal(&journal.id).unwrap(), &mut host, UndoneBy::User).unwrap();
        assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "after {deaths}: {ends:?}");
        assert_eq!(host.values, before, "after {deaths}");
    }
    assert!(cut > 10, "{cut}");
}

/// The second treatment changes the same settings as the first one, and settings that depend on them.
#[test]
fn two_treatments_are_undone_in_any_order() {
    let quantum = || Setting::Quantum { port: "eth0".into() };
    let (mtu, qdisc) = (Setting::Mtu { port: "eth0".into() }, Setting::Qdisc { port: "eth0".into() });
    let step = |setting: &Setting, before: &str, new: &str| PlannedStep {
        setting: setting.clone(),
        before: before.into(),
        new: new.into(),
        ..steps()[0].clone()
    };
    let ecn = sysctl("net.ipv4.tcp_ecn");
    let first = vec![step(&ecn, "0", "1"), step(&mtu, "1500", "9000")];
    let second = vec![step(&ecn, "1", "2"), step(&qdisc, "fq_codel", "fq")];
    for order in [[0, 1], [1, 0]] {
        let (_directory, shelf) = shelf();
        let mut host = Pretended::of(&[first[0].clone(), first[1].clone(), second[1].clone()]);
        host.values.insert(quantum(), "fq_codel 1514".into());
        host.reset
            .extend([(mtu.clone(), quantum(), String::new()), (qdisc.clone(), quantum(), String::new())]);
        host.quantum = true;
        let before = host.values.clone();
        let mut ids = Vec::new();
        for steps in [&first, &second] {
            let mut journal = shelf.begin(steps.clone(), 60, &mut host).unwrap();
            apply(&mut journal, &mut host, &mut |_, _| {}).unwrap();
            journal.confirm().unwrap();
            ids.push(journal.id);
        }
        let mut undo = |at: usize| {
            let mut journal = shelf.journal(&ids[at]).unwrap();
            let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
            (ends, catch_up(&shelf, &journal, &mut host))
        };
        let (ends, others) = undo(order[0]);
        assert!(others.is_empty() && ends.iter().any(|(_, end)| *end != WayBack::Restored), "{ends:?}");
        let (ends, others) = undo(order[1]);
        assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "{ends:?}");
        assert_eq!((others, &host.values), (vec![ids[order[0]].clone()], &before), "{order:?}");
    }
}

/// A second treatment records the value that the first one has set; after both are undone, the value before both holds.
#[test]
fn the_value_before_both_treatments_comes_back() {
    let ecn = sysctl("net.ipv4.tcp_ecn");
    let step = |before: &str, new: &str| {
        let (before, new) = (before.into(), new.into());
        vec![PlannedStep { setting: ecn.clone(), before, new, ..steps()[0].clone() }]
    };
    let treat = |shelf: &Shelf, host: &mut Pretended, before: &str, new: &str| {
        let mut journal = shelf.begin(step(before, new), 60, host).unwrap();
        apply(&mut journal, host, &mut |_, _| {}).unwrap();
        journal.confirm().unwrap();
        std::thread::sleep(Duration::from_millis(5));
        journal.id
    };
    let undo = |shelf: &Shelf, host: &mut Pretended, id: &str| {
        let mut journal = shelf.journal(id).unwrap();
        shelf.reach_back(&mut journal);
        undo(&mut journal, host, UndoneBy::InsistingUser).unwrap();
        host.values[&ecn].clone()
    };
    let mut host = Pretended::of(&step("0", "1"));
    // The user insists on undoing the first treatment, although the second one has changed the setting since.
    let (_directory, one) = shelf();
    let (first, second) = (treat(&one, &mut host, "0", "1"), treat(&one, &mut host, "1", "2"));
    assert_eq!(undo(&one, &mut host, &first), "0");
    assert_eq!(undo(&one, &mut host, &second), "0");
    // A value that somebody has set in between doesn't come from the first treatment.
    let first = treat(&one, &mut host, "0", "1");
    assert_eq!(undo(&one, &mut host, &first), "0");
    host.values.insert(ecn.clone(), "1".into());
    let second = treat(&one, &mut host, "1", "2");
    assert_eq!(undo(&one, &mut host, &second), "1");
    // A restart has undone the first treatment, and a file has set the second treatment's value again.
    host.values.insert(ecn.clone(), "0".into());
    let (_directory, one) = shelf();
    let (first, second) = (treat(&one, &mut host, "0", "1"), treat(&one, &mut host, "1", "2"));
    let kept = TreatmentEvent::Kept { steps: vec![0], files: Vec::new(), system: None, by_address: true };
    one.journal(&second).unwrap().note(kept).unwrap();
    let boot = one.journal(&first).unwrap().head.place.boot;
    let mut first = damaged(&one, &first, |text| text.replace(&boot, "another").into_bytes());
    damaged(&one, &second, |text| text.replace(&boot, "another").into_bytes());
    ended_by_restart(&mut first).unwrap();
    assert_eq!(undo(&one, &mut host, &second), "0");
}

/// A setting that two steps of one treatment change as a side effect doesn't count as changed by somebody else after
/// the second step.
#[test]
fn steps_with_the_same_settings_beside_them_are_undone() {
    let (_directory, shelf) = shelf();
    let mut host = resetting(&[(0, "3")]);
    let (channels, xps, _) = host.reset[0].clone();
    host.reset.push((sysctl("net.ipv4.tcp_ecn"), xps.clone(), "2".into()));
    let before = host.values.clone();
    let (mut journal, _) = applied(&shelf, &mut host);
    assert_eq!((journal.beside_after(1, &xps), journal.beside_after(2, &xps)), (Some("1"), Some("1")));
    assert_eq!(journal.head.steps[2].setting, channels);
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "{ends:?}");
    assert_eq!(host.values, before);
}

/// A step's own setting that somebody else has set since isn't restored as a side effect of another step, either.
#[test]
fn a_foreign_value_is_left_also_beside_another_step() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let (channels, rps) = (steps()[2].setting.clone(), steps()[3].setting.clone());
    host.reset.push((channels, rps.clone(), "0".into()));
    let (mut journal, _) = applied(&shelf, &mut host);
    host.values.insert(rps.clone(), "3".into());
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    let of = |step| ends.iter().find(|(other, _)| *other == step).map(|(_, end)| end.clone());
    assert!(matches!(of(3), Some(WayBack::SetByOthers(_))), "{ends:?}");
    assert_eq!((of(2), host.values[&rps].as_str()), (Some(WayBack::Restored), "3"));
    undo(&mut journal, &mut host, UndoneBy::InsistingUser).unwrap();
    assert_eq!(host.values[&rps], "0");
}

/// The driver reports the numbers to which it has adapted its coalescing.
#[test]
fn adapted_numbers_are_nobodys() {
    let (_directory, shelf) = shelf();
    let mut host = Pretended::of(&steps());
    let coalescing = Setting::Coalescing { port: "eth0".into() };
    let before = "rx-usecs 8 adaptive-rx on";
    host.values.insert(coalescing.clone(), before.into());
    host.reset.push((steps()[2].setting.clone(), coalescing.clone(), "rx-usecs 8 adaptive-rx on".into()));
    let (mut journal, _) = applied(&shelf, &mut host);
    host.values.insert(coalescing.clone(), "rx-usecs 64 adaptive-rx on".into());
    let ends = undo(&mut journal, &mut host, UndoneBy::User).unwrap();
    assert!(ends.iter().all(|(_, end)| *end == WayBack::Restored), "{ends:?}");
}
