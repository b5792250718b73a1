//! Tests of real labs: their contents, and that nothing is left of them.

mod common;

use std::process::Command;

use common::{by_ssh, can_make_labs, on, options, remains, text};
use linerate_lab::{End, Lab, LabError, LabOptions, down, status};
use linerate_testing::has;

/// The shaper's rate in bits per second at an end of the link, as the kernel reports it; `None` for an open
/// link.
fn shaped(lab: &Lab, end: End) -> Option<u64> {
    let interface = lab.host(end).interface.clone();
    let listed = text(&on(lab, end, &["tc", "-j", "qdisc", "show", "dev", &interface]));
    let qdiscs: serde_json::Value = serde_json::from_str(&listed).expect("tc writes JSON");
    let tbf = qdiscs.as_array()?.iter().find(|qdisc| qdisc["kind"] == "tbf")?;
    tbf["options"]["rate"].as_u64().map(|bytes| bytes * 8)
}

#[test]
fn a_lab_works_and_leaves_nothing() {
    if !can_make_labs() {
        return;
    }
    let options = options("whole", "2.5gbit");
    let lab = Lab::up(&options).expect("a lab");
    let name = lab.name().to_string();
    assert_eq!([End::A, End::B].map(|end| shaped(&lab, end)), [Some(2_500_000_000); 2]);

    let seen = text(&by_ssh(&lab, "ip -j address; echo; echo $LINERATE_LAB; command -v tc"));
    assert!(seen.contains(&lab.address(End::B).to_string()) && seen.contains(&name), "{seen}");
    assert!(seen.contains("/tc"), "administration programs are found: {seen}");
    if lab.address6(End::B).is_some() {
        let config = lab.ssh_config();
        text(&on(&lab, End::A, &["ssh", "-F", config.to_str().expect("plain"), "b6", "true"]));
    }
    let routes = text(&on(&lab, End::A, &["ip", "route"]));
    let congestion = lab.description().congestion.clone();
    assert!(congestion.is_none_or(|name| routes.contains(&format!("congctl {name}"))), "{routes}");

    let forgets = text(&on(&lab, End::A, &["cat", "/proc/sys/net/ipv4/tcp_no_metrics_save"]));
    assert_eq!(forgets.trim(), "1");
    assert!(lab.scratch().is_dir());
    std::fs::write(lab.scratch().join("data"), "x").expect("writable");
    assert!(!remains(&name).is_empty(), "or the last line of this test could not fail");
    lab.down().expect("all of it goes");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn what_still_runs_in_a_dropped_lab_ends() {
    if !can_make_labs() {
        return;
    }
    let lab = Lab::up(&options("drop", "open")).expect("a lab");
    let name = lab.name().to_string();
    assert_eq!(shaped(&lab, End::A), None);
    let argv = ["sleep".into(), "600".into()];
    let mut near = lab.place(End::A).command(&argv).expect("well-formed").spawn().expect("sleep runs");
    let mut far = lab.place(End::B).command(&argv).expect("well-formed").spawn().expect("sleep runs");
    drop(lab);
    assert!(!near.wait().expect("our child").success());
    assert!(!far.wait().expect("our child").success());
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn two_labs_do_not_meet() {
    if !can_make_labs() {
        return;
    }
    let one = Lab::up(&options("one", "1gbit")).expect("a lab");
    let two = Lab::up(&options("two", "100mbit")).expect("another");
    assert_ne!(one.address(End::B), two.address(End::B));
    assert_eq!((shaped(&one, End::B), shaped(&two, End::B)), (Some(1_000_000_000), Some(100_000_000)));
    for lab in [&one, &two] {
        assert_eq!(text(&by_ssh(lab, "echo $LINERATE_LAB")).trim(), lab.name().as_str());
    }
    let again = Lab::up(&LabOptions { name: Some(one.name().clone()), ..LabOptions::default() });
    assert!(matches!(again, Err(LabError::Exists { holder, .. }) if holder == std::process::id()));
    text(&by_ssh(&one, "true"));
    one.down().expect("all of it goes");
    text(&by_ssh(&two, "true"));
}

#[test]
fn a_kept_lab_stays_until_it_is_taken_down() {
    if !can_make_labs() {
        return;
    }
    let lab = Lab::up(&LabOptions { kept: true, ..options("kept", "open") }).expect("a lab");
    let (name, namespace) = (lab.name().clone(), lab.host(End::A).namespace.clone());
    drop(lab);
    let shown = status().expect("readable").into_iter().find(|lab| lab.description.name == name);
    let shown = shown.expect("it is listed");
    assert!(shown.alive && shown.kept && shown.holder != std::process::id());
    let login = Command::new("ip")
        .args(["netns", "exec", &namespace, "ssh", "-F"])
        .arg(&shown.ssh_config)
        .args(["b", "true"])
        .output();
    text(&login.expect("ip runs"));
    assert_eq!(down(Some(&name)).expect("all of it goes"), name);
    assert_eq!(remains(name.as_str()), Vec::<String>::new());
    assert!(matches!(down(Some(&name)), Err(LabError::Unknown { .. })));
}

#[test]
fn buffers_congestion_and_packet_size_are_options() {
    if !can_make_labs() {
        return;
    }
    let asked = LabOptions {
        mtu: Some(9000),
        congestion: Some("reno".into()),
        tcp_buffer_max: Some(64 << 20),
        ..options("options", "open")
    };
    let lab = Lab::up(&asked).expect("a lab");
    for end in [End::A, End::B] {
        let seen =
            text(&on(&lab, end, &["sh", "-c", "cat /proc/sys/net/ipv4/tcp_[rw]mem; ip route; ip link"]));
        assert_eq!(seen.matches("67108864").count(), 2, "{seen}");
        assert!(seen.contains("congctl reno") && seen.contains("mtu 9000"), "{seen}");
    }
}

#[test]
fn a_failure_half_way_leaves_nothing() {
    if !can_make_labs() {
        return;
    }
    // The namespaces and the link are there when this route is refused.
    let asked = LabOptions { congestion: Some("teleport".into()), ..options("half", "open") };
    let name = asked.name.clone().expect("given");
    let error = Lab::up(&asked).expect_err("no kernel has it").to_string();
    assert!(error.contains("congctl teleport"), "{error}");
    assert_eq!(remains(name.as_str()), Vec::<String>::new());
}

#[test]
fn the_rate_is_what_a_stream_gets() {
    if !can_make_labs() || !has("iperf3") {
        return;
    }
    let lab = Lab::up(&options("rate", "1gbit")).expect("a lab");
    let address = lab.address(End::B).to_string();
    let serve = ["iperf3", "-s", "-1"].map(Into::into);
    let mut server = lab.place(End::B).command(&serve).expect("well-formed");
    let mut server = server.stdout(std::process::Stdio::null()).spawn().expect("iperf3 runs");
    let mut measured = None;
    assert!(common::within(std::time::Duration::from_secs(10), || {
        // Refused until the server listens.
        let output = on(&lab, End::A, &["iperf3", "-c", &address, "-t", "2", "-J"]);
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        measured = result["end"]["sum_received"]["bits_per_second"].as_f64();
        measured.is_some()
    }));
    server.wait().expect("it serves one client");
    let megabits = measured.expect("just seen") / 1e6;
    // Headers take 4.3 % of frames of 1514 bytes.
    assert!((860.0..=960.0).contains(&megabits), "{megabits} Mbit/s of payload on a link of 1 Gbit/s");
}

#[test]
fn each_of_several_links_carries_its_own_traffic() {
    if !can_make_labs() {
        return;
    }
    let asked = LabOptions { links: Some(4), queues: Some(2), ..options("links", "100mbit") };
    let lab = Lab::up(&asked).expect("a lab");
    let name = lab.name().to_string();
    let addresses = lab.addresses(End::B);
    assert_eq!(addresses.len(), 4);
    let reported = lab.environment().into_iter().find(|(name, _)| *name == "LINERATE_LAB_ADDRESSES_B");
    assert_eq!(reported.expect("it is there").1.to_string_lossy().split(' ').count(), 4);
    for (port, address) in lab.host(End::A).ports().iter().zip(&addresses) {
        let seen = || {
            let line = format!("ip -s -j link show {}", port.interface);
            let links: serde_json::Value =
                serde_json::from_str(&text(&on(&lab, End::A, &["sh", "-c", &line]))).expect("JSON");
            links[0]["stats64"]["tx"]["bytes"].as_u64().expect("a count")
        };
        let before = seen();
        let config = lab.ssh_config();
        let copy = format!("head -c 300000 /dev/zero | ssh -F {} {address} wc -c", config.display());
        assert_eq!(text(&on(&lab, End::A, &["sh", "-c", &copy])).trim(), "300000");
        let passed = seen() - before;
        assert!(passed > 300_000, "{passed} bytes over {}", port.interface);
        let qdisc = text(&on(&lab, End::A, &["tc", "qdisc", "show", "dev", &port.interface]));
        assert!(qdisc.contains("tbf") && qdisc.contains("100Mbit"), "{qdisc}");
    }
    lab.down().expect("all of it goes");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn guests_are_reached_over_the_one_link() {
    if !can_make_labs() {
        return;
    }
    let lab = Lab::up(&LabOptions { guests: 3, ..options("guests", "100mbit") }).expect("a lab");
    let name = lab.name().to_string();
    text(&by_ssh(&lab, "true"));
    for guest in lab.guests() {
        let route = text(&on(&lab, End::A, &["ip", "route", "get", &guest.address.to_string()]));
        assert!(route.contains("to-b"), "{route}");
        let file = std::path::Path::new("/run/netns").join(&guest.namespace);
        let place = linerate_remote::place::Place::Namespace(file);
        let argv = ["ip", "-4", "-o", "address", "show", "to-a"].map(Into::into);
        let shown = place.command(&argv).and_then(|mut command| command.output()).expect("ip runs");
        assert!(text(&shown).contains(&guest.address.to_string()));
        let argv =
            ["bash", "-c", "exec 3<>/dev/tcp/$0/22 && head -c 4 <&3", &lab.address(End::A).to_string()];
        // Nobody listens on a: what counts is that the refusal comes back.
        let argv: Vec<std::ffi::OsString> = argv.iter().map(Into::into).collect();
        let said = place.command(&argv).and_then(|mut command| command.output()).expect("bash runs");
        assert!(String::from_utf8_lossy(&said.stderr).contains("refused"), "{said:?}");
    }
    lab.down().expect("all of it goes");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn a_shape_that_no_lab_has_is_refused() {
    if !can_make_labs() {
        return;
    }
    let refused = |options: LabOptions| {
        let error = Lab::up(&options).expect_err("no lab");
        assert!(matches!(error, LabError::Shape { .. }), "{error}");
    };
    refused(LabOptions { links: Some(9), ..options("nine", "open") });
    refused(LabOptions { links: Some(2), guests: 13, ..options("both", "open") });
    refused(LabOptions { guests: 65, ..options("many", "open") });
    refused(LabOptions { queues: Some(65), ..options("queues", "open") });
}
