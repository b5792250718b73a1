//! Frames between two threads. They don't contain the contents of large files: the receiver copies the
//! contents from the open file, in the most efficient way that the file systems offer.

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use linerate_wire::frame::FrameKind;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::{FrameHandler, StreamError};
use crate::net::clock::{Clock, Stage};
use crate::net::transport::Registry;

/// The number of frames that may wait for the receiver. While the receiver writes small files, the sender can
/// read the next ones.
const DEPTH: usize = 4;
/// How often a waiting end checks whether the transfer was cut.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// One end of a stream within this process.
pub struct WithinEnd {
    to: Sender<Passed>,
    from: Receiver<Passed>,
    registry: Registry,
}

/// A message from one end to the other.
enum Passed {
    Frame(FrameKind, Vec<u8>),
    Range(FileRange, Sender<Result<u64, Errno>>),
}

/// A range of bytes in an open file.
pub struct FileRange {
    file: OwnedFd,
    /// The offset of the bytes in the file.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl AsFd for FileRange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Both ends of a stream, which lives until `registry` is cut.
pub fn pair(registry: &Registry) -> (WithinEnd, WithinEnd) {
    let ((to_one, for_one), (to_other, for_other)) = (bounded(DEPTH), bounded(DEPTH));
    let end = |to, from| WithinEnd { to, from, registry: registry.clone() };
    (end(to_other, for_one), end(to_one, for_other))
}

/// Sends frames to another thread.
pub struct WithinWriter {
    to: Sender<Passed>,
    registry: Registry,
}

impl WithinWriter {
    /// The sending side of `end`.
    pub fn new(end: WithinEnd) -> Self {
        Self { to: end.to, registry: end.registry }
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// If the receiver is gone.
    pub fn send(&self, kind: FrameKind, payload: Vec<u8>, clock: &mut Clock) -> Result<(), StreamError> {
        clock.lap(Stage::Read);
        let sent = self.pass(Passed::Frame(kind, payload));
        clock.lap(Stage::Socket);
        sent
    }

    /// Sends a data frame of `length` bytes, which `read` writes into the buffer; sends nothing if `read` fails.
    ///
    /// # Errors
    /// If the receiver is gone.
    pub fn send_data<E>(
        &self,
        length: usize,
        clock: &mut Clock,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<(), E>,
    ) -> Result<Result<(), E>, StreamError> {
        let mut payload = vec![0; length];
        match read(&mut [IoSliceMut::new(&mut payload)]) {
            Ok(()) => self.send(FrameKind::Data, payload, clock).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Makes the receiver copy `length` bytes of `file` from `offset` on; returns how many of these bytes the
    /// file had.
    ///
    /// # Errors
    /// If the receiver is gone; the inner error if the file can't be read.
    pub fn send_range(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u64,
        clock: &mut Clock,
    ) -> Result<Result<u64, Errno>, StreamError> {
        let file = file.try_clone_to_owned()?;
        let (answer, answered) = bounded(1);
        clock.lap(Stage::Read);
        self.pass(Passed::Range(FileRange { file, offset, length }, answer))?;
        let copied = take(&answered, &self.registry);
        clock.lap(Stage::Socket);
        copied
    }

    fn pass(&self, mut passed: Passed) -> Result<(), StreamError> {
        while !self.registry.is_cut() {
            passed = match self.to.send_timeout(passed, CHECK_INTERVAL) {
                Ok(()) => return Ok(()),
                Err(SendTimeoutError::Timeout(passed)) => passed,
                Err(SendTimeoutError::Disconnected(_)) => break,
            };
        }
        Err(StreamError::Cut)
    }
}

/// Receives frames from another thread.
pub struct WithinReader {
    from: Receiver<Passed>,
    registry: Registry,
    is_used: bool,
}

impl WithinReader {
    /// The receiving side of `end`.
    pub fn new(end: WithinEnd) -> Self {
        Self { from: end.from, registry: end.registry, is_used: false }
    }

    /// Passes every frame to `handler` until the end is announced.
    ///
    /// # Errors
    /// If the sender is gone before that, or the handler fails.
    pub fn run(&mut self, handler: &mut impl FrameHandler) -> Result<(), StreamError> {
        loop {
            let passed = take(&self.from, &self.registry)?;
            self.is_used = true;
            handler.clock().lap(Stage::Socket);
            match passed {
                Passed::Frame(kind, payload) => {
                    handler.whole(kind, payload)?;
                    if kind == FrameKind::End {
                        return Ok(());
                    }
                }
                Passed::Range(range, answer) => {
                    let copied = handler.range(&range)?;
                    // A sender that is gone doesn't need the answer.
                    let _ = answer.send(copied);
                }
            }
        }
    }

    /// True once a frame has arrived.
    pub fn is_used(&self) -> bool {
        self.is_used
    }
}

/// Waits for the next item of the queue; fails if `registry` is cut. Even while the other end of the queue
/// exists, an item may never arrive: the stream may wait in a queue that nobody reads.
fn take<T>(from: &Receiver<T>, registry: &Registry) -> Result<T, StreamError> {
    while !registry.is_cut() {
        match from.recv_timeout(CHECK_INTERVAL) {
            Ok(passed) => return Ok(passed),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(StreamError::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn a_receiver_that_has_gone_is_not_waited_for() {
        let registry = Registry::default();
        let (one, other) = pair(&registry);
        let (writer, reader) = (WithinWriter::new(one), WithinReader::new(other));
        let file = File::open("/dev/null").unwrap();
        let begun = Instant::now();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| writer.send_range(file.as_fd(), 0, 1, &mut Clock::start()));
            thread::sleep(CHECK_INTERVAL / 2);
            // Frames that were sent before stay in the queue.
            drop(reader);
            registry.cut();
            assert!(matches!(waiting.join().unwrap(), Err(StreamError::Cut)));
        });
        assert!(begun.elapsed() < 10 * CHECK_INTERVAL);
        assert!(matches!(
            writer.send(FrameKind::End, Vec::new(), &mut Clock::start()),
            Err(StreamError::Cut)
        ));
    }
}
