//! The memory of real modules. These dumps were published on mailing lists and in issue trackers. The lines that
//! consist of zeros were removed from the dumps.

use proptest::prelude::*;

use super::*;

/// A 10GBASE-SR module in a port without a fibre.
const SR: &str = "\
0000 03040710000000000000000667000000
0010 0803001e496e74656c20436f72702020
0020 2020202000001b2146544c5838353734
0030 4433424e4c2d49544120202003520089
0040 001a00004134314153594b2020202020
0050 20202020323030373036202068f005e4
0100 5d00f3005800f800908871488ca07530
0110 196407d0186a09c4271009d01f070c5a
0120 271000641f07009e0000000000000000
0140 000000003f8000000000000001000000
0150 010000000100000001000000000000a3
0160 235685e010f816940015000000003200
0170 0040000000400100ffffffffffffff01
";

/// An active optical cable of 5 m. The cable states that its connector is a copper pigtail, and measures no values.
const CABLE: &str = "\
0000 03042100000000000800000667000000
0010 000005004d696b726f54696b20202020
0020 2020202000000000532b414f30303035
0030 2020202020202020312e30200c00005a
0040 00120000535453543035304231393030
0050 30303120323130353135202000000525
";

/// A 100G active optical cable of 5 m, with its first lane switched off.
const QUAD: &str = "\
0000 11080010001000000000000000000000
0010 0000000000001385000080d300000000
0020 000032c934d92bb92f4300000f9f0f80
0030 0f800001361734d23043000000000000
0060 0000ff00000000000000000000040800
0080 118c23800000000000000007ff000000
0090 0000050046494e4953415220434f5250
00a0 20202020000090654643425234323551
00b0 45324330352d4d534130426800000030
00c0 0107ffdc553353414836372020202020
00d0 202020203230303730372020380067e3
00e0 20202020202020202020202020202020
0200 4b00fb00460000000000000000000000
0210 8dcc7404875a79180000000000000000
0230 5576018e43e2031a177005dc157c07d0
0240 7b8703e84df106310000000000000000
0260 a70f0000000000000000222222223333
";

/// A 400G copper cable with CMIS.
const DENSE: &str = "\
0000 18400007000000000000000000001700
0010 82000000000000001780000000000000
0020 00000000000000010000000000000000
0050 00000000000300000000000000000000
0070 00001100880000000000000000000000
0080 18434953434f20202020202020202020
0090 200006f636382d3130333230352d3032
00a0 20202020322046414232363131303043
00b0 51202020202032323130313820200000
00c0 0000000000000000e078000000000000
00d0 0000000000000000000000000000f900
00e0 1b000700000000000000000000000000
";

/// A module that the driver misread: some bytes of address A2h are in the place of bytes of address A0h.
const MISREAD: &str = "\
0000 0300f3005800f800908871488ca07530
0010 196407d0186a09c4271009d01f070c5a
0020 271000641f07009e0000000000000000
";

/// A dump with its lines of zeros inserted again.
fn whole(text: &str, length: usize) -> String {
    let mut bytes = vec![0; length];
    for line in text.lines() {
        let (offset, digits) = line.split_once(' ').unwrap();
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for at in 0..16 {
            bytes[offset + at] = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
        }
    }
    lines(&bytes)
}

fn module(text: &str, length: usize) -> Module {
    match Module::parse(&whole(text, length)) {
        Fact::Known(module) => module,
        other => panic!("{other:?}"),
    }
}

fn known(text: &str) -> Fact<String> {
    Fact::Known(text.into())
}

fn reach(name: &str, metres: f64) -> ModuleReach {
    ModuleReach { name: name.into(), metres }
}

#[test]
fn an_sfp_is_read_as_its_maker_describes_it() {
    let module = module(SR, 512);
    assert_eq!((module.form.as_str(), &module.connector), ("SFP", &known("LC")));
    assert_eq!((&module.vendor, &module.part), (&known("Intel Corp"), &known("FTLX8574D3BNL-IT")));
    assert_eq!(
        (&module.standards, module.fastest_mbps()),
        (&Fact::Known(vec!["10GBASE-SR".into()]), Some(10_000))
    );
    assert_eq!((module.wavelength_nm.get(), module.rate_mbd.get()), (Some(850.0), Some(10_300)));
    assert_eq!((module.cable.get(), module.max_watts.get()), (None, Some(1.0)));
    assert_eq!(module.reach, Fact::Known(vec![reach("OM3", 300.0), reach("OM2", 80.0), reach("OM1", 30.0)]));
    let temperature = module.temperature.known().unwrap();
    assert_eq!(temperature.values, [35.335_937_5]);
    let limits = temperature.limits.get().unwrap();
    assert_eq!(
        (limits.low_alarm, limits.low_warning, limits.high_warning, limits.high_alarm),
        (-13.0, -8.0, 88.0, 93.0)
    );
    assert_eq!(module.voltage.known().unwrap().values, [3.4272]);
    assert_eq!(module.tx_power.known().unwrap().values, [0.578]);
    let light = module.rx_power.known().unwrap();
    assert_eq!(
        (light.lowest(), light.limits.get().map(|l| (l.low_alarm, l.low_warning))),
        (Some(0.0021), Some((0.01, 0.0158)))
    );
}

#[test]
fn a_cable_has_a_length_and_no_wavelength() {
    let module = module(CABLE, 512);
    assert_eq!((module.cable.get(), &module.part), (Some(CableKind::Active), &known("S+AO0005")));
    assert_eq!(
        (&module.connector, &module.reach),
        (&known("copper pigtail"), &Fact::Known(vec![reach("cable", 5.0)]))
    );
    assert_eq!((&module.wavelength_nm, &module.standards), (&Fact::NotApplicable, &Fact::NotApplicable));
    assert_eq!((&module.temperature, &module.rx_power), (&Fact::NotApplicable, &Fact::NotApplicable));
}

#[test]
fn a_qsfp_has_values_by_lane() {
    let module = module(QUAD, 640);
    assert_eq!((module.form.as_str(), module.cable.get()), ("QSFP28", Some(CableKind::ActiveOptical)));
    assert_eq!((&module.vendor, &module.part), (&known("FINISAR CORP"), &known("FCBR425QE2C05-MS")));
    assert_eq!(
        (module.max_watts.get(), module.wavelength_nm.get(), module.rate_mbd.get()),
        (Some(2.5), Some(850.0), Some(25_750))
    );
    assert_eq!(
        (&module.standards, &module.reach),
        (&Fact::Known(vec!["100G active optical cable".into()]), &Fact::Known(vec![reach("cable", 5.0)]))
    );
    assert_eq!(module.voltage.known().unwrap().values, [3.2979]);
    let light = module.rx_power.known().unwrap();
    assert_eq!(light.values, [1.3001, 1.3529, 1.1193, 1.2099]);
    assert_eq!(light.limits.get().map(|l| (l.low_alarm, l.high_alarm)), Some((0.0398, 2.1878)));
    assert_eq!(module.temperature.known().unwrap().limits.get().map(|l| l.high_warning), Some(70.0));
    assert_eq!(module.tx_power, Fact::NotApplicable, "it says that it doesn't measure this");
}

#[test]
fn of_a_cmis_module_the_first_page_is_read() {
    let module = module(DENSE, 256);
    assert_eq!(
        (module.form.as_str(), &module.vendor, &module.part),
        ("QSFP-DD", &known("CISCO"), &known("68-103205-02"))
    );
    assert_eq!((module.cable.get(), module.max_watts.get()), (Some(CableKind::PassiveCopper), Some(30.0)));
    assert_eq!(module.temperature.known().unwrap().values, [23.0]);
    assert!(matches!(module.temperature.known().unwrap().limits, Fact::Unreadable(_)));
    assert_eq!((module.voltage.known().unwrap().values[0], module.rx_power), (3.328, Fact::NotApplicable));
}

#[test]
fn memory_that_was_misread_or_only_partly_read_says_so() {
    let Fact::Unreadable(why) = Module::parse(&whole(MISREAD, 256)) else {
        panic!("a module was made of it")
    };
    assert!(why.contains("misread"), "{why}");
    assert!(matches!(Module::parse(""), Fact::Unreadable(_)));
    assert!(matches!(Module::parse("0000 7f"), Fact::Unreadable(_)), "a form that nobody knows");
    // The first half of an SFP's memory contains the name, but not the measured values.
    let half: String = whole(SR, 512).lines().take(16).map(|line| format!("{line}\n")).collect();
    let module = Module::parse(&half).known().unwrap().clone();
    assert_eq!(module.part, known("FTLX8574D3BNL-IT"));
    assert!(matches!(module.temperature, Fact::Unreadable(_)));
}

#[test]
fn watts_follow_the_class() {
    let with = |text, length, at: usize, value: u8, sums: [(std::ops::Range<usize>, usize); 2]| {
        let memory = whole(text, length);
        let mut bytes: Vec<u8> =
            (0..length).map(|i| ModuleMemory::parse(&memory).byte(i).get().unwrap()).collect();
        bytes[at] = value;
        for (range, sum) in sums {
            bytes[sum] = bytes[range].iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
        }
        Module::parse(&lines(&bytes)).known().unwrap().max_watts.get()
    };
    let sfp = |value| with(SR, 512, 64, value, [(0..63, 63), (64..95, 95)]);
    assert_eq!((sfp(0), sfp(0x02), sfp(0x20)), (Some(1.0), Some(1.5), Some(2.0)));
    let qsfp = |value| with(QUAD, 640, 129, value, [(128..191, 191), (192..223, 223)]);
    assert_eq!(
        (qsfp(0x00), qsfp(0x40), qsfp(0xc0), qsfp(0xc3)),
        (Some(1.5), Some(2.0), Some(3.5), Some(5.0))
    );
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "([0-9a-f]{0,5} [ -~\u{e9}]{0,40}\n){0,6}") {
        let _ = Module::parse(&text);
    }

    /// The bytes are random but have correct checksums, so that everything after the checksums is parsed too.
    #[test]
    fn any_memory_is_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..640), form in 0_usize..5) {
        if let Some(first) = bytes.first_mut() {
            *first = [0x03, 0x0d, 0x11, 0x18, 0xff][form];
        }
        for (range, at) in [(0..63, 63), (64..95, 95), (256..351, 351), (128..191, 191), (128..222, 222)] {
            if at < bytes.len() && (100..300).contains(&at) != (form == 0) {
                bytes[at] = bytes[range].iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
            }
        }
        let fact = Module::parse(&lines(&bytes));
        prop_assert!(serde_json::to_string(&fact).is_ok());
        if let Fact::Known(module) = fact {
            for monitor in [module.temperature, module.voltage, module.tx_power, module.rx_power] {
                prop_assert!(monitor.known().is_none_or(|monitor| monitor.values.iter().all(|value| value.is_finite())));
            }
        }
    }
}
