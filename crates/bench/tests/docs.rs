//! Tests that the examples in the documentation are valid study and tool files.

use std::path::Path;

use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::{Tool, Toolbox};

/// The TOML examples of a document, in order.
fn examples(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_formats_page_shows_a_study_and_a_tool() {
    let examples = examples("formats.md");
    let study = Study::parse("formats.md", &examples[0], &Toolbox::built_in().unwrap()).unwrap();
    assert_eq!((study.cases.len(), study.figures.len(), study.settings.len()), (12, 1, 1));
    assert!(study.quick.size.is_some() && study.printed.len() == 1 && study.rows == [7, 22]);
    let tool = Tool::parse("formats.md", &examples[1]).unwrap();
    assert!(
        tool.server.is_some()
            && tool.result.is_some()
            && tool.variants.len() == 1
            && tool.parameters.len() == 1
    );
    let head =
        "name = \"ask\"\nmoves = \"nothing\"\ncommand = [\"ask\", \"{users}\"]\n[parameters]\nusers = 240\n";
    let tool = Tool::parse("formats.md", &format!("{head}{}", examples[2])).unwrap();
    assert!(tool.search.is_some_and(|search| search.steps.is_some()));
}

#[test]
fn the_guide_shows_a_tool_and_a_study_that_uses_it() {
    let examples = examples("guide/bench.md");
    let mut tools = Toolbox::built_in().unwrap();
    tools.add(Tool::parse("guide/bench.md", &examples[0]).unwrap());
    let study = Study::parse("guide/bench.md", &examples[1], &tools).unwrap();
    assert!(study.cases.iter().any(|case| case.tool == "scp-large"));
    let slip = examples[0].replace("{destination}", "{destinaton}");
    let error = Tool::parse("mytools/scp-large.toml", &slip).unwrap_err().to_string();
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/bench.md"));
    assert!(guide.unwrap().contains(&error), "the guide doesn't show {error}");
}
