//! The units that wait for a worker, including units that the worker of a slow stream has returned.

use crossbeam_channel::Receiver;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use crate::base::lock::lock;
use crate::send::plan::Unit;

/// The queue of units, and the units that workers have returned to the others.
///
/// A worker that finds no unit waits as long as another worker has one, because the other worker may return a part of
/// its unit.
pub struct Work {
    queue: Receiver<Unit>,
    hands: Mutex<Hands>,
    changed: Condvar,
}

#[derive(Default)]
struct Hands {
    returned: Vec<Unit>,
    /// The number of workers that have a unit, or that wait for a unit from a queue that isn't closed.
    busy: u32,
    /// The number of workers that found no unit and wait for a part of another worker's unit.
    idle: u32,
}

/// A unit that a worker has taken. When this value is dropped, the worker counts as finished with the unit.
pub struct InHand<'a> {
    work: &'a Work,
    unit: Option<Unit>,
}

impl Work {
    /// The work whose units come from `queue`.
    pub fn new(queue: Receiver<Unit>) -> Self {
        Self { queue, hands: Mutex::default(), changed: Condvar::new() }
    }

    /// Takes the next unit; `None` if there is no unit and none will be added.
    pub fn take(&self) -> Option<InHand<'_>> {
        let mut hands = lock(&self.hands);
        hands.busy += 1;
        let mut taken = InHand { work: self, unit: hands.returned.pop() };
        drop(hands);
        if taken.unit.is_none() {
            taken.unit = self.queue.recv().ok();
        }
        if taken.unit.is_some() {
            return Some(taken);
        }
        drop(taken);
        let mut hands = lock(&self.hands);
        loop {
            if let Some(unit) = hands.returned.pop() {
                hands.busy += 1;
                return Some(InHand { work: self, unit: Some(unit) });
            }
            if hands.busy == 0 {
                return None;
            }
            hands.idle += 1;
            hands = self.changed.wait(hands).unwrap_or_else(std::sync::PoisonError::into_inner);
            hands.idle -= 1;
        }
    }

    /// Takes the next unit, if one becomes available within `patience`.
    pub fn take_within(&self, patience: Duration) -> Option<InHand<'_>> {
        let mut hands = lock(&self.hands);
        hands.busy += 1;
        let mut taken = InHand { work: self, unit: hands.returned.pop() };
        drop(hands);
        if taken.unit.is_none() {
            taken.unit = self.queue.recv_timeout(patience).ok();
        }
        taken.unit.is_some().then_some(taken)
    }

    /// True if no unit waits in the queue.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// True if a worker waits for a part of another worker's unit, and no unit was returned for it yet.
    pub fn is_wanted(&self) -> bool {
        let hands = lock(&self.hands);
        hands.idle > 0 && hands.returned.is_empty()
    }

    /// Returns units to the other workers.
    pub fn give_back(&self, units: impl IntoIterator<Item = Unit>) {
        lock(&self.hands).returned.extend(units);
        self.changed.notify_all();
    }
}

impl InHand<'_> {
    /// Takes the unit out of this value; `None` if it was taken before.
    pub fn unit(&mut self) -> Option<Unit> {
        self.unit.take()
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let mut hands = lock(&self.work.hands);
        hands.busy -= 1;
        if hands.busy == 0 {
            self.work.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn who_finds_nothing_waits_for_what_another_gives_back() {
        let (sender, queue) = bounded(2);
        let work = Work::new(queue);
        sender.send(Unit::Batch(Vec::new())).unwrap();
        drop(sender);
        let held = work.take().unwrap();
        thread::scope(|scope| {
            let other = scope.spawn(|| work.take().is_some() && work.take().is_none());
            thread::sleep(Duration::from_millis(50));
            assert!(!other.is_finished() && work.is_wanted());
            work.give_back([Unit::Batch(Vec::new())]);
            thread::sleep(Duration::from_millis(50));
            drop(held);
            assert!(other.join().unwrap());
        });
        assert!(work.take().is_none() && !work.is_wanted());
    }
}
