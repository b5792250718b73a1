//! The rates at which one thread of this host encrypts and hashes, each measured in a fiftieth of a second.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes of a TLS record.
const RECORD: usize = 16 << 10;
/// The number of bytes that are hashed at a time. It is large enough for BLAKE3 to hash many chunks in parallel.
const BLOCK: usize = 128 << 10;
/// The number of short measurements. The highest measured rate counts, because other work and the hypervisor disturb
/// some of the measurements.
const SPELLS: u32 = 4;
const SPELL: Duration = Duration::from_millis(5);

/// Measures the rate of AES-128-GCM on one thread, in bytes per second.
///
/// # Errors
/// If the library refuses to encrypt, which never happens.
pub(crate) fn aes_128_gcm() -> io::Result<f64> {
    let refused = |_| io::Error::other("the library for ciphers refuses");
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(refused)?);
    let mut record = vec![0; RECORD];
    let mut seal = || {
        // The key protects no data, so the nonce may be reused.
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut record)
            .map(|tag| black_box(tag.as_ref().len()))
    };
    seal().map_err(refused)?;
    Ok(best(RECORD, || {
        // The same call has already succeeded above.
        let _ = seal();
    }))
}

/// Measures the rate of BLAKE3 on one thread, in bytes per second.
///
/// # Errors
/// This function never fails.
pub(crate) fn blake3() -> io::Result<f64> {
    let block = vec![0; BLOCK];
    Ok(best(BLOCK, || {
        black_box(blake3::hash(&block));
    }))
}

fn best(bytes: usize, mut work: impl FnMut()) -> f64 {
    let spells = (0..SPELLS).map(|_| {
        let (begun, mut rounds) = (Instant::now(), 0_u32);
        while begun.elapsed() < SPELL {
            (0..4).for_each(|_| work());
            rounds += 4;
        }
        f64::from(rounds) * bytes as f64 / begun.elapsed().as_secs_f64()
    });
    spells.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_measured_quickly() {
        let begun = Instant::now();
        let (aes, hash) = (aes_128_gcm().unwrap(), blake3().unwrap());
        // The slowest processors that are in use today encrypt about 10 MB/s without AES instructions.
        assert!(aes > 1e7 && aes < 1e12, "{aes}");
        assert!(hash > 1e7 && hash < 1e12, "{hash}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
