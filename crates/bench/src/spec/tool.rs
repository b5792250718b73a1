//! Tool files: each describes how to run an external program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::FileError;
use super::template::{self, Word};
use super::{section, tool_reader};

pub use super::search::{AUTO, Search};

/// The tool files that are built into the program, by file name.
const BUILT_IN: &[(&str, &str)] = built_in!("tools":
    "bbcp" "hpn-rsync" "hpn-scp" "idle" "iperf3" "lftp-ftp" "linerate-cp" "linerate-crr"
    "linerate-http-nginx" "linerate-http" "linerate-pairs" "linerate-rr" "linerate-stream-read"
    "linerate-stream" "linerate-tile" "linerate-udp" "mscp" "netperf" "nuttcp" "rsync-daemon" "rsync" "scp"
    "ssh-true" "tar-ssh" "wdt" "wrk-own" "wrk"
);

/// The kind of data that a tool moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// The tool moves a tree of files. The files are checked after the run.
    Files,
    /// The tool moves bytes from memory to memory.
    Memory,
    /// The tool moves requests and replies. Transactions and response times are measured, and payload if the tool
    /// reports it.
    Requests,
    /// The tool moves no data. Only its time is measured, such as the time of a login.
    Nothing,
}

/// How several streams of a tool run in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// The tool has an option for the number of streams (`{streams}`).
    Streams,
    /// N copies of the tool run on N slices of equal bytes.
    Copies,
    /// The tool doesn't run in parallel.
    None,
}

/// An external program, and how to run it.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The tool's name in study files.
    pub name: String,
    /// The tool's name in tables and figures.
    pub label: String,
    /// The group of the tool's cases; figures draw the bars of a group together.
    pub group: String,
    /// The kind of data that the tool moves.
    pub moves: Moves,
    /// How the tool runs in parallel.
    pub parallel: Parallel,
    /// True if the tool accepts `auto` as its number of streams.
    pub auto: bool,
    /// The cipher of the payload; `None` for unencrypted payload.
    pub cipher: Option<String>,
    /// The programs that the tool needs on the hosts.
    pub needs: Needs,
    /// The command that prints the tool's version in its first line, on stdout or stderr.
    pub version: Vec<Word>,
    /// The command that runs the tool at the sending end.
    pub command: Vec<Word>,
    /// A server at the receiving end, started before the command and stopped after it.
    pub server: Option<Server>,
    /// The places, in the tool's output, of the values that it reports.
    pub result: Option<Reading>,
    /// The tool's environment variables, which are added to those of the lab.
    pub environment: Vec<(String, Word)>,
    /// The variants of the tool: other ways to run it.
    pub variants: Vec<Variant>,
    /// The tool's parameters with their default values. Each is a placeholder in the tool's commands.
    pub parameters: BTreeMap<String, String>,
    /// The search for the tool's best level of a parameter, for cases that request the search.
    pub search: Option<Search>,
    /// The payload rate in bit/s that the tool reaches on an ordinary machine, used to estimate times; `None`
    /// for the link's rate.
    pub pace: Option<u64>,
}

/// Programs and packages that a tool needs.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Programs at the sending end.
    pub a: Vec<String>,
    /// Programs at the receiving end.
    pub b: Vec<String>,
    /// Debian packages that contain these programs.
    pub packages: Vec<String>,
    /// Advice if no package contains the program.
    pub advice: Option<String>,
}

/// A server that a tool needs at the receiving end.
#[derive(Clone, Debug)]
pub struct Server {
    /// The command that starts the server.
    pub command: Vec<Word>,
    /// The text that the server prints on stdout or stderr when it is ready.
    pub ready: String,
}

/// The places in a tool's stdout of the values that it reports: JSON pointers (RFC 6901), or regular
/// expressions with one group.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The format of stdout.
    pub form: Form,
    /// The places of the numbers, by their keys in a tool file.
    pub numbers: BTreeMap<&'static str, String>,
    /// The places of peak resident memory in bytes. The largest of the values counts.
    pub peak_rss: Vec<String>,
    /// The place of the name of the part that limited the transfer.
    pub limiter: Option<String>,
    /// The place of the number of streams in use at the end.
    pub streams: Option<String>,
    /// The place of a boolean that is true if the payload was encrypted. A run fails if this value differs from its
    /// case.
    pub encrypted: Option<String>,
    /// The place of an object of response times, in the form of [`crate::record::Latency`].
    pub latency: Option<String>,
    /// The place of an array of connections, each in the form of [`crate::record::Connections`].
    pub connections: Option<String>,
    /// The place of an object with the start and the end of the measured interval.
    pub window: Option<String>,
    /// Factors that convert the tool's numbers to the record's units, by key.
    pub scale: BTreeMap<String, f64>,
    /// Further values for the notes of the run: a name, and the place of the value.
    pub notes: Vec<(String, String)>,
}

/// The format of a tool's stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON document.
    Document,
    /// JSON lines, of which only the last one counts.
    LastLine,
    /// Text, in which patterns find the values.
    Pattern,
}

/// A variant of a tool: another way to run it.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The variant's name in study files.
    pub name: String,
    /// The variant's name in tables and figures.
    pub label: String,
    /// The cipher of the payload; `None` for unencrypted payload.
    pub cipher: Option<String>,
    /// The words that replace `{options}`.
    pub options: Vec<Word>,
}

/// The tools that a study may name.
#[derive(Clone, Debug, Default)]
pub struct Toolbox(BTreeMap<String, Tool>);

/// The reason why tool files couldn't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A file has an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// A directory or file can't be read.
    #[error("reading tool files from {path}: {cause}")]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// The reason of the failure.
        cause: std::io::Error,
    },
}

impl Toolbox {
    /// The built-in tools.
    ///
    /// # Errors
    /// Never in a tested program, because a test parses the built-in files.
    pub fn built_in() -> Result<Toolbox, FileError> {
        let mut tools = Toolbox::default();
        for (file, text) in BUILT_IN {
            tools.add(Tool::parse(file, text)?);
        }
        Ok(tools)
    }

    /// Adds every `*.toml` of a directory. A tool replaces an earlier tool with the same name.
    ///
    /// # Errors
    /// If the directory or a file can't be read, or a file has an error.
    pub fn add_directory(&mut self, dir: &Path) -> Result<(), ToolError> {
        let failed = |path: &Path, cause| ToolError::Read { path: path.to_owned(), cause };
        let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut paths: Vec<PathBuf> = entries.map_err(|e| failed(dir, e))?.iter().map(|e| e.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ext| ext == "toml"));
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, e))?;
            self.add(Tool::parse(&path.display().to_string(), &text)?);
        }
        Ok(())
    }

    /// Adds a tool.
    pub fn add(&mut self, tool: Tool) {
        self.0.insert(tool.name.clone(), tool);
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.0.get(name)
    }

    /// The names of all tools, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Server {
    /// linerate's own server that answers small requests.
    ///
    /// # Errors
    /// Never in a tested program.
    pub(crate) fn of_requests() -> Result<Server, String> {
        let command = template::parse(&["{linerate}", "serve", "rr", "--listen", "[::]:{port}"])?;
        Ok(Server { command, ready: "listening on".into() })
    }
}

impl Tool {
    /// Parses a tool file. `file` is its name in errors.
    ///
    /// # Errors
    /// The first error in the file.
    pub fn parse(file: &str, text: &str) -> Result<Tool, FileError> {
        section::read(file, text, tool_reader::tool)
    }

    /// True if the tool moves files, or at least reads them.
    pub fn takes_files(&self) -> bool {
        self.moves == Moves::Files || self.command.iter().any(|word| word.mentions("source"))
    }

    /// True if a single copy spreads its streams over all addresses.
    pub fn spreads_over_addresses(&self) -> bool {
        self.command.iter().any(|word| word.mentions("addresses") || word.mentions("url_hosts"))
    }

    /// The variant with this name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "copy"
moves = "files"
parallel = "copies"
cipher = "rot13"
command = ["copy", "{options}", "{source}", "{host}:{destination}"]
[needs]
a = "copy"
packages = ["copy-tools"]
[environment]
LC_ALL = "C"
[[variant]]
name = "clear"
cipher = "none"
options = ["-n"]
[[variant]]
name = "slow"
"#;

    #[test]
    fn reads_a_tool_with_variants() {
        let tool = Tool::parse("x.toml", GOOD).unwrap();
        assert_eq!((tool.label.as_str(), tool.group.as_str()), ("copy", "copy"));
        assert_eq!(tool.cipher.as_deref(), Some("rot13"));
        assert_eq!(tool.variant("clear").unwrap().cipher, None);
        assert_eq!(tool.variant("clear").unwrap().label, "copy, clear");
        assert_eq!(tool.variant("slow").unwrap().cipher.as_deref(), Some("rot13"));
        assert_eq!(tool.needs.packages, ["copy-tools"]);
    }

    #[test]
    fn generators_of_load_spread_over_addresses_and_movers_of_files_do_not() {
        let tools = Toolbox::built_in().unwrap();
        let spreading: Vec<&str> =
            tools.names().filter(|name| tools.get(name).unwrap().spreads_over_addresses()).collect();
        let loads = ["crr", "http", "http-nginx", "pairs", "rr", "tile", "udp"];
        assert_eq!(spreading, loads.map(|load| format!("linerate-{load}")));
    }

    #[test]
    fn errors_say_where_and_what_was_meant() {
        let error =
            |from: &str, to: &str| Tool::parse("x.toml", &GOOD.replace(from, to)).unwrap_err().to_string();
        assert_eq!(
            error("\"files\"", "\"flies\""),
            "x.toml:3: `moves`: \"flies\" is not one of files, memory, requests, nothing; did you mean `files`?"
        );
        assert_eq!(
            error("{source}", "{sorce}"),
            "x.toml:6: `command`: `{sorce}` is not a placeholder; did you mean `{source}`?"
        );
        assert_eq!(
            error("options = ", "optoins = "),
            "x.toml:15: `variant.optoins`: is not a key of this table; did you mean `options`?"
        );
        assert!(error("\"copies\"", "\"streams\"").contains("`{streams}`"));
        assert!(error("{destination}", "x").contains("`{destination}`"));
        assert!(error("\"{options}\", ", "").contains("`{options}`"));
        assert!(error("cipher = \"rot13\"", "cipher = \"\"").contains("\"none\""));
    }

    #[test]
    fn memory_tools_must_state_their_bytes() {
        let text = "name = \"m\"\nmoves = \"memory\"\ncommand = [\"m\"]\n";
        assert!(Tool::parse("x", text).unwrap_err().to_string().contains("bytes"));
        let text = format!("{text}[result]\nread = \"json\"\nbytes = \"/b\"\n");
        assert!(Tool::parse("x", &text).is_ok());
        let error = Tool::parse("x", &text.replace("/b", "b")).unwrap_err();
        assert!(error.to_string().contains("JSON pointer"), "{error}");
    }

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| format!("tools/{}", entry.unwrap().file_name().display()))
            .collect();
        files.sort();
        assert_eq!(BUILT_IN.iter().map(|(file, _)| *file).collect::<Vec<_>>(), files);
    }

    #[test]
    fn built_in_tools_are_right_and_a_directory_replaces_them() {
        let mut tools = Toolbox::built_in().unwrap();
        assert_eq!(tools.names().count(), BUILT_IN.len());
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("scp.toml"), GOOD.replace("\"copy\"", "\"scp\"")).unwrap();
        std::fs::write(dir.path().join("notes.txt"), "not a tool").unwrap();
        tools.add_directory(dir.path()).unwrap();
        assert_eq!(tools.get("scp").unwrap().cipher.as_deref(), Some("rot13"));
        assert_eq!(tools.names().count(), BUILT_IN.len());
        assert!(tools.add_directory(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
