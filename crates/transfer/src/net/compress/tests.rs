use super::*;
use linerate_wire::frame::{FrameKind, MAX_DATA};
use proptest::prelude::*;

fn unpack(far: &mut Decompressor, packed: &[u8], cut: usize) -> Result<Vec<u8>, StreamError> {
    far.begin(Header::unchecked(FrameKind::Data, packed.len()).packed());
    packed.chunks(cut.max(1)).try_for_each(|piece| far.take(piece))?;
    let (header, plain) = far.finish()?;
    assert_eq!(header, Header::unchecked(FrameKind::Data, plain.len()));
    Ok(plain.to_vec())
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::new().pack(3, plain, &mut out).unwrap();
    out
}

#[track_caller]
fn assert_refused(payload: &[u8]) {
    let result = unpack(&mut Decompressor::new().unwrap(), payload, 1000);
    assert!(matches!(result, Err(StreamError::Protocol(_))), "{result:?}");
}

#[test]
fn payloads_repeat_those_before_them_at_any_level() {
    let (mut near, mut far, mut out) = (Compressor::new(), Decompressor::new().unwrap(), Vec::new());
    let noise: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
    let mut lengths = Vec::new();
    for level in [1, 1, 19, 3, 3, 0, 9, 9] {
        near.pack(level, &noise, &mut out).unwrap();
        lengths.push(out.len());
        assert_eq!(unpack(&mut far, &out, 10_000).unwrap(), noise);
    }
    // The second one of a level is nothing but a reference.
    assert!(
        lengths[0] > 100_000 && lengths[1] < 1000 && lengths[4] < 1000 && lengths[7] < 1000,
        "{lengths:?}"
    );
}

#[test]
fn a_frame_is_as_long_as_it_claims() {
    let good = packed(&[7; 5000]);
    assert!(unpack(&mut Decompressor::new().unwrap(), &good, 3).is_ok());
    for claimed in [0, 1, 4999, 5001, MAX_DATA as u32, MAX_DATA as u32 + 1, u32::MAX] {
        let mut wrong = good.clone();
        wrong[..4].copy_from_slice(&claimed.to_le_bytes());
        assert_refused(&wrong);
    }
    assert_refused(&good[..good.len() - 1]);
    assert_refused(&good[..3]);
    assert_refused(&[&good[..4], &[0x5a; 100]].concat());
}

/// A few bytes that would be a gigabyte.
#[test]
fn a_bomb_takes_no_memory() {
    let bomb = zstd::bulk::compress(&vec![0; 1 << 30], 1).unwrap();
    assert!(bomb.len() < 200_000);
    let mut far = Decompressor::new().unwrap();
    let payload = [&(MAX_DATA as u32).to_le_bytes()[..], &bomb].concat();
    assert!(matches!(unpack(&mut far, &payload, 4096), Err(StreamError::Protocol(_))));
    assert!(far.plain.capacity() <= MAX_DATA);
}

/// The window is the receiver's memory.
#[test]
fn a_window_that_is_too_large_is_refused() {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::WindowLog(WINDOW_LOG + 1)).unwrap();
    let plain = vec![1; 1000];
    let mut out = Vec::with_capacity(5000);
    out.extend_from_slice(&1000_u32.to_le_bytes());
    let mut to = OutBuffer::around_pos(&mut out, 4);
    context.compress_stream(&mut to, &mut InBuffer::around(&plain)).unwrap();
    context.flush_stream(&mut to).unwrap();
    assert_refused(&out);
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..50) {
        let _ = unpack(&mut Decompressor::new().unwrap(), &bytes, cut);
        let mut damaged = packed(&[b"some text that repeats, some text that repeats; ".repeat(20), bytes.clone()].concat());
        for (at, byte) in bytes.iter().enumerate().filter(|(at, _)| at % 7 == 0) {
            let at = 4 + (at * 31 + usize::from(*byte)) % (damaged.len() - 4);
            damaged[at] ^= byte;
        }
        let _ = unpack(&mut Decompressor::new().unwrap(), &damaged, cut);
    }
}
