//! Protects records where their plain bytes lie (RFC 8446, section 5.2).
//!
//! The library's own interface copies each record to a place of its own; here a file is read to where its record is.

use aws_lc_rs::aead::{self, AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use rustls::crypto::cipher::{AeadKey, Iv, Nonce, make_tls13_aad};
use rustls::{ConnectionTrafficSecrets, ContentType, Error};
use std::io;

use super::invalid;
use super::record::{AROUND, RECORD, RECORD_HEADER, TAG};

/// One direction's key. A number protects one record only: it goes up with each, and a new key begins a new count.
pub(super) struct RecordSealer {
    key: LessSafeKey,
    iv: Iv,
    next: u64,
}

impl RecordSealer {
    /// The key that the library agreed on, and the number of its next record.
    pub fn new(secrets: ConnectionTrafficSecrets, next: u64) -> Result<Self, Error> {
        use ConnectionTrafficSecrets as Secrets;
        let (cipher, key, iv) = match secrets {
            Secrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            Secrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            Secrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("a cipher without a record layer was agreed on".into())),
        };
        Ok(Self { key: unbound(cipher, &key)?, iv, next })
    }

    /// Records that the key has protected.
    pub fn sealed(&self) -> u64 {
        self.next
    }

    /// Makes a record of `record`, where its plain bytes lie already.
    ///
    /// # Errors
    /// If it is none in its length, or the numbers are used up.
    pub fn seal(&mut self, typ: ContentType, record: &mut [u8]) -> io::Result<()> {
        if !(AROUND..=RECORD + AROUND).contains(&record.len()) {
            return Err(invalid("a TLS record of an impossible length"));
        }
        let (header, contents) = record.split_at_mut(RECORD_HEADER);
        header.copy_from_slice(&make_tls13_aad(contents.len()));
        let (plain, tag) = contents.split_at_mut(contents.len() - TAG);
        if let Some(last) = plain.last_mut() {
            *last = typ.into();
        }
        tag.copy_from_slice(self.encrypt(header, plain)?.as_ref());
        Ok(())
    }

    fn encrypt(&mut self, header: &[u8], plain: &mut [u8]) -> io::Result<aead::Tag> {
        // Taken before it is used: a number that failed is not used again.
        let number = self.next;
        self.next = number.checked_add(1).ok_or_else(|| invalid("too many TLS records"))?;
        let nonce = aead::Nonce::assume_unique_for_key(Nonce::new(&self.iv, number).0);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), plain);
        tag.map_err(|_| invalid("encrypting failed"))
    }
}

fn unbound(cipher: &'static aead::Algorithm, key: &AeadKey) -> Result<LessSafeKey, Error> {
    let key = UnboundKey::new(cipher, key.as_ref().get(..cipher.key_len()).unwrap_or_default());
    key.map(LessSafeKey::new).map_err(|_| Error::General("the agreed key has another length".into()))
}
