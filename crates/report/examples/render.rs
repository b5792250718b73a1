//! Renders a stored record: `cargo run -p linerate-report --example render -- record.json DIRECTORY` writes
//! `report.html`, `figure.svg` and `runs.csv` there.

use std::path::PathBuf;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(input), Some(output)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: render RECORD.json DIRECTORY");
    };
    let text = std::fs::read_to_string(&input).with_context(|| format!("reading {}", input.display()))?;
    let record =
        serde_json::from_str(&text).with_context(|| format!("reading {} as a record", input.display()))?;
    let files = [
        ("report.html", linerate_report::html(&record)),
        ("figure.svg", linerate_report::figure_svg(&record)),
        ("runs.csv", linerate_report::csv(&record)),
    ];
    std::fs::create_dir_all(&output).with_context(|| format!("making {}", output.display()))?;
    for (name, content) in files {
        let path = output.join(name);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
