//! Exports a plan for schedulers: as a script in which each task runs one shard.

use anyhow::Context;

/// The command that every task of a script runs.
#[derive(Clone, Debug)]
pub struct ExportedTask {
    /// The name or path of the linerate program.
    pub program: String,
    /// The plan's directory.
    pub plan: String,
    /// Further options of `linerate fleet run`.
    pub options: Vec<String>,
}

/// The scheduler's settings for a job.
#[derive(Clone, Debug, Default)]
pub struct JobShape {
    /// The number of shards, which is the number of tasks.
    pub shards: usize,
    /// The shards to run, in the notation of Slurm's arrays; empty for all shards.
    pub array: String,
    /// The greatest number of tasks that run at the same time.
    pub at_once: u32,
    /// The Slurm partition, if one is chosen.
    pub partition: Option<String>,
    /// Slurm's time limit for a task.
    pub time: Option<String>,
    /// Slurm's constraint on the nodes.
    pub constraint: Option<String>,
    /// Other options of sbatch, unchanged.
    pub others: Vec<String>,
}

impl ExportedTask {
    /// The words of the command that moves the shard `number`.
    pub fn words(&self, number: &str) -> Vec<String> {
        let own = [&*self.program, "fleet", "run", &self.plan, "--shard", number];
        own.into_iter().map(str::to_owned).chain(self.options.iter().cloned()).collect()
    }

    /// The command as a line of shell; `number` isn't quoted, because it may be a variable.
    pub fn line(&self, number: &str) -> anyhow::Result<String> {
        let words = self.words("\u{1}");
        let quoted = words.iter().map(|word| match word.as_str() {
            "\u{1}" => Ok(number.to_owned()),
            word => quote(word),
        });
        Ok(quoted.collect::<anyhow::Result<Vec<_>>>()?.join(" "))
    }
}

/// Quotes a word for a shell.
fn quote(word: &str) -> anyhow::Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Ok(word.to_owned());
    }
    let quoted = shlex::try_quote(word).context("a word with a zero byte can't be written into a script")?;
    Ok(quoted.into_owned())
}

/// A script that runs the tasks with GNU parallel on this host. The environment variable `PARALLEL` adds options of GNU
/// parallel such as `--sshlogin`.
///
/// # Errors
/// If a word of the command has a zero byte.
pub fn gnu_parallel(task: &ExportedTask, shape: &JobShape) -> anyhow::Result<String> {
    let last = shape.shards.saturating_sub(1);
    let jobs = shape.at_once;
    // With -q, parallel quotes the words again for the shell that it starts.
    let line = parallel_line(task)?;
    Ok(format!(
        "#!/bin/sh\n\
         # One task for each shard, {jobs} at a time, each up to three times. A task that is run again continues where it stopped.\n\
         # On several hosts: PARALLEL='--sshlogin n1,n2,n3' sh THIS, if all of them have the plan, the source and linerate.\n\
         seq 0 {last} | exec parallel -q --jobs {jobs} --retries 3 {line}\n"
    ))
}

/// The command for GNU parallel, which replaces `{}`, `{#}`, `{= =}` and strings from its configuration in every word.
/// No option disables this. So if a word has an opening brace or begins with `:::`, the command becomes a shell script
/// that writes each opening brace as `\173`.
fn parallel_line(task: &ExportedTask) -> anyhow::Result<String> {
    let is_plain = |word: &String| !word.contains('{') && !word.starts_with(":::");
    if task.words("").iter().all(is_plain) {
        return task.line("{}");
    }
    let parts = |word: String| {
        let parts = word.split('{').map(|part| if part.is_empty() { Ok(String::new()) } else { quote(part) });
        Ok(parts.collect::<anyhow::Result<Vec<_>>>()?.join("\"$(printf '\\173')\""))
    };
    let words = task.words("\u{1}").into_iter().map(|word| match word.as_str() {
        "\u{1}" => Ok("\"$1\"".to_owned()),
        "" => quote(""),
        _ => parts(word),
    });
    let script = format!("exec {}", words.collect::<anyhow::Result<Vec<_>>>()?.join(" "));
    Ok(format!("sh -c {} sh {{}}", quote(&script)?))
}

/// A script for `sbatch`: an array with a task for each shard.
///
/// # Errors
/// If a word of the command has a zero byte, or an option of sbatch has a line break.
pub fn slurm_script(task: &ExportedTask, shape: &JobShape) -> anyhow::Result<String> {
    let all = || format!("0-{}", shape.shards.saturating_sub(1));
    let array = Some(&shape.array).filter(|array| !array.is_empty()).cloned().unwrap_or_else(all);
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        "#SBATCH --job-name=linerate-fleet".to_owned(),
        format!("#SBATCH --array={array}%{}", shape.at_once),
        "#SBATCH --ntasks=1".to_owned(),
        "#SBATCH --requeue".to_owned(),
        "#SBATCH --open-mode=append".to_owned(),
        // Slurm sends this signal 60 s before a task's time limit, so that the task can record its progress.
        "#SBATCH --signal=B:TERM@60".to_owned(),
    ];
    let named = [("partition", &shape.partition), ("time", &shape.time), ("constraint", &shape.constraint)];
    let named = named.iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
    let others = named.chain(shape.others.iter().cloned());
    for option in others {
        anyhow::ensure!(!option.contains('\n'), "sbatch takes no option with a line break: {option:?}");
        lines.push(format!("#SBATCH {}", quote(&option)?));
    }
    let line = task.line("\"$SLURM_ARRAY_TASK_ID\"")?;
    lines.push(format!("exec {line}"));
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> ExportedTask {
        let options = ["-i", "/home/a b/k", "--bwlimit", "$x"].map(str::to_owned).to_vec();
        ExportedTask { program: "/opt/line rate".into(), plan: "/p/it's".into(), options }
    }

    #[test]
    fn words_come_out_of_a_shell_as_they_were() {
        for line in [task().line("7").unwrap(), task().line("\"$N\"").unwrap()] {
            let mut run = std::process::Command::new("sh");
            run.args(["-c", &format!("printf '%s|' {line}")]).env("N", "7");
            let out = run.output().unwrap().stdout;
            assert_eq!(
                String::from_utf8(out).unwrap(),
                "/opt/line rate|fleet|run|/p/it's|--shard|7|-i|/home/a b/k|--bwlimit|$x|"
            );
        }
        let wrong = ExportedTask { plan: "a\0b".into(), ..task() };
        assert!(gnu_parallel(&wrong, &JobShape::default()).is_err());
    }

    /// Runs GNU parallel, if it is installed, with a program that prints its arguments.
    #[test]
    fn parallel_replaces_nothing_in_the_words_of_a_task() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("print {} words");
        let plans =
            ["/p/{}", "/p/{#} {%}", "/p/{= $_=1 =}/it's", "/p/{a,b}{/.}{1}\"$x", "/{+/}\\173\n{", ":::"];
        std::fs::write(&program, "#!/bin/sh\nprintf '%s|' \"$@\"\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for plan in plans {
            let options = ["--log-file", "{}{", "", "::::"].map(str::to_owned).to_vec();
            let program = program.to_str().unwrap().to_owned();
            let task = ExportedTask { program, plan: plan.into(), options };
            let shape = JobShape { shards: 1, at_once: 1, ..JobShape::default() };
            let script = gnu_parallel(&task, &shape).unwrap();
            let line = script.lines().last().unwrap();
            assert_eq!(script.matches("{").count(), 1, "only the shard's number is replaced: {line}");
            if !linerate_testing::has("parallel") {
                continue;
            }
            let run = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let wanted = format!("fleet|run|{plan}|--shard|0|--log-file|{{}}{{||::::|");
            assert_eq!(String::from_utf8(run.stdout).unwrap(), wanted, "{script}");
        }
    }

    #[test]
    fn an_array_has_a_task_for_each_shard() {
        let shape = JobShape {
            shards: 16,
            array: String::new(),
            at_once: 4,
            partition: Some("dtn".into()),
            time: Some("02:00:00".into()),
            constraint: Some("fast&near".into()),
            others: vec!["--comment=a b".into()],
        };
        let script = slurm_script(&task(), &shape).unwrap();
        for line in [
            "--array=0-15%4",
            "--requeue",
            "--partition=dtn",
            "--time=02:00:00",
            "'--constraint=fast&near'",
            "'--comment=a b'",
        ] {
            assert!(script.contains(&format!("#SBATCH {line}\n")), "{line}: {script}");
        }
        let some = JobShape { array: "3,7-9".into(), ..shape.clone() };
        assert!(slurm_script(&task(), &some).unwrap().contains("--array=3,7-9%4\n"));
        assert!(gnu_parallel(&task(), &shape).unwrap().contains("seq 0 15 |"));
    }
}
