//! The control channel: a thread reads what the other end says, anyone may write.

use crossbeam_channel::{Receiver, Sender, bounded};
use linerate_wire::control::{self, ControlError, Message};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::lock::lock;

/// Tunnel messages that may wait for the worker that takes them.
const TUNNEL_DEPTH: usize = 16;
/// Other messages that may wait; a peer that says more waits itself.
const MESSAGE_DEPTH: usize = 1024;

/// What the control channel brings.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "messages are few, and the end is one")]
pub enum Incoming {
    /// The other end said something.
    Message(Message),
    /// It will say nothing more, and why.
    Closed(ControlError),
}

/// The writing side, shared by all threads.
pub struct Channel {
    writer: Mutex<Writer>,
}

struct Writer {
    to: Box<dyn Write + Send>,
    /// The last message: memory for the next.
    buffer: Vec<u8>,
}

impl Writer {
    fn write(&mut self, message: &Message) -> Result<(), ControlError> {
        control::write_from(&mut self.buffer, &mut self.to, message)
    }
}

/// Both sides of a control channel.
pub struct Control {
    /// For speaking.
    pub channel: Arc<Channel>,
    /// What the other end says, tunnel bytes left out.
    pub incoming: Receiver<Incoming>,
    /// Bytes of the data stream that travels through the channel.
    pub tunnel: Receiver<Vec<u8>>,
    /// Set where the other end may send such bytes.
    pub tunnel_open: Arc<AtomicBool>,
}

impl Channel {
    /// Says `message`.
    ///
    /// # Errors
    /// Where the other end is gone.
    pub fn send(&self, message: &Message) -> Result<(), ControlError> {
        lock(&self.writer).write(message)
    }

    /// Says `message`, unless somebody else is speaking: then the other end hears of this one anyway.
    ///
    /// # Errors
    /// Where the other end is gone.
    pub fn send_if_free(&self, message: &Message) -> Result<(), ControlError> {
        match self.writer.try_lock() {
            Ok(mut writer) => writer.write(message),
            Err(_) => Ok(()),
        }
    }
}

impl Control {
    /// Begins to read; the thread ends with the channel.
    pub fn start(mut reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        let (messages, incoming) = bounded(MESSAGE_DEPTH);
        let (tunnel_end, tunnel) = bounded(TUNNEL_DEPTH);
        let tunnel_open = Arc::new(AtomicBool::new(false));
        let open = tunnel_open.clone();
        thread::spawn(move || pump(&mut reader, &messages, &tunnel_end, &open));
        let writer = Writer { to: Box::new(writer), buffer: Vec::new() };
        let channel = Arc::new(Channel { writer: Mutex::new(writer) });
        Self { channel, incoming, tunnel, tunnel_open }
    }
}

fn pump(
    reader: &mut impl Read,
    messages: &Sender<Incoming>,
    tunnel: &Sender<Vec<u8>>,
    tunnel_open: &AtomicBool,
) {
    loop {
        let delivered = match control::read(reader) {
            Ok(Message::Tunnel(bytes)) if tunnel_open.load(Ordering::Acquire) => tunnel.send(bytes).is_ok(),
            Ok(Message::UseTunnel) => {
                // Here, since bytes may follow before the message is handled.
                tunnel_open.store(true, Ordering::Release);
                messages.send(Incoming::Message(Message::UseTunnel)).is_ok()
            }
            Ok(message) => messages.send(Incoming::Message(message)).is_ok(),
            Err(error) => {
                let _ = messages.send(Incoming::Closed(error));
                return;
            }
        };
        if !delivered {
            return;
        }
    }
}
