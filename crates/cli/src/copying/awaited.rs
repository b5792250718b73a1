//! Holds back the report of each file until the file was sent, so that no report names a file that wasn't sent.

use linerate_wire::control::Change;
use linerate_wire::path::RelPath;
use std::collections::{HashMap, VecDeque};

/// The largest number of reports that wait. If there are more, the first ones are made although their files were not
/// sent yet.
const MOST_WAITING: usize = 50_000;

/// Reports that wait for their files, in the order in which they are made.
#[derive(Default)]
pub struct Awaited {
    waiting: VecDeque<WaitingReport>,
    /// The number of reports that no longer wait.
    gone: u64,
    /// The numbers of the reports whose files were not sent yet, by the files' paths.
    open: HashMap<RelPath, u64>,
}

/// A report that waits for its own file, or for the files of the reports before it.
struct WaitingReport {
    change: Change,
    state: FileState,
}

/// The state of a report's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileState {
    /// It isn't known yet whether the file was sent.
    Open,
    /// The file was sent, or nothing had to be sent.
    Sent,
    /// The file was not sent.
    Failed,
}

/// A report that no longer waits.
#[derive(Debug, PartialEq, Eq)]
pub enum Released {
    /// The report is made.
    Made(Change),
    /// The report isn't made, because its file was not sent.
    Dropped(Change),
}

impl Awaited {
    /// Adds the report of a change; returns the reports that no longer wait.
    pub fn add(&mut self, change: Change) -> Vec<Released> {
        let is_sent = matches!(change.item, [b'<' | b'>', b'f', ..]);
        if is_sent {
            let number = self.gone + self.waiting.len() as u64;
            self.open.insert(change.path.clone(), number);
        }
        let state = if is_sent { FileState::Open } else { FileState::Sent };
        self.waiting.push_back(WaitingReport { change, state });
        self.release()
    }

    /// Notes that the file at `path` was sent; returns the reports that no longer wait.
    pub fn moved(&mut self, path: &RelPath) -> Vec<Released> {
        self.settle(path, FileState::Sent)
    }

    /// Notes that the file whose path a message shows as `shown` was not sent; returns the reports that no
    /// longer wait. `shown` may begin with the path of the source, before the path by which the file is reported.
    pub fn failed(&mut self, shown: &[u8]) -> Vec<Released> {
        let begins = std::iter::once(0).chain((1..shown.len()).filter(|at| shown[at - 1] == b'/'));
        let paths = begins.filter_map(|at| RelPath::new(shown[at..].to_vec()).ok());
        let longest = paths.into_iter().find(|path| self.open.contains_key(path));
        longest.map_or_else(Vec::new, |path| self.settle(&path, FileState::Failed))
    }

    /// Ends the wait of all reports. Reports whose files are unknown are made if the transfer is `complete`.
    pub fn end(&mut self, complete: bool) -> Vec<Released> {
        let unknown = if complete { FileState::Sent } else { FileState::Failed };
        self.open.clear();
        let all = self.waiting.iter_mut().filter(|waiting| waiting.state == FileState::Open);
        all.for_each(|waiting| waiting.state = unknown);
        self.release()
    }

    fn settle(&mut self, path: &RelPath, state: FileState) -> Vec<Released> {
        let number = self.open.remove(path).and_then(|number| number.checked_sub(self.gone));
        let waiting = number.and_then(|number| self.waiting.get_mut(usize::try_from(number).ok()?));
        waiting.into_iter().for_each(|waiting| waiting.state = state);
        self.release()
    }

    fn release(&mut self) -> Vec<Released> {
        let mut released = Vec::new();
        while let Some(first) = self.waiting.front()
            && (first.state != FileState::Open || self.waiting.len() > MOST_WAITING)
            && let Some(WaitingReport { change, state }) = self.waiting.pop_front()
        {
            self.gone += 1;
            if state == FileState::Open {
                self.open.remove(&change.path);
            }
            released.push(match state {
                FileState::Failed => Released::Dropped(change),
                FileState::Open | FileState::Sent => Released::Made(change),
            });
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(item: &[u8; 11], path: &str) -> Change {
        let path = RelPath::new(path.as_bytes()).unwrap();
        Change { item: *item, path, directory: item[1] == b'd', link: None, facts: None }
    }

    fn shown(released: Vec<Released>) -> String {
        let one = |released| match released {
            Released::Made(change) => format!("{} ", change.path.as_os_str().display()),
            Released::Dropped(change) => format!("({}) ", change.path.as_os_str().display()),
        };
        released.into_iter().map(one).collect()
    }

    #[test]
    fn reports_keep_their_order_and_wait_for_their_files() {
        let mut awaited = Awaited::default();
        let path = |text: &str| RelPath::new(text.as_bytes()).unwrap();
        assert_eq!(shown(awaited.add(change(b"cd+++++++++", "d"))), "d ");
        for name in ["d/1", "d/2", "d/3"] {
            assert_eq!(shown(awaited.add(change(b">f+++++++++", name))), "");
        }
        assert_eq!(shown(awaited.add(change(b".f...p.....", "d/4"))), "");
        assert_eq!(shown(awaited.moved(&path("d/2"))), "");
        assert_eq!(shown(awaited.failed(b"h:src/./d/1")), "(d/1) d/2 ");
        assert_eq!(shown(awaited.failed(b"h:src/./d/x/3")), "");
        assert_eq!(shown(awaited.moved(&path("d/3"))), "d/3 d/4 ");
        assert_eq!(shown(awaited.moved(&path("d/3"))), "");
    }

    #[test]
    fn a_failure_is_that_of_the_longest_path() {
        let mut awaited = Awaited::default();
        for name in ["a/f", "f"] {
            awaited.add(change(b"<f.st......", name));
        }
        assert_eq!(shown(awaited.failed(b"src/a/f")), "(a/f) ");
        assert_eq!(shown(awaited.failed(b"src/b/f")), "(f) ");
    }

    #[test]
    fn at_the_end_only_a_complete_transfer_makes_all_reports() {
        for (complete, all) in [(true, "1 2 "), (false, "(1) 2 ")] {
            let mut awaited = Awaited::default();
            awaited.add(change(b">f+++++++++", "1"));
            awaited.add(change(b">f+++++++++", "2"));
            awaited.moved(&RelPath::new(b"2").unwrap());
            assert_eq!(shown(awaited.end(complete)), all);
        }
    }

    #[test]
    fn the_number_of_waiting_reports_is_limited() {
        let mut awaited = Awaited::default();
        let add = |number: usize| awaited.add(change(b">f+++++++++", &number.to_string()));
        let made: Vec<_> = (0..MOST_WAITING + 2).map(add).filter(|made| !made.is_empty()).collect();
        assert_eq!(made.into_iter().map(shown).collect::<Vec<_>>(), ["0 ", "1 "]);
        assert_eq!(awaited.open.len(), MOST_WAITING);
    }
}
