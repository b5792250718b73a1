//! An archive for the kernel's initramfs: cpio's "new ASCII format", uncompressed
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::io::{self, Write};

/// Entries and data begin at multiples of this number of bytes.
const ALIGNMENT: usize = 4;

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

/// The name of the last entry.
const TRAILER: &str = "TRAILER!!!";

/// An archive under construction. All entries belong to root.
pub(crate) struct Archive<W: Write> {
    out: W,
    written: usize,
    entries: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, written: 0, entries: 0 }
    }

    /// Adds a directory. `path` has no leading slash.
    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY, (0, 0), &[])
    }

    /// Adds an executable file.
    pub(crate) fn file(&mut self, path: &str, contents: &[u8]) -> io::Result<()> {
        self.entry(path, EXECUTABLE, (0, 0), contents)
    }

    /// Adds a character device with these major and minor numbers.
    pub(crate) fn device(&mut self, path: &str, numbers: (u32, u32)) -> io::Result<()> {
        self.entry(path, DEVICE, numbers, &[])
    }

    /// Writes the end, and returns the output.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.entry(TRAILER, 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), contents: &[u8]) -> io::Result<()> {
        let size = u32::try_from(contents.len()).map_err(|_| io::Error::other("a file above 4 GiB"))?;
        let named = path.len() as u32 + 1;
        self.entries += 1;
        // inode, mode, uid, gid, links, mtime, size, device (2), own device (2), length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, named, 0];
        let header: String = fields.iter().map(|field| format!("{field:08X}")).collect();
        self.put(format!("070701{header}{path}\0").as_bytes())?;
        self.align()?;
        self.put(contents)?;
        self.align()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        self.out.write_all(bytes)
    }

    fn align(&mut self) -> io::Result<()> {
        let missing = self.written.next_multiple_of(ALIGNMENT) - self.written;
        self.put(&[0; ALIGNMENT][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks an archive by the description of the format: the six magic bytes of each header, its fields, and
    /// the position of the next header.
    #[test]
    fn entries_stand_where_their_headers_say() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("a").expect("memory");
        archive.file("a/bcd", b"12345").expect("memory");
        archive.device("console", (5, 1)).expect("memory");
        let bytes = archive.finish().expect("memory");
        let (mut at, mut seen) = (0, Vec::new());
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).expect("digits");
                usize::from_str_radix(text, 16).expect("hexadecimal")
            };
            let (size, named) = (field(6), field(11));
            let name = &bytes[at + 110..at + 110 + named - 1];
            let data = (at + 110 + named).next_multiple_of(4);
            seen.push((String::from_utf8_lossy(name).into_owned(), field(1), (field(9), field(10))));
            if name == b"a/bcd" {
                assert_eq!(&bytes[data..data + size], b"12345");
            }
            at = (data + size).next_multiple_of(4);
        }
        let expected = [
            ("a", DIRECTORY, (0, 0)),
            ("a/bcd", EXECUTABLE, (0, 0)),
            ("console", DEVICE, (5, 1)),
            (TRAILER, 0, (0, 0)),
        ];
        let expected = expected.map(|(name, mode, device)| (name.to_owned(), mode as usize, device));
        assert_eq!(seen, expected);
    }
}
