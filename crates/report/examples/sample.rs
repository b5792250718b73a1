//! Prints an example record: `cargo run -p linerate-report --example sample -- quick > record.json`.
//! Kinds: quick, one-block, two-hosts, two-links, empty.

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
        other => {
            anyhow::bail!("no example is called {other:?}: quick, one-block, two-hosts, two-links, empty")
        }
    };
    println!("{}", serde_json::to_string_pretty(&record)?);
    Ok(())
}
