use super::super::packet::tests::{Sample, wire};
use super::super::{Loss, Rtt};
use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn wan(rtt: &str, loss: &str) -> Wan {
    let (rtt, loss): (Rtt, Loss) = (rtt.parse().expect("a time"), loss.parse().expect("a share"));
    Wan { rtt, loss, ..Wan::default() }
}

fn line(rate: &str, wan: &Wan) -> LinkLine {
    LinkLine::new(crate::rate::parse_link(rate).expect("a rate"), wan, 11)
}

fn offer(line: &mut LinkLine, now: u64, bytes: &[u8]) {
    line.buffer()[..bytes.len()].copy_from_slice(bytes);
    line.accept(ReadTimes { since: now, now }, bytes.len());
}

/// All packets in flight, with the times at which they arrive.
fn drain(line: &mut LinkLine) -> Vec<(u64, Vec<u8>)> {
    let mut arrived = Vec::new();
    while let Some(release) = line.next_release() {
        assert!(release.checked_sub(1).is_none_or(|before| line.arrived(before).is_none()));
        arrived.push((release, line.arrived(release).expect("it is time").to_vec()));
        line.hand_over(release);
    }
    arrived
}

#[test]
fn an_open_link_only_delays() {
    let mut line = line("open", &wan("50ms", "0%"));
    let packet = Sample::of(45, 1).bytes();
    offer(&mut line, 3 * MS, &packet);
    assert_eq!(drain(&mut line), [(28 * MS, packet)]);
}

#[test]
fn headers_of_every_segment_take_their_time() {
    let mut line = line("10gbit", &wan("10ms", "0%"));
    let packet = Sample::of(45, 1).bytes();
    let (mut now, mut arrived, mut last) = (0, 0u64, 0);
    // Send as much as the queue accepts, for half a simulated second.
    while now < 500 * MS {
        offer(&mut line, now, &packet);
        while let Some(piece) = line.arrived(now) {
            arrived += piece.len() as u64 - 62;
            last = now;
            line.hand_over(now);
        }
        now += 40_000;
    }
    let gigabits = arrived as f64 * 8.0 / (last - 5 * MS) as f64;
    // 1448 of 1538 bytes are payload.
    assert!((gigabits - 9.415).abs() < 0.02, "{gigabits} Gbit/s");
    let SegmentCounts { segments, dropped, .. } = line.counts();
    assert!((0.1..0.3).contains(&(dropped as f64 / segments as f64)), "13 Gbit/s were offered");
}

#[test]
fn loss_is_by_segment_and_spares_the_others() {
    for (share, packets) in [("1%", 2_000), ("20%", 200)] {
        let mut line = line("open", &wan("0ms", share));
        let (mut arrived, mut expected_next) = (0usize, 0u32);
        for number in 0..packets {
            offer(&mut line, number, &Sample::of(45, number as u32 * 45 * 1448).bytes());
            for (_, piece) in drain(&mut line) {
                for packet in wire(&piece) {
                    let sequence = u32::from_be_bytes([24, 25, 26, 27].map(|at| packet[at]));
                    assert!(sequence.wrapping_sub(expected_next) < 1 << 31, "in order");
                    expected_next = sequence.wrapping_add(1448);
                    arrived += 1;
                }
            }
        }
        let sent = packets as usize * 45;
        let lost = sent - arrived;
        let expected = share.parse::<Loss>().expect("a share").share() * sent as f64;
        assert!((lost as f64 / expected - 1.0).abs() < 0.1, "{share}: {lost} of {sent}");
        assert_eq!(
            line.counts(),
            SegmentCounts { segments: sent as u64, lost: lost as u64, dropped: 0, latest_ns: 0 }
        );
    }
}

#[test]
fn a_full_queue_drops_the_tail_of_a_super_packet() {
    let mut line = line("1gbit", &Wan { queue: Some(100_000), ..wan("0ms", "0%") });
    offer(&mut line, 0, &Sample::of(40, 0).bytes());
    offer(&mut line, 0, &Sample::of(40, 40 * 1448).bytes());
    let arrived: Vec<_> = drain(&mut line).iter().flat_map(|(_, piece)| wire(piece)).collect();
    // The queue holds 65 frames of 1538 bytes.
    assert_eq!((arrived.len(), line.counts().dropped), (65, 15));
}

#[test]
fn a_slow_link_hands_over_in_parts() {
    let mut line = line("10mbit", &Wan { queue: Some(1_000_000), ..wan("20ms", "0%") });
    let packet = Sample::of(40, 0).bytes();
    offer(&mut line, 0, &packet);
    let arrived = drain(&mut line);
    assert_eq!(arrived.len(), 40, "a segment takes 1.23 ms");
    assert_eq!(arrived[0].0, 10 * MS + 1_230_400);
    assert_eq!(arrived[39].0, 10 * MS + 40 * 1_230_400);
    let packets: Vec<_> = arrived.iter().flat_map(|(_, piece)| wire(piece)).collect();
    assert!(packets == wire(&packet));
}

#[test]
fn a_queue_smaller_than_a_packet_lets_a_free_link_send() {
    let mut line = line("1gbit", &Wan { queue: Some(1), ..wan("0ms", "0%") });
    for number in 0..3 {
        offer(&mut line, number * MS, &Sample::of(2, 0).bytes());
    }
    assert_eq!((drain(&mut line).len(), line.counts().dropped), (3, 3));
}

#[test]
fn without_memory_packets_are_dropped_and_counted() {
    let mut line = line("1mbit", &Wan { queue: Some(u64::from(u32::MAX)), ..wan("0ms", "0%") });
    line.fifo = Fifo::new(0);
    for number in 0..20 {
        offer(&mut line, number, &Sample::of(45, 0).bytes());
    }
    let arrived: usize = drain(&mut line).iter().map(|(_, piece)| wire(piece).len()).sum();
    let SegmentCounts { segments, dropped, .. } = line.counts();
    assert_eq!((segments, arrived as u64 + dropped), (900, 900));
    assert!((100..200).contains(&arrived), "{arrived} segments in memory for four super-packets");
}

#[test]
fn late_hands_are_seen() {
    let mut line = line("open", &wan("2ms", "0%"));
    offer(&mut line, 0, &Sample::of(1, 0).bytes());
    line.hand_over(4 * MS);
    assert_eq!(line.counts().latest_ns, 3 * MS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_segment_arrives_is_lost_or_dropped(
        offers in proptest::collection::vec((0..300_000u64, 1..46usize), 1..80),
        rate in prop::sample::select(vec!["open", "10gbit", "100mbit", "64kbit"]),
        loss in prop::sample::select(vec!["0%", "1%", "50%"]),
        queue in prop::option::of(0..500_000u64),
    ) {
        let mut line = line(rate, &Wan { queue, ..wan("1ms", loss) });
        let (mut now, mut sequence, mut sent) = (0, 0u32, Vec::new());
        for (pause, segments) in offers {
            now += pause;
            let packet = Sample::of(segments, sequence).bytes();
            sequence = sequence.wrapping_add(segments as u32 * 1448);
            sent.extend(wire(&packet));
            offer(&mut line, now, &packet);
        }
        let arrivals = drain(&mut line);
        prop_assert!(arrivals.is_sorted_by_key(|(time, _)| *time));
        let arrived: Vec<_> = arrivals.iter().flat_map(|(_, piece)| wire(piece)).collect();
        let SegmentCounts { segments, lost, dropped, .. } = line.counts();
        prop_assert_eq!((sent.len() as u64, arrived.len() as u64), (segments, segments - lost - dropped));
        // Packets arrive in the order in which they were sent, unchanged.
        let mut rest = sent.iter();
        prop_assert!(arrived.iter().all(|packet| rest.any(|original| original == packet)));
        prop_assert!(loss != "0%" || lost == 0);
    }
}
