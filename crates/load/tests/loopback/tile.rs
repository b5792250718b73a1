//! Tiles.

use crate::support::{OBJECT, any, pair_server, url, window};
use linerate_load::error::LoadError;
use linerate_load::report::Loads;
use linerate_load::serve::LoadServer;
use linerate_load::tile::{TARGETS, TileService, Tiles};
use linerate_load::window::StopFlag;

#[test]
fn tiles_reach_light_targets_and_are_scored() {
    let server = LoadServer::start(any(), 40, TileService::new(OBJECT)).unwrap();
    let targets = Loads { web: 20.0, rr: 50.0, bulk: 8e6, idle: 10.0 };
    let load = Tiles {
        to: vec![server.address()],
        urls: vec![url(server.address(), "/")],
        targets,
        reference: targets,
        window: window(300, 1500),
    };
    let result = load.run(2, &StopFlag::default()).unwrap();
    let report = load.report(&result);
    assert_eq!((report.kind, report.tiles.len()), ("tile", 2));
    let score = report.score.unwrap();
    assert!((score - report.tiles.iter().map(|tile| tile.score).sum::<f64>()).abs() < 1e-9);
    assert!(score > 1.2 && score < 2.3, "{report:?}");
    let hard = Loads { rr: 1e9, ..targets };
    assert!(!result.is_good(&hard));
    let halved = Tiles { reference: Loads { web: 40.0, rr: 100.0, bulk: 16e6, idle: 20.0 }, ..load };
    assert!((halved.run(1, &StopFlag::default()).unwrap().score() - 0.5).abs() < 0.25);
}

#[test]
fn what_a_tile_lacks_is_said() {
    let load = Tiles {
        to: Vec::new(),
        urls: Vec::new(),
        targets: TARGETS,
        reference: TARGETS,
        window: window(0, 100),
    };
    let error = load.run(1, &StopFlag::default()).unwrap_err();
    assert!(matches!(&error, LoadError::Arguments(text) if text.contains("--url")), "{error}");
    let pairs = pair_server();
    let load = Tiles { to: vec![pairs.address()], urls: vec![url(pairs.address(), "/")], ..load };
    assert!(load.run(0, &StopFlag::default()).is_err());
    let zero = Tiles { reference: Loads { web: 0.0, ..TARGETS }, ..load };
    assert!(matches!(zero.run(1, &StopFlag::default()), Err(LoadError::Arguments(_))));
}
