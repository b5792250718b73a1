//! Encrypts records in place (RFC 8446, section 5.2).
//!
//! The library's own interface would copy each record into another buffer. With this module, a file is read
//! directly into the buffer of its record.

use aws_lc_rs::aead::{self, AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use rustls::crypto::cipher::{AeadKey, Iv, Nonce, make_tls13_aad};
use rustls::{ConnectionTrafficSecrets, ContentType, Error};
use std::io;

use super::invalid;
use super::record::{RECORD, RECORD_HEADER, RECORD_OVERHEAD, TAG};

/// The encryption key of one direction. Each record has its own number (nonce), which increases with each
/// record and restarts with a new key.
pub(super) struct RecordSealer {
    key: LessSafeKey,
    iv: Iv,
    next: u64,
}

impl RecordSealer {
    /// The key in `secrets`, which the library has negotiated; `next` is the number of the next record.
    pub fn new(secrets: ConnectionTrafficSecrets, next: u64) -> Result<Self, Error> {
        use ConnectionTrafficSecrets as Secrets;
        let (cipher, key, iv) = match secrets {
            Secrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            Secrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            Secrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => {
                return Err(Error::General(
                    "the ends agreed on a cipher that this program can't use for records".into(),
                ));
            }
        };
        Ok(Self { key: unbound(cipher, &key)?, iv, next })
    }

    /// The number of records that the key has protected.
    pub fn sealed(&self) -> u64 {
        self.next
    }

    /// Turns `record`, which already contains the plaintext, into an encrypted record.
    ///
    /// # Errors
    /// If `record` has a wrong length, or the numbers are used up.
    pub fn seal(&mut self, typ: ContentType, record: &mut [u8]) -> io::Result<()> {
        if !(RECORD_OVERHEAD..=RECORD + RECORD_OVERHEAD).contains(&record.len()) {
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
        // The number is used up before the encryption, so that a number whose encryption failed isn't used
        // again.
        let number = self.next;
        self.next = number.checked_add(1).ok_or_else(|| invalid("too many TLS records"))?;
        let nonce = aead::Nonce::assume_unique_for_key(Nonce::new(&self.iv, number).0);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), plain);
        tag.map_err(|_| invalid("encrypting failed"))
    }
}

fn unbound(cipher: &'static aead::Algorithm, key: &AeadKey) -> Result<LessSafeKey, Error> {
    let key = UnboundKey::new(cipher, key.as_ref().get(..cipher.key_len()).unwrap_or_default());
    key.map(LessSafeKey::new).map_err(|_| Error::General("the agreed key has a wrong length".into()))
}
