//! Reads and writes messages on a channel. Each message is preceded by its length.

use std::io::{self, Read, Write};

use super::{MAX_MESSAGE, Message};

/// The reason why a control message can't be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The other end has closed the channel.
    #[error("the other end closed the control channel")]
    Closed,
    /// Reading or writing failed.
    #[error("the control channel failed: {0}")]
    Io(#[from] io::Error),
    /// A message is longer than [`MAX_MESSAGE`].
    #[error("a control message claims {0} bytes, more than is allowed")]
    TooLong(usize),
    /// The bytes aren't a valid message.
    #[error("a control message can't be decoded, or has more elements than it may: {0}")]
    Decode(#[from] postcard::Error),
}

/// Writes one message.
///
/// # Errors
/// If the channel fails, or the message is longer than [`MAX_MESSAGE`].
pub fn write(channel: &mut impl Write, message: &Message) -> Result<(), ControlError> {
    write_from(&mut Vec::new(), channel, message)
}

/// Writes one message as [`write()`] does, from a buffer that the caller reuses.
///
/// # Errors
/// The errors of [`write()`].
pub fn write_from(
    bytes: &mut Vec<u8>,
    channel: &mut impl Write,
    message: &Message,
) -> Result<(), ControlError> {
    bytes.clear();
    bytes.extend_from_slice(&[0; 4]);
    *bytes = postcard::to_extend(message, std::mem::take(bytes))?;
    let length = bytes.len() - 4;
    if length > MAX_MESSAGE {
        return Err(ControlError::TooLong(length));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    channel.write_all(bytes)?;
    Ok(channel.flush()?)
}

/// Reads one message.
///
/// # Errors
/// [`ControlError::Closed`] at the end of the channel, even in the middle of a message; other errors if
/// reading fails or the bytes aren't a message.
pub fn read(channel: &mut impl Read) -> Result<Message, ControlError> {
    let mut length = [0; 4];
    fill(channel, &mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE {
        return Err(ControlError::TooLong(length));
    }
    let mut bytes = vec![0; length];
    fill(channel, &mut bytes)?;
    Ok(postcard::from_bytes(&bytes)?)
}

fn fill(channel: &mut impl Read, buffer: &mut [u8]) -> Result<(), ControlError> {
    channel.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ControlError::Closed,
        _ => ControlError::Io(error),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Hello, MAX_TUNNEL, Source};
    use super::*;
    use crate::path::RelPath;
    use proptest::prelude::*;

    #[test]
    fn two_ends_in_memory_understand_each_other() {
        let hello = Hello { protocol: 1, version: "0.1.0".into(), public_key: vec![1, 2], cookie: [7; 16] };
        let said = [Message::Hello(hello), Message::MoreStreams(3), Message::Tunnel(vec![0; MAX_TUNNEL])];
        let mut channel = Vec::new();
        for message in &said {
            write(&mut channel, message).unwrap();
        }
        let mut rest = &channel[..];
        for message in said {
            assert_eq!(read(&mut rest).unwrap(), message);
        }
        assert!(matches!(read(&mut rest), Err(ControlError::Closed)));
    }

    #[test]
    fn a_long_message_is_refused_before_memory_is_taken() {
        let bytes = u32::MAX.to_le_bytes();
        assert!(matches!(read(&mut &bytes[..]), Err(ControlError::TooLong(_))));
    }

    #[test]
    fn a_cut_message_is_a_closed_channel() {
        let mut channel = Vec::new();
        write(&mut channel, &Message::MoreStreams(300)).unwrap();
        channel.pop();
        assert!(matches!(read(&mut &channel[..]), Err(ControlError::Closed)));
    }

    #[test]
    fn a_source_with_a_hostile_name_is_no_message() {
        let honest = Message::Sources(vec![Source {
            argument: 0,
            name: RelPath::new(&b"xx"[..]).unwrap(),
            directory: false,
        }]);
        let mut bytes = postcard::to_stdvec(&honest).unwrap();
        let at = bytes.windows(2).position(|pair| pair == b"xx").unwrap();
        bytes[at..at + 2].copy_from_slice(b"..");
        assert!(postcard::from_bytes::<Message>(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = postcard::from_bytes::<Message>(&bytes);
            let _ = read(&mut &bytes[..]);
        }
    }
}
