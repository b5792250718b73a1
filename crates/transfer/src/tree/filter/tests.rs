//! Tests of rules by tables: how each text is interpreted, and which texts are invalid.

use linerate_wire::filter::{MAX_MERGES, MAX_PATTERN, MAX_RULES};
use linerate_wire::path::{MAX_COMPONENTS, RelPath};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::tree::bounds::Bounds;

fn nowhere() -> Place {
    Place { root: Vec::new(), prefix: RelPath::root(), bounds: Bounds::here() }
}

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

fn built(rules: &[&str]) -> Result<Rules, FilterError> {
    let mut builder = Builder::new(Reading::default());
    rules.iter().try_for_each(|rule| builder.filter(rule.as_bytes()))?;
    builder.build()
}

fn scope_of(rules: &[&str], side: Side, prefix: &str) -> Scope {
    let place = Place { root: b"/home/me".to_vec(), prefix: path(prefix), bounds: Bounds::here() };
    Filter::new(&built(rules).unwrap(), side, place).scope()
}

/// The scope after entering `directory`, which contains these merge files.
fn entered(scope: &Scope, directory: &str, files: &[(&str, &str)]) -> Result<Scope, FilterError> {
    let files: HashMap<&OsStr, &str> = files.iter().map(|(name, text)| (OsStr::new(*name), *text)).collect();
    scope.enter(&path(directory), &mut |name| Ok(files.get(name).map(|text| text.as_bytes().to_vec())))
}

#[test]
fn patterns_match_what_the_manual_says() {
    for (pattern, matched, other) in [
        ("*.o", &["a.o", "d/a.o", ".o"][..], &["a.o/x", "a.oo"][..]),
        ("/foo", &["foo"], &["d/foo", "foo/x"]),
        ("foo/", &["foo/", "d/foo/"], &["foo", "d/foo"]),
        ("foo/bar", &["foo/bar", "d/foo/bar"], &["xfoo/bar", "bar", "foo/bar/x"]),
        ("foo/*/bar", &["foo/a/bar", "d/foo/a/bar"], &["foo/bar", "foo/a/b/bar"]),
        ("/foo/**/bar", &["foo/a/bar", "foo/a/b/bar"], &["foo/bar", "d/foo/a/bar"]),
        ("foo/***", &["foo/", "foo/x", "foo/x/y", "d/foo/x"], &["foo", "xfoo/y"]),
        ("**/foo", &["foo", "d/foo", "d/e/foo"], &["xfoo", "foo/x"]),
        ("**foo", &["foo", "d/xfoo"], &["foo/x"]),
        ("a**b", &["ab", "a/b", "x/a/y/b"], &["xa/b", "a/bc"]),
        ("a?c", &["abc", "d/axc"], &["ac", "a/c", "abcd"]),
        ("a[^x]c", &["abc"], &["axc", "a/c"]),
        ("a[!x]c**", &["abcd"], &["a/cd"]),
        ("[]-]", &["]", "-"], &["[", "x"]),
        ("[a\\]]", &["a", "]"], &["\\"]),
        ("[[:digit:]x]", &["1", "x"], &[":", "d"]),
        ("[[:nonsense:]]", &[], &["n", ":", "["]),
        ("[ab", &[], &["a", "[ab"]),
        ("a\\b", &["a\\b"], &["ab"]),
        ("a\\b*", &["abc"], &["a\\bc"]),
        ("a\\*b", &["a*b"], &["a\\*b", "axb"]),
        ("*\\", &[], &["a", "a\\"]),
        ("/", &[], &["a", "a/"]),
    ] {
        let scope = scope_of(&[&format!("- {pattern}")], Side::Sender, "");
        let excludes = |text: &str| scope.excludes(&path(text.trim_end_matches('/')), text.ends_with('/'));
        matched.iter().for_each(|text| assert!(excludes(text), "'{pattern}' must match '{text}'"));
        other.iter().for_each(|text| assert!(!excludes(text), "'{pattern}' must not match '{text}'"));
    }
}

#[test]
fn the_first_rule_that_matches_decides_for_its_side() {
    let rules = ["+ keep.o", "H hidden", "P *.db", "+s *.c", "-! */", "-p later"];
    let excludes = |side, name: &str| scope_of(&rules, side, "").excludes(&path(name), false);
    for (name, hidden, protected) in [
        ("keep.o", false, false),
        ("hidden", true, true),
        ("x.db", true, true),
        ("x.c", false, true),
        ("other", true, true),
    ] {
        assert_eq!(excludes(Side::Sender, name), hidden, "{name} hidden");
        assert_eq!(excludes(Side::Receiver, name), protected, "{name} protected");
    }
    let scope = scope_of(&["-p *.o", "P kept"], Side::Receiver, "");
    assert!(scope.excludes(&path("d/a.o"), false) && !scope.protects_in_deleted(&path("d/a.o"), false));
    assert!(scope.protects_in_deleted(&path("d/kept"), false));
}

#[test]
fn the_source_s_own_name_is_a_part_of_the_path() {
    let named = scope_of(&["- /me/x", "-/ /home/me/me/y", "- /z"], Side::Sender, "me");
    assert!(named.excludes(&path("x"), false) && named.excludes(&path("y"), false));
    assert!(!named.excludes(&path("z"), false));
    assert!(scope_of(&["- me"], Side::Sender, "me").excludes(&RelPath::root(), true));
    assert!(!scope_of(&["- *"], Side::Sender, "").excludes(&RelPath::root(), true), "the root itself");
}

#[test]
fn merge_files_hold_below_their_directory() {
    let top = scope_of(&["+ first", ": .r", "- last"], Side::Sender, "");
    let top = entered(&top, "", &[(".r", "- first\n- /x\n- *.o\n: .s\n")]).unwrap();
    let inside = entered(&top, "d", &[(".r", "+ a.o\n- /y\r\n"), (".s", "# none\n\n- s")]).unwrap();
    let excludes = |scope: &Scope, name: &str| scope.excludes(&path(name), false);
    assert!(
        !excludes(&top, "first") && excludes(&top, "x") && excludes(&top, "last") && excludes(&top, "a.o")
    );
    assert!(!excludes(&inside, "d/x") && excludes(&inside, "d/y") && !excludes(&inside, "d/a.o"));
    assert!(excludes(&inside, "d/b.o") && excludes(&inside, "d/s") && !excludes(&top, "d/s"));
    let cleared = entered(&inside, "d/e", &[(".r", "!\n- new")]).unwrap();
    assert!(
        !excludes(&cleared, "d/e/b.o") && excludes(&cleared, "d/e/new") && excludes(&cleared, "d/e/last")
    );
    let local = entered(&scope_of(&[":n- .r"], Side::Sender, ""), "", &[(".r", "- x")]).unwrap();
    assert!(excludes(&local, "- x") && !excludes(&entered(&local, "d", &[]).unwrap(), "d/- x"));
}

#[test]
fn what_is_no_rule_says_why() {
    for (rule, why) in [
        ("x foo", "begins like this"),
        ("exclude! */", "begins like this"),
        ("  - foo", "begins like this"),
        ("- ", "missing"),
        ("-,", "missing"),
        (".", "missing"),
        ("! x", "clears"),
        ("-q x", "'q'"),
        (".x rules", "'x'"),
        ("Hr x", "'r'"),
        (":! .r", "'!'"),
        (":-+ .r", "'+'"),
        (": ..", "isn't the name of a file"),
        (". /nonexistent/rules", "/nonexistent/rules failed: No such file"),
    ] {
        let error = built(&[rule]).expect_err(rule).to_string();
        assert!(error.contains(why), "{rule}: {error}");
    }
    assert!(built(&[&format!("- {}", "x".repeat(MAX_PATTERN + 1))]).is_err());
    assert!(built(&vec![": .r"; MAX_MERGES + 1]).is_ok(), "the same name counts once");
}

#[test]
fn a_bad_merge_file_is_an_error_that_shows_none_of_it() {
    let top = scope_of(&[": .r", ":s .s"], Side::Sender, "");
    for (file, text, why) in [
        (".r", "- a\nroot:secret", "/line 2"),
        (".r", ". ../../etc/shadow", "same directory"),
        (".r", ". .r", "deep"),
        (".r", ". absent", "No such file|entity not found"),
        (".s", "H x", "names a side"),
    ] {
        let error = entered(&top, "d", &[(file, text)]).expect_err(text).to_string();
        let found = why.trim_start_matches('/').split('|').any(|why| error.contains(why));
        assert!(found && !error.contains("secret") && error.contains("d/"), "{text}: {error}");
    }
    // Without a limit, the file `.t` would be read 2^16 times.
    assert!(entered(&top, "d", &[(".r", ". .t\n. .t\n"), (".t", &". .t\n".repeat(2))]).is_err());
    assert!(entered(&top, "d", &[(".r", &"!\n".repeat(MAX_RULES + 1))]).is_err());
    let often: String = ". .t\n".repeat(MAX_READ);
    assert!(entered(&top, "d", &[(".r", &often), (".t", "- x")]).is_err());
    let many: String = (0..=MAX_MERGES).map(|n| format!(": .m{n}\n")).collect();
    assert!(entered(&top, "d", &[(".r", &many)]).is_err());
    let mut deep = entered(&top, "d", &[(".r", "- x")]);
    for _ in 0..2000 {
        deep = deep.and_then(|scope| entered(&scope, "d", &[(".r", "- x")]));
    }
    assert!(deep.is_err(), "what is inherited is bounded");
}

#[test]
fn files_of_rules_are_read_as_rsync_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
        directory.path().join(name)
    };
    let excludes = |builder: Builder, name: &str| {
        let filter = Filter::new(&builder.build().unwrap(), Side::Sender, nowhere());
        filter.scope().excludes(&path(name), false)
    };
    let list = file("list", "# no\n; no\r\n+ a.o\r*.o\n\n- b\n");
    let mut builder = Builder::new(Reading::default());
    builder.exclude_from(&list).unwrap();
    assert!(!excludes(builder, "a.o"));
    for (name, excluded) in [("a.o", true), ("b", true), ("c.o", true), ("# no", false)] {
        let mut builder = Builder::new(Reading::default());
        builder.exclude(b"a.o").unwrap();
        builder.exclude_from(&list).unwrap();
        assert_eq!(excludes(builder, name), excluded, "{name}");
    }
    let words = file("words", "*.x *.y\n*.z");
    for (rule, name) in [(".w- ", "1.y"), (".-w ", "1.z"), (".C ", "1.x")] {
        let mut builder = Builder::new(Reading::default());
        builder.filter([rule.as_bytes(), words.as_os_str().as_bytes()].concat().as_slice()).unwrap();
        assert!(excludes(builder, name), "{rule}{name}");
    }
    let nul = file("nul", "a\nb\0c\0");
    let mut builder = Builder::new(Reading { nul: true, ..Reading::default() });
    builder.exclude_from(&nul).unwrap();
    assert!(excludes(builder, "a\nb"));
    let own = file("own", "");
    std::fs::write(&own, format!(". {}", own.display())).unwrap();
    assert!(matches!(
        Builder::default().filter(format!(". {}", own.display()).as_bytes()),
        Err(FilterError::Nested { .. })
    ));
}

#[test]
fn cvs_words_and_patterns_stand_behind_all_rules() {
    let mut builder = Builder::new(Reading::default());
    builder.cvs_words(b"mine  *.tmp");
    builder.cvs_exclude();
    builder.include(b"keep.o").unwrap();
    let scope = Filter::new(&builder.build().unwrap(), Side::Sender, nowhere()).scope();
    let scope = entered(&scope, "", &[(".cvsignore", "here\t*.log")]).unwrap();
    for (name, excluded) in
        [("keep.o", false), ("x.o", true), ("mine", true), ("a.tmp", true), ("here", true), ("b.log", true)]
    {
        assert_eq!(scope.excludes(&path(name), false), excluded, "{name}");
    }
    assert!(scope.excludes(&path(".git"), true) && !scope.excludes(&path(".git"), false));
}

#[test]
fn the_user_s_words_for_cvs_belong_to_each_rule_that_names_cvs() {
    for (rules, delete_excluded, at_receiver) in
        [(["- x", "-C"], false, true), (["-C", "- x"], true, false), (["-Cs", "- x"], false, false)]
    {
        let mut builder = Builder::new(Reading { delete_excluded, nul: false });
        builder.cvs_words(b"mine");
        rules.iter().for_each(|rule| builder.filter(rule.as_bytes()).unwrap());
        let rules = builder.build().unwrap();
        let excludes = |side| Filter::new(&rules, side, nowhere()).scope().excludes(&path("mine"), false);
        assert!(excludes(Side::Sender), "{rules:?}");
        assert_eq!(excludes(Side::Receiver), at_receiver, "{rules:?}");
    }
    let mut builder = Builder::new(Reading::default());
    builder.cvs_words(b"gone ! mine");
    builder.filter(b"- x").unwrap();
    builder.filter(b"-C").unwrap();
    let rules = builder.build().unwrap();
    let excluded = ["x", "gone", "a.o", "mine"]
        .map(|name| Filter::new(&rules, Side::Sender, nowhere()).scope().excludes(&path(name), false));
    assert_eq!(excluded, [true, false, false, true], "it takes back what is cvs' alone");
}

#[test]
fn delete_excluded_makes_plain_rules_the_sender_s() {
    let mut builder = Builder::new(Reading { delete_excluded: true, nul: false });
    builder.filter(b"- a").unwrap();
    builder.filter(b"P b").unwrap();
    let rules = builder.build().unwrap();
    let excludes = |side, name| Filter::new(&rules, side, nowhere()).scope().excludes(&path(name), false);
    assert!(excludes(Side::Sender, "a") && !excludes(Side::Receiver, "a") && excludes(Side::Receiver, "b"));
}

#[test]
fn many_stars_need_no_more_time_than_their_number() {
    let pattern = format!("- {}b", "*a**a?*".repeat(500));
    let scope = scope_of(&[&pattern], Side::Sender, "");
    let long = path(&vec!["a".repeat(255); 16].join("/"));
    let begun = Instant::now();
    assert!(!scope.excludes(&long, false));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn garbage_never_panics() {
    let mut random = fastrand::Rng::with_seed(1);
    let alphabet = b"*?[]!^-\\/:.+_, \n\r\0aCHPRSenrswx#;\xff";
    let mut accepted = 0;
    for _ in 0..20_000 {
        let text: Vec<u8> = (0..random.usize(..40)).map(|_| *random.choice(alphabet).unwrap()).collect();
        let mut builder = Builder::default();
        // These texts contain no merge rules, so they can't cause a file to be read.
        let _ = builder.exclude(&text);
        if !matches!(text.first(), None | Some(b'.')) {
            let _ = builder.filter(&text);
        }
        let rules = builder.build().unwrap();
        let scope = Filter::new(&rules, Side::Sender, nowhere()).scope();
        let inside = scope.enter(&path("a"), &mut |_| Ok(Some(text.clone()))).unwrap_or(scope);
        accepted += usize::from(!inside.excludes(&path("a/*[x]\\"), random.bool()));
        let _ = FilesFrom::parse(&text, random.bool());
    }
    assert!((1..20_000).contains(&accepted), "{accepted}");
}

#[test]
fn the_longest_pattern_matches() {
    let pattern = format!("- {}*", "x/".repeat(MAX_PATTERN / 2 - 1) + "y");
    let text = "x/".repeat(MAX_COMPONENTS - 1) + "y";
    assert!(!scope_of(&[&pattern], Side::Sender, "").excludes(&path(&text), false));
    let pattern = format!("- {}{text}", "*".repeat(MAX_PATTERN - text.len() - 3));
    assert!(scope_of(&[&pattern], Side::Sender, "").excludes(&path(&text), false));
}

#[test]
fn a_merge_file_is_read_through_no_link_and_from_no_fifo_or_socket() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), "- x").unwrap();
    std::fs::create_dir(directory.path().join("directory")).unwrap();
    symlink("file", directory.path().join("link")).unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    std::fs::write(directory.path().join("long"), vec![b'x'; MAX_FILE + 1]).unwrap();
    let fd = std::fs::File::open(directory.path()).unwrap();
    let read = |name: &str| merge_file(&fd, Path::new(name).as_os_str());
    assert_eq!(read("file").unwrap().as_deref(), Some(&b"- x"[..]));
    for name in ["directory", "fifo", "socket", "absent"] {
        assert_eq!(read(name).unwrap(), None, "{name}");
    }
    assert!(read("long").is_err() && read("link").is_err());
}

#[test]
fn a_list_names_what_is_wanted_and_the_way_there() {
    let list = FilesFrom::parse(b"# no\n/a/b/c\n./d//e/\n\nf\n", false).unwrap();
    let wants = |text: &str, recursive| {
        let wanted = list.of(0).wants(&path(text), recursive);
        (wanted.sent, wanted.entered)
    };
    for (text, flat, deep) in [
        ("", (true, true), (true, true)),
        ("a", (true, true), (true, true)),
        ("a/b/c", (true, false), (true, true)),
        ("a/b/x", (false, false), (false, false)),
        ("a/b/c/x", (false, false), (true, true)),
        ("d", (true, true), (true, true)),
        ("d/e", (true, true), (true, true)),
        ("d/e/x", (true, false), (true, true)),
        ("d/e/x/y", (false, false), (true, true)),
        ("f", (true, false), (true, true)),
        ("g", (false, false), (false, false)),
    ] {
        assert_eq!((wants(text, false), wants(text, true)), (flat, deep), "{text}");
    }
    let again =
        list.listed().try_fold(FilesFrom::default(), |mut copy, listed| copy.add(listed).map(|()| copy));
    assert_eq!(again.unwrap(), list);
}

#[test]
fn a_list_never_leaves_the_source() {
    for text in ["../x", "a/../../x", "a/..", "/.."] {
        let error = FilesFrom::parse(format!("ok\n{text}").as_bytes(), false).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("'..'"), "{error}");
    }
    let list = FilesFrom::parse(b"a\nb\0\xff\0", true).unwrap();
    assert!(list.of(0).wants(&path("a\nb"), false).sent);
    assert!(list.of(0).wants(&RelPath::new(&b"\xff"[..]).unwrap(), false).sent);
    assert!(FilesFrom::parse(b"a\0b\n", false).is_err());
}

#[test]
fn a_directory_is_implied_where_nothing_at_or_above_it_is_listed() {
    let list = FilesFrom::parse(b"a/b/c\nx\nx/y/f\nd/e/\nd/e/g/h\n", false).unwrap();
    let implied = |whole| list.implied(whole).into_iter().collect::<Vec<_>>();
    assert_eq!(implied(false), ["a", "a/b", "d"].map(path));
    assert_eq!(implied(true), ["a", "a/b", "d"].map(path));
}
