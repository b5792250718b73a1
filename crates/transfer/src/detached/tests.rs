//! Tests of two agents that continue without their client. One of the two is hostile; the tests check which actions it
//! can cause at the other.

use super::*;
use crate::base::problem::Observer;
use crate::net::control_link::{LinkReader, LinkWriter, LinkedPeer};
use crate::net::keys::Keys;
use crate::net::pulse::Pulse;
use crate::net::routes::Interfaces;
use crate::net::session::Client;
use crate::net::stream::Stream;
use crate::net::tls::Handshake;
use crate::net::transport::Transport;
use linerate_wire::PROTOCOL;
use linerate_wire::control::{self, Change, Hello, Listening, Message, Problem};
use linerate_wire::filter::ListedPath;
use linerate_wire::path::RelPath;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The two ends of a connection between two agents; the first end has dialled.
fn links() -> (ControlLink, ControlLink) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    let (a, b) = (Keys::generate().unwrap(), Keys::generate().unwrap());
    let (to_b, to_a) = (a.pin(b.public()).unwrap(), b.pin(a.public()).unwrap());
    let accepting = thread::spawn(move || linked(far, Handshake::server(&to_a).unwrap(), false));
    let dialled = linked(near, Handshake::client(&to_b).unwrap(), true);
    (dialled, accepting.join().unwrap())
}

fn linked(mut socket: TcpStream, handshake: Handshake, dials: bool) -> ControlLink {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (tls, leftover) = handshake.run(&mut socket).unwrap();
    ControlLink::of(Stream::new(Transport::Tcp(socket), Some(tls), leftover), dials, None).unwrap()
}

/// The hostile agent's end of the connection.
struct Other {
    reader: LinkReader,
    writer: LinkWriter,
}

impl Other {
    fn of(link: ControlLink) -> Self {
        Self { reader: link.reader, writer: link.writer }
    }

    fn say(&mut self, message: &Message) {
        // An agent that has given up reads no more messages.
        let _ = control::write(&mut self.writer, message);
    }

    fn greet(&mut self) {
        let public_key = Keys::generate().unwrap().public().to_vec();
        let hello = Hello { protocol: PROTOCOL, version: "1".into(), public_key, cookie: [7; 16] };
        self.say(&Message::Hello(hello));
    }

    /// The next message for which `is_it` returns true, or a message that ends the transfer with a reason.
    fn hear(&mut self, is_it: impl Fn(&Message) -> bool) -> Message {
        loop {
            match control::read(&mut self.reader).expect("it says why it ends") {
                message if is_it(&message) || matches!(message, Message::Abort { .. }) => return message,
                _ => {}
            }
        }
    }

    #[track_caller]
    fn is_refused(&mut self, words: &str) {
        match self.hear(|_| false) {
            Message::Abort { reason, .. } if reason.contains(words) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn options() -> Options {
    Options { recursive: true, timeout: Some(10), ..Options::default() }
}

fn job(tree: &std::path::Path, options: Options) -> Job {
    Job::Send { sources: vec![tree.as_os_str().as_bytes().to_vec()], options }
}

/// Starts a sender with this job and list; returns its hostile receiver's end, and the sender's thread.
fn sender(job: Job, listed: Option<FilesFrom>) -> (Other, JoinHandle<Result<Totals, TransferError>>) {
    let (near, far) = links();
    let part = SendingPart { job, listed, link: far };
    (Other::of(near), thread::spawn(move || part.send(Meters::default(), Arc::default())))
}

#[test]
fn a_sender_does_the_job_of_its_client_and_no_other() {
    let tree = tempfile::tempdir().unwrap();
    let honest = job(tree.path(), options());
    let follows = Options { copy_links: true, ..options() };
    let jobs = [
        job(std::path::Path::new("/etc"), options()),
        job(tree.path(), follows),
        Job::Receive { destination: b"/tmp".to_vec(), options: options() },
        Job::Observe,
        Job::Background,
        Job::Clean { destination: b"/".to_vec(), remove: true },
    ];
    for other in jobs {
        let (mut receiver, sender) = sender(honest.clone(), None);
        receiver.greet();
        receiver.say(&Message::Job(other.clone()));
        receiver.is_refused("another transfer than the client requested");
        drop(receiver);
        assert!(sender.join().unwrap().is_err(), "{other:?}");
    }
    let (mut receiver, sender) = sender(honest.clone(), None);
    receiver.greet();
    receiver.say(&Message::Job(honest));
    assert!(matches!(receiver.hear(|said| matches!(said, Message::Listening(_))), Message::Listening(_)));
    drop(receiver);
    assert!(sender.join().unwrap().is_err(), "the receiver is gone");
}

#[test]
fn a_sender_takes_no_other_list_than_its_clients() {
    let tree = tempfile::tempdir().unwrap();
    let honest = job(tree.path(), Options { listed: true, ..options() });
    let path = |name: &str| ListedPath { path: RelPath::new(name).unwrap(), contents: false, argument: 0 };
    let mut listed = FilesFrom::default();
    listed.add(path("mine")).unwrap();
    let (mut receiver, sender) = sender(honest.clone(), Some(listed));
    receiver.greet();
    receiver.say(&Message::Job(honest));
    receiver.say(&Message::Select(vec![path("mine"), path("secret")]));
    receiver.say(&Message::Select(Vec::new()));
    receiver.is_refused("list of files differs from the client's");
    drop(receiver);
    assert!(sender.join().unwrap().is_err());
}

#[test]
fn a_sender_is_nobodys_agent_in_another_way() {
    let tree = tempfile::tempdir().unwrap();
    let honest = job(tree.path(), options());
    for begin in [Message::Between, Message::Chained] {
        let (mut receiver, sender) = sender(honest.clone(), None);
        receiver.greet();
        receiver.say(&begin);
        receiver.say(&Message::Job(honest.clone()));
        // The receiver may close the connection without a message.
        while control::read(&mut receiver.reader).is_ok_and(|said| !matches!(said, Message::Listening(_))) {}
        drop(receiver);
        let ended = sender.join().unwrap();
        assert!(matches!(ended, Err(TransferError::Breach(_))), "{ended:?}");
    }
    for late in [Message::UseTunnel, Message::Job(honest.clone()), Message::UnderWay] {
        let (mut receiver, sender) = sender(honest.clone(), None);
        receiver.greet();
        receiver.say(&Message::Job(honest.clone()));
        receiver.hear(|said| matches!(said, Message::Listening(_)));
        receiver.say(&late);
        receiver.is_refused("unexpected message");
        drop(receiver);
        assert!(sender.join().unwrap().is_err());
    }
}

/// A listener at another address of this host, to which no agent may connect.
fn elsewhere() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn a_sender_dials_the_other_agents_own_address_alone() {
    let tree = tempfile::tempdir().unwrap();
    let honest = job(tree.path(), options());
    let (listener, address) = elsewhere();
    let (mut receiver, sender) = sender(honest.clone(), None);
    receiver.greet();
    receiver.say(&Message::Job(honest));
    receiver.hear(|said| matches!(said, Message::Listening(_)));
    receiver.say(&Message::ConnectBack { candidates: vec![address] });
    let said = receiver.hear(|said| matches!(said, Message::ConnectedBack { .. }));
    assert!(matches!(said, Message::ConnectedBack { error: Some(_) }), "{said:?}");
    assert!(listener.accept().is_err(), "it was dialled");
    drop(receiver);
    assert!(sender.join().unwrap().is_err());
}

struct Nobody;

impl Observer for Nobody {
    fn problem(&self, _: Problem) {}

    fn changes(&self, _: Vec<Change>) {}

    fn note(&self, _: &str) {}
}

#[test]
fn a_receiver_dials_the_other_agents_own_address_alone() {
    let (near, far) = links();
    let mut sender = Other::of(far);
    let (listener, address) = elsewhere();
    let peer: LinkedPeer = near.peer;
    assert!(peer.dials);
    let client = Client {
        job: job(std::path::Path::new("/x"), options()),
        interrupted: Arc::default(),
        observer: Arc::new(Nobody),
        pulse: Arc::new(Pulse::new(None)),
        neighbour: None,
        interfaces: Interfaces::One,
        linked: Some(peer),
    };
    let receiver =
        thread::spawn(move || Session::client(near.reader, near.writer, client, Meters::default()).err());
    sender.greet();
    let further = vec![address.ip()];
    sender.say(&Message::Listening(Listening {
        candidates: vec![address],
        further,
        client: None,
        error: None,
    }));
    let ended = receiver.join().unwrap();
    assert!(matches!(ended, Some(TransferError::FarEnd(_))), "{ended:?}");
    assert!(listener.accept().is_err(), "it was dialled");
}

#[test]
fn a_link_carries_messages_in_both_directions_and_nothing_without_a_cipher_is_one() {
    let (near, far) = links();
    let (mut near, mut far) = (Other::of(near), Other::of(far));
    let long = Message::Samples(vec![7; 200_000]);
    for _ in 0..3 {
        near.say(&long);
        far.say(&Message::UnderWay);
        assert_eq!(control::read(&mut far.reader).unwrap(), long);
        assert_eq!(control::read(&mut near.reader).unwrap(), Message::UnderWay);
    }
    drop(near);
    assert!(matches!(control::read(&mut far.reader), Err(control::ControlError::Closed)));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let clear = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    assert!(ControlLink::of(Stream::new(Transport::Tcp(clear), None, Vec::new()), true, None).is_err());
}
