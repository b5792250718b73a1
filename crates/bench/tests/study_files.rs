//! Tests of study and tool files: keys beyond a plain matrix, errors, and the contents of the built-in files.

use std::collections::BTreeSet;
use std::time::Duration;

use linerate_bench::metric::Metric;
use linerate_bench::out::{estimate, plan};
use linerate_bench::record::{Figure, FigureKind};
use linerate_bench::spec::papers::{EXPERIMENTS, PAPERS, experiment};
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::{Form, Tool, Toolbox};

const STUDY: &str = r#"
name = "x"
title = "X"
rows = [4, 7]
capacity = true
baseline = "users-1-512k-rps-0"
[[link]]
name = "two"
rate = "1gbit"
count = 2
queues = 4
[[link]]
name = "shared"
rate = "10gbit"
guests = 8
[[dataset]]
name = "tree"
kind = "log-normal"
size = "1 GB"
mean = "1.6 MB"
[[setting]]
name = "rps"
hosts = ["a", "b"]
read = ["cat", "/x"]
write = ["sh", "-c", "echo $1 > /x", "sh", "{value}"]
[[case]]
id = "users-{users}-{object}-rps-{rps}"
label = "{users} users on {links} links"
tool = "web"
link = "two"
[case.with]
users = [1, 8]
object = "512k"
rps = ["0", "f"]
[[case]]
id = "memory-{streams}"
tool = "iperf3"
streams = [1, 8]
link = "shared"
[[case]]
id = "scp"
tool = "scp"
link = "two"
[[figure]]
kind = "scaling"
title = "By users"
quantity = "transaction-rate"
x = "users"
series = "rps"
cases = ["users-*"]
[[figure]]
kind = "differences"
title = "All"
[[printed]]
case = "scp"
value = 0.4
source = "figure 5"
[[bound]]
name = "scp at all"
expression = "payload_rate(scp) / payload_rate(memory-1)"
at_least = 0.1
[quick]
size = "200 MB"
cases = ["users-*-rps-0", "memory-8"]
[quick.parameters]
seconds = 2
"#;

const WEB: &str = r#"
name = "web"
moves = "requests"
command = ["web", "-c", "{users}", "-t", "{seconds}", "{addresses}"]
[server]
command = ["serve", "{object}"]
ready = "ready"
[parameters]
users = 240
seconds = "20"
object = "1M"
[result]
read = "pattern"
transactions = "requests: ([0-9]+)"
bytes = "megabytes: ([0-9.]+)"
[result.scale]
bytes = 1_048_576
"#;

fn tools() -> Toolbox {
    let mut tools = Toolbox::built_in().unwrap();
    tools.add(Tool::parse("web.toml", WEB).unwrap());
    tools
}

fn parse(text: &str) -> Result<Study, String> {
    Study::parse("x.toml", text, &tools()).map_err(|error| error.to_string())
}

/// The error for a study in whose text `from` was replaced by `to`.
#[track_caller]
fn error(from: &str, to: &str) -> String {
    assert!(STUDY.contains(from), "{from}");
    parse(&STUDY.replacen(from, to, 1)).unwrap_err()
}

#[track_caller]
fn tool_error(from: &str, to: &str) -> String {
    assert!(WEB.contains(from), "{from}");
    Tool::parse("web.toml", &WEB.replacen(from, to, 1)).unwrap_err().to_string()
}

fn built_in() -> Vec<Study> {
    let tools = Toolbox::built_in().unwrap();
    let read = |(file, text)| Study::parse(file, text, &tools).unwrap();
    Study::built_in_names().filter_map(Study::built_in).map(read).collect()
}

#[test]
fn parameters_and_settings_are_factors() {
    let study = parse(STUDY).unwrap();
    let ids: Vec<&str> = study.cases.iter().map(|case| case.id.as_str()).collect();
    let users = ["users-1-512k-rps-0", "users-1-512k-rps-f", "users-8-512k-rps-0", "users-8-512k-rps-f"];
    assert_eq!(ids, [&users[..], &["memory-1", "memory-8", "scp"]].concat());
    let case = &study.cases[3];
    assert_eq!(case.label, "8 users on 2 links");
    let factors = case.factors();
    let level = |name: &str| factors.get(name).map(String::as_str);
    assert_eq!((level("users"), level("object"), level("rps")), (Some("8"), Some("512k"), Some("f")));
    assert_eq!((level("links"), level("queues"), level("guests")), (Some("2"), Some("4"), None));
    assert_eq!((level("tool"), level("variant"), level("seconds")), (Some("web"), Some("default"), None));
    assert!(case.parameters.contains_key("users") && case.settings.contains_key("rps"));
    assert_eq!(study.cases[4].factors().get("guests").map(String::as_str), Some("8"));
}

#[test]
fn delay_and_loss_are_factors() {
    let emulated = STUDY.replace("guests = 8", "rtt = \"50ms\"\nloss = \"0.01%\"");
    let study = parse(&emulated).unwrap();
    let shown = study.links[1].rtt.zip(study.links[1].loss).map(|(rtt, loss)| format!("{rtt} {loss}"));
    assert_eq!(shown.as_deref(), Some("50ms 0.01%"));
    let factors = study.cases[4].factors();
    let level = |name: &str| factors.get(name).map(String::as_str);
    assert_eq!((level("rtt"), level("loss")), (Some("50ms"), Some("0.01%")));
    let wrong = |from: &str, to: &str| parse(&emulated.replace(from, to)).unwrap_err().to_string();
    let said = wrong("50ms", "50");
    assert!(said.contains("isn't a round-trip time"), "{said}");
    assert!(wrong("0.01%", "0.01").contains("percentage"));
    assert!(wrong("count = 2", "rtt = \"1ms\"").contains("combined with `queues`"));
}

#[test]
fn the_rest_of_a_study_is_read() {
    let study = parse(STUDY).unwrap();
    assert_eq!((study.rows.as_slice(), study.capacity), (&[4, 7][..], true));
    let [two, shared] = study.links.as_slice() else { panic!("two links") };
    assert_eq!((two.count, two.queues, two.guests), (2, Some(4), 0));
    assert_eq!((shared.count, shared.queues, shared.guests), (1, None, 8));
    let [by_users, differences] = study.figures.as_slice() else { panic!("two figures") };
    assert_eq!((by_users.kind, by_users.quantity), (FigureKind::Scaling, Metric::TransactionRate));
    assert_eq!((by_users.cases.len(), by_users.series.as_deref()), (4, Some("rps")));
    assert_eq!((differences.kind, differences.cases.len()), (FigureKind::Differences, 0));
    assert_eq!((study.printed[0].value, study.printed[0].quantity), (0.4, Metric::PayloadRate));
    assert_eq!(study.settings[0].hosts, ["a", "b"]);
}

#[test]
fn a_quick_run_has_its_own_sizes_parameters_and_cases() {
    let mut study = parse(STUDY).unwrap();
    let tools = tools();
    let before = estimate(&study, &tools, 1);
    study.apply_quick();
    let ids: Vec<&str> = study.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["users-1-512k-rps-0", "users-8-512k-rps-0", "memory-8"]);
    assert_eq!(study.cases[0].parameters.get("seconds").map(String::as_str), Some("2"));
    assert_eq!(study.cases[2].parameters.get("seconds").map(String::as_str), Some("2"));
    assert_eq!(study.cases[2].bytes, Some(200_000_000));
    assert!(study.bounds.is_empty() && study.printed.is_empty() && study.datasets.is_empty());
    assert_eq!(study.figures[0].cases.len(), 2);
    assert_eq!(study.baseline.as_deref(), Some("users-1-512k-rps-0"));
    assert!(estimate(&study, &tools, 1) < before);
}

#[test]
fn an_error_in_a_study_names_line_key_and_the_nearest() {
    assert_eq!(
        error("users = [1, 8]", "usres = [1, 8]"),
        "x.toml:32: `case.with.usres`: is neither a parameter of web nor a setting of this study; did you mean `users`?"
    );
    assert_eq!(
        error("{links} links", "{link_count} links"),
        "x.toml:28: `case.label`: `{link_count}` is not a factor of this case"
    );
    assert!(error("-rps-{rps}", "-rps-{rpz}").ends_with("did you mean `rps`?"));
    assert!(error("object = \"512k\"", "object = []").contains("has no level"));
    assert!(error("kind = \"scaling\"", "kind = \"scalng\"").ends_with("did you mean `scaling`?"));
    assert!(
        error("\"transaction-rate\"", "\"transactions-rate\"").ends_with("did you mean `transaction-rate`?")
    );
    assert!(error("x = \"users\"", "x = \"user\"").ends_with("did you mean `users`?"));
    assert!(error("x = \"users\"\n", "").contains("`figure.x`: is missing"));
    assert!(error("cases = [\"users-*\"]", "cases = [\"usr-*\"]").contains("is not a case"));
    assert!(error("case = \"scp\"", "case = \"spc\"").ends_with("did you mean `scp`?"));
    assert!(error("baseline = \"users-1-512k-rps-0\"\n", "").contains("the study has no `baseline`"));
    assert!(error("rows = [4, 7]", "rows = [4, 31]").starts_with("x.toml:4: `rows`"));
    assert!(error("rows = [4, 7]", "rows = [4, 4]").contains("twice"));
    assert!(error("count = 2", "count = 9").contains("from 1 to 8"));
    assert!(error("guests = 8", "guests = 17").contains("from 0 to 16"));
    let guest = |text: &str| error("guests = 8", &format!("guests = 8\nguest = {{ {text} }}"));
    assert!(guest("nicc = \"e1000\"").ends_with("did you mean `nic`?"));
    assert!(guest("nic = \"rtl8139\"").contains("virtio, vmxnet3"));
    assert!(guest("kind = \"xen\"").contains("write qemu or uml"));
    assert!(guest("queues = [1, 2]").contains("one value"));
    assert!(guest("nic = \"e1000\", vcpus = 2, queues = 2").contains("one queue"));
    assert!(error("guests = 8", "guest = { vcpus = 2 }").contains("`guests` is 0"));
    assert!(error("queues = 4", "queues = 1.5").contains("`link.queues`"));
    assert!(error("\"{value}\"", "\"{valeu}\"").ends_with("did you mean `{value}`?"));
    assert!(error(", \"{value}\"", "").contains("doesn't contain `{value}`"));
    assert!(error("[\"a\", \"b\"]", "[\"a\", \"c\"]").contains("is not a host"));
    assert!(error("seconds = 2", "second = 2").ends_with("did you mean `seconds`?"));
    assert!(error("seconds = 2", "users = 2").contains("is a factor of this study"));
    assert!(error("\"memory-8\"]", "\"memory-9\"]").ends_with("did you mean `memory-1`?"));
    for key in ["timeout", "settle"] {
        let long = error("capacity = true", &format!("{key} = \"99999999999999999999 h\""));
        assert!(long.contains(&format!("`{key}`")) && long.contains("longer than a day"), "{long}");
    }
    assert_eq!(
        error("mean = \"1.6 MB\"", "mean = \"1.6 MB\"\nsigma = 9"),
        "x.toml:21: `dataset.sigma`: 9 is more than 4"
    );
    let many = format!("users = [{}]", (1..=10_000).map(|n| format!("{n},")).collect::<String>());
    assert!(error("users = [1, 8]", &many).contains("`case.id`: expands to 20000 cases"));
    assert!(error("capacity = true", "capacty = true").ends_with("did you mean `capacity`?"));
}

#[test]
fn an_error_in_a_tool_names_line_key_and_the_nearest() {
    let tool = Tool::parse("web.toml", WEB).unwrap();
    assert_eq!(tool.parameters.get("users").map(String::as_str), Some("240"));
    let reading = tool.result.unwrap();
    assert_eq!((reading.form, reading.scale.get("bytes")), (Form::Pattern, Some(&1_048_576.0)));
    assert_eq!(
        tool_error("{users}", "{uesrs}"),
        "web.toml:4: `command`: `{uesrs}` is not a placeholder; did you mean `{users}`?"
    );
    assert!(tool_error("{object}", "x").contains("`parameters.object`: isn't used in any command"));
    assert!(tool_error("object = ", "port = ").contains("`{object}` is not a placeholder"));
    assert!(tool_error("users = 240", "users = [1, 2]").contains("is a list, but must be a single value"));
    assert!(tool_error("users = 240", "users = 240\nstreams = 3").contains("has a meaning already"));
    assert!(tool_error("users = 240", "users = 240\nUP = 3").contains("is not a name"));
    assert!(tool_error("requests: ([0-9]+)", "requests: [0-9]+").contains("has 0 groups"));
    assert!(tool_error("requests: ([0-9]+)", "requests: ([0-9]+").contains("not a regular expression"));
    assert!(tool_error("bytes = 1_048_576", "byte = 1").ends_with("did you mean `bytes`?"));
    assert!(tool_error("bytes = 1_048_576", "bytes = 0").contains("above 0"));
    assert!(tool_error("bytes = \"mega", "latency = \"mega").contains("only from JSON"));
    assert!(tool_error("bytes = \"mega", "rate = \"mega").contains("needs `bytes`"));
    assert!(tool_error("read = \"pattern\"", "read = \"json\"").contains("JSON pointer"));
}

/// The rows of docs/papers.md that can be run on a host with two processors, in network namespaces and
/// virtual machines.
const COVERED: [u32; 24] =
    [1, 3, 4, 5, 6, 7, 8, 9, 11, 12, 14, 15, 16, 17, 19, 22, 23, 24, 25, 26, 27, 28, 29, 30];

#[test]
fn the_built_in_studies_run_every_experiment_that_one_machine_can() {
    let covered: BTreeSet<u32> = built_in().iter().flat_map(|study| study.rows.clone()).collect();
    assert_eq!(covered.into_iter().collect::<Vec<_>>(), COVERED);
}

#[test]
fn the_page_of_papers_says_who_runs_what() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(PAPERS.iter().all(|title| page.contains(title)));
    let studies = built_in();
    for (number, one) in (1..).zip(&EXPERIMENTS) {
        assert_eq!((one.row, experiment(number)), (number, Some(one)));
        let start = format!("| {number} | ");
        let line =
            page.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no row {number}"));
        assert!(line.contains(one.what) && line.contains(one.place), "{line}");
        for study in &studies {
            let named = line.contains(&format!("`{}`", study.name));
            assert_eq!(named, study.rows.contains(&number), "{} in {line}", study.name);
        }
    }
}

#[test]
fn the_built_in_studies_can_be_planned_and_their_quick_runs_are_short() {
    let tools = Toolbox::built_in().unwrap();
    let mut whole = Duration::ZERO;
    for mut study in built_in() {
        assert!(plan(&study, &tools, study.blocks).contains("(estimated)"));
        study.apply_quick();
        assert!(!study.cases.is_empty());
        // Where it matters, the others aren't there.
        study.cases.retain(|case| tools.get(&case.tool).is_some_and(|tool| tool.needs.advice.is_none()));
        let quick = estimate(&study, &tools, 1);
        whole += quick;
        // These two studies, for quick results and for required results, have their own sizes. A virtual machine takes two
        // seconds to boot, and files reach it slowly.
        let has_machines = study.links.iter().any(|link| link.machine.is_some());
        let most = match study.name.as_str() {
            "quick" | "gate" => 200,
            _ if has_machines => 60,
            _ => 45,
        };
        assert!(quick < Duration::from_secs(most), "{}: {quick:?}", study.name);
    }
    assert!(whole < Duration::from_secs(1200), "{whole:?}");
}

#[test]
fn a_figure_that_compares_still_compares_in_a_quick_run() {
    let mut lacking = Vec::new();
    for study in built_in() {
        let mut quick = study.clone();
        quick.apply_quick();
        let levels = |study: &Study, figure: &Figure, factor: &str| -> BTreeSet<String> {
            let shown =
                study.cases.iter().filter(|case| figure.cases.is_empty() || figure.cases.contains(&case.id));
            shown.filter_map(|case| case.factors().get(factor).cloned()).collect()
        };
        for whole in &study.figures {
            let Some(series) = &whole.series else { continue };
            let Some(figure) = quick.figures.iter().find(|figure| figure.title == whole.title) else {
                continue;
            };
            let kept = levels(&quick, figure, series).len();
            if kept < levels(&study, whole, series).len().min(2) {
                lacking.push(format!("{}: {:?} has {kept} level of {series}", study.name, whole.title));
            }
        }
        if quick.bounds.is_empty() && !study.bounds.is_empty() {
            lacking.push(format!("{}: no bound is left", study.name));
        }
    }
    assert_eq!(lacking, Vec::<String>::new());
}

#[test]
fn requests_beside_a_case_are_a_factor_and_need_a_tool_without_times() {
    let text = "name = \"x\"\ntitle = \"X\"\n[[link]]\nname = \"l\"\nrate = \"open\"\n[[case]]\nid = \"c-{beside}\"\n\
                tool = \"idle\"\nbeside = \"rr\"\n";
    let study = parse(text).unwrap();
    assert_eq!((study.cases[0].id.as_str(), study.cases[0].beside), ("c-rr", true));
    let error = parse(&text.replace("idle", "linerate-rr")).unwrap_err();
    assert!(error.contains("`case.beside`") && error.contains("itself reports response times"), "{error}");
    assert!(parse(&text.replace("\"rr\"\n", "\"crr\"\n")).unwrap_err().contains("case.beside"));
}
