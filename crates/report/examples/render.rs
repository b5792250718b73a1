//! Renders a stored record: `cargo run -p linerate-report --example render -- record.json DIRECTORY` writes
//! `report.html`, `runs.csv`, and each figure as SVG and CSV there.

use std::path::PathBuf;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(input), Some(output)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: render RECORD.json DIRECTORY");
    };
    let text = std::fs::read_to_string(&input).with_context(|| format!("reading {}", input.display()))?;
    let record: linerate_bench::record::Record =
        serde_json::from_str(&text).with_context(|| format!("reading {} as a record", input.display()))?;
    let mut files = vec![
        ("report.html".to_owned(), linerate_report::html(&record)),
        ("runs.csv".to_owned(), linerate_report::csv(&record)),
    ];
    for figure in linerate_report::figures(&record) {
        files.push((format!("{}.svg", figure.name), figure.svg));
        files.push((format!("{}.csv", figure.name), figure.csv));
    }
    std::fs::create_dir_all(&output).with_context(|| format!("making {}", output.display()))?;
    for (name, content) in files {
        let path = output.join(name);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
