//! `linerate load tile`: runs tiles. A tile is a mix of four loads of different kinds.

use clap::Args;
use linerate_load::error::LoadError;
use linerate_load::http::Url;
use linerate_load::report::{LoadReport, Loads, SearchStep};
use linerate_load::tile::{MOST_TILES, QUALITY, TARGETS, Tiles, TilesResult, fullest};
use linerate_load::window::StopFlag;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{Length, ReportForm, parse_address, parse_count};

/// Arguments of `linerate load tile`.
#[derive(Debug, Args)]
pub struct TileArgs {
    /// A server (`linerate serve tile` or `rr`); if repeated, tiles are spread
    ///
    /// If you name several servers, the tiles are distributed over them in turn.
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = parse_address)]
    connect: Vec<SocketAddr>,
    /// An object of a web server; if repeated, the tiles are spread over them
    #[arg(long, value_name = "URL", required = true)]
    url: Vec<String>,
    /// Number of tiles; auto: the most that reach their targets
    ///
    /// A tile reaches its targets if each of its loads has at least nine tenths of its target rate.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_count)]
    tiles: std::option::Option<u32>,
    /// With auto: at most N tiles [default: 64]
    #[arg(long, value_name = "N")]
    max_tiles: Option<u32>,
    /// Multiply the target rates by FACTOR
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,
    /// Compute the score relative to an earlier result in FILE
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    pub(super) form: ReportForm,
}

/// The default of `--max-tiles`: the largest number of tiles that a search tries.
const TILES: u32 = 64;

impl TileArgs {
    pub(super) fn run(&self, stop: &StopFlag) -> Result<LoadReport, LoadError> {
        if self.tiles.is_some() && self.max_tiles.is_some() {
            return Err(LoadError::Arguments("--max-tiles needs --tiles auto".into()));
        }
        let load = self.load()?;
        let (result, found, steps) = match self.tiles {
            Some(tiles) => (load.run(tiles, stop)?, None, Vec::new()),
            None => self.fill(&load, stop)?,
        };
        let mut report = load.report(&result);
        if !result.is_good(&load.targets) {
            let least = QUALITY * 100.0;
            report
                .warnings
                .push(format!("not every load reached {least:.0} % of its target: too many tiles"));
        }
        report.found = found;
        report.steps = steps;
        Ok(report)
    }

    fn load(&self) -> Result<Tiles, LoadError> {
        let Loads { web, rr, bulk, idle } = TARGETS;
        let of = |rate: f64| rate * self.scale;
        let targets = Loads { web: of(web), rr: of(rr), bulk: of(bulk), idle: of(idle) };
        Ok(Tiles {
            to: self.connect.clone(),
            urls: self.url.iter().map(|url| url.parse()).collect::<Result<Vec<Url>, _>>()?,
            targets,
            reference: self.baseline.as_deref().map_or(Ok(targets), reference)?,
            window: self.length.window(),
        })
    }

    /// Searches for the largest number of tiles that all reach their targets. The number is 1 if not even a single tile
    /// reaches them.
    fn fill(&self, load: &Tiles, stop: &StopFlag) -> Result<Filled, LoadError> {
        let (mut seen, mut steps) = (BTreeMap::new(), Vec::new());
        let most = fullest(self.max_tiles.unwrap_or(TILES).min(MOST_TILES), |tiles| {
            let result = match load.run(tiles, stop) {
                // If one of the loads has no result, there are too many tiles.
                Err(LoadError::Peer(to, why)) if tiles > 1 => {
                    message!("  {tiles:>4} tiles  {to}: {why}");
                    return Ok(false);
                }
                result => result?,
            };
            let good = result.is_good(&load.targets);
            let verdict = if good { "all on target" } else { "below target" };
            message!("  {tiles:>4} tiles  score {:.2}  {verdict}", result.score());
            steps.push(SearchStep { count: tiles, reached: result.score() });
            seen.insert(tiles, result);
            Ok(good)
        })?;
        let most = most.max(1);
        match seen.remove(&most) {
            Some(result) => Ok((result, Some(most), steps)),
            None => Ok((load.run(1, stop)?, Some(most), steps)),
        }
    }
}

/// The result of the tiles; for a search, also the number of tiles that it found, and its steps.
type Filled = (TilesResult, Option<u32>, Vec<SearchStep>);

/// The mean rates of an earlier result, from the last line of its file.
fn reference(file: &Path) -> Result<Loads, LoadError> {
    let wrong = |why: String| {
        LoadError::Arguments(format!(
            "--baseline {}: {why}; it must hold what `linerate load tile --json` printed",
            file.display()
        ))
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let result: serde_json::Value = serde_json::from_str(last).map_err(|error| wrong(error.to_string()))?;
    let loads = result.get("loads").ok_or_else(|| wrong("its last line has no rates (`loads`)".into()))?;
    Loads::deserialize(loads).map_err(|error| wrong(format!("its rates: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_an_earlier_result() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tile.json");
        fs::write(&file, "noise\n{\"loads\":{\"web\":19.5,\"rr\":500,\"bulk\":5e7,\"idle\":10}}\n\n")
            .unwrap();
        assert_eq!(reference(&file).unwrap(), Loads { web: 19.5, ..TARGETS });
        fs::write(&file, "{\"schema\":1}").unwrap();
        assert!(reference(&file).unwrap_err().to_string().contains("tile.json"));
        fs::write(&file, "[1]").unwrap();
        assert!(reference(&file).is_err());
        assert!(reference(&dir.path().join("none")).is_err());
    }
}
