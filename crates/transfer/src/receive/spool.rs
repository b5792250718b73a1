//! Notes about places for the end of a transfer. They are added in any order, and read once at the end, from
//! the last place to the first. The memory is bounded: notes beyond the budget are stored in a file without a
//! name.

use linerate_wire::path::RelPath;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::tree::root::Directory;
use crate::tree::temporary::Names;

/// The most bytes of notes in memory, approximately.
const BUDGET: usize = 32 << 20;
/// The approximate memory of a note, in addition to the bytes of its path and of its value.
const NOTE_OVERHEAD: usize = 96;
/// Bytes per read from each part of the file.
const READ: usize = 16 << 10;

/// Notes about places.
pub struct Spool<V> {
    memory: BTreeMap<RelPath, Vec<u8>>,
    bytes: usize,
    budget: usize,
    /// The directory in which the file is created.
    top: Arc<Directory>,
    file: Option<Arc<File>>,
    /// The offsets in the file at which its sorted parts begin, and the offset of the file's end.
    parts: Vec<u64>,
    values: PhantomData<V>,
}

impl<V: Serialize + DeserializeOwned> Spool<V> {
    /// A spool without notes; notes that don't fit into memory go into a file in `top`.
    pub fn new(top: &Arc<Directory>) -> Self {
        Self {
            memory: BTreeMap::new(),
            bytes: 0,
            budget: BUDGET,
            top: top.clone(),
            file: None,
            parts: vec![0],
            values: PhantomData,
        }
    }

    /// Replaces the note for `place` in memory by the result of `change`. If the note is already in the file,
    /// a second note for this place is added.
    ///
    /// # Errors
    /// If the file can't be written, and the notes take more memory than four times the budget.
    pub fn update(
        &mut self,
        place: &RelPath,
        names: &Names<'_>,
        change: impl FnOnce(Option<V>) -> V,
    ) -> Result<(), Errno> {
        let known = self.memory.get(place).map(|bytes| (bytes.len(), postcard::from_bytes(bytes)));
        let (had, known) = known.map_or((0, None), |(length, value)| (length, value.ok()));
        let is_new = known.is_none();
        let bytes = postcard::to_stdvec(&change(known)).expect("a note is always encodable");
        self.bytes = self.bytes + bytes.len() - had;
        if is_new {
            self.bytes += NOTE_OVERHEAD + place.as_bytes().len();
        }
        self.memory.insert(place.clone(), bytes);
        if self.bytes <= self.budget {
            return Ok(());
        }
        match self.write_out(names) {
            Err(_) if self.bytes <= BUDGET * 4 => Ok(()),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            Ok(()) => Ok(()),
        }
    }

    fn write_out(&mut self, names: &Names<'_>) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => Arc::new(File::from(names.scratch(&self.top)?)),
        };
        let begin = self.parts.last().copied().unwrap_or(0);
        let mut writer = BufWriter::with_capacity(READ, Section { file: file.clone(), at: begin });
        for (place, value) in self.memory.iter().rev() {
            write_one(&mut writer, place.as_bytes())?;
            write_one(&mut writer, value)?;
        }
        let section = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.parts.push(section.at);
        self.file = Some(file);
        self.memory.clear();
        self.bytes = 0;
        Ok(())
    }

    /// All notes, from the last place to the first. Notes about the same place are returned together, the
    /// earliest first.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn read(self) -> io::Result<SpooledNotes<V>> {
        let section = |file: &Arc<File>, pair: &[u64]| {
            let section = Section { file: file.clone(), at: pair[0] }.take(pair[1] - pair[0]);
            BufReader::with_capacity(READ, section)
        };
        let parts = self.file.iter().flat_map(|file| self.parts.windows(2).map(|pair| section(file, pair)));
        let mut notes = SpooledNotes {
            parts: parts.collect(),
            memory: self.memory,
            heads: BinaryHeap::new(),
            values: PhantomData,
        };
        (0..notes.parts.len()).try_for_each(|age| notes.next_of(age))?;
        Ok(notes)
    }
}

/// An iterator over the notes of a [`Spool`].
pub struct SpooledNotes<V> {
    memory: BTreeMap<RelPath, Vec<u8>>,
    heads: BinaryHeap<NextNote>,
    parts: Vec<BufReader<io::Take<Section>>>,
    values: PhantomData<V>,
}

/// The next note of one part of the file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NextNote {
    place: RelPath,
    /// The number of parts that were written before this part.
    age: usize,
    value: Vec<u8>,
}

impl<V: DeserializeOwned> SpooledNotes<V> {
    /// The notes of the next place.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn next(&mut self) -> io::Result<Option<(RelPath, Vec<V>)>> {
        let in_file = self.heads.peek().map(|head| head.place.clone());
        let in_memory = self.memory.last_key_value().map(|(place, _)| place.clone());
        let Some(place) = in_file.max(in_memory) else { return Ok(None) };
        let mut values = Vec::new();
        while let Some(head) = self.heads.peek()
            && head.place == place
            && let Some(head) = self.heads.pop()
        {
            values.push((head.age, decode(&head.value)?));
            self.next_of(head.age)?;
        }
        values.sort_by_key(|(age, _)| *age);
        let mut values: Vec<V> = values.into_iter().map(|(_, value)| value).collect();
        if let Some(value) = self.memory.remove(&place) {
            values.push(decode(&value)?);
        }
        Ok(Some((place, values)))
    }
}

impl<V> SpooledNotes<V> {
    /// Reads the next note of the part that was written after `age` other parts.
    fn next_of(&mut self, age: usize) -> io::Result<()> {
        let part = &mut self.parts[age];
        let Some(place) = read_one(part)? else { return Ok(()) };
        let value = read_one(part)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let place = RelPath::new(place).map_err(io::Error::other)?;
        self.heads.push(NextNote { place, age, value });
        Ok(())
    }
}

fn decode<V: DeserializeOwned>(bytes: &[u8]) -> io::Result<V> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

fn write_one(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(bytes)
}

/// Reads one note; `None` at the end.
fn read_one(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// A section of the file. Several sections can be read alternately, because each has its own position.
struct Section {
    file: Arc<File>,
    at: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Write for Section {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(bytes, self.at)?;
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::root::Root;
    use proptest::prelude::*;

    fn notes(budget: usize, noted: &[(u8, u32)]) -> Vec<(RelPath, Vec<u32>)> {
        let top = tempfile::tempdir().unwrap();
        let root = Root::open(top.path()).unwrap();
        let names = Names::new(&[1], false);
        let mut spool = Spool { budget, ..Spool::<Vec<u32>>::new(root.top()) };
        for (place, value) in noted {
            let place = RelPath::new(format!("{place:02}")).unwrap();
            let noted = spool.update(&place, &names, |known| {
                let mut known = known.unwrap_or_default();
                known.push(*value);
                known
            });
            noted.unwrap();
        }
        let mut notes = spool.read().unwrap();
        assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 0, "the file has a name");
        let mut read = Vec::new();
        while let Some((place, values)) = notes.next().unwrap() {
            read.push((place, values.concat()));
        }
        read
    }

    proptest! {
        #[test]
        fn a_file_changes_nothing(noted in prop::collection::vec((0..20_u8, any::<u32>()), 0..200), budget in 0..2000_usize) {
            let in_memory = notes(usize::MAX, &noted);
            prop_assert!(in_memory.windows(2).all(|pair| pair[0].0 > pair[1].0));
            prop_assert_eq!(notes(budget, &noted), in_memory);
        }
    }
}
