use super::*;
use crate::tree::bounds::Bounds;
use linerate_wire::entry::Timestamp;
use std::path::Path;

fn source(argument: u32, name: &str, directory: bool) -> Source {
    Source { argument, name: RelPath::new(name.as_bytes()).unwrap(), directory }
}

fn path(path: &str) -> RelPath {
    RelPath::new(path.as_bytes()).unwrap()
}

fn entry(at: &str, kind: Kind) -> Entry {
    let time = Timestamp::default();
    Entry { source: 0, path: path(at), kind, mode: 0o644, mtime: time, atime: time, extra: None }
}

fn link(target: &str) -> Kind {
    Kind::Symlink { target: target.into() }
}

fn landing(top: &Path) -> Landing {
    let top = Bounds::here().name(top.as_os_str().as_encoded_bytes()).unwrap();
    Landing::find(&top, &[source(0, "tree", true)]).unwrap()
}

const FILE: Kind = Kind::File { size: 0 };

#[test]
fn a_far_end_sends_only_what_was_asked_for() {
    let sources = [b"dir/file".to_vec(), b"logs/*.gz".to_vec(), b".".to_vec(), b"tree/".to_vec()];
    let refused = |name: &str, argument, directory, recursive| {
        let options = Options { recursive, ..Options::default() };
        let request = Request { sources: &sources, options: &options, listed: None };
        request.admit(&[source(argument, name, directory)]).is_err()
    };
    for (name, argument) in [("file", 0), ("a.gz", 1)] {
        assert!(!refused(name, argument, false, false) && !refused(name, argument, true, true), "{name}");
        assert!(refused(name, argument, true, false), "{name} as a directory without recursion");
    }
    for (name, argument) in [("", 2), ("tree", 3)] {
        assert!(!refused(name, argument, true, true), "'{name}'");
        assert!(
            refused(name, argument, false, true),
            "'{name}' as a file, where the argument is a directory"
        );
    }
    for (name, argument) in [
        (".ssh", 0),
        ("a.txt", 1),
        (".x.gz", 1),
        (".bashrc", 2),
        ("", 0),
        ("", 1),
        ("file", 9),
        ("a/b.gz", 1),
    ] {
        assert!(refused(name, argument, false, true) && refused(name, argument, true, true), "{name}");
    }
}

/// The reason why an entry of the requested directory `tree` is refused by these rules and this list of files; `None`
/// if the entry is admitted.
fn refused(rules: &[&str], list: &str, safe_links: bool, entry: Entry) -> Option<String> {
    judged(rules, list, Options { safe_links, ..Options::default() }, entry)
}

#[test]
fn links_are_refused_where_none_were_asked_for() {
    let judged =
        |no_links, kind| judged(&[], "", Options { no_links, ..Options::default() }, entry("x", kind));
    assert!(judged(true, link("y")).unwrap().contains("this command leaves links out"));
    assert_eq!((judged(true, FILE), judged(false, link("y"))), (None, None));
    let follows = Options { copy_links: true, ..Options::default() };
    assert!(self::judged(&[], "", follows, entry("x", link("y"))).unwrap().contains("or follows"));
}

#[test]
fn a_source_is_a_link_only_as_with_rsync() {
    let own = |into, safe_links| {
        let sync = Some(linerate_wire::control::Sync { into, ..Default::default() });
        let options = Options { sync, safe_links, ..Options::default() };
        let top = tempfile::tempdir().unwrap();
        let mut landing = landing(top.path());
        landing.places[0].1 = false;
        let request = Request { sources: &[b"tree".to_vec()], options: &options, listed: None };
        let terms = Terms::new(&landing, &options, Some(&request));
        let judged = Judge::new(&terms).admit(Cow::Owned(entry("", link("../x"))));
        judged.err().map(|refused| refused.to_string())
    };
    assert_eq!(own(true, false), None);
    assert!(own(false, false).unwrap().contains("a symbolic link in place of the source"));
    assert!(own(true, true).unwrap().contains("--safe-links"));
}

fn judged(rules: &[&str], list: &str, options: Options, entry: Entry) -> Option<String> {
    let top = tempfile::tempdir().unwrap();
    let landing = landing(top.path());
    let mut builder = crate::tree::filter::Builder::new(crate::tree::filter::Reading::default());
    rules.iter().for_each(|rule| builder.filter(rule.as_bytes()).unwrap());
    let filter = builder.build().unwrap();
    let options = Options { recursive: true, filter, ..options };
    let listed = (!list.is_empty()).then(|| FilesFrom::parse(list.as_bytes(), false).unwrap());
    let request = Request { sources: &[b"tree".to_vec()], options: &options, listed: listed.as_ref() };
    let terms = Terms::new(&landing, &options, Some(&request)).announced(&[source(0, "tree", true)]);
    let refused = Judge::new(&terms).admit(Cow::Owned(entry));
    refused.err().map(|refused| refused.to_string())
}

#[test]
fn a_source_is_what_was_announced() {
    let own = |kind| refused(&[], "", false, entry("", kind));
    assert_eq!(own(Kind::Directory), None);
    assert!(own(FILE).unwrap().contains("in place of the announced directory"));
    assert!(own(link("/etc")).unwrap().contains("a symbolic link in place of the source"));
}

#[test]
fn names_of_this_program_are_refused_at_any_depth() {
    let (file, journal) = (".linerate.0123456789abcdef.1", format!(".linerate.journal.{}", "0".repeat(32)));
    for name in [file, &format!("a/{journal}"), &format!("{file}/a"), &format!("a/{journal}/b")] {
        assert!(refused(&[], "", false, entry(name, FILE)).unwrap().contains("temporary files"), "{name}");
    }
    for name in [".linerate.x", "a/.linerate.journal.0", "linerate.x", ".linerate", &format!("a{file}")] {
        assert_eq!(refused(&[], "", false, entry(name, FILE)), None, "{name}");
    }
}

#[test]
fn what_the_rules_leave_out_is_refused_and_so_is_what_is_below_it() {
    let excluded =
        |at: &str, kind| refused(&["- .ssh", "+ /keep/**", "- *.o"], "", false, entry(at, kind)).is_some();
    assert!(excluded(".ssh", Kind::Directory) && excluded("a/.ssh", link("x")));
    assert!(excluded(".ssh/authorized_keys", FILE) && excluded("a/.ssh/b/c", FILE));
    assert!(excluded("x.o", FILE) && !excluded("keep/x.o", FILE) && !excluded("x.c", FILE));
}

#[test]
fn what_is_not_listed_is_refused() {
    let unlisted = |at: &str, kind| refused(&[], "a/b\nall/\n", false, entry(at, kind)).is_some();
    assert!(!unlisted("a", Kind::Directory) && !unlisted("a/b", FILE) && !unlisted("all/x", FILE));
    assert!(unlisted("a", FILE) && unlisted("a", link("/etc")), "the way to what is listed is a directory");
    assert!(unlisted("b", FILE) && unlisted("a/c", FILE) && unlisted("all/x/y", FILE));
}

#[test]
fn a_directory_that_is_not_listed_itself_is_refused_and_not_missing() {
    let own = |list| refused(&[], list, false, entry("", Kind::Directory));
    assert!(own("a/b\n").unwrap().contains("isn't on the list"));
    assert_eq!((own(".\na/b\n"), own("./\n")), (None, None));
    let top = tempfile::tempdir().unwrap();
    let landing = landing(top.path());
    for (listed, missing) in [(false, 1), (true, 0)] {
        let options = Options { listed, ..Options::default() };
        assert_eq!(Terms::new(&landing, &options, None).missing(), missing);
    }
}

#[test]
fn links_that_lead_out_are_refused_where_the_user_wants_none() {
    let out = |safe, target| refused(&[], "", safe, entry("a/l", link(target))).is_some();
    assert!(out(true, "/etc") && out(true, "../../x") && !out(true, "../x"));
    assert!(!out(false, "/etc"));
}

#[test]
fn the_directory_above_is_judged_anew_where_it_is_another() {
    let top = tempfile::tempdir().unwrap();
    let landing = landing(top.path());
    let mut builder = crate::tree::filter::Builder::new(crate::tree::filter::Reading::default());
    builder.filter(b"- no").unwrap();
    let options = Options { filter: builder.build().unwrap(), ..Options::default() };
    let request = Request { sources: &[b"tree".to_vec()], options: &options, listed: None };
    let terms = Terms::new(&landing, &options, Some(&request));
    let mut judge = Judge::new(&terms);
    for (at, admitted) in [("yes/a", true), ("no/a", false), ("no/b", false), ("yes/b", true), ("c", true)] {
        assert_eq!(judge.admit(Cow::Owned(entry(at, FILE))).is_ok(), admitted, "{at}");
    }
}

#[test]
fn only_in_what_the_own_list_names_may_be_deleted() {
    let top = tempfile::tempdir().unwrap();
    let landing = landing(top.path());
    let listed = FilesFrom::parse(b"a/b\nall/\n", false).unwrap();
    for (whole, cleared) in [(false, &["all"][..]), (true, &["all", "all/x", "a/b", "a/b/c"])] {
        let options = Options { recursive: true, listed: true, listed_whole: whole, ..Options::default() };
        let request = Request { sources: &[b"tree".to_vec()], options: &options, listed: Some(&listed) };
        let terms = Terms::new(&landing, &options, Some(&request)).announced(&[source(0, "tree", true)]);
        let judge = Judge::new(&terms);
        for at in ["", "a", "a/b", "a/b/c", "all", "all/x", "other"] {
            assert_eq!(judge.may_clear(&entry(at, Kind::Directory)), cleared.contains(&at), "{at} {whole}");
        }
    }
}
