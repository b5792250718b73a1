//! The control channel: a thread reads what the other end says, anyone may write.

use crossbeam_channel::{Receiver, Sender, bounded};
use linerate_wire::control::{self, ControlError, Message};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::base::lock::lock;
use crate::net::pulse::Pulse;

/// Tunnel messages that may wait for the worker that takes them.
const TUNNEL_DEPTH: usize = 16;
/// Other messages that may wait, and what they may take in memory; a peer that says more waits itself.
const MESSAGE_DEPTH: usize = 1024;
const MESSAGE_BYTES: usize = 24 << 20;

/// A message of the control channel, or its end.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "messages are few, and the end is one")]
pub enum Incoming {
    /// The other end said something, which takes some room until it is done with.
    Message(Message, Room),
    /// The other end will say nothing more, and why.
    Closed(ControlError),
}

/// The writing side, shared by all threads.
pub struct Channel {
    writer: Mutex<ChannelWriter>,
}

struct ChannelWriter {
    to: Box<dyn Write + Send>,
    /// The last message: memory for the next.
    buffer: Vec<u8>,
}

impl ChannelWriter {
    fn write(&mut self, message: &Message) -> Result<(), ControlError> {
        control::write_from(&mut self.buffer, &mut self.to, message)
    }
}

/// Both sides of a control channel.
pub struct Control {
    /// The side that speaks.
    pub channel: Arc<Channel>,
    /// The other end's messages, without tunnel bytes.
    pub incoming: Receiver<Incoming>,
    /// Bytes of the data stream that travels through the channel.
    pub tunnel: Receiver<Vec<u8>>,
    /// The tunnel that the other end may send such bytes to.
    pub way: Arc<TunnelWay>,
}

/// Whether data may come through the channel: there is a tunnel, and this end receives, or both ends talk in it.
#[derive(Debug, Default)]
pub struct TunnelWay {
    /// There is a tunnel.
    pub open: AtomicBool,
    /// This end is the one that receives.
    pub receives: AtomicBool,
    /// Both ends talk in the tunnel, as two agents do whose stream has a cipher of its own.
    pub both: AtomicBool,
}

impl Channel {
    /// Says `message`.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn send(&self, message: &Message) -> Result<(), ControlError> {
        lock(&self.writer).write(message)
    }

    /// Says `message`, unless somebody else is speaking: then the other end hears of this one anyway.
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
    /// Begins to read; the thread ends with the channel. Each whole message is a beat of the other end's `pulse`.
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
                // Here, since bytes may follow before the message is handled.
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

/// Memory of the messages that are still in use.
#[derive(Debug, Default)]
struct Memory {
    taken: Mutex<usize>,
    less: Condvar,
}

/// A message's share of that, until this is dropped.
#[derive(Debug)]
pub struct Room {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Room {
    /// Waits until there is room. One message always has some.
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
