//! The identity of a program: its version and the number of its protocol, which must be the same at both
//! ends. The identity can also be read from a binary's file.

/// The text before the identity in a binary.
const BEGIN: &str = "(speaks ";
/// The byte after the identity in a binary.
const END: u8 = b')';
/// The identity in the form in which every binary that uses this constant contains it. The parentheses separate the
/// identity from the texts beside it.
pub const STAMP: &str =
    concat!("(speaks linerate ", env!("CARGO_PKG_VERSION"), " protocol ", protocol_number!(), ")");
/// An upper limit for the length of an identity in bytes.
const MOST_BYTES: usize = 96;

/// The output of `linerate agent --id`. Two ends with the same output can communicate.
pub const IDENTITY: &str = STAMP.split_at(STAMP.len() - 1).0.split_at(BEGIN.len()).1;

/// The error message that the end with the name `other` uses another version of the protocol.
#[must_use]
pub fn differing(other: &str, version: &str, protocol: u32) -> String {
    format!(
        "{other} runs linerate {} (protocol {protocol}), this end {} (protocol {}): install the same version on both",
        crate::path::printable(version.as_bytes()),
        env!("CARGO_PKG_VERSION"),
        crate::PROTOCOL,
    )
}

/// Finds the identity in a binary's bytes: the value that [`IDENTITY`] had when the binary was built. The binary may be
/// for another kind of machine, and so impossible to run here. Returns `None` if the bytes contain no identity.
#[must_use]
pub fn reported_by(binary: &[u8]) -> Option<&str> {
    let mut places = binary.windows(BEGIN.len()).enumerate().filter(|(_, bytes)| *bytes == BEGIN.as_bytes());
    places.find_map(|(at, _)| {
        let behind = &binary[at + BEGIN.len()..];
        let length = behind.iter().take(MOST_BYTES).position(|byte| *byte == END)?;
        str::from_utf8(&behind[..length]).ok().filter(|text| is_identity(text))
    })
}

/// True if `text` has the form `linerate VERSION protocol NUMBER`.
fn is_identity(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic());
    match *text.split(' ').collect::<Vec<_>>() {
        ["linerate", version, "protocol", number] => is_word(version) && number.parse::<u32>().is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_identity_is_the_version_and_the_protocol() {
        let expected = format!("linerate {} protocol {}", env!("CARGO_PKG_VERSION"), crate::PROTOCOL);
        assert_eq!((IDENTITY, reported_by(STAMP.as_bytes())), (&*expected, Some(IDENTITY)));
    }

    #[test]
    fn only_a_whole_identity_counts() {
        let old = b"\x7fELF(speaks (speaks for itself)(speaks linerate 0.0.1 protocol 3)5 streams";
        assert_eq!(reported_by(old), Some("linerate 0.0.1 protocol 3"));
        let others: [&[u8]; 8] = [
            b"",
            b"(speaks ",
            b"(speaks linerate 1 protocol 3",
            b"(speaks linerate 1 protocol )",
            b"(speaks linerate 1 protocol -3)",
            b"(speaks linerate  protocol 3)",
            b"(speaks linerate 1\0 protocol 3)",
            b"linerate 1 protocol 3)",
        ];
        for other in others {
            assert_eq!(reported_by(other), None, "{}", String::from_utf8_lossy(other));
        }
        assert_eq!(
            reported_by(&[b"(speaks linerate 1 protocol 3".as_slice(), &[b' '; 200], b")"].concat()),
            None
        );
    }

    proptest! {
        #[test]
        fn any_bytes_may_be_around_it(before in prop::collection::vec(any::<u8>(), 0..99), behind in ".*") {
            let with = |stamp: &str| [&before, stamp.as_bytes(), behind.as_bytes()].concat();
            let (stamped, begun) = (with(STAMP), with(BEGIN));
            prop_assert_eq!((reported_by(&stamped), reported_by(&begun)), (Some(IDENTITY), None));
        }
    }
}
