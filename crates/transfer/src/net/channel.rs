//! The control channel: one thread reads the other end's messages, and any thread may write.

use crossbeam_channel::{Receiver, Sender, bounded};
use linerate_wire::control::{self, ControlError, Message};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::base::lock::lock;
use crate::net::pulse::Pulse;

/// The number of tunnel messages that may wait for the worker that reads them.
const TUNNEL_DEPTH: usize = 16;
/// The number of other messages that may wait. Their memory is limited separately. A far end that sends more has
/// to wait.
const MESSAGE_DEPTH: usize = 1024;
const MESSAGE_BYTES: usize = 24 << 20;

/// A message of the control channel, or its end.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "messages are few, and the end is one")]
pub enum Incoming {
    /// A message of the other end, and its memory reservation, which lasts until the message is handled.
    Message(Message, Room),
    /// The channel has ended: the other end sends nothing more, for this reason.
    Closed(ControlError),
}

/// The writing side of a control channel, shared by all threads.
pub struct Channel {
    writer: Mutex<ChannelWriter>,
}

struct ChannelWriter {
    to: Box<dyn Write + Send>,
    /// The buffer in which messages are encoded, reused for each message.
    buffer: Vec<u8>,
}

impl ChannelWriter {
    fn write(&mut self, message: &Message) -> Result<(), ControlError> {
        control::write_from(&mut self.buffer, &mut self.to, message)
    }
}

/// A control channel, with its sending and its receiving side.
pub struct Control {
    /// The writing side.
    pub channel: Arc<Channel>,
    /// The other end's messages, except tunnel bytes.
    pub incoming: Receiver<Incoming>,
    /// Bytes of the data stream that uses the channel.
    pub tunnel: Receiver<Vec<u8>>,
    /// Whether the other end may send tunnel bytes.
    pub way: Arc<TunnelWay>,
}

/// Whether tunnel data may arrive through the channel: a tunnel must exist, and either this end receives the
/// transfer's data, or both ends send in the tunnel.
#[derive(Debug, Default)]
pub struct TunnelWay {
    /// Whether a tunnel exists in this channel.
    pub open: AtomicBool,
    /// Whether this end receives the transfer's data.
    pub receives: AtomicBool,
    /// Whether both ends may send in the tunnel, as two agents do, whose stream has its own cipher.
    pub both: AtomicBool,
}

impl Channel {
    /// Sends `message`.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&self, message: &Message) -> Result<(), ControlError> {
        lock(&self.writer).write(message)
    }

    /// Sends `message` unless another thread is already sending a message. In both cases the other end sees
    /// that this end is alive.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send_if_free(&self, message: &Message) -> Result<(), ControlError> {
        match self.writer.try_lock() {
            Ok(mut writer) => writer.write(message),
            Err(_) => Ok(()),
        }
    }
}

impl Control {
    /// Starts a thread that reads messages until the channel ends. Each complete message counts as a sign of
    /// life in `pulse`.
    pub fn start(
        mut reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        pulse: Arc<Pulse>,
    ) -> Self {
        let (messages, incoming) = bounded(MESSAGE_DEPTH);
        let (tunnel_end, tunnel) = bounded(TUNNEL_DEPTH);
        let way = Arc::<TunnelWay>::default();
        let watched = way.clone();
        thread::spawn(move || pump(&mut reader, &messages, &tunnel_end, &watched, &pulse));
        let writer = ChannelWriter { to: Box::new(writer), buffer: Vec::new() };
        let channel = Arc::new(Channel { writer: Mutex::new(writer) });
        Self { channel, incoming, tunnel, way }
    }
}

fn pump(
    reader: &mut impl Read,
    messages: &Sender<Incoming>,
    tunnel: &Sender<Vec<u8>>,
    way: &TunnelWay,
    pulse: &Pulse,
) {
    let memory = Arc::new(Memory::default());
    let hand_on = |message: Message| {
        let room = Room::wait(&memory, message.memory());
        messages.send(Incoming::Message(message, room)).is_ok()
    };
    loop {
        let said = control::read(reader);
        let delivered = pulse.hold(|| match said {
            Ok(Message::Tunnel(bytes)) if way.is_open() => tunnel.send(bytes).is_ok(),
            Ok(Message::UseTunnel) => {
                // The flag is set here, because tunnel bytes may follow before the message is handled.
                way.open.store(true, Ordering::Release);
                hand_on(Message::UseTunnel)
            }
            Ok(message) => hand_on(message),
            Err(error) => {
                let _ = messages.send(Incoming::Closed(error));
                false
            }
        });
        if !delivered {
            return;
        }
    }
}

impl TunnelWay {
    fn is_open(&self) -> bool {
        let comes = self.receives.load(Ordering::Acquire) || self.both.load(Ordering::Acquire);
        self.open.load(Ordering::Acquire) && comes
    }
}

/// The memory of the messages that are still in use.
#[derive(Debug, Default)]
struct Memory {
    taken: Mutex<usize>,
    less: Condvar,
}

/// One message's reservation in [`Memory`], which lasts until this value is dropped.
#[derive(Debug)]
pub struct Room {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Room {
    /// Waits until there is memory for the message. A single message always fits.
    fn wait(memory: &Arc<Memory>, bytes: usize) -> Self {
        let mut taken = lock(&memory.taken);
        while *taken > 0 && *taken + bytes > MESSAGE_BYTES {
            taken = memory.less.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += bytes;
        Self { memory: memory.clone(), bytes }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *lock(&self.memory.taken) -= self.bytes;
        self.memory.less.notify_one();
    }
}
