use super::*;
use proptest::prelude::*;

const SETUP: CompressorSetup = CompressorSetup { level: 3, window: WINDOW_LOG, far: true, threads: 2 };

/// Compresses all of `plain`, including the bytes that the compressor still holds.
fn pack(near: &mut Compressor, mut plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut send = |near: &mut Compressor| out.extend(std::iter::from_fn(|| near.next_piece()).flatten());
    while !plain.is_empty() {
        near.take(&mut plain).unwrap();
        send(near);
    }
    while !near.finish().unwrap() {
        send(near);
    }
    send(near);
    out
}

fn unpack(far: &mut Decompressor, packed: &[u8], cut: usize) -> Result<Vec<u8>, StreamError> {
    let mut plain = Vec::new();
    packed.chunks(cut.max(1)).try_for_each(|piece| {
        far.take(piece, |some| {
            assert!(some.len() <= PLAIN);
            plain.extend_from_slice(some);
            Ok(())
        })
    })?;
    Ok(plain)
}

fn far() -> Decompressor {
    Decompressor::new(LongWindow::new(LONG_WINDOW_LOG)).unwrap()
}

fn packed(plain: &[u8]) -> Vec<u8> {
    pack(&mut Compressor::new(SETUP).unwrap(), plain)
}

#[track_caller]
fn assert_refused(packed: &[u8], why: &str) {
    match unpack(&mut far(), packed, 1000) {
        Err(StreamError::Protocol(said)) => assert_eq!(said, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn whatever_the_level_what_came_before_is_repeated() {
    let (mut near, mut far) = (Compressor::new(SETUP).unwrap(), far());
    let noise: Vec<u8> = (0..300_000).map(|_| fastrand::u8(..)).collect();
    for (number, level) in [1, 1, 19, 3, 12, 9].into_iter().enumerate() {
        near.set_level(level).unwrap();
        let out = pack(&mut near, &noise);
        assert_eq!(number > 0, out.len() < 2000, "{level}: {}", out.len());
        assert_eq!(unpack(&mut far, &out, 10_000).unwrap(), noise);
    }
    assert_eq!(near.so_far().plain, 6 * 300_000);
}

#[test]
fn what_is_far_away_is_found_by_the_long_window() {
    let noise: Vec<u8> = (0..12 << 20).map(|_| fastrand::u8(..)).collect();
    let twice = [&noise[..], &noise].concat();
    let length = |window| {
        let out = pack(&mut Compressor::new(CompressorSetup { window, ..SETUP }).unwrap(), &twice);
        assert_eq!(unpack(&mut far(), &out, 100_000).unwrap(), twice);
        out.len()
    };
    assert!(length(WINDOW_LOG) > 24 << 20);
    assert!(length(LONG_WINDOW_LOG) < 13 << 20);
}

#[test]
fn garbage_and_what_ends_are_refused() {
    assert_refused(&[0x5a; 100], BROKEN);
    let good = packed(&[7; 5000]);
    assert!(unpack(&mut far(), &good, 3).is_ok());
    assert_refused(&[&good[..], &[0xff; 100]].concat(), BROKEN);
    assert_refused(&zstd::stream::encode_all(&[7; 5000][..], 3).unwrap(), ENDED);
    // This zstd frame states its length and no window.
    assert_refused(&zstd::bulk::compress(&[7; 5000], 3).unwrap(), BROKEN);
    // A skippable frame of the largest length, on which a decompressor would wait for more bytes without end.
    assert_refused(&[&[0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0x7f][..], &[0; 100]].concat(), BROKEN);
}

/// The input is a few bytes that would decompress to a gigabyte.
#[test]
fn a_bomb_takes_no_memory() {
    let mut near = Compressor::new(SETUP).unwrap();
    let mut far = far();
    let (zeros, mut bytes, mut sent) = (vec![0; 1 << 20], 0_usize, 0);
    for _ in 0..256 {
        let out = pack(&mut near, &zeros);
        sent += out.len();
        far.take(&out, |some| {
            bytes += some.len();
            Ok(())
        })
        .unwrap();
    }
    assert!(bytes == 1 << 28 && sent < 100_000, "{bytes} {sent}");
    assert_eq!(far.plain.len(), PLAIN);
}

/// The long window takes memory at the receiver, so only one stream gets it.
#[test]
fn only_one_window_of_a_transfer_is_long() {
    let of = |window| pack(&mut Compressor::new(CompressorSetup { window, ..SETUP }).unwrap(), b"x");
    let (short, long) = (of(WINDOW_LOG), of(LONG_WINDOW_LOG));
    assert_refused(&of(LONG_WINDOW_LOG + 1), TOO_LONG);
    let shared = LongWindow::new(LONG_WINDOW_LOG);
    let open = || Decompressor::new(shared.clone()).unwrap();
    let (mut first, mut second) = (open(), open());
    assert!(unpack(&mut first, &long, 100).is_ok());
    assert!(matches!(unpack(&mut second, &long, 100), Err(StreamError::Protocol(TOO_LONG))));
    assert!(unpack(&mut open(), &short, 100).is_ok());
    drop(first);
    assert!(unpack(&mut open(), &long, 1).is_ok(), "the first stream has ended");
    let little = LongWindow::new(WINDOW_LOG);
    let mut careful = Decompressor::new(little).unwrap();
    assert!(matches!(unpack(&mut careful, &long, 100), Err(StreamError::Protocol(TOO_LONG))));
}

#[test]
fn the_window_is_read_as_zstd_writes_it() {
    for log in [10, 19, 23, 27] {
        let mut head = [&MAGIC[..], &[0, (log - 10) << 3]].concat();
        assert_eq!(window(&head), Some(1 << log));
        head[5] |= 7;
        assert_eq!(window(&head), Some((1 << log) + (7 << (log - 3))));
    }
    assert_eq!(window(&[&MAGIC[..], &[0, 0xff]].concat()), Some((1 << 41) + (7 << 38)));
    assert_eq!(window(&[&MAGIC[..], &[SINGLE_SEGMENT, 0]].concat()), None);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..50) {
        let _ = unpack(&mut far(), &bytes, cut);
        let mut damaged = packed(&[b"some text that repeats, some text that repeats; ".repeat(20), bytes.clone()].concat());
        for (at, byte) in bytes.iter().enumerate().filter(|(at, _)| at % 7 == 0) {
            let at = (at * 31 + usize::from(*byte)) % damaged.len();
            damaged[at] ^= byte;
        }
        let _ = unpack(&mut far(), &damaged, cut);
    }
}
