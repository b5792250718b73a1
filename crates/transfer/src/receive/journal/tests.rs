use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::key::Key;
use super::record::tests::{NONCE, begin, done, partial, path};
use super::seal::{Records, append, append_header};
use super::*;
use crate::tree::root::Root;
use crate::tree::temporary::Name;
use linerate_wire::entry::Timestamp;

const NAME: &str = ".linerate.journal.00000000000000000000000000000000";
const HERE: Epoch = Epoch { boot: [1; 16], mount: 2 };

/// A temporary directory with an account's key directory and a destination.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        let ground = Self(tempfile::tempdir().unwrap());
        fs::create_dir(ground.at("top")).unwrap();
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn state(&self) -> PathBuf {
        self.at("home/.local/state/linerate")
    }

    fn journal(&self) -> PathBuf {
        self.at("top").join(NAME)
    }

    fn home(self) -> Self {
        fs::create_dir(self.at("home")).unwrap();
        self
    }

    fn top(&self) -> Arc<Directory> {
        Root::open(&self.at("top")).unwrap().top().clone()
    }

    fn site(&self) -> Site {
        let keys = KeyStore::Directory(self.state());
        Site { top: self.top(), name: NAME.into(), places: vec![path("tree")], keys }
    }

    fn find(&self) -> Found {
        Journal::find(self.site(), NONCE)
    }

    #[track_caller]
    fn new_journal(&self) -> Journal {
        let Found::Nothing(journal) = self.find() else { panic!("a journal exists already") };
        journal
    }

    #[track_caller]
    fn past(&self) -> Box<Past> {
        let Found::Past(_, past) = self.find() else { panic!("the journal isn't found") };
        past
    }

    /// Creates a journal of one run that has finished the file `a`.
    fn leave(&self) {
        let journal = self.new_journal();
        assert!(journal.make());
        journal.done(vec![done("a")]);
    }

    /// Writes a journal with these records, sealed with `key`, as somebody who has that key could do.
    fn plant(&self, key: Key, name: &str, records: &[Record]) {
        let directory = fs::metadata(self.at("top")).unwrap().ino();
        let sealer = Sealer::new(key, OsStr::new(name), directory);
        fs::write(self.journal(), written(records, &sealer)).unwrap();
        fs::set_permissions(self.journal(), Permissions::from_mode(0o600)).unwrap();
    }

    fn own_key(&self) -> Key {
        Key::known(fs::read(self.state().join("journal.key")).unwrap().try_into().unwrap())
    }
}

fn written(records: &[Record], sealer: &Sealer) -> Vec<u8> {
    let (mut bytes, mut seal) = (Vec::new(), sealer.with(&[9; 16]));
    append_header(&[9; 16], &mut bytes);
    records.iter().for_each(|record| assert!(append(record, &mut seal, &mut bytes)));
    bytes
}

fn is_done(past: &Past, place: &str) -> bool {
    past.done(&path(place), [1; 8]).is_some()
}

#[test]
fn the_next_run_finds_what_this_one_wrote_and_only_behind_it() {
    let ground = Ground::new().home();
    let journal = ground.new_journal();
    journal.look(0);
    assert!(!journal.takes_done() && !ground.journal().exists(), "made when it is worth it");
    assert!(!ground.state().exists(), "the key is created only then too");
    journal.look(FEW_BYTES);
    assert!(journal.takes_done() && journal.is_bare());
    journal.done(vec![done("a")]);
    assert!(!journal.is_bare());
    let index = journal.partial(partial(99)).unwrap();
    journal.chunk(index, 2);
    assert!(matches!(ground.find(), Found::Busy), "two runs use it at the same time");
    drop(journal);
    let Found::Past(journal, past) = ground.find() else { panic!("the journal isn't found") };
    let sample = partial(0);
    assert!(is_done(&past, "a"));
    let earlier = past.partial(&sample.place, sample.mark, sample.origin).unwrap();
    assert_eq!((earlier.partial.index, bits(&earlier.present())), (index, vec![0b100]));
    assert_eq!(journal.partial(sample), Some(index + 1), "the numbers continue");
    journal.remove();
    drop(ground.new_journal());
}

#[test]
fn records_of_several_runs_are_read_as_one() {
    let ground = Ground::new().home();
    ground.leave();
    for (run, place) in ["b", "c"].into_iter().enumerate() {
        let Found::Past(journal, past) = ground.find() else { panic!("run {run} finds no journal") };
        assert!(is_done(&past, "a") && !is_done(&past, place));
        journal.done(vec![done(place)]);
    }
    let past = ground.past();
    assert!(["a", "b", "c"].into_iter().all(|place| is_done(&past, place)));
}

#[test]
fn a_tail_that_was_cut_off_is_overwritten() {
    let ground = Ground::new().home();
    ground.leave();
    let whole = fs::read(ground.journal()).unwrap();
    fs::write(ground.journal(), [&whole[..], &[0; 5000]].concat()).unwrap();
    let Found::Past(journal, _) = ground.find() else { panic!("the journal isn't found") };
    journal.done(vec![done("b")]);
    drop(journal);
    assert!(is_done(&ground.past(), "a") && is_done(&ground.past(), "b"));
}

#[test]
fn what_somebody_else_may_have_put_there_is_not_believed() {
    let ground = Ground::new().home();
    ground.leave();
    let (at, real) = (ground.journal(), ground.at("top/real"));
    fs::rename(&at, &real).unwrap();
    let foreign = |what: &str| {
        let Found::Nothing(journal) = ground.find() else { panic!("{what} is believed") };
        assert!(!journal.make() && !ground.site().has_journal(), "{what} is replaced");
        fs::remove_file(&at).unwrap();
    };
    symlink(&real, &at).unwrap();
    foreign("a link");
    fs::hard_link(&real, &at).unwrap();
    foreign("a second name of a file");
    fs::copy(&real, &at).unwrap();
    fs::set_permissions(&at, Permissions::from_mode(0o666)).unwrap();
    foreign("what others may write");
    fs::copy(&real, &at).unwrap();
    fs::set_permissions(&at, Permissions::from_mode(0o600)).unwrap();
    assert!(ground.site().has_journal());
    assert!(is_done(&ground.past(), "a"), "this account's own journal is believed");
}

/// A planted journal refers to files outside the destination. Its records are ignored, and a new journal replaces the
/// planted one.
#[test]
fn planted_journals_say_nothing_and_are_replaced() {
    let ground = Ground::new().home();
    ground.leave();
    let own = ground.own_key().bytes().to_owned();
    let records = [
        begin(HERE),
        Record::Done(done("a")),
        Record::Stamp(Timestamp::default()),
        Record::Partial(partial(0)),
    ];
    let plants: [(&str, &dyn Fn()); 5] = [
        ("the format before", &|| fs::write(ground.journal(), version_1(b"../victim")).unwrap()),
        ("another account's key", &|| ground.plant(Key::known([6; 32]), NAME, &records)),
        ("a journal of another name", &|| ground.plant(Key::known(own), &NAME.replace('0', "1"), &records)),
        ("nothing", &|| fs::write(ground.journal(), "").unwrap()),
        ("no records", &|| ground.plant(Key::known(own), NAME, &[])),
    ];
    for (what, plant) in plants {
        plant();
        fs::set_permissions(ground.journal(), Permissions::from_mode(0o644)).unwrap();
        assert!(!ground.site().has_journal(), "{what}");
        let Found::Nothing(journal) = ground.find() else { panic!("{what} is believed") };
        assert!(journal.is_bare() && journal.takes_done(), "{what}");
        journal.done(vec![done("b")]);
        drop(journal);
        assert_eq!(fs::metadata(ground.journal()).unwrap().mode() & 0o777, 0o600, "{what}");
        let past = ground.past();
        assert!(is_done(&past, "b") && !is_done(&past, "a") && past.partials().count() == 0, "{what}");
    }
    ground.plant(Key::known(own), NAME, &records);
    assert!(is_done(&ground.past(), "a"), "this account's journal is believed");
}

/// A journal in the format of version 1, with a large file of this name.
fn version_1(name: &[u8]) -> Vec<u8> {
    let Partial { place, mark, origin, inode, size, chunk, .. } = partial(0);
    let said = [
        postcard::to_stdvec(&(0_u32, HERE, NONCE)).unwrap(),
        postcard::to_stdvec(&(3_u32, 0_u32, place, name.to_vec(), mark, origin, inode, size, chunk)).unwrap(),
        postcard::to_stdvec(&(4_u32, 0_u32, 0_u32)).unwrap(),
    ];
    let mut journal = b"lrjrnal\x01".to_vec();
    for record in said {
        journal.extend((record.len() as u32).to_le_bytes());
        journal.extend(&blake3::hash(&record).as_bytes()[..8]);
        journal.extend(record);
    }
    journal
}

#[test]
fn a_journal_that_was_copied_elsewhere_is_nobodys() {
    let (here, elsewhere) = (Ground::new().home(), Ground::new());
    here.leave();
    fs::rename(here.at("home"), elsewhere.at("home")).unwrap();
    fs::copy(here.journal(), elsewhere.journal()).unwrap();
    assert!(!elsewhere.site().has_journal() && matches!(elsewhere.find(), Found::Nothing(_)));
}

/// Records whose temporary names are really paths to other files aren't accepted, even if they are sealed
/// with the account's key.
#[test]
fn a_partial_file_has_no_name_but_a_temporary_one() {
    let sealer = || Sealer::new(Key::known([1; 32]), OsStr::new(NAME), 1);
    let (mut bytes, mut seal) = (Vec::new(), sealer().with(&[0; 16]));
    append_header(&[0; 16], &mut bytes);
    assert!(append(&begin(HERE), &mut seal, &mut bytes));
    let good = bytes.len() as u64;
    let forged = postcard::to_stdvec(&Record::Partial(partial(0))).unwrap();
    let name = b".linerate.0123456789abcdef.0";
    let at = forged.windows(name.len()).position(|part| part == name).unwrap();
    for evil in [
        &b"/home/user/.ssh/authorized_k"[..],
        b"../../../../../../../victim",
        b".linerate.0123456789abcdef/x",
    ] {
        let evil = [evil, &vec![b'x'; name.len() - evil.len()]].concat();
        let (mut forged, mut bytes, mut seal) = (forged.clone(), bytes.clone(), seal.clone());
        forged[at..at + name.len()].copy_from_slice(&evil);
        super::seal::append_bytes(&forged, &mut seal, &mut bytes);
        let mut records = Records::open(&*bytes, &sealer()).unwrap().unwrap();
        assert!(records.next().unwrap().is_some(), "what is before it");
        assert_eq!((records.next().unwrap(), records.good), (None, good));
    }
}

#[test]
fn what_another_run_wrote_under_the_same_name_is_no_partial_file() {
    let ground = Ground::new().home();
    ground.leave();
    let key = ground.own_key();
    let stranger = Partial { name: Name::new([9; 8], 0), index: 1, ..partial(1) };
    ground.plant(key, NAME, &[begin(HERE), Record::Partial(stranger), Record::Partial(partial(0))]);
    let names: Vec<_> = ground.past().partials().map(|partial| partial.name).collect();
    assert_eq!(names, [Name::new(NONCE, 0)]);
}

#[test]
fn without_a_key_there_is_no_journal() {
    let is_none = |ground: &Ground, what: &str| {
        let Found::Nothing(journal) = ground.find() else { panic!("{what}: a journal is believed") };
        journal.look(FEW_BYTES);
        assert!(!journal.make() && journal.partial(partial(0)).is_none() && !journal.takes_done(), "{what}");
        journal.remove();
    };
    let ground = Ground::new();
    fs::write(ground.at("home"), "").unwrap();
    is_none(&ground, "no home");
    assert!(!ground.journal().exists());
    let left = Ground::new().home();
    left.leave();
    fs::remove_dir_all(left.at("home")).unwrap();
    fs::write(left.at("home"), "").unwrap();
    is_none(&left, "a home that went");
    assert!(left.journal().exists(), "what isn't read isn't removed");
}

#[test]
fn a_key_that_others_know_or_could_change_is_none() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 8] = [
        ("open to others", |state| chmod(&state.join("journal.key"), 0o640)),
        ("in a directory that is open to others", |state| chmod(state, 0o750)),
        ("in a directory that others may write to", |state| chmod(state, 0o702)),
        ("with another name", |state| fs::hard_link(state.join("journal.key"), state.join("x")).unwrap()),
        ("too short", |state| fs::write(state.join("journal.key"), [1; 31]).unwrap()),
        ("too long", |state| fs::write(state.join("journal.key"), [1; 33]).unwrap()),
        ("behind a link", |state| {
            fs::rename(state.join("journal.key"), state.join("x")).unwrap();
            symlink("x", state.join("journal.key")).unwrap();
        }),
        ("in a directory behind a link", |state| {
            fs::rename(state, state.with_extension("x")).unwrap();
            symlink(state.with_extension("x"), state).unwrap();
        }),
    ];
    for (what, change) in changes {
        let ground = Ground::new().home();
        ground.leave();
        change(&ground.state());
        assert!(!ground.site().has_journal(), "{what}");
        let Found::Nothing(journal) = ground.find() else { panic!("{what}: the journal is believed") };
        assert!(!journal.make(), "{what}: a journal is created");
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_key_is_made_once_and_for_this_account_alone() {
    let ground = Ground::new().home();
    let state = ground.state();
    fs::create_dir_all(ground.at("home/.local")).unwrap();
    let makes = || {
        let top = ground.top();
        KeyStore::Directory(state.clone())
            .find_or_make(&Written { top: &top, places: &[] })
            .unwrap()
            .bytes()
            .to_owned()
    };
    let made: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(makes)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(made.iter().all(|key| *key == made[0] && *key != [0; 32]));
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&state), mode(&state.join("journal.key"))), (0o700, 0o600));
    assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "nothing else is left there");
    assert_eq!(makes(), made[0]);
}

#[test]
fn what_a_killed_run_left_of_a_key_is_no_key() {
    let ground = Ground::new().home();
    fs::create_dir_all(ground.state()).unwrap();
    chmod(&ground.state(), 0o700);
    fs::write(ground.state().join("journal.key.new"), [1; 7]).unwrap();
    ground.leave();
    assert_eq!(fs::read_dir(ground.state()).unwrap().count(), 1);
}

/// If the far end could write the key, it could sign any journal.
#[test]
fn where_a_transfer_may_write_the_key_there_is_no_journal() {
    let ground = Ground::new().home();
    let state = ground.state();
    let finds = |top: &str, place: &str, make: bool| {
        let (top, places) = (Root::open(&ground.at(top)).unwrap().top().clone(), [path(place)]);
        let (written, keys) = (Written { top: &top, places: &places }, KeyStore::Directory(state.clone()));
        if make { keys.find_or_make(&written) } else { keys.find(Some(&written)) }.is_some()
    };
    assert!(!finds("home", "", true) && !finds("", "home", true), "the home itself");
    assert!(!ground.at("home/.local").exists(), "nothing is created in a tree that must equal another");
    assert!(finds("home", "tree", true), "beside the key");
    symlink("home", ground.at("link")).unwrap();
    let all = [
        ("", ""),
        ("", "home"),
        ("home", ""),
        ("link", ""),
        ("home", ".local"),
        ("home", ".local/state"),
        ("home/.local", "state/linerate"),
        ("home/.local/state/linerate", ""),
        ("home/.local/state/linerate", "journal.key"),
        ("home/.local/state/linerate", "journal.key.new"),
    ];
    for (top, place) in all {
        assert!(!finds(top, place, false) && !finds(top, place, true), "{place:?} in {top:?}");
    }
    for (top, place) in
        [("home", "tree"), ("home/.local", "share"), ("home/.local/state", "other"), ("top", "")]
    {
        assert!(finds(top, place, false) && finds(top, place, true), "{place:?} in {top:?}");
    }
}

#[test]
fn it_is_known_who_holds_a_journal() {
    let ground = Ground::new().home();
    let keys = KeyStore::Directory(ground.state());
    let holds = || holder(&ground.top(), OsStr::new(NAME), &keys);
    assert_eq!(holds(), Holder::Nobody, "there is no journal");
    let journal = ground.new_journal();
    assert!(journal.make());
    assert_eq!(holds(), Holder::Run(NONCE));
    fs::remove_dir_all(ground.at("home")).unwrap();
    assert_eq!(holds(), Holder::Somebody, "the key was removed");
    drop(journal);
    assert_eq!(holds(), Holder::Nobody, "its run has ended");
}
