//! The help pages: commands in groups, examples of each, and the few options that `-h` shows of a long list.

use std::ffi::OsString;

use clap::{Arg, Command};
use gpuplan_report::text::wrap::wrap;

/// A title, and commands in the order in which a newcomer needs them.
type Group = (&'static str, &'static [&'static str]);

const GROUPS: [Group; 6] = [
    ("Plan", &["init", "plan", "explain", "estimate", "export", "report"]),
    ("Prices", &["prices", "refresh", "catalog"]),
    (
        "Run",
        &[
            "launch",
            "status",
            "logs",
            "ssh",
            "exec",
            "cp",
            "forward",
            "watch",
            "stop",
            "restart",
            "take-over",
            "download",
            "verify",
            "delete",
            "gc",
        ],
    ),
    ("Measure", &["bench", "profile", "accuracy"]),
    ("Money", &["budget", "costs", "diff"]),
    ("Plumbing", &["doctor", "setup", "agent", "mcp", "simulate", "completions", "man"]),
];

/// Columns of a terminal of common width: clap would begin the second line of a description below the names.
const NARROW: u16 = 80;

/// The group that only `--help` lists.
const SELDOM: &str = "Plumbing";

/// An example: what it does, and what is typed.
type Example = (&'static str, &'static str);

/// A command, the options that its `-h` shows (all where none is named), and examples: the first two stand in `-h` too.
type Page = (&'static str, &'static [&'static str], &'static [Example]);

/// Of the workload, the limits and the prices, what nearly everybody needs.
const USUAL: &[&str] = &[
    "file",
    "model",
    "config",
    "task",
    "tokens",
    "deadline",
    "budget",
    "gpus",
    "clouds",
    "regions",
    "spot",
    "on_demand",
    "live",
    "plan",
    "cases",
    "to",
    "out",
    "format",
    "dry_run",
    "yes",
    "store",
    "command",
    "from",
];

/// The same of a launch.
const LAUNCHING: &[&str] = &[
    "file",
    "deadline",
    "budget",
    "gpus",
    "clouds",
    "regions",
    "spot",
    "on_demand",
    "plan",
    "run",
    "store",
    "workdir",
    "dry_run",
    "detach",
    "yes",
    "command",
];

#[rustfmt::skip]
const PAGES: [Page; 46] = [
    ("init", &[], &[
        ("LoRA fine-tuning, as a file to edit", "gpuplan init --model llama-3.1-8b --task lora --tokens 50M"),
        ("Another file, with a deadline and a budget", "gpuplan init train.toml --model gpt-2 --task pretrain --tokens 10B --deadline 3d --budget 500"),
    ]),
    ("plan", USUAL, &[
        ("A workload file", "gpuplan plan examples/llama-3.1-8b-finetune.toml"),
        ("Flags alone", "gpuplan plan --model llama-3.1-8b --task lora --tokens 50M --budget 100"),
        ("Only some GPUs, on one cloud, within two days", "gpuplan plan examples/llama-7b-pretrain.toml --gpus H100:8..64 --cloud aws --deadline 20d"),
        ("With today's prices", "gpuplan plan examples/llama-3.1-8b-lora.toml --live"),
        ("The price of an existing Slurm, SkyPilot or Kubernetes job", "gpuplan plan --from job.sbatch --model llama-3.1-8b --task lora --tokens 50M"),
        ("A plan to keep, for export, report, launch and diff", "gpuplan plan examples/llama-3.1-8b-lora.toml --output json"),
    ]),
    ("explain", USUAL, &[
        ("The recommended plan in full", "gpuplan explain examples/llama-3.1-8b-lora.toml"),
        ("Why not this GPU", "gpuplan explain examples/llama-3.1-8b-lora.toml --plan A100"),
    ]),
    ("estimate", USUAL, &[
        ("Memory and step time on eight H100", "gpuplan estimate examples/llama-3.1-8b-lora.toml --gpus H100:8"),
        ("Many cases, a line of JSON each", "gpuplan estimate --cases cases.jsonl --output json"),
    ]),
    ("export", USUAL, &[
        ("A Slurm script", "gpuplan export plan.json --to slurm -- python train.py"),
        ("A Kubernetes job", "gpuplan export plan.json --to kubernetes --image registry/train:1 --store s3://bucket/runs -- python train.py"),
    ]),
    ("report", USUAL, &[
        ("A page of a plan", "gpuplan report examples/llama-7b-pretrain.toml --out report.html"),
        ("Markdown of a plan that was kept", "gpuplan report plan.json --format md --out plan.md"),
        ("Pages of all runs that renew themselves", "gpuplan report --watch pages"),
    ]),
    ("prices", &[], &[
        ("Eight H100 in one machine, cheapest first", "gpuplan prices H100:8"),
        ("Spot prices of one cloud, now", "gpuplan prices A100 --cloud aws --spot --live"),
        ("Everything, for a spreadsheet", "gpuplan prices --max-results 0 --output csv"),
    ]),
    ("refresh", &[], &[
        ("All clouds", "gpuplan refresh"),
        ("One cloud, with the last 90 days", "gpuplan refresh --cloud aws --history"),
    ]),
    ("catalog", &[], &[
        ("What is known of a GPU", "gpuplan catalog gpus H100"),
        ("Models that can be named", "gpuplan catalog models llama"),
    ]),
    ("catalog gpus", &[], &[("GPUs with 80 GB or more", "gpuplan catalog gpus 80GB+"), ("Those of this machine", "gpuplan catalog gpus --here")]),
    ("catalog instances", &[], &[("Machines with eight H100", "gpuplan catalog instances H100:8"), ("Of one cloud", "gpuplan catalog instances --cloud gcp")]),
    ("catalog hosts", &[], &[("Machines without GPU", "gpuplan catalog hosts"), ("Of one cloud", "gpuplan catalog hosts --cloud aws")]),
    ("catalog models", &[], &[("All models", "gpuplan catalog models"), ("Those of a family", "gpuplan catalog models qwen")]),
    ("catalog check", &[], &[("The catalog of this program", "gpuplan catalog check"), ("One in a folder", "gpuplan catalog check --catalog-dir catalogs")]),
    ("catalog refresh", &[], &[]),
    ("catalog publish", &[], &[("A file for other installations", "gpuplan catalog publish prices.feed --key feed.key")]),
    ("catalog import", &[], &[]),
    ("launch", LAUNCHING, &[
        ("Rehearse on this machine, for nothing", "gpuplan launch examples/llama-3.1-8b-lora.toml --cloud fake -- ./train.py"),
        ("Show what would be rented", "gpuplan launch examples/llama-3.1-8b-lora.toml --cloud aws --store s3://bucket/runs --dry-run -- python train.py"),
        ("Send a folder, prepare the machine, run in the background", "gpuplan launch plan.json --store s3://bucket/runs --workdir . --setup 'pip install -r requirements.txt' --detach -- python train.py"),
        ("Submit to a cluster instead of renting", "gpuplan launch plan.json --on slurm -- python train.py"),
    ]),
    ("status", &[], &[("All runs", "gpuplan status"), ("One run, for a script", "gpuplan status RUN --output json")]),
    ("logs", &[], &[("The output so far", "gpuplan logs RUN"), ("To its end", "gpuplan logs RUN --follow"), ("Lines that match, of the last hour", "gpuplan logs RUN --since 1h --grep loss")]),
    ("ssh", &[], &[("The first machine", "gpuplan ssh RUN"), ("The second", "gpuplan ssh RUN --node 1")]),
    ("exec", &[], &[("What its GPUs do", "gpuplan exec RUN -- nvidia-smi"), ("On the second machine", "gpuplan exec RUN --node 1 -- df -h")]),
    ("cp", &[], &[("From the machine", "gpuplan cp RUN :metrics.csv ."), ("To it", "gpuplan cp RUN config.yaml :config.yaml")]),
    ("forward", &[], &[("TensorBoard", "gpuplan forward RUN 6006"), ("And a notebook", "gpuplan forward RUN 6006 8888")]),
    ("watch", &[], &[("Lead a run whose launch was interrupted", "gpuplan watch RUN"), ("Do so whenever you are signed in", "gpuplan watch RUN --unit")]),
    ("stop", &[], &[("End the machines, keep the checkpoints", "gpuplan stop RUN"), ("Then go on later", "gpuplan restart RUN")]),
    ("restart", &[], &[("From the latest checkpoint", "gpuplan restart RUN"), ("See how it goes", "gpuplan status RUN")]),
    ("take-over", &[], &[("A run that a colleague launched", "gpuplan take-over RUN --store s3://bucket/runs"), ("Then lead it", "gpuplan watch RUN")]),
    ("download", &[], &[("The latest checkpoint", "gpuplan download RUN"), ("Into a folder", "gpuplan download RUN checkpoint")]),
    ("verify", &[], &[("Read and compare every file", "gpuplan verify RUN"), ("Only that they are there", "gpuplan verify RUN --quick")]),
    ("delete", &[], &[("Machines and everything saved", "gpuplan delete RUN"), ("Without a question", "gpuplan delete RUN --yes")]),
    ("gc", &[], &[("Every cloud with credentials", "gpuplan gc"), ("One cloud, without a question", "gpuplan gc --cloud aws --yes")]),
    ("bench", &["simulate", "quick", "full", "data", "file"], &[
        ("Twenty seconds on this GPU", "gpuplan bench"),
        ("With the shapes of a workload, for three minutes", "gpuplan bench examples/llama-3.1-8b-lora.toml --full"),
    ]),
    ("profile", &[], &[
        ("A training command as it is", "gpuplan profile run -- python train.py"),
        ("A trace of the PyTorch profiler", "gpuplan profile trace trace.json"),
    ]),
    ("profile run", &[], &[
        ("A training command as it is", "gpuplan profile run -- python train.py"),
        ("For a plan that goes by it", "gpuplan profile run --workload examples/llama-3.1-8b-lora.toml --out profile.json -- python train.py"),
    ]),
    ("profile trace", &[], &[
        ("A trace of the PyTorch profiler", "gpuplan profile trace trace.json"),
        ("On GPUs that it does not name", "gpuplan profile trace trace.json --gpus H100:8"),
    ]),
    ("accuracy", &[], &[("By kind of model", "gpuplan accuracy --by family"), ("Of your own runs", "gpuplan accuracy --mine")]),
    ("budget", &[], &[
        ("A portfolio of runs", "gpuplan budget examples/portfolio.toml"),
        ("For a pull request", "gpuplan budget examples/portfolio.toml --output markdown"),
        ("Against what was spent", "gpuplan budget examples/portfolio.toml --actual"),
        ("Rows for a FinOps tool", "gpuplan budget examples/portfolio.toml --focus 1.2"),
    ]),
    ("costs", &[], &[
        ("By run", "gpuplan costs"),
        ("By team, of October", "gpuplan costs --store s3://bucket/prefix --by team --since 2026-10-01 --until 2026-11-01"),
    ]),
    ("costs import", &[], &[
        ("An AWS bill", "gpuplan costs import cur-00001.snappy.parquet cur-00002.snappy.parquet"),
        ("Then the comparison", "gpuplan costs"),
    ]),
    ("diff", &[], &[
        ("Two plans", "gpuplan diff before.json after.json"),
        ("For a pull request, with the rules of the house", "gpuplan diff before.json after.json --policy policy.toml --output markdown"),
    ]),
    ("doctor", USUAL, &[("Accounts and credentials", "gpuplan doctor"), ("And the quota that a plan needs", "gpuplan doctor examples/llama-3.1-8b-lora.toml")]),
    ("setup", &[], &[("See what would be made", "gpuplan setup aws --print"), ("Make it", "gpuplan setup aws --region us-east-1")]),
    ("agent", &["store", "run", "checkpoints", "command"], &[
        ("Restore, upload and go on after an interruption", "gpuplan agent --store s3://bucket/runs --run NAME -- python train.py"),
        ("The same on this machine", "gpuplan agent --store file:///tmp/runs -- python train.py"),
    ]),
    ("mcp", &[], &[
        ("On standard input and output, as the agent starts it", "gpuplan mcp"),
        ("With the prices that are here already", "gpuplan mcp --offline"),
    ]),
    ("simulate", &[], &[
        ("Cases, a line of JSON each", "gpuplan simulate --traces traces.jsonl --cases cases.jsonl --output json"),
        ("All policies side by side", "gpuplan simulate --traces traces.jsonl --evaluate"),
    ]),
];

/// The program with its help: what is parsed, completed and printed as manual pages.
pub fn program(mut program: Command) -> Command {
    for page in &PAGES {
        program = with_page(program, page.0, page);
    }
    let (short, long) = (overview(&program, false), overview(&program, true));
    program
        .help_template("{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}")
        .after_help(short)
        .after_long_help(long)
}

/// The short help of the command that was typed, or of the program.
pub fn of_typed(program: Command, words: impl Iterator<Item = OsString>) -> String {
    let mut program = self::program(program);
    program.build();
    let mut words = words.skip(1).map(|word| word.to_string_lossy().into_owned());
    let typed = words.find(|word| program.find_subcommand(word).is_some());
    match typed.and_then(|word| program.find_subcommand_mut(word)) {
        Some(command) => command.render_help().to_string(),
        None => program.render_help().to_string(),
    }
}

fn with_page(program: Command, path: &str, page: &Page) -> Command {
    match path.split_once(' ') {
        Some((first, rest)) => program.mut_subcommand(first, |command| with_page(command, rest, page)),
        None => program.mut_subcommand(path, |command| described(command, page)),
    }
}

fn described(command: Command, (_, shown, examples): &Page) -> Command {
    let is_long = !shown.is_empty();
    let command =
        command.mut_args(|arg| if is_long && !is_shown(&arg, shown) { arg.hide_short_help(true) } else { arg });
    if examples.is_empty() {
        return command;
    }
    let more = if is_long { "\n\nEvery option, with more examples: --help" } else { "" };
    command
        .after_help(format!("{}{more}", listed(&examples[..examples.len().min(2)])))
        .after_long_help(listed(examples))
}

fn is_shown(arg: &Arg, shown: &[&str]) -> bool {
    shown.contains(&arg.get_id().as_str())
}

fn listed(examples: &[Example]) -> String {
    let lines: Vec<String> = examples.iter().map(|(what, typed)| format!("  # {what}\n  {typed}")).collect();
    format!("Examples:\n{}", lines.join("\n"))
}

/// The commands by group, and two examples.
fn overview(program: &Command, is_long: bool) -> String {
    let width = program.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let about = |name: &str| program.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
    let mut text = String::new();
    for (title, commands) in GROUPS.iter().filter(|(title, _)| is_long || *title != SELDOM) {
        text.push_str(&format!("{title}:\n"));
        for name in *commands {
            let line = format!("  {name:<width$}  {}", about(name).unwrap_or_default());
            text.push_str(&format!("{}\n", wrap(&line, NARROW, &" ".repeat(width + 4))));
        }
        text.push('\n');
    }
    text.push_str("Examples:\n  gpuplan plan examples/llama-3.1-8b-finetune.toml\n  gpuplan plan --model llama-3.1-8b --task lora --tokens 50M --budget 100\n\n");
    let more = "`gpuplan COMMAND -h` shows the usual options of a command, `gpuplan COMMAND --help` all of them";
    text.push_str(more);
    text.push_str(if is_long { "." } else { "; `gpuplan --help` lists seldom used commands too." });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Arguments;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    fn program() -> Command {
        super::program(Arguments::command())
    }

    #[test]
    fn every_command_stands_in_one_group_and_has_examples() {
        let program = program();
        let names: BTreeSet<&str> =
            program.get_subcommands().map(Command::get_name).filter(|name| *name != "help").collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, commands)| commands.iter().copied()).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), names);
        assert_eq!(grouped.len(), names.len(), "a command stands in two groups");
        for name in names.iter().filter(|name| !["man", "completions"].contains(name)) {
            assert!(
                PAGES.iter().any(|(page, _, examples)| page == name && examples.len() >= 2),
                "{name} has no examples"
            );
        }
    }

    #[test]
    fn a_command_is_described_in_one_line_of_the_overview() {
        for command in program().get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!((10..=84).contains(&about.len()), "{}: {about}", command.get_name());
        }
    }

    #[test]
    fn every_example_can_be_typed() {
        for (page, _, examples) in PAGES {
            for (_, typed) in examples {
                let words = shlex(typed);
                assert!(
                    typed.starts_with(&format!("gpuplan {}", page.split(' ').next().unwrap_or(page)))
                        || page == "take-over"
                        || page == "restart"
                        || page == "stop"
                        || page == "costs import",
                    "{page}: {typed}"
                );
                if let Err(error) = program().try_get_matches_from(&words) {
                    panic!("{page}: {typed}: {error}");
                }
            }
        }
    }

    /// Words as a shell splits them, with single quotes.
    fn shlex(typed: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, part) in typed.split('\'').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    #[test]
    fn short_help_is_short_and_long_help_is_complete() {
        for name in ["plan", "explain", "launch", "export", "report"] {
            let mut program = program();
            program.build();
            let command = program.find_subcommand_mut(name).unwrap();
            let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
            assert!(short.lines().count() <= 55, "{name} -h has {} lines", short.lines().count());
            assert!(long.lines().count() > 2 * short.lines().count() && long.contains("--sequence-length"), "{name}");
            assert!(
                short.contains("Examples:") && short.contains("--help") && !short.contains("--sequence-length"),
                "{name}: {short}"
            );
        }
        let mut program = program();
        let (short, long) = (program.render_help().to_string(), program.render_long_help().to_string());
        assert!(short.contains("Run:\n") && !short.contains("simulate") && long.contains("  simulate"), "{short}");
    }

    #[test]
    fn earlier_names_of_commands_still_work() {
        for (earlier, line) in [
            ("fetch", "fetch RUN"),
            ("down", "down RUN"),
            ("resume", "resume RUN"),
            ("adopt", "adopt RUN --store s3://b/p"),
        ] {
            let words = std::iter::once("gpuplan").chain(line.split(' '));
            assert!(program().try_get_matches_from(words).is_ok(), "{line}");
            assert!(!program().render_long_help().to_string().contains(&format!("  {earlier} ")), "{earlier}");
        }
    }
}
