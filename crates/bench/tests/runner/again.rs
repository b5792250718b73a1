//! Tests that disturbed runs are repeated.

use std::cell::Cell;
use std::time::Instant;

use linerate_bench::store::{Resumed, Store};
use linerate_host::Fact;

use super::*;

/// A host on which other work keeps processors busy before each run: the number of processors for each run,
/// beginning with the warm-up.
struct Crowded {
    loads: &'static [f64],
    commands: Cell<usize>,
    seen: Instant,
    busy: f64,
}

impl Crowded {
    fn beds(loads: &'static [f64]) -> BTreeMap<String, Box<dyn Bed>> {
        let bed = Crowded { loads, commands: Cell::new(0), seen: Instant::now(), busy: 0.0 };
        BTreeMap::from([("memory".to_owned(), Box::new(bed) as Box<dyn Bed>)])
    }
}

impl Bed for Crowded {
    fn command(&self, end: End, argv: &[OsString]) -> io::Result<Command> {
        self.commands.set(self.commands.get() + 1);
        Here.command(end, argv)
    }

    fn ssh_config(&self) -> PathBuf {
        Here.ssh_config()
    }

    fn host(&self) -> String {
        Here.host()
    }

    fn address(&self) -> String {
        Here.address()
    }

    fn link(&self) -> Link {
        Here.link()
    }

    fn shares_processors(&self) -> bool {
        true
    }

    fn has(&self, end: End, program: &str) -> bool {
        Here.has(end, program)
    }

    fn facts(&mut self, end: End) -> io::Result<Facts> {
        Here.facts(end)
    }

    fn cpu(&mut self, _end: End) -> io::Result<CpuTimes> {
        let load = self.loads.get(self.commands.get()).copied().unwrap_or(0.0);
        self.busy += load * self.seen.elapsed().as_secs_f64();
        self.seen = Instant::now();
        let zero = CpuTimes::read(Path::new("/"))?;
        Ok(CpuTimes {
            ticks_per_second: 1_000_000,
            processors: 4,
            user: (self.busy * 1e6) as u64,
            steal: 0,
            pressure: Fact::NotApplicable,
            nice: 0,
            system: 0,
            irq: 0,
            softirq: 0,
            guest: 0,
            guest_nice: 0,
            ..zero
        })
    }
}

#[test]
fn a_disturbed_run_is_made_again_and_the_least_disturbed_counts() {
    let trial = Trial::new(&[("copy", "cp -r \"$1\" \"$2\"/")]);
    let mut study = trial.study(&[("copy", 1)]);
    (study.repeats, study.settle) = (2, 0.1);
    let (work, out) = trial.places();
    // The first value is for the warm-up, the next three for the tries of the first block, the last two for
    // the second block.
    let beds = Crowded::beds(&[0.0, 2.0, 1.5, 3.0, 2.0, 0.0]);
    let runner = Runner::new(trial.setup(&study, &work, &out), beds, &mut |_| {}).unwrap();
    let dir = runner.dir();
    let record = runner.run(&mut |_| {}).unwrap();
    let reported: Vec<(u32, u32, bool)> = record
        .runs
        .iter()
        .map(|run| match &run.outcome {
            Outcome::Measured(measures) => (run.block, measures.set_aside, measures.disturbed.is_some()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reported, [(0, 2, true), (1, 1, false)]);
    let Outcome::Measured(kept) = &record.runs[0].outcome else { unreachable!("it was measured") };
    assert!((0.8..1.7).contains(&kept.foreign_processors.unwrap()), "{kept:?}");
    let aside = std::fs::read_to_string(dir.join("disturbed.jsonl")).unwrap();
    assert_eq!((aside.lines().count(), aside.matches("\"block\":0").count()), (3, 2), "{aside}");
    assert_eq!(store::load(&dir).unwrap().record.runs.len(), 2, "only those that count");
    assert_eq!(std::fs::read_dir(dir.join("raw")).unwrap().count(), 6, "each has its output");
    let Resumed { disturbed, .. } = Store::resume(&dir).unwrap();
    assert_eq!(disturbed, 3);
}
