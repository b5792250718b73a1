//! Tests of two honest ends with damage in between: on the network, or in storage.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use linerate_wire::control::{self, Message};

use crate::far::{Far, Ground, Said};
use crate::support::Run;

/// Relays between the client and a real agent, whose process ID is stored in `pid`; `change` may modify the
/// messages.
fn relay(
    far: &mut Far,
    mut agent: Command,
    pid: &AtomicU32,
    change: impl Fn(&mut Message) + Send + Sync + 'static,
) -> Said {
    agent.stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("SSH_CONNECTION");
    let mut agent = agent.spawn()?;
    pid.store(agent.id(), Ordering::Release);
    let (mut to_agent, mut from_agent) = (agent.stdin.take().unwrap(), agent.stdout.take().unwrap());
    let mut line = Vec::new();
    while !line.ends_with(b"ready\n") {
        let mut byte = [0];
        from_agent.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    far.ready()?;
    let (mut from, mut to) = std::mem::replace(far, Far::new(io::empty(), io::sink())).into_parts();
    let change = Arc::new(change);
    let backward = change.clone();
    let there = thread::spawn(move || {
        while let Ok(mut message) = control::read(&mut from) {
            change(&mut message);
            if control::write(&mut to_agent, &message).and_then(|()| Ok(to_agent.flush()?)).is_err() {
                break;
            }
        }
    });
    while let Ok(mut message) = control::read(&mut from_agent) {
        backward(&mut message);
        if control::write(&mut to, &message).and_then(|()| Ok(to.flush()?)).is_err() {
            break;
        }
    }
    drop(to);
    let _ = there.join();
    agent.wait()?;
    Ok(())
}

/// The number of files that are damaged in each way.
const DAMAGED: u64 = 34;
const SIZE: usize = 100_000;

/// The direction of the data.
#[derive(Clone, Copy, Debug)]
enum Way {
    Direct,
    Back,
    Tunnel,
}

impl Way {
    fn close_others(self, message: &mut Message) {
        match (self, message) {
            (Self::Back | Self::Tunnel, Message::Listening(listening)) => listening.candidates.clear(),
            (Self::Tunnel, Message::ConnectBack { candidates }) => candidates.clear(),
            _ => {}
        }
    }
}

/// Flips a bit in every file that process `pid` has open and whose path satisfies `is_it`, once per file,
/// until it is stopped.
fn flip_open(pid: &AtomicU32, stop: &AtomicBool, is_it: fn(&str) -> bool) -> u64 {
    let mut flipped = std::collections::HashSet::new();
    while !stop.load(Ordering::Acquire) {
        let pid = pid.load(Ordering::Acquire);
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let known = |path: PathBuf| is_it(&path.to_string_lossy()).then_some(path);
            let Some(target) = fs::read_link(entry.path()).ok().and_then(known) else { continue };
            // The file behind the ones that are counted keeps the transfer going.
            let open = OpenOptions::new().read(true).write(true).open(entry.path());
            if flipped.contains(&target) || !open.is_ok_and(|file| flip(&file)) {
                continue;
            }
            flipped.insert(target);
            if flipped.len() as u64 == DAMAGED {
                return DAMAGED;
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    flipped.len() as u64
}

/// Flips a bit of a file that is complete.
fn flip(file: &File) -> bool {
    if file.metadata().map_or(0, |metadata| metadata.len()) != SIZE as u64 {
        return false;
    }
    let at = fastrand::u64(..SIZE as u64);
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= 1 << fastrand::u32(..8);
    file.write_all_at(&byte, at).is_ok()
}

/// Sends files that are damaged in storage before they are read back.
fn push_with_flips(way: Way, verify: &'static str) -> (Run, u64, Ground) {
    let ground = Ground::new();
    let inside = ground.inside();
    fs::create_dir_all(inside.join("tree")).unwrap();
    for number in 0..DAMAGED {
        let contents: Vec<u8> = (0..SIZE).map(|_| fastrand::u8(..)).collect();
        fs::write(inside.join("tree").join(number.to_string()), contents).unwrap();
    }
    // It keeps the first files waiting for their names.
    fs::write(inside.join("tail"), vec![7; 30 << 20]).unwrap();
    fs::create_dir(inside.join("to")).unwrap();
    let (pid, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let flipper = thread::spawn({
        let (pid, stop) = (pid.clone(), stop.clone());
        move || flip_open(&pid, &stop, |path| path.ends_with(" (deleted)"))
    });
    let agent = ground.linerate(&["agent"]);
    let args = ["-r", verify, "--streams", "2", "--bwlimit", "20m", "tree", "tail", "far:to/"];
    let run =
        ground.start(&args, move |far| relay(far, agent, &pid, move |message| way.close_others(message)));
    let run = run.end_within(Duration::from_secs(60));
    stop.store(true, Ordering::Release);
    (run, flipper.join().unwrap(), ground)
}

/// The number of files in `to` that differ from the sent files.
fn damaged(ground: &Ground, to: &str) -> usize {
    let read = |top: &str, number: u64| fs::read(ground.inside().join(top).join(number.to_string())).unwrap();
    (0..DAMAGED).filter(|number| read("tree", *number) != read(to, *number)).count()
}

#[test]
fn bits_that_flip_in_the_destination_are_found_and_mended() {
    for (way, word) in
        [(Way::Direct, ""), (Way::Back, "tries to connect to this host"), (Way::Tunnel, "through ssh")]
    {
        let (run, flipped, ground) = push_with_flips(way, "--verify");
        let run = run.exits(0).says(&[word]);
        assert_eq!(
            (flipped, damaged(&ground, "to/tree")),
            (DAMAGED, 0),
            "{way:?}: flipped, and not mended; {run}"
        );
    }
}

#[test]
fn without_verify_the_same_flips_land() {
    let (run, flipped, ground) = push_with_flips(Way::Direct, "--preserve");
    let run = run.exits(0);
    // Some may have their names before anybody can flip them.
    assert!(
        flipped > DAMAGED / 2 && damaged(&ground, "to/tree") as u64 == flipped,
        "{flipped} flipped; {run}"
    );
}

/// Writes to existing files, which are damaged, as far as they are open long enough, before they are read
/// back.
fn sync_in_place(more: &[&str]) -> (Run, u64, Ground) {
    let ground = Ground::new();
    let inside = ground.inside();
    for (top, size) in [("tree", SIZE), ("to", SIZE / 2)] {
        fs::create_dir(inside.join(top)).unwrap();
        for number in 0..DAMAGED {
            let contents: Vec<u8> = (0..size).map(|_| fastrand::u8(..)).collect();
            fs::write(inside.join(top).join(number.to_string()), contents).unwrap();
        }
    }
    fs::write(inside.join("tree/tail"), vec![7; 30 << 20]).unwrap();
    let (pid, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let flipper = thread::spawn({
        let (pid, stop) = (pid.clone(), stop.clone());
        move || flip_open(&pid, &stop, |path| path.contains("/to/"))
    });
    let agent = ground.linerate(&["agent"]);
    let usual = ["--inplace", "--streams", "2", "--bwlimit", "20m", "tree", "far:to"];
    let args = [more, &usual].concat();
    let run = ground.start_as("sync", &args, move |far| relay(far, agent, &pid, |_| {}));
    let run = run.end_within(Duration::from_secs(60));
    stop.store(true, Ordering::Release);
    (run, flipper.join().unwrap(), ground)
}

#[test]
fn bits_that_flip_in_files_that_are_written_into_are_found_and_mended() {
    let (run, flipped, ground) = sync_in_place(&["--verify"]);
    let run = run.exits(0);
    assert!(flipped > DAMAGED / 4 && damaged(&ground, "to") == 0, "{flipped} flipped; {run}");
    let (run, flipped, ground) = sync_in_place(&[]);
    let run = run.exits(0);
    assert!(flipped > DAMAGED / 4 && damaged(&ground, "to") > 0, "{flipped} flipped; {run}");
}

/// The place in the network data where a bit is flipped.
#[derive(Clone, Copy, Debug)]
enum Flip {
    /// The byte with this number, counted over all connections.
    Byte(u64),
    /// The first TLS record that has the length of a frame's header; no record of a handshake has it.
    FirstHeader,
}

impl Flip {
    /// The index of the place in these bytes, if `start` bytes have passed before.
    fn place(self, start: u64, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Byte(at) => at.checked_sub(start).map(|at| at as usize).filter(|at| *at < bytes.len()),
            Self::FirstHeader => {
                let record = bytes.windows(5).position(|head| *head == [23, 3, 3, 0, 16 + 1 + 16])?;
                Some(record + 5)
            }
        }
    }
}

/// A proxy that flips one bit of the data sent to `to`; returns the address at which it listens.
fn flipping_proxy(to: SocketAddr, flip: Flip, flipped: Arc<AtomicBool>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let passed = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for near in listener.incoming().flatten().take(8) {
            let Ok(there) = TcpStream::connect(to) else { return };
            let (passed, flipped) = (passed.clone(), flipped.clone());
            let (near_copy, there_copy) = (near.try_clone().unwrap(), there.try_clone().unwrap());
            thread::spawn(move || {
                pump(near, there, |bytes| {
                    let start = passed.fetch_add(bytes.len() as u64, Ordering::AcqRel);
                    if let Some(at) = flip.place(start, bytes)
                        && !flipped.swap(true, Ordering::AcqRel)
                    {
                        bytes[at] ^= 1 << (at % 8);
                    }
                });
            });
            thread::spawn(move || pump(there_copy, near_copy, |_| {}));
        }
    });
    Ok(address)
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut change: impl FnMut(&mut [u8])) {
    let mut buffer = [0; 16 << 10];
    while let Ok(got @ 1..) = from.read(&mut buffer) {
        change(&mut buffer[..got]);
        if to.write_all(&buffer[..got]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

const BYTES: u64 = 60_000;
/// The number of concurrent tries; most of them only wait.
const AT_ONCE: usize = 8;

/// The number of tries for each of the two ways to protect the data: few by default, or the value of
/// `LINERATE_FLIPS`.
fn tries() -> usize {
    std::env::var("LINERATE_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(40) / 2
}

/// Sends a file of which a bit is flipped on the network; returns whether the command failed for that reason.
fn push_through_proxy(args: &[&str], flip: Flip) -> bool {
    let ground = Ground::new();
    let contents: Vec<u8> = (0..BYTES).map(|_| fastrand::u8(..)).collect();
    fs::write(ground.inside().join("x"), &contents).unwrap();
    let flipped = Arc::new(AtomicBool::new(false));
    let (agent, hit) = (ground.linerate(&["agent"]), flipped.clone());
    let run = ground.run(args, move |far| {
        relay(far, agent, &AtomicU32::new(0), move |message| {
            if let Message::Listening(listening) = message
                && let Some(first) = listening.candidates.first()
            {
                let there = SocketAddr::from(([127, 0, 0, 1], first.port()));
                listening.candidates = vec![flipping_proxy(there, flip, hit.clone()).unwrap()];
            }
        })
    });
    assert!(flipped.load(Ordering::Acquire), "nothing was flipped: {run}");
    let landed = fs::read(ground.inside().join("to"));
    // One that damages a handshake is noticed too, and another connection is made.
    let whole = landed.as_ref().is_ok_and(|landed| *landed == contents);
    assert!(whole || landed.is_err(), "{flip:?}: what is there isn't what was sent: {run}");
    assert!(run.code != Some(0) || whole, "{flip:?}: {run}");
    run.code != Some(0)
}

#[test]
fn bits_that_flip_on_the_wire_are_noticed() {
    for args in [&["x", "far:to"][..], &["--no-encrypt", "x", "far:to"]] {
        let (left, failed) = (AtomicU64::new(tries() as u64), AtomicU64::new(0));
        let one_less = |left: u64| left.checked_sub(1);
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while left.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok() {
                        failed.fetch_add(
                            u64::from(push_through_proxy(args, Flip::Byte(fastrand::u64(..BYTES)))),
                            Ordering::AcqRel,
                        );
                    }
                });
            }
        });
        let failed = failed.into_inner() as usize;
        eprintln!("{}: {} bits flipped, {failed} ended the transfer, 0 unnoticed", args[0], tries());
        assert!(failed * 2 >= tries(), "most flips are in the data, and {failed} were noticed");
    }
}

#[test]
fn a_first_frame_that_is_damaged_ends_the_transfer() {
    assert!(push_through_proxy(&["x", "far:to"], Flip::FirstHeader));
}
