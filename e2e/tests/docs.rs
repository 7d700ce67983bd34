//! The documents tell the truth: every command in them is run, against a demo, as a reader would run it.
//!
//! The `cargo xtask` commands of README.md are this test's own surroundings; of those only the verbs and their
//! options are checked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use delphinus_e2e::{proxy_binary, run};
use delphinus_sandbox::ensure_packages;

/// How long the demo may take with all commands, on a machine that does other things as well.
const DEMO_LIMIT: Duration = Duration::from_mins(5);
/// How long `cargo xtask VERB --help` may take when xtask has to be built first.
const XTASK_LIMIT: Duration = Duration::from_mins(15);
/// What the first word of a command is in our documents.
const PROGRAMS: [&str; 6] = ["$", "cargo", "delphinus", "mariadb", "mysql", "curl"];

/// A fenced block of a document.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The line of its fence, counted from 1.
    line: usize,
    /// What stands behind the fence: `sh`, `toml`, or nothing.
    language: String,
    text: String,
}

impl Block {
    /// Looks like something to type into a shell, whatever it is called.
    fn is_like_commands(&self) -> bool {
        let shell = ["sh", "bash", "shell", "console", "zsh"].contains(&self.language.as_str());
        let first_words = self.text.lines().filter_map(|line| line.split_whitespace().next());
        shell || first_words.into_iter().any(|word| PROGRAMS.contains(&word))
    }
}

/// All fenced blocks. A fence that is never closed is an error.
fn blocks(markdown: &str) -> Result<Vec<Block>> {
    let mut found = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let line = index + 1;
        let mut text = String::new();
        loop {
            match lines.next() {
                None => bail!("line {line}: the fence is not closed"),
                Some((_, end)) if end.trim() == "```" => break,
                Some((_, more)) => text.extend([more, "\n"]),
            }
        }
        found.push(Block { line, language: language.trim().to_owned(), text });
    }
    Ok(found)
}

/// The blocks to run: those called `sh`. What looks like commands and is not called so is an error, because
/// nobody would notice when it stops working.
fn commands(markdown: &str) -> Result<Vec<Block>> {
    let (runnable, others): (Vec<_>, Vec<_>) =
        blocks(markdown)?.into_iter().partition(|block| block.language == "sh");
    if let Some(block) = others.iter().find(|block| block.is_like_commands()) {
        bail!("line {}: commands in a block that is not marked `sh`:\n{}", block.line, block.text);
    }
    Ok(runnable)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The Markdown files of a folder, sorted.
fn documents_in(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    files.sort();
    files
}

/// A folder that is gone with the test.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("delphinus-docs-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One block that the demo is to run, and where it leaves what came of it.
struct Task {
    /// Document and line.
    place: String,
    script: PathBuf,
}

impl Task {
    /// Writes the block into a file in its document's folder, in which all its commands run one after another.
    fn write(folder: &Path, document: &str, block: &Block) -> Self {
        let script = folder.join(format!("line{}.sh", block.line));
        fs::write(&script, runnable(&block.text)).unwrap();
        Self { place: format!("{document}:{}", block.line), script }
    }

    /// What the demo's shell is to do for it. It goes on after a failure, so that all failures are seen.
    fn line(&self) -> String {
        let (folder, script) = (self.script.parent().unwrap().display(), self.script.display());
        format!("(cd '{folder}' && sh -eu '{script}' >'{script}.said' 2>&1; echo $? >'{script}.status')\n")
    }

    /// Fails unless it was run and succeeded.
    fn result(&self) -> Result<()> {
        let left = |ending| fs::read_to_string(format!("{}.{ending}", self.script.display()));
        let status = left("status").with_context(|| format!("{} was not run", self.place))?;
        let said = left("said")?;
        ensure!(status.trim() == "0", "{}: exit status {}:\n{said}", self.place, status.trim());
        ensure!(!said.contains("ERROR "), "{}: an error, and exit status 0:\n{said}", self.place);
        Ok(())
    }
}

/// The commands of a block as the test can run them: a proxy that would run for ever is stopped in the regular way once it
/// listens, and its listeners are where no other test has one.
fn runnable(text: &str) -> String {
    let line = |line: &str| {
        match line.strip_prefix("delphinus run --config ") {
        None => line.to_owned(),
        Some(file) => format!(
            "export APP_PASSWORD=secret MONITOR_PASSWORD=secret ADMIN_PASSWORD=secret
             sed -e \"s#/tmp/delphinus#$PWD/by_socket#\" -e \"s#127.0.0.1:644[67]#unix:$PWD/by_tcp_&.sock#\" {file} >moved.toml
             delphinus run --config moved.toml >run.log 2>&1 &
             for i in $(seq 300); do grep -q ready run.log && break; sleep 0.1; done
             cat run.log
             grep -q ready run.log
             kill $!
             wait $!"
        ),
    }
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

/// Checks that a `cargo xtask` command has a verb and options that exist.
fn check_xtask(line: &str) -> Result<()> {
    let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
    let ["cargo", "xtask", verb, options @ ..] = words.as_slice() else {
        bail!("`{line}` is not a `cargo xtask` command: the test cannot check it");
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["xtask", verb, "--help"]);
    let help = run(&mut cargo, XTASK_LIMIT)?.success().with_context(|| format!("`{line}`"))?;
    let unknown = options.iter().find(|word| word.starts_with("--") && !help.contains(**word));
    ensure!(unknown.is_none(), "`{line}`: {unknown:?} is no option of {verb}");
    Ok(())
}

#[test]
fn commands_of_readme_and_docs_work() {
    ensure_packages(&["mariadb-client", "curl", "prometheus"]).unwrap();
    let temporary = TemporaryFolder::new("demo");
    let mut tasks = Vec::new();
    let documents = [vec![root().join("README.md")], documents_in(&root().join("docs"))].concat();
    for (number, document) in documents.iter().enumerate() {
        let name = document.file_name().unwrap().to_str().unwrap();
        let found = commands(&fs::read_to_string(document).unwrap()).context(name.to_owned()).unwrap();
        let must_have_some = ["README.md", "guide.md"].contains(&name);
        assert!(!found.is_empty() || !must_have_some, "{name} has no command that can be run");
        let folder = temporary.0.join(number.to_string());
        fs::create_dir(&folder).unwrap();
        for block in found {
            if block.text.lines().any(|line| line.starts_with("cargo ")) {
                for line in block.text.lines() {
                    check_xtask(line).with_context(|| format!("{name}:{}", block.line)).unwrap();
                }
            } else {
                tasks.push(Task::write(&folder, name, &block));
            }
        }
    }
    run_in_demo(&temporary.0, &tasks).unwrap();
    let failures: Vec<_> = tasks.iter().filter_map(|task| task.result().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Runs them all in one demo, with `delphinus` on the path.
fn run_in_demo(temporary: &Path, tasks: &[Task]) -> Result<()> {
    let programs = temporary.join("bin");
    fs::create_dir(&programs)?;
    let binary = programs.join("delphinus");
    symlink(proxy_binary()?, &binary)?;
    let old = std::env::var("PATH")?;
    let script: String = tasks.iter().map(Task::line).collect();
    let mut demo = Command::new(&binary);
    demo.args(["demo", "--exec", &script]).env("PATH", format!("{}:{old}", programs.display()));
    run(&mut demo, DEMO_LIMIT)?.success().context("delphinus demo").map(drop)
}

#[test]
fn blocks_are_found_with_their_lines() {
    let found = commands("text\n```sh\na\nb\n```\n```toml\nx = 1\n```\n").unwrap();
    let expected = Block { line: 2, language: "sh".to_owned(), text: "a\nb\n".to_owned() };
    assert_eq!(found, [expected]);
}

#[test]
fn commands_that_nobody_would_run_are_mistakes() {
    for text in ["```\ndelphinus check x\n```\n", "```bash\nls\n```\n", "```text\n$ ls\n```\n", "```sh\nls\n"]
    {
        assert!(commands(text).is_err(), "{text}");
    }
}

#[test]
fn commands_that_do_not_exist_are_mistakes() {
    for line in ["cargo xtask no-such-verb", "cargo xtask demo --no-such-option", "cargo install x"] {
        assert!(check_xtask(line).is_err(), "{line}");
    }
}

#[test]
fn a_block_that_fails_is_a_failure() {
    let temporary = TemporaryFolder::new("tasks");
    let block = |line, text: &str| Block { line, language: "sh".to_owned(), text: text.to_owned() };
    let results =
        [block(1, "true\n"), block(2, "false\ntrue\n"), block(3, "echo $NO_SUCH_VARIABLE\n")].map(|block| {
            let task = Task::write(&temporary.0, "x.md", &block);
            assert!(task.result().is_err(), "a task that was not run counts as a success");
            run(Command::new("sh").args(["-c", &task.line()]), DEMO_LIMIT).unwrap();
            task.result().is_ok()
        });
    assert_eq!(results, [true, false, false]);
}
