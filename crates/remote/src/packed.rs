//! Packed agents: agents in the form in which they are copied to a host. They are compressed with gzip, which nearly
//! every host can decompress. A comment in the header of the gzip file describes the contents.

use flate2::bufread::MultiGzDecoder;
use flate2::{Compression, GzBuilder};
use linerate_wire::identity::{IDENTITY, reported_by};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::binary::{Binary, sha256};
use crate::program;

/// The beginning of the file name of a packed agent. The machine's name follows, as `uname -m` prints it.
pub const NAME: &str = "agent-";
/// The end of the file name of a packed agent.
pub const END: &str = ".gz";

/// The error message that a binary doesn't contain its version and protocol.
pub const SILENT: &str =
    "it doesn't state its protocol: it isn't linerate, or it is an older version; build it again";

/// Packs the binary of an agent. The description contains the version and protocol that are stored in the binary,
/// because this program may speak another protocol, and can't run a binary for another kind of machine.
///
/// # Errors
/// If the binary can't be read or doesn't contain its protocol, or if the packed agent can't be written.
pub fn write(binary: &Path, packed: &mut impl Write) -> io::Result<()> {
    let id = Binary::of(String::new(), binary.to_owned())?.id;
    let bytes = fs::read(binary)?;
    let reported = reported_by(&bytes).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, SILENT))?;
    let comment = format!("{reported}, {id}, {}", sha256(&bytes[..])?);
    let mut gzip = GzBuilder::new().comment(comment).write(packed, Compression::best());
    gzip.write_all(&bytes)?;
    gzip.finish()?.flush()
}

/// Reads the description of the packed agent in `file`, which is for the kind of machine `machine` (such as
/// `Linux x86_64`). Only the beginning and the end of the file are read.
///
/// # Errors
/// The reason why the agent can't be copied to a host, as the end of a sentence.
pub fn read(machine: &str, file: &Path) -> Result<Binary, String> {
    let mut opened = program::open(file)?;
    let (comment, head) = begin(BufReader::new(&opened)).ok_or("it isn't a packed agent")?;
    let mut words = comment.splitn(3, ", ");
    let (of, id, hash) = (words.next(), words.next(), words.next());
    if of != Some(IDENTITY) {
        return Err(of_other(of.unwrap_or_default()));
    }
    let size = id.and_then(|id| id.rsplit_once('-')?.1.parse().ok());
    if size.is_some_and(|size| stated_length(&mut opened).is_ok_and(|stated| stated != size as u32)) {
        return Err("its end is missing, or is that of another file".into());
    }
    let arch = machine.rsplit(' ').next().unwrap_or_default();
    if let Some(why) = size.and_then(|size| program::fault(&head, size, arch)) {
        return Err(format!("unpacked, {why}"));
    }
    match (id, size, hash) {
        // The ID and the hash become parts of command lines for the far shell.
        (Some(id), Some(size), Some(hash)) if is_plain(id) && is_plain(hash) => Ok(Binary {
            machine: machine.to_owned(),
            file: file.to_owned(),
            size,
            id: id.to_owned(),
            packed: Some(hash.to_owned()),
        }),
        _ => Err("its description is invalid".into()),
    }
}

/// The reason, as the end of a sentence, why a binary that reports another version or protocol, `reported`, can't be
/// used.
pub(crate) fn of_other(reported: &str) -> String {
    format!("it belongs to {reported}, not to {IDENTITY}")
}

/// The description of a packed agent, and the first bytes of the program.
fn begin(file: impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut gzip, mut head) = (MultiGzDecoder::new(file), Vec::new());
    (&mut gzip).take(program::HEAD as u64).read_to_end(&mut head).ok()?;
    let comment = gzip.header()?.comment()?.to_owned();
    Some((String::from_utf8(comment).ok()?, head)).filter(|(_, head)| !head.is_empty())
}

/// The length of the unpacked program, which the last 32 bits of a gzip file state (RFC 1952).
fn stated_length(file: &mut File) -> io::Result<u32> {
    let mut last = [0; 4];
    file.seek(SeekFrom::End(-4))?;
    file.read_exact(&mut last)?;
    Ok(u32::from_le_bytes(last))
}

fn is_plain(word: &str) -> bool {
    word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_comment(comment: &str) -> Result<Binary, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut gzip = GzBuilder::new().comment(comment).write(&mut file, Compression::fast());
        gzip.write_all(b"binary").unwrap();
        gzip.finish().unwrap();
        read("Linux x", file.path())
    }

    #[test]
    fn only_an_agent_of_this_version_is_taken() {
        let ours = IDENTITY;
        let agent = with_comment(&format!("{ours}, abc-6, 0123")).unwrap();
        assert_eq!((&*agent.id, agent.size, agent.packed.as_deref()), ("abc-6", 6, Some("0123")));
        let older = with_comment("linerate 0.0.1 protocol 1, abc-6, 0123").unwrap_err();
        assert!(older.contains("belongs to linerate 0.0.1 protocol 1, not to linerate "), "{older}");
        for odd in ["abc-6", "abc, 0123", "abc-x, 0123", "abc-6, $(id)", "a;b-6, 0123", "abc-6, 0123, 4"] {
            assert!(with_comment(&format!("{ours}, {odd}")).unwrap_err().contains("is invalid"), "{odd}");
        }
        let plain = tempfile::NamedTempFile::new().unwrap();
        assert!(read("Linux x", plain.path()).unwrap_err().contains("it is empty"));
        std::fs::write(plain.path(), "text").unwrap();
        assert!(read("Linux x", plain.path()).unwrap_err().contains("isn't a packed agent"));
        assert!(read("Linux x", Path::new("/nowhere")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_cut_file_and_one_for_another_machine_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("agent");
        write(Path::new("/proc/self/exe"), &mut File::create(&file).unwrap()).unwrap();
        let here = format!("Linux {}", std::env::consts::ARCH);
        let agent = read(&here, &file).unwrap();
        agent.check().unwrap();
        let other = if here == "Linux aarch64" { "Linux x86_64" } else { "Linux aarch64" };
        assert!(read(other, &file).unwrap_err().contains("it is a program for"));
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert!(read(&here, &file).unwrap_err().contains("its end is missing"));
        // Damage that neither the beginning nor the end of the file shows.
        let mut damaged = whole;
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        let why = read(&here, &file).unwrap().check().unwrap_err();
        assert!(why.starts_with("it can't be unpacked: ") || why.contains("damaged"), "{why}");
    }

    #[test]
    fn gzip_gives_back_the_same_bytes_and_packing_is_repeatable() {
        let mut binary = tempfile::NamedTempFile::new().unwrap();
        let bytes = [format!("(speaks {IDENTITY})").as_bytes(), include_bytes!("packed.rs")].concat();
        binary.write_all(&bytes).unwrap();
        let [mut first, mut second] = [Vec::new(), Vec::new()];
        write(binary.path(), &mut first).unwrap();
        write(binary.path(), &mut second).unwrap();
        assert!(first == second && first.len() < bytes.len());
        let mut unpacked = Vec::new();
        MultiGzDecoder::new(&first[..]).read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == bytes);
    }

    #[test]
    fn a_packed_agent_has_the_protocol_that_its_binary_says_and_no_other() {
        let mut older = tempfile::NamedTempFile::new().unwrap();
        older.write_all(b"#!/bin/sh\n# (speaks linerate 0.0.1 protocol 1)\n").unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write(older.path(), &mut file).unwrap();
        let why = read("Linux x", file.path()).unwrap_err();
        assert!(why.contains("belongs to linerate 0.0.1 protocol 1, not to linerate "), "{why}");
        let mut silent = tempfile::NamedTempFile::new().unwrap();
        silent.write_all(b"#!/bin/sh\n").unwrap();
        let mut packed = Vec::new();
        let refused = write(silent.path(), &mut packed).unwrap_err();
        assert!(refused.to_string().contains("doesn't state its protocol") && packed.is_empty());
    }
}
