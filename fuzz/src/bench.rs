//! Fuzz target for study and tool files, quantities, expressions, and files of a results store.

use linerate_bench::record::{Record, Run};
use linerate_bench::spec::expression::Expression;
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::{Tool, Toolbox};
use linerate_bench::store::Invocation;
use linerate_quantity::{bit_rate, bytes, limit, seconds};
use std::sync::LazyLock;

static TOOLS: LazyLock<Toolbox> =
    LazyLock::new(|| Toolbox::built_in().expect("the built-in tools are right"));

/// Parses the input; the first byte selects the parser for the rest.
pub fn bench(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match mode % 8 {
        0..=2 => study(&text),
        3 => tool(&text),
        4 => {
            if let Ok(expression) = Expression::parse(&text, &["a", "b", "plain"]) {
                let _ = expression.evaluate(&|_, _| Some(1.5));
                let _ = expression.cases();
            }
        }
        5 => {
            let _ = (bytes(&text), seconds(&text), bit_rate(&text), limit(&text));
        }
        6 => {
            let _ = serde_json::from_slice::<Run>(rest);
            let _ = serde_json::from_slice::<Invocation>(rest);
        }
        _ => record(rest),
    }
}

fn study(text: &str) {
    match Study::parse("study.toml", text, &TOOLS) {
        Ok(mut study) => {
            study.set_size(1 << 20);
            study.apply_quick();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn tool(text: &str) {
    match Tool::parse("tool.toml", text) {
        Ok(tool) => {
            let _ = tool.takes_files();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn record(bytes: &[u8]) {
    let Ok(record) = serde_json::from_slice::<Record>(bytes) else { return };
    let again = serde_json::to_vec(&record).expect("a record can be written");
    serde_json::from_slice::<Record>(&again).expect("what was written can be read");
}
