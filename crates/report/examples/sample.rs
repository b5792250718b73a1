//! Prints an example record: `cargo run -p linerate-report --example sample -- quick > record.json`.
//! Kinds: quick, one-block, two-hosts, two-links, empty, and one a kind of figure: scaling, differences, web,
//! ladder, bars.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() -> anyhow::Result<()> {
    let kind = std::env::args().nth(1);
    let record = match kind.as_deref().unwrap_or("quick") {
        "quick" => common::quick(5),
        "one-block" => common::quick(1),
        "two-hosts" => common::two_hosts(5),
        "two-links" => common::two_links(5),
        "empty" => common::empty(),
        other => match common::studies::all(5).into_iter().find(|(name, _)| *name == other) {
            Some((_, record)) => record,
            None => anyhow::bail!(
                "no example is called {other:?}: quick, one-block, two-hosts, two-links, empty, scaling, differences, \
                 web, ladder, bars"
            ),
        },
    };
    println!("{}", serde_json::to_string_pretty(&record)?);
    Ok(())
}
