use super::host::ChainProgress;
use super::*;
use linerate_wire::control::ChainLink;
use linerate_wire::sealed::{MARK, SEALED_HEAD};

fn host(source: &ChainSource, place: u8) -> ChainHost {
    let link = ChainLink {
        previous: Vec::new(),
        cookie: [0; 16],
        key: source.key(place.into()).unwrap().clone(),
        place,
        hosts: source.hosts() as u8,
    };
    ChainHost::new(link, Vec::new()).unwrap()
}

fn sealed(source: &ChainSource, at: (u32, u64), bytes: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    source.seal(at, bytes, &mut payload);
    payload
}

#[test]
fn each_host_opens_what_the_source_has_sealed_in_its_order() {
    let source = ChainSource::new(3).unwrap();
    for place in 0..3 {
        let (host, mut so_far) = (host(&source, place), ChainProgress::default());
        for (number, bytes) in [&b"one"[..], b"two", b"three"].into_iter().enumerate() {
            assert_eq!(host.open(&sealed(&source, (5, number as u64), bytes), &mut so_far), Ok(bytes));
        }
    }
}

#[test]
fn what_a_host_before_it_has_changed_anywhere_is_not_opened() {
    let source = ChainSource::new(2).unwrap();
    let whole = sealed(&source, (1, 0), b"as it was sent");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let opened = host(&source, 1).open(&changed, &mut ChainProgress::default()).is_ok();
        // Changes in the first host's mark don't matter to the second host.
        assert_eq!(opened, (SEALED_HEAD..SEALED_HEAD + MARK).contains(&at), "{at}");
    }
    assert!(host(&source, 1).open(&whole[..whole.len() - 1], &mut ChainProgress::default()).is_err());
    assert!(host(&source, 1).open(&[&whole[..], b"more"].concat(), &mut ChainProgress::default()).is_err());
}

#[test]
fn a_host_can_not_make_marks_for_another_one_with_its_own_key() {
    let (source, bytes) = (ChainSource::new(2).unwrap(), b"its own");
    let digest = blake3::hash(bytes);
    let own = mark(source.key(0).unwrap(), 0, 0, &digest);
    let forged = [&sealed_head(0, 0)[..], &own, &own, bytes].concat();
    assert!(host(&source, 0).open(&forged, &mut ChainProgress::default()).is_ok());
    assert!(host(&source, 1).open(&forged, &mut ChainProgress::default()).is_err());
}

#[test]
fn parts_that_are_left_out_repeated_or_of_another_stream_are_refused() {
    let source = ChainSource::new(1).unwrap();
    let [first, second, other] = [(0, 0), (0, 1), (1, 0)].map(|at| sealed(&source, at, b"bytes"));
    let after = |before: &[&Vec<u8>], last: &Vec<u8>| {
        let (host, mut so_far) = (host(&source, 0), ChainProgress::default());
        before.iter().for_each(|part| assert!(host.open(part, &mut so_far).is_ok()));
        host.open(last, &mut so_far).is_ok()
    };
    assert!(after(&[&first], &second));
    assert!(!after(&[], &second) && !after(&[&first], &first) && !after(&[&first], &other));
    // The same stream arrives on two connections.
    let host = host(&source, 0);
    assert!(host.open(&first, &mut ChainProgress::default()).is_ok());
    assert!(host.open(&first, &mut ChainProgress::default()).is_err());
}

#[test]
fn there_is_no_place_outside_of_the_chain() {
    let source = ChainSource::new(1).unwrap();
    let link = |place, hosts| ChainLink {
        previous: Vec::new(),
        cookie: [0; 16],
        key: source.key(0).unwrap().clone(),
        place,
        hosts,
    };
    let is_host = |place, hosts| ChainHost::new(link(place, hosts), Vec::new()).is_some();
    assert!(!is_host(0, 0) && !is_host(1, 1) && !is_host(0, 65) && is_host(63, 64));
}
