//! The record layer of an established connection (RFC 8446, section 5): records are decrypted in place.
//!
//! The library negotiates the keys and provides the ciphers. The library's own connection type would copy every payload
//! once more at each end.

use rustls::client::ClientConnectionData;
use rustls::crypto::cipher::{AeadKey, InboundOpaqueMessage, Iv, MessageDecrypter};
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ContentType, Error, ExtractedSecrets, ProtocolVersion,
    Tls13CipherSuite,
};
use std::io;

use super::seal::RecordSealer;
use super::{broken, invalid};

/// Plaintext bytes of a full record.
pub const RECORD: usize = 16 * 1024;
/// The bytes of a record in addition to its plaintext: the header before it, and the type and the cipher's
/// tag after it.
pub const RECORD_OVERHEAD: usize = RECORD_HEADER + 1 + TAG;
/// The length in bytes of a record's header: type, version and length.
pub(super) const RECORD_HEADER: usize = 5;
/// Bytes of a cipher's tag.
pub(super) const TAG: usize = 16;
/// The longest encrypted contents of a record.
const LARGEST: usize = RECORD + 256;
/// The handshake message that announces new keys and requests none.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// The alert that closes a connection properly.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];

/// One end of an established TLS connection.
pub struct Tls {
    keys: KeySchedule,
    suite: &'static Tls13CipherSuite,
    sealer: RecordSealer,
    /// The number of records that one key may protect.
    most: u64,
    opening: Box<dyn MessageDecrypter>,
    opened: u64,
}

/// The secrets of both directions, from which each next key is derived.
pub(super) enum KeySchedule {
    Client(Box<KernelConnection<ClientConnectionData>>),
    Server(Box<KernelConnection<ServerConnectionData>>),
}

/// The contents of an opened record.
#[derive(Debug, PartialEq, Eq)]
pub enum OpenedRecord<'a> {
    /// Data that the other end has sent.
    Data(&'a [u8]),
    /// No data, but a message of the TLS layer itself.
    Nothing,
    /// The end: the other end has closed the connection properly.
    End,
}

/// The length of the record at the front of `incoming`, in bytes; `None` if the record is incomplete.
///
/// # Errors
/// If the bytes aren't a protected record.
pub fn whole_record(incoming: &[u8]) -> io::Result<Option<usize>> {
    let Some((header, rest)) = incoming.split_first_chunk::<RECORD_HEADER>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if ContentType::from(header[0]) != ContentType::ApplicationData || length > LARGEST {
        return Err(invalid("malformed TLS records"));
    }
    Ok((rest.len() >= length).then_some(RECORD_HEADER + length))
}

impl Tls {
    pub(super) fn new(keys: KeySchedule, secrets: ExtractedSecrets) -> Result<Self, Error> {
        let suite = keys.suite()?;
        let ExtractedSecrets { tx: (sealed, tx), rx: (opened, rx) } = secrets;
        Ok(Self {
            keys,
            suite,
            sealer: RecordSealer::new(tx, sealed)?,
            most: suite.common.confidentiality_limit,
            opening: decrypter(suite, rx)?,
            opened,
        })
    }

    /// The cipher's name, as ssh and OpenSSL write it.
    pub fn cipher(&self) -> &'static str {
        match self.suite.common.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => "aes128-gcm",
            CipherSuite::TLS13_AES_256_GCM_SHA384 => "aes256-gcm",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "chacha20-poly1305",
            _ => "unknown",
        }
    }

    /// Appends a record of at most [`RECORD`] bytes to `out`. If the current key may protect no further record, a key
    /// update comes before the record.
    ///
    /// # Errors
    /// If the cipher fails.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.renew_keys(1, out)?;
        self.protect(ContentType::ApplicationData, plain, out)
    }

    /// Appends the record that closes the connection to `out`.
    ///
    /// # Errors
    /// If the cipher fails.
    pub fn seal_end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.protect(ContentType::Alert, &CLOSE_NOTIFY, out)
    }

    /// Turns `record`, which already contains the plaintext ([`plain`]), into an encrypted record. The keys must still
    /// be usable: see [`Tls::renew_keys`].
    ///
    /// # Errors
    /// If the cipher fails.
    pub fn seal_in_place(&mut self, record: &mut [u8]) -> io::Result<()> {
        self.sealer.seal(ContentType::ApplicationData, record)
    }

    /// Appends a key update to `out` if the keys can't protect `records` more records and the update after them.
    ///
    /// # Errors
    /// If the cipher fails.
    pub fn renew_keys(&mut self, records: u64, out: &mut Vec<u8>) -> io::Result<()> {
        if self.sealer.sealed() + records < self.most { Ok(()) } else { self.update_keys(out) }
    }

    /// Decrypts `record`, which is [complete](whole_record), in place.
    ///
    /// # Errors
    /// If the record was changed on its way, or isn't allowed at this point.
    pub fn open<'a>(&mut self, record: &'a mut [u8]) -> io::Result<OpenedRecord<'a>> {
        let contents = record.get_mut(RECORD_HEADER..).ok_or_else(|| invalid("malformed TLS records"))?;
        let message =
            InboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, contents);
        let message = self.opening.decrypt(message, self.opened).map_err(broken)?;
        let is_first = self.opened == 0;
        self.opened += 1;
        match (message.typ, message.payload) {
            (ContentType::ApplicationData, []) => Err(invalid("an empty TLS record")),
            (ContentType::ApplicationData, plain) => Ok(OpenedRecord::Data(plain)),
            (ContentType::Alert, [_, 0]) => Ok(OpenedRecord::End),
            // If a key has protected nothing yet, replacing it isn't allowed.
            (ContentType::Handshake, plain) if *plain == KEY_UPDATE && !is_first => {
                let (sequence, secrets) = self.keys.next_opening().map_err(broken)?;
                (self.opening, self.opened) = (decrypter(self.suite, secrets).map_err(broken)?, sequence);
                Ok(OpenedRecord::Nothing)
            }
            _ => Err(invalid("an unexpected TLS message in the middle of a stream")),
        }
    }

    fn update_keys(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.protect(ContentType::Handshake, &KEY_UPDATE, out)?;
        let (sequence, secrets) = self.keys.next_sealing().map_err(broken)?;
        self.sealer = RecordSealer::new(secrets, sequence).map_err(broken)?;
        Ok(())
    }

    /// Appends a record of any type, as only a hostile far end would send it.
    ///
    /// # Errors
    /// If the cipher fails.
    pub fn protect_as(&mut self, typ: u8, contents: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.protect(ContentType::from(typ), contents, out)
    }

    fn protect(&mut self, typ: ContentType, contents: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        out.extend_from_slice(&[0; RECORD_HEADER]);
        out.extend_from_slice(contents);
        out.extend_from_slice(&[0; 1 + TAG]);
        self.sealer.seal(typ, &mut out[start..])
    }
}

/// The part of a record's buffer that holds the plaintext.
///
/// # Panics
/// If `record` is shorter than [`RECORD_OVERHEAD`].
pub fn plain(record: &mut [u8]) -> &mut [u8] {
    let end = record.len() - 1 - TAG;
    &mut record[RECORD_HEADER..end]
}

impl KeySchedule {
    fn suite(&self) -> Result<&'static Tls13CipherSuite, Error> {
        let suite = match self {
            Self::Client(keys) => keys.negotiated_cipher_suite(),
            Self::Server(keys) => keys.negotiated_cipher_suite(),
        };
        suite.tls13().ok_or_else(|| Error::General("the connection isn't TLS 1.3".into()))
    }

    fn next_sealing(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(keys) => keys.update_tx_secret(),
            Self::Server(keys) => keys.update_tx_secret(),
        }
    }

    fn next_opening(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(keys) => keys.update_rx_secret(),
            Self::Server(keys) => keys.update_rx_secret(),
        }
    }
}

fn decrypter(
    suite: &Tls13CipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Result<Box<dyn MessageDecrypter>, Error> {
    parts(secrets).map(|(key, iv)| suite.aead_alg.decrypter(key, iv))
}

fn parts(secrets: ConnectionTrafficSecrets) -> Result<(AeadKey, Iv), Error> {
    use ConnectionTrafficSecrets as Secrets;
    match secrets {
        Secrets::Aes128Gcm { key, iv }
        | Secrets::Aes256Gcm { key, iv }
        | Secrets::Chacha20Poly1305 { key, iv } => Ok((key, iv)),
        _ => {
            Err(Error::General("the ends agreed on a cipher that this program can't use for records".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::keys::Keys;
    use crate::net::tls::tests::shake;

    fn pair() -> (Tls, Tls) {
        let (a, b) = (Keys::generate().unwrap(), Keys::generate().unwrap());
        let (near, far) = shake(&a.pin(b.public()).unwrap(), &b.pin(a.public()).unwrap());
        (near.unwrap(), far.unwrap())
    }

    fn sealed(tls: &mut Tls, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        tls.seal(plain, &mut out).unwrap();
        out
    }

    fn protected(tls: &mut Tls, typ: ContentType, contents: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        tls.protect(typ, contents, &mut out).unwrap();
        out
    }

    /// Decrypts all records in `bytes`; returns their plaintext.
    fn open_all(tls: &mut Tls, mut bytes: &mut [u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        while let Some(length) = whole_record(bytes)? {
            let (record, rest) = bytes.split_at_mut(length);
            if let OpenedRecord::Data(data) = tls.open(record)? {
                plain.extend_from_slice(data);
            }
            bytes = rest;
        }
        assert!(bytes.is_empty());
        Ok(plain)
    }

    #[test]
    fn either_end_opens_what_the_other_sealed() {
        let (mut near, mut far) = pair();
        let plain: Vec<u8> = (0..RECORD as u32).map(|i| i as u8).collect();
        for _ in 0..3 {
            assert_eq!(open_all(&mut far, &mut sealed(&mut near, &plain)).unwrap(), plain);
            assert_eq!(open_all(&mut near, &mut sealed(&mut far, b"x")).unwrap(), b"x");
        }
        assert_eq!((near.cipher(), far.cipher()), ("aes128-gcm", "aes128-gcm"));
        let mut end = Vec::new();
        near.seal_end(&mut end).unwrap();
        assert_eq!(far.open(&mut end).unwrap(), OpenedRecord::End);
    }

    #[test]
    fn keys_that_have_served_long_enough_are_replaced() {
        let (mut near, mut far) = pair();
        near.most = 4;
        let mut updates = 0;
        for number in 0..20u8 {
            let mut sealed = sealed(&mut near, &[number]);
            updates += usize::from(whole_record(&sealed).unwrap() != Some(sealed.len()));
            assert_eq!(open_all(&mut far, &mut sealed).unwrap(), [number]);
            assert!(near.sealer.sealed() < near.most);
        }
        assert!(updates >= 5, "{updates}");
    }

    #[test]
    fn what_lies_in_its_place_is_sealed_there() {
        let (mut near, mut far) = pair();
        for length in [1, RECORD, 0] {
            let mut record = vec![0; length + RECORD_OVERHEAD];
            plain(&mut record).fill(7);
            near.seal_in_place(&mut record).unwrap();
            assert_eq!(whole_record(&record).unwrap(), Some(record.len()));
            if length > 0 {
                assert_eq!(far.open(&mut record).unwrap(), OpenedRecord::Data(&vec![7; length]));
            } else {
                assert!(far.open(&mut record).is_err());
            }
        }
        assert!(near.seal_in_place(&mut [0; RECORD_OVERHEAD - 1]).is_err());
        assert!(near.seal_in_place(&mut vec![0; RECORD + RECORD_OVERHEAD + 1]).is_err());
    }

    #[test]
    fn a_changed_record_is_refused() {
        for at in [5, 50, 100] {
            let (mut near, mut far) = pair();
            let mut sealed = sealed(&mut near, &[1; 100]);
            sealed[at] ^= 1;
            assert!(far.open(&mut sealed).is_err());
        }
    }

    #[test]
    fn a_record_that_comes_again_or_too_early_is_refused() {
        let (mut near, mut far) = pair();
        let first = sealed(&mut near, b"1");
        assert!(far.open(&mut first.clone()).is_ok());
        assert!(far.open(&mut first.clone()).is_err());
        let (mut near, mut far) = pair();
        sealed(&mut near, b"1");
        assert!(far.open(&mut sealed(&mut near, b"2")).is_err());
    }

    #[test]
    fn a_length_or_type_that_no_record_has_is_refused() {
        assert!(whole_record(&[23, 3, 3, 0xff, 0xff]).is_err());
        assert!(whole_record(&[21, 3, 3, 0, 2, 1, 0]).is_err());
        assert_eq!(whole_record(&[23, 3, 3, 0]).unwrap(), None);
        assert_eq!(whole_record(&[23, 3, 3, 0, 2, 1]).unwrap(), None);
        assert!(pair().0.open(&mut [23, 3]).is_err());
        assert!(pair().0.open(&mut [23, 3, 3, 0, 0]).is_err());
    }

    #[test]
    fn what_carries_no_data_cannot_go_on_for_ever() {
        let (mut near, mut far) = pair();
        assert!(far.open(&mut protected(&mut near, ContentType::ApplicationData, &[])).is_err());
        let (mut near, mut far) = pair();
        far.open(&mut sealed(&mut near, b"data")).unwrap();
        let mut update = || {
            let mut update = Vec::new();
            near.update_keys(&mut update).unwrap();
            update
        };
        assert_eq!(far.open(&mut update()).unwrap(), OpenedRecord::Nothing);
        assert!(far.open(&mut update()).is_err());
    }

    #[test]
    fn other_messages_are_refused() {
        let asks_for_an_update: &[u8] = &[24, 0, 0, 1, 1];
        let two_updates: &[u8] = &[KEY_UPDATE, KEY_UPDATE].concat();
        for (typ, contents) in [
            (ContentType::Handshake, asks_for_an_update),
            (ContentType::Handshake, two_updates),
            (ContentType::Alert, &[2, 40]),
            (ContentType::ChangeCipherSpec, &[1]),
        ] {
            let (mut near, mut far) = pair();
            far.open(&mut sealed(&mut near, b"data")).unwrap();
            assert!(far.open(&mut protected(&mut near, typ, contents)).is_err(), "{typ:?} {contents:?}");
        }
    }
}
