//! Tests of `linerate config show`: the value of each option, its origin, and the hosts to which it applies.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Ground;
use crate::support::{Run, Running};

#[test]
fn show_says_which_value_is_not_used_as_commands_do() {
    // Each row has the files, the arguments that ssh then gets, those that it doesn't get, and the options
    // that are reported as overridden.
    for (user, system, gets, lacks, expected) in [
        ("ssh-config = \"none\"\n", "rsh = \"other -x\"\n", "-F none", "other", &[("rsh", "ssh-config")][..]),
        (
            "rsh = \"other -x\"\n",
            "jump = \"gate\"\nidentity = \"key\"\noption = \"A=b\"\nipv4 = true\n",
            "other -x",
            "gate",
            &[("identity", "rsh"), ("jump", "rsh"), ("option", "rsh"), ("ipv4", "rsh")],
        ),
        ("ipv4 = true\n[host.far]\nipv6 = true\n", "", " -6 ", " -4 ", &[("ipv4", "ipv6")]),
        ("ipv6 = true\n", "ipv4 = true\n", " -6 ", " -4 ", &[("ipv4", "ipv6")]),
        ("ipv4 = false\n[host.far]\nipv6 = true\n", "ipv4 = true\n", " -6 ", " -4 ", &[]),
        ("rsh = \"other -x\"\n[host.far]\nport = 7\n", "", "-p 7", "other", &[("rsh", "port")]),
        ("option = [\"Port=7\"]\n", "port = 8\n", "-o Port=7", "-p 8", &[("port", "option")]),
        (
            "option = [\"ProxyCommand=x\"]\n",
            "jump = \"gate\"\n",
            "ProxyCommand",
            "gate",
            &[("jump", "option")],
        ),
        ("option = [\"A=b\"]\nport = 7\n", "identity = \"key\"\n", "-p 7", "other", &[]),
    ] {
        let ground = Ground::new(user, system);
        ground.run(&["cp", "file", &ground.far("far", "a")]).exits(0);
        let words = ground.ssh();
        assert!(words.contains(gets) && !words.contains(lacks), "{user}{system}{words}");
        let run = ground.run(&["config", "show", "--json", "far"]).exits(0);
        let shown: Value = serde_json::from_str(&run.out).unwrap();
        let options = shown["options"].as_array().unwrap().iter();
        let pair = |option: &Value| {
            Some((option["name"].as_str()?.to_owned(), option["overridden_by"].as_str()?.to_owned()))
        };
        let found: Vec<_> = options.filter_map(pair).collect();
        let expected: Vec<_> =
            expected.iter().map(|(name, other)| ((*name).to_owned(), (*other).to_owned())).collect();
        assert_eq!(found, expected, "{user}{system}");
        let run = ground.run(&["config", "show", "far"]).exits(0);
        assert_eq!(run.out.matches(" (not used: ").count(), expected.len(), "{run}");
        for (name, other) in expected {
            let row = run.out.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            assert!(row.ends_with(&format!(" (not used: {other} has precedence)")), "{row}");
        }
    }
}

#[test]
fn show_says_where_each_value_comes_from() {
    let ground = Ground::new(
        "streams = 3\n[host.\"*.org\"]\nstreams = 5\noption = [\"A=1\"]\n",
        "option = [\"B=2\"]\nno-pacing = true\n",
    );
    let run = ground.run(&["config", "show"]).exits(0);
    let row = |run: &Run, name: &str| {
        let row = run.out.lines().find(|line| line.split_whitespace().next() == Some(name));
        row.unwrap_or_else(|| panic!("{name}: {run}"))
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let user = ground.path(".config/linerate/config.toml").display().to_string();
    let system = ground.path("system.toml").display().to_string();
    assert_eq!(row(&run, "streams"), ["streams", "3", &format!("{user}:2")]);
    assert_eq!(row(&run, "compress"), ["compress", "auto", "built", "in"]);
    let run = ground.run(&["config", "show", "u@a.ORG"]).exits(0);
    assert_eq!(row(&run, "streams"), ["streams", "5", &format!("{user}:4")]);
    assert_eq!(row(&run, "option"), ["option", "A=1,", "B=2", &format!("{user}:5,"), &format!("{system}:1")]);
    let run = ground.run(&["config", "show", "--json", "a.org"]).exits(0);
    let shown: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&shown["schema"], &shown["host"], &shown["off"]),
        (&1.into(), &"a.org".into(), &false.into())
    );
    assert_eq!(shown["files"][0], serde_json::json!({ "file": user, "read": true }));
    let option = |name: &str| {
        let options = shown["options"].as_array().unwrap();
        options.iter().find(|option| option["name"] == name).unwrap().clone()
    };
    assert_eq!(option("no-pacing")["value"], true);
    assert_eq!(option("option")["value"], serde_json::json!(["A=1", "B=2"]));
    assert_eq!(option("option")["from"][1], serde_json::json!({ "file": system, "line": 1 }));
    assert_eq!(
        (option("retry")["value"].clone(), option("retry")["built_in"].clone()),
        (Value::Null, "0".into())
    );
    fs::remove_file(Path::new(&user)).unwrap();
    let run = ground.run(&["config", "show"]).exits(0);
    assert!(
        run.out.contains(&format!("{user}: not there")) && run.out.contains(&format!("{system}: read")),
        "{run}"
    );
    let mut off = ground.command(&["config", "show"]);
    off.env("LINERATE_NO_CONFIG", "1");
    let run = Running::start(off).end().exits(0);
    assert!(run.out.contains("LINERATE_NO_CONFIG is set") && row(&run, "streams")[1] == "auto", "{run}");
}

#[test]
fn show_takes_the_hosts_that_a_copy_takes() {
    let ground = Ground::new("[host.web]\nstreams = 5\n[host.\"fd00::1\"]\nstreams = 6\n", "");
    let streams = |host: &str| {
        let run = ground.run(&["config", "show", "--json", "--", host]).exits(0);
        let shown: Value = serde_json::from_str(&run.out).unwrap();
        let options = shown["options"].as_array().unwrap();
        let streams = options.iter().find(|option| option["name"] == "streams").unwrap()["value"].clone();
        (shown["host"].as_str().unwrap().to_owned(), streams.as_str().map(str::to_owned))
    };
    for (word, host, found) in [
        ("web", "web", Some("5")),
        ("u@web", "u@web", Some("5")),
        ("u@web:dir/file", "u@web", Some("5")),
        ("[fd00::1]:dir", "[fd00::1]", Some("6")),
        ("fd00::1", "fd00::1", Some("6")),
        ("web2:", "web2", None),
    ] {
        assert_eq!(streams(word), (host.to_owned(), found.map(str::to_owned)), "{word}");
    }
    for (word, says) in [
        ("", ""),
        ("-x", "dash"),
        ("u@", "empty"),
        ("dir/web", "path of this host"),
        ("ssh://web/dir", "URI"),
        ("we b", "blank"),
        ("web\n", "'web\\n' isn't a host"),
        ("web\u{1b}[2J", "isn't a host"),
    ] {
        let run = ground.run(&["config", "show", "--", word]).exits(2).says(&[says]);
        assert!(run.out.is_empty() && !run.err.contains('\u{1b}'), "{word}: {run}");
    }
}
