//! Tests of the controller with simulated transfers. A function computes each transfer's rate from the number
//! of its streams.

use super::*;

/// The behaviour of a transfer with some number of streams: its payload rate in bytes per second, and the
/// shares of time for which threads work.
struct Seen {
    rate: f64,
    sender: f64,
    receiver: f64,
    /// The share of time for which the receiver's threads wait for files.
    files: f64,
    /// The share of time for which the receiving host's processors are busy.
    busy: f64,
    /// True if a CPU quota stops the receiver.
    is_stopped: bool,
    is_held: bool,
}

const NOTHING: Seen =
    Seen { rate: 0.0, sender: 0.2, receiver: 0.2, files: 0.0, busy: 0.1, is_stopped: false, is_held: false };

/// Simulates a transfer over a path with `round_trip`. `seen` computes the transfer's behaviour from the time
/// in seconds and the number of streams. Returns the number of streams after each tenth of a second.
fn simulate(first: u32, round_trip: Duration, seconds: u32, seen: impl Fn(f64, u32) -> Seen) -> Vec<u32> {
    simulate_over(0, first, round_trip, seconds, seen)
}

/// Simulates a transfer as [`simulate`] does, over `links` links.
fn simulate_over(
    links: u32,
    first: u32,
    round_trip: Duration,
    seconds: u32,
    seen: impl Fn(f64, u32) -> Seen,
) -> Vec<u32> {
    let begun = Instant::now();
    let mut controller = Controller::new(first, begun);
    controller.keep_at_least(links);
    let (mut sender, mut receiver) = (Stages::default(), Stages::default());
    let (mut streams, mut numbers) = (first, Vec::new());
    for tick in 1..=seconds * 10 {
        let now = seen(f64::from(tick) / 10.0, streams);
        let time = f64::from(streams) * 1e8;
        sender.bytes += (now.rate / 10.0) as u64;
        for (stages, threads) in [(&mut sender, now.sender), (&mut receiver, now.receiver)] {
            stages.lifetime += time as u64;
            stages.clocked += time as u64;
            stages.cpu += (time * threads) as u64;
            stages.host_time += 200_000_000;
            stages.host_busy += (now.busy * 2e8) as u64;
        }
        receiver.write += (time * now.files) as u64;
        receiver.quota_stops += u64::from(now.is_stopped);
        sender.tcp_looks += 1;
        sender.tcp_rtt += round_trip.as_micros() as u64;
        sender.tcp_min_rtt += round_trip.as_micros() as u64;
        let at = begun + Duration::from_millis(u64::from(tick) * 100);
        match controller.advise(Glance { at, sender, receiver, is_held: now.is_held }) {
            Advice::Keep => {}
            Advice::Add(count) => streams += count,
            Advice::Drop(count) => streams -= count,
        }
        assert_eq!(controller.streams(), streams);
        numbers.push(streams);
    }
    numbers
}

const SHORT: Duration = Duration::from_micros(80);
const LONG: Duration = Duration::from_millis(50);

#[test]
fn full_threads_get_more_where_processors_are_idle_and_that_within_half_a_second() {
    let threads = |busy: fn(u32) -> f64| {
        simulate(FIRST, SHORT, 3, move |_, streams| Seen {
            rate: f64::from(streams.min(8)) * 1e9,
            receiver: 1.0,
            busy: busy(streams),
            ..NOTHING
        })
    };
    let idle = threads(|streams| f64::from(streams) / 16.0);
    assert_eq!((idle[5], *idle.last().unwrap()), (4, 8), "{idle:?}");
    let busy = threads(|_| 0.97);
    assert!(busy.iter().all(|streams| *streams == FIRST), "{busy:?}");
}

/// A quota stops all threads together, so that further ones would only share it.
#[test]
fn threads_that_a_quota_stops_get_no_company_even_if_processors_are_idle() {
    let stopped = |_, _| Seen { rate: 1e9, receiver: 1.0, busy: 0.1, is_stopped: true, ..NOTHING };
    assert_eq!(simulate(FIRST, SHORT, 3, stopped).iter().max(), Some(&FIRST));
}

#[test]
fn a_trial_that_brings_nothing_is_undone_and_repeated_ever_more_seldom() {
    let numbers = simulate(FIRST, SHORT, 60, |_, _| Seen { rate: 1e9, sender: 0.95, ..NOTHING });
    let trials = numbers.windows(2).filter(|pair| pair[1] > pair[0]).count();
    assert!((4..=6).contains(&trials), "{trials}: {numbers:?}");
    assert!(numbers.iter().filter(|streams| **streams > FIRST).count() < 30, "{numbers:?}");
}

#[test]
fn a_long_path_that_is_not_full_gets_more_whoever_else_uses_the_processors() {
    for busy in [0.1, 1.0] {
        let numbers = simulate(FIRST_FAR, LONG, 6, |_, streams| Seen {
            rate: f64::from(streams) * 4e6,
            busy,
            ..NOTHING
        });
        assert_eq!(*numbers.last().unwrap(), MOST_STREAMS, "{numbers:?}");
    }
}

#[test]
fn a_full_long_path_keeps_its_streams() {
    let numbers = simulate(FIRST_FAR, LONG, 20, |_, _| Seen { rate: 1.2e8, is_held: true, ..NOTHING });
    assert!(numbers.iter().all(|streams| *streams == FIRST_FAR), "{numbers:?}");
}

#[test]
fn a_full_short_path_goes_back_to_one_stream_where_one_fills_it() {
    let full = |alone: f64| {
        simulate(FIRST, SHORT, 10, move |_, streams| Seen {
            rate: if streams == 1 { alone } else { 1.2e9 },
            receiver: 0.75 / f64::from(streams),
            is_held: true,
            ..NOTHING
        })
    };
    let enough = full(1.2e9);
    assert_eq!(enough[6..], [1; 94], "{enough:?}");
    // If one stream proves to be too few, the second stream is added again, and dropping it is tried ever
    // more rarely.
    let not_enough = full(1.1e9);
    assert_eq!(not_enough.iter().filter(|streams| **streams == 1).count(), 12, "{not_enough:?}");
}

#[test]
fn each_of_several_full_links_keeps_a_stream() {
    let full = |_, _| Seen { rate: 4e8, receiver: 0.1, is_held: true, ..NOTHING };
    let numbers = simulate_over(4, 6, SHORT, 10, full);
    assert_eq!(numbers.iter().min(), Some(&4), "{numbers:?}");
}

#[test]
fn a_stream_whose_thread_fills_up_later_gets_company_again() {
    let numbers = simulate(FIRST, SHORT, 10, |second, streams| {
        let slow = if second < 4.0 { 0.7 } else { 1.4 };
        let work = (slow / f64::from(streams)).min(1.0);
        let rate = if slow > 1.0 { 1.2e9 * work * f64::from(streams) / slow } else { 1.2e9 };
        Seen { rate, receiver: work, is_held: slow < 1.0, ..NOTHING }
    });
    assert_eq!((numbers[35], numbers[50], numbers[99]), (1, 2, 2), "{numbers:?}");
}

#[test]
fn storage_that_answers_slowly_is_asked_by_more_after_a_second() {
    let numbers = simulate(FIRST, SHORT, 5, |_, streams| Seen {
        rate: f64::from(streams.min(8)) * 1e8,
        files: 0.9,
        ..NOTHING
    });
    assert!(numbers[..10].iter().all(|streams| *streams == FIRST), "{numbers:?}");
    assert_eq!(*numbers.last().unwrap(), 8, "{numbers:?}");
}

/// The number is replaced at each tenth of the first second, because a trial lasts for several tenths.
#[test]
fn a_trial_ends_where_the_number_of_streams_is_replaced() {
    for tick in 1..=10 {
        let begun = Instant::now();
        let mut controller = Controller::new(FIRST, begun);
        let mut sender = Stages::default();
        for now in 1..=40 {
            if now == tick {
                controller.begin_with(1);
            }
            let streams = u64::from(controller.streams());
            sender.bytes += 100_000_000;
            sender.lifetime += streams * 100_000_000;
            sender.clocked += streams * 100_000_000;
            sender.cpu += streams * 100_000_000;
            (sender.host_time, sender.host_busy) =
                (sender.host_time + 200_000_000, sender.host_busy + 20_000_000);
            let at = begun + Duration::from_millis(now * 100);
            controller.advise(Glance { at, sender, receiver: sender, is_held: false });
            assert!((1..=MOST_STREAMS).contains(&controller.streams()), "begun at {tick}, at {now}");
        }
    }
}

#[test]
fn a_scan_or_a_limit_that_holds_the_workers_up_needs_no_more_of_them() {
    let begun = Instant::now();
    let mut controller = Controller::new(FIRST, begun);
    let mut sender = Stages::default();
    for tick in 1..100 {
        (sender.bytes, sender.lifetime, sender.queue) = (tick * 1000, tick * 1000, tick * 900);
        (sender.tcp_looks, sender.tcp_rtt, sender.tcp_min_rtt) = (tick, tick * 50_000, tick * 50_000);
        let at = begun + Duration::from_millis(tick * 100);
        let glance = Glance { at, sender, receiver: Stages::default(), is_held: false };
        assert_eq!(controller.advise(glance), Advice::Keep);
    }
}
