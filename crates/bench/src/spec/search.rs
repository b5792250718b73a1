//! The search for a tool's best level of a parameter, such as the number of users with the highest rate.

use super::error::FileError;
use super::section::{FreeLevels, Section};
use super::template::{Names, Word};
use super::tool::{Form, Tool};
use super::tool_reader::{FORMS, place, words};

/// The level of a parameter that requests the search.
pub const AUTO: &str = "auto";

/// The search for the best level of a parameter. A search precedes each run of a case in which the parameter is
/// [`AUTO`].
#[derive(Clone, Debug)]
pub struct Search {
    /// The name of the parameter.
    pub parameter: String,
    /// The command, which is run at the sending end while the server runs. The parameter's placeholder is
    /// replaced by [`AUTO`].
    pub command: Vec<Word>,
    /// The format of the command's stdout.
    pub form: Form,
    /// The place, in the command's output, of the level that the search found.
    pub found: String,
    /// The place, in the command's output, of the array of tries; each try has the form of [`crate::record::Step`].
    pub steps: Option<String>,
}

/// Reads the table `[search]` of a tool file with these parameters.
pub(crate) fn read_search(
    section: &Section,
    parameters: &[FreeLevels],
    names: &Names,
) -> Result<Search, FileError> {
    let parameter = section.text("parameter")?;
    let form = section.maybe_choice("read", &FORMS)?.ok_or_else(|| section.missing("read"))?;
    let search = Search {
        parameter: parameter.to_owned(),
        command: words(section, "command", names)?,
        form,
        found: section.parsed("found", |text| place(form, text))?,
        steps: section.maybe_parsed("steps", |text| place(form, text))?,
    };
    let Some(entry) = parameters.iter().find(|entry| entry.name == parameter) else {
        let known = parameters.iter().map(|entry| entry.name.as_str());
        let error = section.error("parameter", format!("{parameter:?} is not a parameter of this tool"));
        return Err(error.suggest(parameter, known));
    };
    let default = entry.levels.concat();
    if default != AUTO && !is_count(&default) {
        let problem =
            format!("has the default {default:?}, but must have a whole number from 1 up or \"auto\"");
        return Err(section.error("parameter", problem));
    }
    if search.command.is_empty() {
        return Err(section.missing("command"));
    }
    if search.steps.is_some() && form == Form::Pattern {
        return Err(section.error("steps", "can't be read by a pattern, only from JSON"));
    }
    Ok(search)
}

/// Returns an error if the tool doesn't accept one of the levels.
pub(crate) fn check_levels(section: &Section, entry: &FreeLevels, tool: &Tool) -> Result<(), FileError> {
    for level in &entry.levels {
        let searched = tool.search_of(&entry.name).map(|_| AUTO);
        let checked = tool.check_level(&entry.name, level);
        checked.map_err(|problem| section.error_of(entry, problem).suggest(level, searched))?;
    }
    Ok(())
}

impl Tool {
    /// The search for the tool's best level of the parameter; `None` if there is no search.
    pub(crate) fn search_of(&self, parameter: &str) -> Option<&Search> {
        self.search.as_ref().filter(|search| search.parameter == parameter)
    }

    /// Checks if a parameter can have this level. A parameter whose default is a number accepts numbers,
    /// which may have a unit, and "auto" if the tool can search for the level.
    fn check_level(&self, parameter: &str, level: &str) -> Result<(), String> {
        let searched = self.search_of(parameter).is_some();
        let numeric = self.parameters.get(parameter).is_some_and(|default| default.parse::<f64>().is_ok());
        match level {
            AUTO if searched => Ok(()),
            AUTO if numeric => Err(format!(
                "{} has no search for the best {parameter}, so \"auto\" isn't allowed",
                self.name
            )),
            _ if searched && !is_count(level) => {
                Err(format!("{level:?} is neither a whole number from 1 up nor \"auto\""))
            }
            _ if numeric && !level.starts_with(|c: char| c.is_ascii_digit()) => {
                Err(format!("{level:?} is not a number"))
            }
            _ => Ok(()),
        }
    }
}

fn is_count(level: &str) -> bool {
    level.parse().is_ok_and(|count: u32| count > 0)
}

#[cfg(test)]
mod tests {
    use crate::spec::study::Study;
    use crate::spec::tool::{Tool, Toolbox};

    const TOOL: &str = r#"
name = "ask"
moves = "requests"
command = ["ask", "{users}", "{step}"]
[parameters]
users = 240
step = 0.5
[search]
parameter = "users"
command = ["ask", "--best", "{users}"]
read = "json"
found = "/best"
steps = "/tried"
[result]
read = "json"
transactions = "/n"
"#;

    fn tool(from: &str, to: &str) -> Result<Tool, String> {
        assert!(TOOL.contains(from), "{from}");
        Tool::parse("t.toml", &TOOL.replacen(from, to, 1)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_search_names_a_parameter_and_where_its_finding_stands() {
        let search = tool("", "").unwrap().search.expect("it has one");
        assert_eq!((search.parameter.as_str(), search.found.as_str()), ("users", "/best"));
        let error = |from: &str, to: &str| tool(from, to).unwrap_err();
        assert_eq!(
            error("parameter = \"users\"", "parameter = \"user\""),
            "t.toml:9: `search.parameter`: \"user\" is not a parameter of this tool; did you mean `users`?"
        );
        assert_eq!(error("found = \"/best\"", ""), "t.toml:8: `search.found`: is missing");
        assert!(
            error("users = 240", "users = \"many\"").contains("`search.parameter`: has the default \"many\"")
        );
        assert!(error("\"/tried\"", "\"tried\"").contains("`search.steps`: \"tried\" is not a JSON pointer"));
        assert!(error("steps = \"/tried\"", "step = \"/tried\"").ends_with("did you mean `steps`?"));
    }

    #[test]
    fn levels_are_checked_by_what_the_tool_takes() {
        let mut tools = Toolbox::built_in().unwrap();
        tools.add(tool("", "").unwrap());
        let study = |tool: &str, with: &str| {
            let text = format!(
                "name = \"s\"\ntitle = \"S\"\n[[link]]\nname = \"l\"\nrate = \"open\"\n[[case]]\n\
                 id = \"u-{{users}}\"\ntool = \"{tool}\"\n[case.with]\n{with}\n"
            );
            Study::parse("s.toml", &text, &tools).map_err(|error| error.to_string())
        };
        let ids = study("ask", "users = [1, \"auto\"]").unwrap().cases;
        assert_eq!(ids.iter().map(|case| case.id.as_str()).collect::<Vec<_>>(), ["u-1", "u-auto"]);
        let error = |tool: &str, with: &str| study(tool, with).unwrap_err();
        assert_eq!(
            error("ask", "users = [1, \"atuo\"]"),
            "s.toml:10: `case.with.users`: \"atuo\" is neither a whole number from 1 up nor \"auto\"; \
             did you mean `auto`?"
        );
        assert!(error("ask", "users = 0").contains("whole number from 1"));
        assert!(error("ask", "users = 1.5").contains("whole number from 1"));
        assert_eq!(
            error("wrk", "users = \"auto\""),
            "s.toml:10: `case.with.users`: wrk has no search for the best users, so \"auto\" isn't allowed"
        );
        assert_eq!(
            error("ask", "users = 1\nstep = \"long\""),
            "s.toml:11: `case.with.step`: \"long\" is not a number"
        );
    }
}
