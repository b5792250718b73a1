use linerate_wire::entry::Timestamp;

use super::pieces::KEPT;
use super::*;
use crate::tree::digest::{Hashing, of_bytes};

const STATE: Timestamp = Timestamp { seconds: 1, nanoseconds: 2 };

fn key(offset: u64) -> PieceKey {
    PieceKey::of((1, 2), STATE, 1 << 40, offset)
}

fn met(number: usize) -> Arc<FanReading> {
    let fan = FanReading::new(number, None);
    let members: Vec<_> = (0..number).map(|number| fan.member(number)).collect();
    thread::scope(|scope| {
        members.iter().for_each(|member| drop(scope.spawn(|| member.meet(&Arc::default()))));
    });
    members.into_iter().for_each(std::mem::forget);
    fan
}

#[test]
fn a_piece_is_read_once_and_the_oldest_ones_are_forgotten() {
    let fan = met(2);
    let (one, other) = (fan.member(0), fan.member(1));
    let read = |member: &FanMember, offset| member.piece(key(offset), || Ok(vec![7; 1000])).unwrap();
    for offset in [0, PIECE, PIECE + 5] {
        assert_eq!(read(&one, offset).bytes(), read(&other, offset).bytes());
    }
    assert_eq!(fan.read(), 2000);
    (0..=KEPT / PIECE).for_each(|number| drop(read(&one, (number + 2) * PIECE)));
    assert!(lock(&fan.kept).bytes <= KEPT);
    let before = fan.read();
    read(&other, 0);
    assert_eq!(fan.read(), before + 1000);
    std::mem::forget((one, other));
}

#[test]
fn what_one_can_not_read_another_tries_again() {
    let fan = met(2);
    let (one, other) = (fan.member(0), fan.member(1));
    assert!(one.piece(key(0), || Err(Errno::IO)).is_err());
    assert_eq!(other.piece(key(0), || Ok(vec![1])).unwrap().bytes(), [1]);
    std::mem::forget((one, other));
}

#[test]
fn one_that_stands_still_holds_the_others_up_for_a_short_time() {
    let fan = met(3);
    let members = [0, 1, 2].map(|number| fan.member(number));
    let (begun, stop) = (Instant::now(), AtomicBool::new(false));
    for _ in 0..40 {
        members[..2].iter().for_each(|member| _ = member.advance(8 << 20, &stop));
    }
    let took = begun.elapsed();
    assert!(took >= LEAST_WAIT && took < 3 * LEAST_WAIT, "{took:?}");
    assert!(fan.was_left_behind(2) && !fan.was_left_behind(0) && !fan.was_left_behind(1));
    assert!(!members[2].advance(1, &stop), "it waits for nobody");
    assert!(fan.was_left_behind(2), "it is far from the others");
    members.into_iter().for_each(std::mem::forget);
}

#[test]
fn nobody_waits_for_one_that_has_ended_or_for_what_it_has_already() {
    let fan = met(3);
    let members = [0, 1].map(|number| fan.member(number));
    drop(fan.member(2));
    let counters = fan.members[1].counters.get().unwrap();
    counters.unchanged.bytes(1 << 40);
    let stop = AtomicBool::new(false);
    assert!(!members[0].advance(1 << 30, &stop));
    members.into_iter().for_each(std::mem::forget);
}

#[test]
fn pieces_hash_to_the_root_of_their_file() {
    let size = 3 * PIECE as usize + 1234;
    let bytes: Vec<u8> = (0..size).map(|at| ((at * 31) >> 3) as u8).collect();
    let fan = met(1);
    let member = fan.member(0);
    let mut whole = Hashing::of(0, size as u64, size as u64).unwrap();
    for (number, piece) in bytes.chunks(PIECE as usize).enumerate() {
        let key = PieceKey::of((1, 2), STATE, size as u64, number as u64 * PIECE);
        let piece = member.piece(key, || Ok(piece.to_vec())).unwrap();
        whole.part(key.offset, key.length(), piece.digest().unwrap());
    }
    assert_eq!(whole.finish(), of_bytes(&bytes));
    std::mem::forget(member);
}

/// Runs several transfers that share one link, until each has sent `all` bytes. In each of its turns,
/// transfer N sends `turns[N]` bytes. Returns the time at which each transfer was complete.
fn race(fan: &Arc<FanReading>, turns: &[u64], all: u64) -> Vec<Duration> {
    let stop = AtomicBool::new(false);
    let link = Mutex::new(());
    let begun = Instant::now();
    thread::scope(|scope| {
        let runners: Vec<_> = turns
            .iter()
            .enumerate()
            .map(|(number, &turn)| {
                let (link, stop, member) = (&link, &stop, fan.member(number));
                scope.spawn(move || {
                    let mut sent = 0;
                    while sent < all {
                        {
                            let _mine = lock(link);
                            thread::sleep(Duration::from_millis(1));
                        }
                        member.advance(turn, stop);
                        sent += turn;
                    }
                    begun.elapsed()
                })
            })
            .collect();
        runners.into_iter().map(|runner| runner.join().unwrap()).collect()
    })
}

#[test]
fn those_who_share_a_link_wait_for_each_other_however_unevenly_it_serves_them() {
    let fan = met(4);
    // One transfer gets a third more of the link than the others. Without waits it would end much sooner.
    race(&fan, &[4 << 20, 3 << 20, 3 << 20, 3 << 20], 600 << 20);
    (0..4).for_each(|number| assert!(!fan.was_left_behind(number), "{number}"));
}

#[test]
fn one_that_came_late_and_is_near_is_waited_for() {
    let fan = met(2);
    let (one, other) = (fan.member(0), fan.member(1));
    fan.members[1].is_alone.store(true, Ordering::Release);
    fan.members[1].was_left_behind.store(true, Ordering::Release);
    let stop = AtomicBool::new(false);
    one.advance(AHEAD, &stop);
    other.advance(1, &stop);
    assert!(!fan.was_left_behind(1) && fan.members[1].holds_back(2 * AHEAD));
    std::mem::forget((one, other));
}

#[test]
fn what_one_still_needs_is_kept_before_what_all_have_had() {
    let fan = met(2);
    let (one, other) = (fan.member(0), fan.member(1));
    let read = |member: &FanMember, offset| member.piece(key(offset), || Ok(vec![7; 1000])).unwrap();
    // One stream of the transfer is slower than its other streams.
    read(&one, 0);
    for number in 1..=4 * KEPT / PIECE {
        read(&one, number * PIECE);
        read(&other, number * PIECE);
    }
    let before = fan.read();
    read(&other, 0);
    assert_eq!(fan.read(), before);
    let kept = lock(&fan.kept);
    assert!(kept.bytes <= KEPT && kept.order.len() <= 2 * kept.slots.len() + 1024);
    std::mem::forget((one, other));
}
