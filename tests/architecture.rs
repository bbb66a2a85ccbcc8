//! The architecture, checked: who may import whom, what may touch the world, who owns a foreign crate, how long a piece may be.
//!
//! A rule reads one source file with comments, texts and tests blanked out. Before it judges `src/` it has to find what is
//! wrong in small bad examples and nothing in good ones, so no rule can pass because it is blind.

mod circles;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use circles::Files;

/// Each crate (`clouds-aws` is `gpuplan-clouds-aws` in `src/clouds/aws/`), and the crates of this workspace that it imports.
/// The compiler sees to it that nothing else can be imported; that a row says no more than is imported, a test does.
const CRATES: &[(&str, &str)] = &[
    ("features", ""),
    ("features-network", ""),
    ("embedded", "features"),
    ("units", "features"),
    ("workload", "embedded units"),
    ("hardware", "embedded units"),
    ("import", "units workload hardware"),
    ("calibration", "units workload hardware"),
    ("estimate", "embedded units workload hardware calibration"),
    ("accuracy", "embedded units workload hardware estimate"),
    ("market", "embedded units hardware"),
    ("spot", "units market"),
    ("plan", "units workload hardware import estimate market spot"),
    ("runstore", "units features-network"),
    ("budget", "units workload hardware estimate market plan runstore"),
    ("report", "units workload hardware import calibration estimate accuracy market spot plan budget"),
    ("export", "units workload hardware plan"),
    ("telemetry", "units workload"),
    ("launch", "units workload market spot runstore"),
    ("agent", "units workload runstore telemetry"),
    ("clouds-http", "market runstore agent features-network"),
    ("clouds-aws", "units hardware market runstore launch agent clouds-http features-network"),
    ("clouds-gcp-clients", "features features-network"),
    ("clouds-gcp", "units hardware market launch agent clouds-http clouds-gcp-clients"),
    ("clouds", "units hardware market runstore launch agent clouds-http clouds-aws clouds-gcp"),
    (
        "cli",
        "embedded units workload hardware import calibration estimate accuracy market spot plan runstore budget report export telemetry launch agent clouds-http clouds",
    ),
];

/// The only files and folders that may touch files, network, processes, threads, clocks, the environment or chance.
const EDGE: &str = "main.rs agent_main.rs embedded/build.rs features/build.rs cli/ clouds/ calibration/cuda/ calibration/host.rs workload/trace/nsight.rs market/cache.rs \
    launch/clock.rs launch/journal/ launch/execute/ runstore/private.rs runstore/store/ budget/ledger.rs budget/bill/survey.rs telemetry/counters/amd.rs telemetry/counters/nvml.rs telemetry/counters/smi.rs telemetry/counters/host.rs \
    agent/checkpoint/ agent/life.rs agent/process/ agent/staging/ agent/supervise/ agent/sweep.rs agent/team/ agent/watch/";

/// What the middle may not name, and what it takes instead.
const WORLD: &[(&str, &str)] = &[
    ("std::fs", "take `impl BufRead` or text; the edge opens the file"),
    ("std::net", "own a port (trait) that `clouds/` implements"),
    ("std::process", "own a port (trait) that an edge file implements; exit codes belong to `cli/`"),
    ("std::env", "take the value as an argument; `cli/session.rs` reads the environment"),
    ("std::thread", "compute; only the edge waits or runs beside something"),
    ("std::os", "own a port (trait) that an edge file implements"),
    ("std::{", "name one module a line, so that this check and grep see it"),
    ("tokio::", "only the edge is asynchronous"),
    ("reqwest::", "own a port (trait) that `clouds/` implements"),
    (".exists()", "asking a path is reading the disk; the edge asks"),
    (".is_file()", "asking a path is reading the disk; the edge asks"),
    (".read_dir()", "asking a path is reading the disk; the edge asks"),
    (".canonicalize()", "asking a path is reading the disk; the edge asks"),
    ("stdin(", "take `impl BufRead`; `cli/` owns the terminal"),
    ("SystemTime::now", "take `now` as an argument; `cli/session.rs` reads the clock"),
    ("Instant::now", "take `now` as an argument; `cli/session.rs` reads the clock"),
    ("Timestamp::now", "take `now` as an argument; `cli/session.rs` reads the clock"),
    ("Zoned::now", "take `now` as an argument; `cli/session.rs` reads the clock"),
    ("TimeZone::system", "take the zone as an argument"),
    ("rand::rng", "take a seed as an argument"),
    ("thread_rng", "take a seed as an argument"),
];

/// A foreign name and the only places that may write it.
const OWNERS: &[(&str, &str)] = &[
    ("cudarc", "calibration/cuda/"),
    ("libloading", "calibration/cuda/"),
    ("aws_sdk", "clouds/aws/"),
    ("aws_config", "clouds/aws/"),
    ("google_cloud", "clouds/gcp/"),
    ("reqwest", "clouds/http/"),
    ("quick_xml", "clouds/aws/account/bucket.rs"),
    ("nvml_wrapper", "telemetry/counters/nvml.rs"),
    ("lettre", "clouds/mail.rs"),
    ("object_store", "runstore/store/"),
    ("microlp", "budget/portfolio/assignment/solver.rs"),
    ("parquet", "budget/bill/columnar.rs budget/bill/columnar/"),
    ("serde_saphyr", "import/yaml.rs export/yaml.rs"),
    (
        "rusqlite",
        "budget/ledger.rs budget/bill/survey.rs market/cache.rs launch/journal/ workload/trace/nsight.rs telemetry/exports/mlflow.rs",
    ),
    ("clap", "cli/"),
    ("indicatif", "cli/"),
    ("comfy_table", "report/text/table.rs"),
    ("print!", "cli/session/printer.rs"),
    // A build script speaks to cargo.
    ("println!", "cli/session/printer.rs cli/build.rs embedded/build.rs"),
    ("eprint!", "cli/session/printer.rs"),
    ("eprintln!", "cli/session/printer.rs"),
    ("io::stdout", "cli/session/printer.rs"),
    ("io::stderr", "cli/session/printer.rs"),
];

/// Physics does not know money: a rule for the stages under `market`.
const WITHOUT_MONEY: &str = "workload hardware calibration estimate telemetry";

const PANICS: &str = ".unwrap() panic! todo! unimplemented! unreachable!";
/// An `expect` says in so many words why it cannot happen.
const LEAST_WORDS_OF_A_REASON: usize = 3;

const EMPTY_NAMES: &str = "util utils helper helpers common manager misc";

const MOST_LINES_OF_A_FILE: usize = 500;
const MOST_LINES_OF_MAIN: usize = 10;
const MOST_LINES_OF_A_FUNCTION: usize = 70;

/// A file of `src/`: its path below it, its text, and its code with comments, texts and tests blanked, line by line the same.
struct Source {
    path: String,
    text: String,
    code: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: without_tests(&without_comments_and_texts(text)) }
    }

    /// The crate whose folder the file lies in. `None` for the roots `lib.rs`, `main.rs` and `agent_main.rs`.
    fn stage(&self) -> Option<&'static str> {
        let inside = |name: &&str| self.path.starts_with(&format!("{}/", folder(name)));
        CRATES.iter().map(|(name, _)| *name).filter(inside).max_by_key(|name| name.len())
    }

    fn is_in(&self, places: &str) -> bool {
        places
            .split_whitespace()
            .any(|place| if place.ends_with('/') { self.path.starts_with(place) } else { self.path == place })
    }

    /// What stands behind the `expect` here is a text of some words, on its line or the next.
    fn has_reason(&self, expect: usize) -> bool {
        let from = self.text.lines().skip(line(&self.code, expect) - 1).take(3).collect::<Vec<_>>().join("\n");
        let reason = from.split_once(".expect(").map_or("", |(_, rest)| rest.trim_start());
        let quoted = reason.strip_prefix('"').and_then(|rest| rest.split('"').next()).unwrap_or_default();
        // Or a constant, for a reason that several places share.
        let name = name_at(reason);
        let is_constant = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
        is_constant || quoted.split_whitespace().count() >= LEAST_WORDS_OF_A_REASON
    }

    /// One finding for each place where the code has `word`.
    fn each(&self, word: &str, advice: &str) -> Vec<String> {
        let shown = word.trim_end_matches(['(', '{', ':']);
        positions(&self.code, word).map(|at| self.at(at, &format!("`{shown}`: {advice}"))).collect()
    }

    fn at(&self, position: usize, what: &str) -> String {
        format!("src/{}:{}: {what}", self.path, line(&self.code, position))
    }
}

/// Of a crate, in `src/`.
fn folder(name: &str) -> String {
    name.replace('-', "/")
}

/// Where `word` stands and is not the end of a longer name.
fn positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let starts_a_name = word.starts_with(is_name);
    code.match_indices(word).map(|(at, _)| at).filter(move |at| !(starts_a_name && code[..*at].ends_with(is_name)))
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn has_word(words: &str, wanted: &str) -> bool {
    words.split_whitespace().any(|word| word == wanted)
}

fn name_at(code: &str) -> &str {
    code.split(|character| !is_name(character)).next().unwrap_or_default()
}

fn line(code: &str, position: usize) -> usize {
    code[..position].matches('\n').count() + 1
}

fn blank(text: impl Iterator<Item = char>) -> impl Iterator<Item = char> {
    text.map(|character| if character == '\n' { '\n' } else { ' ' })
}

fn without_comments_and_texts(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let inside_name = at > 0 && is_name(characters[at - 1]);
        let end =
            end_of_opaque(&characters[at..], inside_name).map_or(at, |length| (at + length).min(characters.len()));
        if end == at {
            code.push(characters[at]);
            at += 1;
        } else {
            code.extend(blank(characters[at..end].iter().copied()));
            at = end;
        }
    }
    code
}

/// Length of the comment, text or character literal that starts here.
fn end_of_opaque(rest: &[char], inside_name: bool) -> Option<usize> {
    let starts =
        |text: &str, at: usize| text.chars().enumerate().all(|(index, wanted)| rest.get(at + index) == Some(&wanted));
    if starts("//", 0) {
        return Some(rest.iter().position(|character| *character == '\n').unwrap_or(rest.len()));
    }
    if starts("/*", 0) {
        let (mut depth, mut at) = (1, 2);
        while depth > 0 && at < rest.len() {
            let step = if starts("/*", at) { 1 } else { -i32::from(starts("*/", at)) };
            depth += step;
            at += if step == 0 { 1 } else { 2 };
        }
        return Some(at);
    }
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| !inside_name && starts(prefix, 0));
    if let Some(prefix) = prefix {
        let hashes = rest[prefix.len()..].iter().take_while(|character| **character == '#').count();
        let open = prefix.len() + hashes;
        if rest.get(open) == Some(&'"') {
            let close = format!("\"{}", "#".repeat(hashes));
            return (open + 1..rest.len()).find(|at| starts(&close, *at)).map(|at| at + close.len());
        }
    }
    match (rest[0], rest.get(1), rest.get(2)) {
        ('"', ..) => Some(end_of_quoted(rest, '"')),
        ('\'', Some('\\'), _) => Some(end_of_quoted(rest, '\'')),
        ('\'', Some(_), Some('\'')) => Some(3),
        // A lifetime.
        _ => None,
    }
}

fn end_of_quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Blanks every item under `#[cfg(test)]`, and the whole of a file that says `#![cfg(test)]`.
fn without_tests(code: &str) -> String {
    if code.contains("#![cfg(test)]") {
        return blank(code.chars()).collect();
    }
    let (mut kept, mut rest) = (String::with_capacity(code.len()), code);
    while let Some(start) = rest.find("#[cfg(test)]") {
        let end = end_of_item(rest, start);
        kept.push_str(&rest[..start]);
        kept.extend(blank(rest[start..end].chars()));
        rest = &rest[end..];
    }
    kept + rest
}

/// Behind the `;` or the closing brace of the item that starts here.
fn end_of_item(code: &str, start: usize) -> usize {
    let mut depth = 0_i32;
    for (at, character) in code[start..].char_indices() {
        depth += match character {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        if depth == 0 && matches!(character, ';' | '}') {
            return start + at + 1;
        }
    }
    code.len()
}

fn files(folder: &Path, into: &mut Vec<Source>, root: &Path) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, into, root);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            into.push(Source::new(&name, &fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Read once: every rule looks at all of them.
fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources = Vec::new();
        files(&root, &mut sources, &root);
        assert!(sources.len() > 10, "no sources under {}", root.display());
        sources
    });
    &SOURCES
}

fn complain(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

type Rule = fn(&Source) -> Vec<String>;

/// Proves the rule on examples of path and text, then holds `src/` to it.
fn hold(rule: Rule, bad: &[(&str, &str)], good: &[(&str, &str)]) {
    for (path, text) in bad {
        assert!(
            !rule(&Source::new(path, text)).is_empty(),
            "the rule does not see what is wrong in src/{path}:\n{text}"
        );
    }
    for (path, text) in good {
        complain(&rule(&Source::new(path, text)));
    }
    complain(&sources().iter().flat_map(rule).collect::<Vec<_>>());
}

/// Crates of this workspace in a table of a manifest, without `gpuplan-`.
fn imported(manifest: &toml::Table, table: &str) -> BTreeSet<String> {
    let names = manifest.get(table).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
    names.filter_map(|name| Some(name.strip_prefix("gpuplan-")?.to_owned())).collect()
}

/// What a row, the manifest and the code of one crate say differently.
fn disagreements(name: &str, row: &str, manifest: &toml::Table, code: &str) -> Vec<String> {
    let at = format!("src/{}/Cargo.toml", folder(name));
    let mut problems = Vec::new();
    let listed: BTreeSet<String> = row.split_whitespace().map(str::to_owned).collect();
    let dependencies = imported(manifest, "dependencies");
    for import in listed.symmetric_difference(&dependencies) {
        problems.push(format!("{at}: `{import}` stands in only one of the manifest and the row of CRATES"));
    }
    // Those have no code.
    for import in dependencies.iter().filter(|import| !import.starts_with("features")) {
        let name = format!("gpuplan_{}", import.replace('-', "_"));
        if !positions(code, &name).any(|at| !code[at + name.len()..].starts_with(is_name)) {
            problems.push(format!("{at}: no code imports `{import}`: drop the dependency"));
        }
    }
    for import in imported(manifest, "dev-dependencies") {
        problems.push(format!(
            "{at}: tests of `{name}` need `{import}`: they belong to a crate that may import it, or to tests/"
        ));
    }
    problems
}

#[test]
fn the_table_of_crates_is_what_is_imported() {
    let manifest = |text: &str| text.parse::<toml::Table>().unwrap();
    let market = manifest("[dependencies]\ngpuplan-units.workspace = true\nserde.workspace = true\n");
    assert!(disagreements("market", "units", &market, "use gpuplan_units::Usd;").is_empty());
    assert_eq!(disagreements("market", "units", &market, "use gpuplan_units_of_old::Usd;").len(), 1);
    assert_eq!(disagreements("market", "units hardware", &market, "use gpuplan_units::Usd;").len(), 1);
    assert_eq!(disagreements("market", "", &market, "use gpuplan_units::Usd;").len(), 1);
    let tests = manifest("[dev-dependencies]\ngpuplan-plan.workspace = true\n");
    assert_eq!(disagreements("market", "", &tests, "").len(), 1);

    let (sources, mut problems) = (sources(), Vec::new());
    for (name, row) in CRATES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder(name)).join("Cargo.toml");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let code: String =
            sources.iter().filter(|source| source.stage() == Some(name)).map(|source| source.code.as_str()).collect();
        problems.extend(disagreements(name, row, &manifest(&text), &code));
    }
    complain(&problems);
}

#[test]
fn every_file_belongs_to_a_crate() {
    hold(
        |source| {
            let root = ["lib.rs", "main.rs", "agent_main.rs"].contains(&source.path.as_str());
            let advice = "put the code into a crate, or add a row to CRATES and docs/design.md";
            match source.stage() {
                None if !root => vec![format!("src/{}: it belongs to no crate; {advice}", source.path)],
                None => {
                    source.each("gpuplan::", "the program starts `gpuplan_cli` and nothing else; put the code there")
                }
                Some(_) => Vec::new(),
            }
        },
        &[("extras/lib.rs", "//! A crate that is in no table."), ("main.rs", "fn main() { gpuplan::plan::plan() }")],
        &[("clouds/aws/lib.rs", ""), ("main.rs", "fn main() { gpuplan_cli::run() }")],
    );
}

#[test]
fn imports_are_written_so_that_they_can_be_checked() {
    hold(
        |source| {
            let advice = "write `use crate::module::...`, without a star or another name";
            let words = ["crate::*", "crate as ", "super::super", "extern crate"];
            words.iter().flat_map(|word| source.each(word, advice)).collect()
        },
        &[
            ("plan/run.rs", "use super::super::report::table;"),
            ("plan/run.rs", "use crate as all;"),
            ("plan/run.rs", "extern crate self as gpuplan;"),
        ],
        &[(
            "plan/run.rs",
            "use crate::bill::{Bill, Line};\nuse crate::{Plan, World};\nuse super::bill::Bill;\npub(crate) fn f() {}",
        )],
    );
}

#[test]
fn files_of_a_crate_import_each_other_without_circles() {
    let (sources, mut problems) = (sources(), Vec::new());
    for (name, _) in CRATES {
        let inside = format!("{}/", folder(name));
        let files = sources.iter().filter(|source| source.stage() == Some(name));
        let files = files.filter_map(|source| Some((source.path.strip_prefix(&inside)?, source.code.as_str())));
        for circle in Files::new(files).circles() {
            let files = circle.into_iter().collect::<Vec<_>>().join(", ");
            let advice = "move what ties them to the ground of the crate, or what leads them to a file above";
            problems.push(format!("src/{inside}: a circle of {files}: {advice}"));
        }
    }
    complain(&problems);
}

#[test]
fn only_the_edge_touches_the_world() {
    hold(
        |source| {
            if source.is_in(EDGE) {
                return Vec::new();
            }
            WORLD
                .iter()
                .flat_map(|(word, instead)| source.each(word, &format!("belongs at the edge (EDGE); here {instead}")))
                .collect()
        },
        &[
            ("plan/run.rs", "use std::fs::File;"),
            ("plan/run.rs", "use std::{env, fmt};"),
            ("market/quote.rs", "let age = jiff::Timestamp::now() - observed_at;"),
            ("market/cached.rs", "let day = std::env::var(name);"),
            ("agent/fence.rs", "std::thread::sleep(pause);"),
            ("workload/catalog.rs", "if Path::new(name).exists() {}"),
            ("launch/state.rs", "use std::process::ExitCode;"),
        ],
        &[
            ("cli/session.rs", "let now = Timestamp::now();"),
            ("main.rs", "fn main() -> std::process::ExitCode {}"),
            ("market/cache.rs", "use std::fs;"),
            ("plan/run.rs", "const HELP: &str = \"std::fs\"; // std::fs\n#[cfg(test)]\nmod tests { use std::fs; }"),
        ],
    );
}

#[test]
fn foreign_crates_stay_with_their_owner() {
    hold(
        |source| {
            let foreign = OWNERS.iter().filter(|(_, owners)| !source.is_in(owners));
            foreign
                .flat_map(|(word, owners)| {
                    source.each(
                        word,
                        &format!("belongs in src/{}; call what stands there", owners.replace(' ', " or src/")),
                    )
                })
                .collect()
        },
        &[
            ("plan/choose.rs", "println!(\"{plan}\");"),
            ("cli/plan.rs", "eprintln!(\"note\");"),
            ("cli/plan.rs", "std::io::stdout().lock();"),
            ("report/plan/plan_text.rs", "use comfy_table::Table;"),
            ("clouds/aws/feed.rs", "use reqwest::Client;"),
            ("clouds/gcp/launch.rs", "use aws_sdk_ec2::Client;"),
            ("hardware/selector.rs", "#[derive(clap::ValueEnum)]"),
        ],
        &[
            ("cli/session/printer.rs", "let out = io::stdout().lock();"),
            ("clouds/aws/launch.rs", "use aws_sdk_ec2::Client;"),
            ("plan/choose.rs", "let overclap = sprintln!(1);"),
        ],
    );
}

#[test]
fn physics_knows_no_money() {
    hold(
        |source| {
            let physics = source.stage().is_some_and(|stage| has_word(WITHOUT_MONEY, stage));
            if physics {
                source.each("Usd", "physics has no prices; money starts in `market` and meets time in `plan`")
            } else {
                Vec::new()
            }
        },
        &[("estimate/step.rs", "use crate::units::Usd;"), ("hardware/instance.rs", "pub rate: UsdPerHour,")],
        &[("market/quote.rs", "pub rate: UsdPerHour,")],
    );
}

#[test]
fn nothing_panics_outside_tests() {
    hold(
        |source| {
            let advice = "give a `Result` with an error variant that says what the caller does next, or a value that cannot fail";
            let mut problems: Vec<String> =
                PANICS.split_whitespace().flat_map(|word| source.each(word, advice)).collect();
            let unexplained = positions(&source.code, ".expect(").filter(|at| !source.has_reason(*at));
            problems.extend(unexplained.map(|at| {
                source.at(
                    at,
                    "`.expect`: say why it cannot happen, and have a test or a constructor prove it; else an error",
                )
            }));
            problems
        },
        &[
            ("units/money.rs", "text.parse().unwrap()"),
            ("units/money.rs", "x\n    .expect(\"a digit\")"),
            ("plan/run.rs", "_ => unreachable!(),"),
        ],
        &[
            ("units/money.rs", "text.parse().unwrap_or_default()"),
            ("units/money.rs", "LAST.parse()\n    .expect(\"a test reads every constant\")"),
            (
                "units/money.rs",
                "/// `x.unwrap()`\n#[cfg(test)]\nmod tests { fn f() { x.unwrap(); } }\nconst A: u8 = 1;",
            ),
        ],
    );
}

#[test]
fn every_file_says_its_role_and_is_short() {
    let long = format!("//! Long file.\n{}", "const A: u8 = 1;\n".repeat(MOST_LINES_OF_A_FILE));
    let long_main = format!("//! Long program.\n{}", "const A: u8 = 1;\n".repeat(MOST_LINES_OF_MAIN));
    hold(
        |source| {
            let mut problems = Vec::new();
            let role = source.text.lines().next().and_then(|line| line.strip_prefix("//! "));
            if role.is_none_or(|role| role.split_whitespace().count() < 2) {
                problems.push(format!("src/{}:1: the first line is `//! ` and says what the file is for", source.path));
            }
            let (lines, most) = (
                source.text.lines().count(),
                if ["main.rs", "agent_main.rs"].contains(&source.path.as_str()) {
                    MOST_LINES_OF_MAIN
                } else {
                    MOST_LINES_OF_A_FILE
                },
            );
            if lines > most {
                let advice = "move one of its ideas to a file of its own beside it";
                problems.push(format!("src/{}:{most}: {lines} lines, {most} are the limit: {advice}", source.path));
            }
            problems
        },
        &[
            ("plan/run.rs", &long),
            ("main.rs", &long_main),
            ("plan/run.rs", "use std::fmt;"),
            ("plan/run.rs", "//! run"),
            ("plan/run.rs", ""),
        ],
        &[("plan/run.rs", "//! Run time of a plan.\n")],
    );
}

#[test]
fn no_function_is_long() {
    let body = "    x = [1; 3];\n".repeat(MOST_LINES_OF_A_FUNCTION);
    let (long, method) = (
        format!("fn f() {{\n{body}}}"),
        format!("impl A {{\n    pub fn f(&self, a: [u8; 2]) -> u8 {{\n{body}    }}\n}}"),
    );
    let short =
        format!("trait A {{ fn f(&self); }}\ntype F = fn(u8);\n{body}fn g() {{ '{{'; \"{{\"; /* {{ */ }}\n{body}");
    hold(
        |source| {
            let functions = positions(&source.code, "fn ").map(|at| (at, name_at(&source.code[at + 3..])));
            functions
                .filter(|(_, name)| !name.is_empty())
                .filter_map(|(at, name)| {
                    let lines = source.code[at..end_of_item(&source.code, at)].lines().count();
                    let advice =
                        format!("{MOST_LINES_OF_A_FUNCTION} are the limit: give a part of it a name of its own");
                    (lines > MOST_LINES_OF_A_FUNCTION)
                        .then(|| source.at(at, &format!("`{name}` has {lines} lines, {advice}")))
                })
                .collect()
        },
        &[("plan/run.rs", &long), ("plan/run.rs", &method)],
        &[("plan/run.rs", &short), ("plan/run.rs", &format!("#[cfg(test)]\nmod tests {{\n{long}\n}}"))],
    );
}

#[test]
fn names_of_files_mean_something() {
    hold(
        |source| {
            let words = source.path.trim_end_matches(".rs").split(['/', '_']);
            words
                .filter(|word| has_word(EMPTY_NAMES, word))
                .map(|word| {
                    format!("src/{}: `{word}` says nothing; name the file after what it holds, or move the code to its user", source.path)
                })
                .collect()
        },
        &[("plan/utils.rs", ""), ("common/lib.rs", ""), ("cli/test_helpers.rs", "")],
        &[("plan/commonplace.rs", ""), ("plan/run.rs", "")],
    );
}

fn clouds_without_contract(clouds: &[String], contracts: &str) -> Vec<String> {
    let code = without_comments_and_texts(contracts);
    let untested =
        clouds.iter().filter(|cloud| positions(&code, &format!("fn {}_", cloud.replace('-', "_"))).next().is_none());
    untested
        .map(|cloud| {
            format!(
                "src/clouds/{cloud}/: no test `{cloud}_...` in tests/contracts.rs or tests/contracts/public.rs; run the contract suite on it there"
            )
        })
        .collect()
}

/// Has nothing to judge until the first cloud has a folder.
#[test]
fn every_cloud_keeps_its_contract() {
    let names = ["aws".to_owned(), "lambda".to_owned()];
    let contracts = "// fn lambda_lists_offers\n#[test]\nfn aws_lists_offers() {}";
    assert_eq!(clouds_without_contract(&names, contracts).len(), 1);
    complain(&clouds_without_contract(&names[..1], contracts));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders =
        fs::read_dir(root.join("src/clouds")).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let clouds: Vec<String> = folders
        .filter(|path| path.is_dir() && !path.ends_with("http"))
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let files = ["tests/contracts.rs", "tests/contracts/public.rs"];
    let contracts: String = files.map(|file| fs::read_to_string(root.join(file)).unwrap_or_default()).concat();
    complain(&clouds_without_contract(&clouds, &contracts));
}

#[test]
fn only_code_is_left_of_a_source() {
    for (text, code) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"f("x\"{", b"y", '{', '\'', 'a')"#, "f(      , b   ,    ,     ,    )"),
        ("r#\"a\"b\"# c br\"d\" e", "         c       e"),
        ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
        ("r#type + her\"x\"", "r#type + her   "),
        ("a #[cfg(test)] b { c { d } } e", "a                            e"),
        ("#[cfg(test)]\n#[allow(x)]\nmod tests;\nf", "            \n           \n          \nf"),
        ("#![cfg(test)]\na", "             \n "),
    ] {
        assert_eq!(without_tests(&without_comments_and_texts(text)), code, "{text}");
    }
}
