//! Converts names, if the receiver uses another character set than the sender.

use encoding_rs::Encoding;
use linerate_wire::control::Charsets;
use linerate_wire::path::RelPath;
use std::borrow::Cow;

/// A character set and its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Utf8,
    Ascii,
    /// ISO 8859-1 as in iconv(1); the Encoding Standard's definition differs.
    Latin1,
    Other(&'static Encoding),
}

/// Converts names from the sender's character set to the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameConversion {
    from: Charset,
    to: Charset,
}

const LATIN1: [&str; 8] =
    ["iso-8859-1", "iso8859-1", "iso88591", "iso_8859-1", "8859-1", "latin1", "latin-1", "l1"];
const ASCII: [&str; 4] = ["ascii", "us-ascii", "ansi_x3.4-1968", "iso646-us"];

impl NameConversion {
    /// A conversion from the sender's character set to the receiver's; `None` if the two are equal.
    ///
    /// # Errors
    /// If a character set isn't known, or if its encoding uses the byte of a slash or a zero byte in other
    /// characters too.
    pub fn between(charsets: &Charsets) -> Result<Option<Self>, String> {
        let conversion = Self { from: Charset::of(&charsets.from)?, to: Charset::of(&charsets.to)? };
        Ok((conversion.from != conversion.to).then_some(conversion))
    }

    /// The name at the receiver; `None` if the receiver's set lacks a character, or the bytes are invalid in the
    /// sender's set.
    pub fn forth(self, name: &[u8]) -> Option<Vec<u8>> {
        self.to.encode(&self.from.decode(name)?)
    }

    /// The sender's form of a name at the receiver; `None` if the name can't be converted.
    pub fn back(self, name: &[u8]) -> Option<Vec<u8>> {
        self.from.encode(&self.to.decode(name)?)
    }

    /// The path at the receiver; it has the same number of components.
    pub fn path(self, path: &RelPath) -> Option<RelPath> {
        let converted = RelPath::new(self.forth(path.as_bytes())?).ok()?;
        (converted.components().count() == path.components().count()).then_some(converted)
    }

    /// The sender's form of a path at the receiver.
    pub fn path_back(self, path: &RelPath) -> Option<RelPath> {
        RelPath::new(self.back(path.as_bytes())?).ok()
    }
}

impl Charset {
    fn of(label: &str) -> Result<Self, String> {
        let plain = label.to_ascii_lowercase();
        let encoding = match &*plain {
            _ if LATIN1.contains(&&*plain) => return Ok(Self::Latin1),
            _ if ASCII.contains(&&*plain) => return Ok(Self::Ascii),
            _ => Encoding::for_label(plain.as_bytes()),
        };
        match encoding {
            Some(encoding) if encoding == encoding_rs::UTF_8 => Ok(Self::Utf8),
            Some(encoding) if encoding.is_ascii_compatible() && encoding.output_encoding() == encoding => {
                Ok(Self::Other(encoding))
            }
            Some(_) => Err(format!("{label:?}: names can't be written in this character set")),
            None => Err(format!(
                "{label:?} isn't a known character set: write UTF-8, ISO-8859-1, or another label of the Encoding Standard"
            )),
        }
    }

    fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self {
            Self::Utf8 => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Self::Ascii => std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()).map(Cow::Borrowed),
            Self::Latin1 => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Self::Other(encoding) => encoding.decode_without_bom_handling_and_without_replacement(bytes),
        }
    }

    fn encode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(text.as_bytes().to_vec()),
            Self::Ascii => text.is_ascii().then(|| text.as_bytes().to_vec()),
            Self::Latin1 => text.chars().map(|letter| u8::try_from(letter).ok()).collect(),
            Self::Other(encoding) => {
                let (bytes, _, has_others) = encoding.encode(text);
                (!has_others).then(|| bytes.into_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(from: &str, to: &str) -> Result<Option<NameConversion>, String> {
        NameConversion::between(&Charsets { from: from.into(), to: to.into() })
    }

    #[test]
    fn names_go_forth_and_back() {
        for (to, name, there) in [
            ("iso88591", "grün/é", &b"gr\xfcn/\xe9"[..]),
            ("ISO-8859-15", "€", b"\xa4"),
            ("koi8-r", "да", b"\xc4\xc1"),
            ("cp1251", "да", b"\xe4\xe0"),
            ("EUC-JP", "日", b"\xc6\xfc"),
            ("gb18030", "日", b"\xc8\xd5"),
        ] {
            let conversion = between("UTF8", to).unwrap().unwrap();
            assert_eq!(conversion.forth(name.as_bytes()).as_deref(), Some(there), "{to}");
            assert_eq!(conversion.back(there).as_deref(), Some(name.as_bytes()), "{to}");
        }
        assert_eq!(between("UTF-8", "utf8"), Ok(None));
        for unknown in ["nonsense", "", "utf-16", "iso-2022-jp", "replacement"] {
            assert!(between("utf-8", unknown).is_err() && between(unknown, "utf-8").is_err(), "{unknown}");
        }
    }

    #[test]
    fn what_has_no_such_characters_is_not_converted() {
        for (to, name) in [
            ("latin1", &b"\xe2\x82\xac"[..]),
            ("latin1", b"\xff"),
            ("ascii", b"\xc3\xa9"),
            ("koi8-r", b"\xc3\xa9"),
        ] {
            assert_eq!(between("utf-8", to).unwrap().unwrap().forth(name), None, "{to} {name:?}");
        }
    }

    proptest! {
        #[test]
        fn a_path_keeps_its_components(names in prop::collection::vec("[a-z\u{e0}-\u{ff}日]{1,5}", 1..5), to in 0usize..5) {
            let to = ["latin1", "shift_jis", "gbk", "big5", "euc-kr"][to];
            let (path, conversion) = (RelPath::new(names.join("/").into_bytes()).unwrap(), between("utf-8", to).unwrap().unwrap());
            if let Some(converted) = conversion.path(&path) {
                prop_assert_eq!(converted.components().count(), names.len());
            }
        }
    }
}
