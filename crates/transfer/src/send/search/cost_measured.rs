//! Measures the cost of finding the contents of an older version: rolling sums of blocks, as here, compared with chunks
//! whose boundaries depend on their contents. The results are in docs/architecture.md.

use fastcdc::v2020::FastCDC;
use std::collections::HashSet;

use super::{BlockTable, Piece, Search};
use crate::tree::blocks::{BlockHash, block_of, block_sum};

const SIZE: usize = 1_000_000_000;

/// The cost of a method: bytes sent as sums, bytes sent as new, and processor seconds for the older and for
/// the new version.
struct Cost {
    named: usize,
    new: usize,
    sums: f64,
    search: f64,
}

fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    [fields[11], fields[12]].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let (mut random, mut bytes) = (fastrand::Rng::with_seed(seed), vec![0; length]);
    random.fill(&mut bytes);
    bytes
}

fn rolling(older: &[u8], newer: &[u8]) -> Cost {
    let block = block_of(older.len() as u64, 1 << 19).unwrap();
    let begun = processor();
    let sums: Vec<_> = older.chunks_exact(block as usize).map(block_sum).collect();
    let (hashed, mut named, mut new, mut end) = (processor(), 20 * sums.len(), 0, None);
    let table = BlockTable::new(block, sums, &std::sync::Arc::default());
    let mut search = Search::new(&table, 0);
    loop {
        match search.next(newer, true, true) {
            Piece::New(range) => new += range.len(),
            Piece::Old(range, from, _) => {
                named += if end == Some(from) { 0 } else { 32 };
                end = Some(from + range.len() as u64);
            }
            Piece::More(_) | Piece::End => break,
        }
    }
    Cost { named, new, sums: hashed - begun, search: processor() - hashed }
}

fn chosen(older: &[u8], newer: &[u8], mean: u32) -> Cost {
    let digests = |bytes: &[u8]| -> Vec<([u8; 16], usize)> {
        let cut = FastCDC::new(bytes, mean / 4, mean, mean * 4);
        cut.map(|chunk| (BlockHash::of(&bytes[chunk.offset..][..chunk.length]).digest, chunk.length))
            .collect()
    };
    let begun = processor();
    let there: HashSet<_> = digests(older).into_iter().map(|(digest, _)| digest).collect();
    let hashed = processor();
    let found = digests(newer);
    let new = found.iter().filter(|(digest, _)| !there.contains(digest)).map(|(_, length)| length).sum();
    Cost { named: 19 * there.len(), new, sums: hashed - begun, search: processor() - hashed }
}

/// `older` after a change of the kind `what`.
fn changed(what: &str, older: &[u8]) -> Vec<u8> {
    let (fresh, mut random) = (noise(SIZE / 1000, 9), fastrand::Rng::with_seed(5));
    match what {
        "1 MB inserted at the front" => [&fresh[..], older].concat(),
        "1 MB appended" => [older, &fresh].concat(),
        "pieces moved" => {
            [&older[SIZE / 2 + 777..], &older[SIZE / 4..SIZE / 2 + 777], &older[..SIZE / 4]].concat()
        }
        "all new" => noise(SIZE, 4242),
        "1,000 bytes" => {
            let mut newer = older.to_vec();
            (0..1000).for_each(|_| newer[random.usize(..SIZE)] ^= 1);
            newer
        }
        _ => {
            let mut newer = older.to_vec();
            for at in (0..1000).map(|_| random.usize(..SIZE / 4096 - 1) * 4096) {
                newer[at..at + 4096].copy_from_slice(&fresh[..4096]);
            }
            newer
        }
    }
}

#[test]
#[ignore = "it takes 4 GB of memory, and its results mean something only with --release"]
fn what_six_changes_of_a_file_of_1_gb_cost() {
    let older = noise(SIZE, 7);
    for what in [
        "1 MB inserted at the front",
        "1,000 bytes",
        "pieces moved",
        "1,000 times 4 KiB",
        "1 MB appended",
        "all new",
    ] {
        let newer = changed(what, &older);
        let costs =
            [rolling(&older, &newer), chosen(&older, &newer, 32 << 10), chosen(&older, &newer, 64 << 10)];
        for (how, cost) in ["rolling", "chosen, 32 KiB", "chosen, 64 KiB"].iter().zip(costs) {
            let Cost { named, new, sums, search } = cost;
            println!("{what}, {how}: {named} named, {new} new, {sums:.2} s, {search:.2} s");
        }
    }
}
