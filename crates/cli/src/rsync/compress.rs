//! The option `-z` and the other options about compression.

use linerate_wire::control::{Compression, CompressionLevel, MAX_COMPRESSION};

/// The greatest number of name endings in `--skip-compress`.
const MOST_SKIPPED: usize = 1024;
/// zstd's default level, which rsync writes as 0.
const USUAL_LEVEL: u8 = 3;
/// zstd's lowest level, which is about as fast as lz4.
const FAST_LEVEL: u8 = 1;

/// The options about compression that were read so far.
#[derive(Clone, Debug, Default)]
pub struct CompressWords {
    on: Option<bool>,
    level: Option<i32>,
    method: Method,
    skip: Option<Vec<Vec<u8>>>,
    /// A value of `--compress-choice` that neither linerate nor rsync has.
    unknown: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Method {
    #[default]
    Zstd,
    Lz4,
    Zlib,
}

impl CompressWords {
    /// Stores `-z` or `--no-compress`.
    pub fn switch(&mut self, on: bool) {
        self.on = Some(on);
    }

    /// Stores the value of `--compress-choice`. [`CompressWords::refusal`] reports names that neither linerate nor
    /// rsync has.
    pub fn choose(&mut self, name: &str) {
        self.method = match name {
            "zstd" | "auto" => Method::Zstd,
            "lz4" => Method::Lz4,
            "zlib" | "zlibx" => Method::Zlib,
            "none" => {
                self.on = Some(false);
                return;
            }
            other => {
                self.unknown = Some(other.to_owned());
                return;
            }
        };
        self.on = Some(true);
    }

    /// The reason why rsync would refuse the chosen method.
    pub fn refusal(&self) -> Option<String> {
        self.unknown.as_ref().map(|name| format!("unknown compress name: {name}"))
    }

    /// Reads the value of `--compress-level`.
    ///
    /// # Errors
    /// If the value isn't a number.
    pub fn level(&mut self, level: &str) -> Result<(), String> {
        self.level = Some(level.parse().map_err(|_| "not a level".to_owned())?);
        self.on.get_or_insert(true);
        Ok(())
    }

    /// Reads the value of `--skip-compress`: endings of names with slashes between them, in which `[34]` stands for 3
    /// or 4.
    ///
    /// # Errors
    /// If the value isn't such a list.
    pub fn skip(&mut self, list: &[u8]) -> Result<(), String> {
        let mut skip = Vec::new();
        for ending in list.split(|&byte| byte == b'/').filter(|ending| !ending.is_empty()) {
            skip.extend(expand(ending)?);
            if skip.len() > MOST_SKIPPED {
                return Err(format!("--skip-compress has more than {MOST_SKIPPED} file endings"));
            }
        }
        self.skip = Some(skip);
        Ok(())
    }

    /// The names of the compression method and of its level, if the user asked for compression.
    pub fn shown(&self) -> Option<String> {
        match self.compression().level {
            CompressionLevel::Auto | CompressionLevel::Off => None,
            CompressionLevel::Always => Some("zstd (level as the rate needs it)".to_owned()),
            CompressionLevel::Fixed(level) => Some(format!("zstd (level {level})")),
        }
    }

    /// The compression that these options request.
    pub fn compression(&self) -> Compression {
        let fixed = |level: i32| CompressionLevel::Fixed(level.clamp(1, MAX_COMPRESSION.into()) as u8);
        let level = match (self.on, self.level, self.method) {
            (None, ..) => CompressionLevel::Auto,
            (Some(false), ..) | (_, Some(0), Method::Zlib) => CompressionLevel::Off,
            (_, _, Method::Lz4) => CompressionLevel::Fixed(FAST_LEVEL),
            (_, None, _) => CompressionLevel::Always,
            (_, Some(0), _) => CompressionLevel::Fixed(USUAL_LEVEL),
            (_, Some(level), _) => fixed(level),
        };
        Compression { level, skip: self.skip.clone() }
    }
}

fn expand(ending: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut made = vec![Vec::new()];
    let mut rest = ending;
    while let Some((&first, behind)) = rest.split_first() {
        let letters = if first == b'[' {
            let end = behind.iter().position(|&byte| byte == b']').ok_or("a [ has no ] after it")?;
            rest = &behind[end + 1..];
            &behind[..end]
        } else {
            rest = behind;
            std::slice::from_ref(&first)
        };
        if made.len() * letters.len() > MOST_SKIPPED {
            return Err(format!("--skip-compress has more than {MOST_SKIPPED} file endings"));
        }
        let with =
            |made: &Vec<u8>| letters.iter().map(|letter| [made, &[*letter][..]].concat()).collect::<Vec<_>>();
        made = made.iter().flat_map(with).collect();
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(set: impl Fn(&mut CompressWords)) -> CompressionLevel {
        let mut words = CompressWords::default();
        set(&mut words);
        words.compression().level
    }

    #[test]
    fn levels_and_choices_are_rsyncs() {
        assert_eq!(level(|_| ()), CompressionLevel::Auto);
        assert_eq!(level(|words| words.switch(true)), CompressionLevel::Always);
        assert_eq!(level(|words| words.switch(false)), CompressionLevel::Off);
        for (given, expected) in [("9", 9), ("0", 3), ("-5", 1), ("22", 19), ("1000", 19)] {
            let level = level(|words| words.level(given).unwrap());
            assert_eq!(level, CompressionLevel::Fixed(expected), "{given}");
        }
        assert_eq!(level(|words| words.choose("none")), CompressionLevel::Off);
        assert_eq!(level(|words| words.choose("zlibx")), CompressionLevel::Always);
        assert_eq!(level(|words| words.choose("lz4")), CompressionLevel::Fixed(1));
        let off = |words: &mut CompressWords| {
            words.choose("zlib");
            words.level("0").unwrap();
        };
        assert_eq!(level(off), CompressionLevel::Off);
        let refused = |name: &str| {
            let mut words = CompressWords::default();
            words.choose(name);
            words.refusal()
        };
        assert_eq!((refused("brotli").is_some(), refused("zstd")), (true, None));
        assert!(CompressWords::default().level("best").is_err());
    }

    #[test]
    fn skipped_endings_have_classes_of_letters() {
        let skip = |list: &str| {
            let mut words = CompressWords::default();
            words.skip(list.as_bytes()).map(|()| words.compression().skip.unwrap_or_default())
        };
        let endings =
            |list: &[&str]| list.iter().map(|ending| ending.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(skip("gz/mp[34]/7z").unwrap(), endings(&["gz", "mp3", "mp4", "7z"]));
        assert_eq!(skip("").unwrap(), endings(&[]));
        assert!(skip("a[b").is_err());
        assert!(skip(&"[abcdefgh]".repeat(9)).is_err());
    }
}
