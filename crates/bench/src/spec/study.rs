//! Study files: the cases to run, their links and files, and the results that they must reach.

use std::collections::BTreeMap;

use linerate_lab::{GuestSpec, Loss, Rtt};

use super::error::FileError;
use super::expression::Expression;
use super::template::Word;
use super::tool::{AUTO, Search, Tool, Toolbox};
use super::{section, study_reader};
use crate::record::{Figure, Limit, Printed};

/// The built-in studies, by file name.
const BUILT_IN: &[(&str, &str)] = built_in!("studies":
    "quick" "gate" "tools" "slot" "guests" "queues" "http" "ports" "generators" "workers" "pairs"
    "window" "tiles" "ladder" "trust" "streams" "rrul" "vm" "vms" "vm-queues" "nics"
);

/// A study file's contents, with a case for each combination of factor levels.
#[derive(Clone, Debug)]
pub struct Study {
    /// The study's name, which is the argument of `linerate bench NAME`.
    pub name: String,
    /// The study's title, on one line.
    pub title: String,
    /// The purpose of the study.
    pub about: String,
    /// The number of blocks. Each block runs every case once.
    pub blocks: u32,
    /// Seconds after which a run is stopped and counts as failed.
    pub timeout: f64,
    /// Seconds for which the hosts must be quiet before each run.
    pub settle: f64,
    /// The greatest number of times that a disturbed run is repeated.
    pub repeats: u32,
    /// The id of the case with which the table compares the other cases.
    pub baseline: Option<String>,
    /// The links on which cases run.
    pub links: Vec<LinkSpec>,
    /// The data sets that cases move.
    pub datasets: Vec<DatasetSpec>,
    /// The cases of the study.
    pub cases: Vec<CaseSpec>,
    /// The bounds that the results must reach.
    pub bounds: Vec<BoundSpec>,
    /// The experiments of the five papers that this study repeats, by number.
    pub rows: Vec<u32>,
    /// The figures of the study's report; if empty, the report has a single figure of bars.
    pub figures: Vec<Figure>,
    /// The values that papers printed for the study's cases.
    pub printed: Vec<Printed>,
    /// Settings of the hosts that are factors of cases.
    pub settings: Vec<SettingSpec>,
    /// The settings of a quick run.
    pub quick: QuickSpec,
    /// Whether generators and paths are measured separately before the study.
    pub capacity: bool,
    /// The file's text, which is stored with the results.
    pub text: String,
}

/// A link of the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// The name of the link in the study.
    pub name: String,
    /// The rate in bit/s; `None` for a link without a rate limit.
    pub rate: Option<u64>,
    /// The layer-3 maximum transmission unit in bytes.
    pub mtu: u32,
    /// The number of parallel links between the two hosts, 1 to 8; each has the rate `rate`.
    pub count: u32,
    /// The number of receive and of transmit queues of each interface; `None` for the kernel's default.
    pub queues: Option<u32>,
    /// The number of hosts behind the receiving end's link, which share the link and have their own
    /// addresses. 0 means that there is only the receiving end.
    pub guests: u32,
    /// The kind of virtual machines that the guests are; `None` if they are network namespaces.
    pub machine: Option<GuestSpec>,
    /// The round-trip time that an emulator adds; `None` means no added delay.
    pub rtt: Option<Rtt>,
    /// The share of segments that an emulator drops in each direction; `None` means no loss.
    pub loss: Option<Loss>,
}

/// A setting of a host that a study changes between its cases and restores at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingSpec {
    /// The setting's name, which is also the name of the factor.
    pub name: String,
    /// The hosts that have the setting: `a`, `b`, or both.
    pub hosts: Vec<String>,
    /// The command that prints the value.
    pub read: Vec<Word>,
    /// The command that changes the setting to `{value}`.
    pub write: Vec<Word>,
    /// True if a host may lack the setting. Then cases with this setting are unavailable on that host.
    pub optional: bool,
}

/// The settings that `--quick` replaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuickSpec {
    /// The number of bytes of each log-normal data set, and of transfers from memory to memory.
    pub size: Option<u64>,
    /// The values of tools' parameters, by parameter name.
    pub parameters: BTreeMap<String, String>,
    /// For each of these parameters, the tools that have it.
    pub takers: BTreeMap<String, Vec<String>>,
    /// The ids of the cases that a quick run includes; empty for all cases.
    pub cases: Vec<String>,
}

/// A set of files to move.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetSpec {
    /// The name of the data set in the study.
    pub name: String,
    /// The number and sizes of the files.
    pub sizes: Sizes,
    /// The number of files in each directory.
    pub per_directory: u64,
}

/// The sizes of a data set's files.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Sizes with a log-normal distribution. `--size` and `--tree` replace such a set.
    LogNormal {
        /// The total number of bytes.
        total: u64,
        /// The mean size in bytes.
        mean: u64,
        /// The standard deviation of the sizes' natural logarithm.
        sigma: f64,
    },
    /// All files have the same size.
    Fixed {
        /// The number of files.
        files: u64,
        /// The bytes in each file.
        size: u64,
    },
}

/// A case of a study: a tool with its parameters, on a link.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseSpec {
    /// The id of the case, unique in the study.
    pub id: String,
    /// The label of the case in tables and figures.
    pub label: String,
    /// The group of the case; figures draw the bars of a group together.
    pub group: String,
    /// The tool's name.
    pub tool: String,
    /// The tool's variant.
    pub variant: Option<String>,
    /// The number of streams or copies.
    pub streams: Streams,
    /// The data set's name; `None` if no files are moved.
    pub dataset: Option<String>,
    /// The number of bytes that are moved from memory to memory; `None` for the size of the study's first
    /// data set.
    pub bytes: Option<u64>,
    /// The link's name.
    pub link: String,
    /// Whether small requests are sent at fixed times and timed while the tool runs.
    pub beside: bool,
    /// The properties in which the bed differs from a plain link of two hosts, as factors: `links`, `queues`,
    /// `guests`, `rtt`, `loss`; and `beside`.
    pub bed: BTreeMap<String, String>,
    /// Levels of the tool's parameters, by name. A parameter without a level has the tool's default.
    pub parameters: BTreeMap<String, String>,
    /// Levels of the study's settings, by name.
    pub settings: BTreeMap<String, String>,
}

impl CaseSpec {
    /// The levels of all factors of the case, by name. One factor is the tool, with its variant if the case
    /// has one.
    pub fn factors(&self) -> BTreeMap<String, String> {
        let own = [
            ("tool", self.tool_and_variant()),
            ("streams", self.streams.to_string()),
            ("variant", self.variant.clone().unwrap_or_else(|| "default".into())),
            ("dataset", self.dataset.clone().unwrap_or_else(|| "memory".into())),
            ("link", self.link.clone()),
        ];
        let own = own.into_iter().map(|(name, level)| (name.to_owned(), level));
        own.chain(self.bed.clone()).chain(self.parameters.clone()).chain(self.settings.clone()).collect()
    }

    /// The case's level of a parameter of its tool, or else the tool's default.
    pub(crate) fn level<'c>(&'c self, tool: &'c Tool, parameter: &str) -> Option<&'c str> {
        self.parameters.get(parameter).or_else(|| tool.parameters.get(parameter)).map(String::as_str)
    }

    /// The search that precedes each run of this case, if a parameter's level requests a search and the tool
    /// supports it.
    pub(crate) fn search<'c>(&self, tool: &'c Tool) -> Option<&'c Search> {
        tool.search.as_ref().filter(|search| self.level(tool, &search.parameter) == Some(AUTO))
    }

    fn tool_and_variant(&self) -> String {
        self.variant.as_ref().map_or_else(|| self.tool.clone(), |variant| format!("{}-{variant}", self.tool))
    }
}

/// The number of streams, or of copies of the tool, of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// The case has this number of streams.
    Fixed(u32),
    /// The tool itself chooses the number.
    Auto,
}

/// A row of the table of bounds: a bound, or a comparison without a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundSpec {
    /// The name of the row in tables.
    pub name: String,
    /// The text of the expression whose value is judged.
    pub text: String,
    /// The expression whose value is judged.
    pub expression: Expression,
    /// The limit; `None` if the value is shown but not judged.
    pub limit: Option<Limit>,
    /// The value's unit.
    pub unit: String,
    /// Whether every block must satisfy the bound, not only the median.
    pub every_block: bool,
}

/// The greatest number of streams or copies. A larger number in a study file is probably a mistake, and each copy needs
/// its own slice of the data.
const MOST_STREAMS: u32 = 256;

impl Study {
    /// Parses a study file. `file` is the file's name in errors, `tools` are the tools that the study may
    /// name.
    ///
    /// # Errors
    /// The first error in the file.
    pub fn parse(file: &str, text: &str, tools: &Toolbox) -> Result<Study, FileError> {
        let mut study = section::read(file, text, |root| study_reader::study(root, tools))?;
        text.clone_into(&mut study.text);
        Ok(study)
    }

    /// The file name and text of the built-in study with this name, if there is one.
    pub fn built_in(name: &str) -> Option<(&'static str, &'static str)> {
        BUILT_IN.iter().copied().find(|(file, _)| stem(file) == name)
    }

    /// The names of the built-in studies.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(file, _)| stem(file))
    }

    /// Sets the size of each data set whose file sizes have a log-normal distribution.
    pub fn set_size(&mut self, bytes: u64) {
        for dataset in &mut self.datasets {
            if let Sizes::LogNormal { total, .. } = &mut dataset.sizes {
                *total = bytes;
            }
        }
    }

    /// The link with this name, if the study has it.
    pub fn link(&self, name: &str) -> Option<&LinkSpec> {
        self.links.iter().find(|link| link.name == name)
    }
}

impl DatasetSpec {
    /// True if `--size` and `--tree` replace this data set.
    pub fn is_replaceable(&self) -> bool {
        matches!(self.sizes, Sizes::LogNormal { .. })
    }
}

impl std::fmt::Display for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Streams::Fixed(n) => write!(f, "{n}"),
            Streams::Auto => f.write_str("auto"),
        }
    }
}

impl Streams {
    /// The number of streams; `None` for auto.
    pub fn number(self) -> Option<u32> {
        match self {
            Streams::Fixed(n) => Some(n),
            Streams::Auto => None,
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Streams, String> {
        match text.parse() {
            Ok(n) if (1..=MOST_STREAMS).contains(&n) => Ok(Streams::Fixed(n)),
            Err(_) if text == "auto" => Ok(Streams::Auto),
            _ => Err(format!("{text:?} is not a number from 1 to {MOST_STREAMS} or \"auto\"")),
        }
    }
}

fn stem(file: &'static str) -> &'static str {
    file.trim_start_matches("studies/").trim_end_matches(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Relation;

    const GOOD: &str = r#"
name = "x"
title = "X"
[[link]]
name = "10gbit"
rate = "10gbit"
[[dataset]]
name = "tree"
kind = "log-normal"
size = "1 GB"
mean = "1.6 MB"
[[case]]
id = "cp-{variant}-{streams}"
tool = "linerate-cp"
variant = ["default", "clear"]
streams = [1, 8, "auto"]
[[case]]
id = "iperf3"
tool = "iperf3"
[[bound]]
name = "fast"
expression = "payload_rate(cp-default-8) / payload_rate(iperf3)"
at_least = 0.9
"#;

    fn parse(text: &str) -> Result<Study, FileError> {
        Study::parse("x.toml", text, &Toolbox::built_in().unwrap())
    }

    #[test]
    fn factors_multiply_out() {
        let study = parse(GOOD).unwrap();
        let ids: Vec<&str> = study.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "cp-default-1",
                "cp-default-8",
                "cp-default-auto",
                "cp-clear-1",
                "cp-clear-8",
                "cp-clear-auto",
                "iperf3"
            ]
        );
        let clear = &study.cases[3];
        assert_eq!((clear.variant.as_deref(), clear.dataset.as_deref()), (Some("clear"), Some("tree")));
        assert_eq!(clear.label, "linerate cp --no-encrypt");
        assert_eq!(study.cases[6].streams, Streams::Fixed(1));
        assert_eq!((study.blocks, study.links[0].mtu), (5, 1500));
        assert_eq!(study.bounds[0].limit, Some(Limit { relation: Relation::AtLeast, value: 0.9 }));
        let shown = parse(&GOOD.replace("at_least = 0.9", "")).unwrap();
        assert_eq!(shown.bounds[0].limit, None);
    }

    #[test]
    fn errors_name_line_key_and_the_nearest() {
        let error = |from: &str, to: &str| parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            error("tool = \"iperf3\"", "tool = \"iperf\"")
                .starts_with("x.toml:19: `case.tool`: \"iperf\" is not a tool")
        );
        assert!(error("tool = \"iperf3\"", "tool = \"iperf\"").ends_with("did you mean `iperf3`?"));
        assert!(error("\"clear\"", "\"cleer\"").ends_with("did you mean `clear`?"));
        assert!(error("\"auto\"]", "\"atuo\"]").contains("case.streams"));
        assert!(error("payload_rate(iperf3)", "payload_rate(iperf)").ends_with("did you mean `iperf3`?"));
        assert!(error("at_least = 0.9", "at_lest = 0.9").ends_with("did you mean `at_least`?"));
        assert!(error("rate = \"10gbit\"", "rate = \"10 GB\"").starts_with("x.toml:6: `link.rate`"));
        assert!(error("cp-{variant}-{streams}", "cp-{streams}").contains("is used twice"));
        assert!(
            error("tool = \"iperf3\"", "tool = \"iperf3\"\nstreams = \"auto\"")
                .contains("\"auto\" isn't allowed")
        );
        assert!(
            error("tool = \"iperf3\"", "tool = \"iperf3\"\ndataset = \"tree\"").contains("moves no files")
        );
        assert!(error("name = \"tree\"", "name = \"../x\"").contains("part of a path"));
        assert!(error("name = \"x\"", "name = \"../x\"").starts_with("x.toml:2: `name`: "));
        assert!(
            error("id = \"iperf3\"", "id = \"a/b\"")
                .starts_with("x.toml:18: `case.id`: \"a/b\" can't be part of a path")
        );
        assert!(error("id = \"iperf3\"", "id = \"cp-clear-1\"").starts_with("x.toml:18: `case.id`"));
        assert!(error("title = \"X\"", "title = \"X\"\nblocks = 10_001").contains("from 1 to 10000"));
        assert!(error("title = \"X\"", "title = \"X\"\ntimeout = \"0 s\"").contains("no time"));
        assert!(error("streams = [1, 8, \"auto\"]", "streams = []").contains("`case.streams`: has no level"));
        assert!(error("size = \"1 GB\"", "size = \"0 GB\"").contains("no data to move"));
    }

    #[test]
    fn a_link_must_be_named_where_there_are_two() {
        let two = GOOD.replacen("[[dataset]]", "[[link]]\nname = \"open\"\nrate = \"open\"\n[[dataset]]", 1);
        assert!(parse(&two).unwrap_err().to_string().contains("`case.link`: is missing"));
        let named = two
            .replace("tool = ", "link = [\"10gbit\", \"open\"]\ntool = ")
            .replace("id = \"", "id = \"{link}-");
        let study =
            parse(&named.replace("cp-default-8", "open-cp-default-8").replace("(iperf3)", "(open-iperf3)"));
        assert_eq!(study.unwrap().cases.len(), 14);
    }

    #[test]
    fn built_in_studies_are_right() {
        let tools = Toolbox::built_in().unwrap();
        for name in Study::built_in_names() {
            let (file, text) = Study::built_in(name).unwrap();
            let study = Study::parse(file, text, &tools).unwrap();
            assert_eq!(study.name, name);
            assert!(study.title.len() < 80 && study.blocks == 5, "{name}");
            let about = crate::out::about(&study.about);
            assert!(!about.is_empty() && !about.concat().ends_with("..."), "{name}: more than two lines");
        }
        let (file, text) = Study::built_in("gate").unwrap();
        assert_eq!(Study::parse(file, text, &tools).unwrap().bounds.len(), 8);
    }
}
