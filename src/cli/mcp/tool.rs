//! The tools: which command each one runs, and which of its arguments an agent may give. What they mean is said once, in the command line.

use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value, json};

use gpuplan_units::names::did_you_mean;

/// A command of the program as a tool.
#[derive(Debug)]
pub struct Tool {
    /// Of the tool, and of the command.
    pub name: &'static str,
    title: &'static str,
    about: &'static str,
    /// An argument with the text of a file: its name and what it holds. The command reads it from standard input.
    file: Option<(&'static str, &'static str)>,
    /// Options by their long names, positional arguments by their ids.
    takes: &'static [&'static [&'static str]],
    /// May rent machines.
    pub spends: bool,
}

/// What an agent stated, as words of a command line and the text on its standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    pub words: Vec<String>,
    pub stdin: Option<String>,
}

const WORKLOAD: Option<(&str, &str)> =
    Some(("workload", "A workload file (TOML): the text itself. Its keys are in gpuplan://schema/workload-file"));

/// What to run.
const WORK: &[&str] = &[
    "model",
    "task",
    "tokens",
    "samples",
    "epochs",
    "steps",
    "sequence-length",
    "global-batch",
    "micro-batch",
    "precision",
    "optimizer",
    "framework",
    "recompute",
    "lora-rank",
    "data-size",
    "data-place",
    "checkpoint-size",
    "set",
];

/// What a plan has to keep to.
const LIMITS: &[&str] = &[
    "deadline",
    "budget",
    "max-price",
    "cloud",
    "region",
    "gpus",
    "objective",
    "value-of-time",
    "spot",
    "on-demand",
    "max-nodes",
    "live",
    "accept-stale-prices",
];

/// How a run is launched. Not `--yes`, which is a person's, nor what replaces programs or reads secrets.
pub const LAUNCH: &[&str] = &["store", "workdir", "setup", "container", "image", "lifetime", "tag"];

pub const TOOLS: [Tool; 7] = [
    Tool {
        name: "plan",
        title: "Plan a run",
        about: "Recommend which cloud GPUs to rent for a run: how many, where, on what terms, what it costs and when it ends",
        file: WORKLOAD,
        takes: &[WORK, LIMITS],
        spends: false,
    },
    Tool {
        name: "explain",
        title: "Explain a plan",
        about: "Time, memory and bill of one plan in full, why it was not recommended, and what would change that",
        file: WORKLOAD,
        takes: &[WORK, LIMITS, &["plan"]],
        spends: false,
    },
    Tool {
        name: "estimate",
        title: "Estimate step time and memory",
        about: "Step time, throughput and GPU memory of a workload on given GPUs, each as a band; knows no prices",
        file: WORKLOAD,
        takes: &[WORK, &["gpus"]],
        spends: false,
    },
    Tool {
        name: "prices",
        title: "List prices",
        about: "Offers of GPU machines, cheapest first, each with origin and age of its price and with doubts about it",
        file: None,
        takes: &[&["gpus", "cloud", "region", "spot", "on-demand", "commitments", "trusted", "live", "hosts"]],
        spends: false,
    },
    Tool {
        name: "budget",
        title: "Forecast a budget",
        about: "What many runs cost by month and team, with their probabilities",
        file: Some((
            "portfolio",
            "A portfolio file (TOML): the text itself, as in gpuplan://schema/portfolio-file; or a single workload, or a plan (JSON)",
        )),
        takes: &[&["live", "accept-stale-prices"]],
        spends: false,
    },
    Tool {
        name: "status",
        title: "Show runs",
        about: "Runs that were launched from here: their state, machines, progress and what they have cost",
        file: None,
        takes: &[&["run"]],
        spends: false,
    },
    Tool {
        name: "launch",
        title: "Launch a run",
        about: "Rent the planned machines and run a command there. A person has to confirm it; otherwise it answers with what would be rented and the command to type",
        file: WORKLOAD,
        takes: &[WORK, LIMITS, LAUNCH],
        spends: true,
    },
];

pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

pub fn unknown(name: &str) -> String {
    match did_you_mean(name, TOOLS.iter().map(|tool| tool.name)) {
        Some(meant) => format!("there is no tool `{name}`; did you mean `{meant}`?"),
        None => format!("there is no tool `{name}`; tools/list names them"),
    }
}

impl Tool {
    /// As `tools/list` shows it.
    pub fn described(&self, commands: &Command) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        if let Some((name, about)) = self.file {
            properties.insert(name.to_owned(), json!({"type": "string", "description": about}));
            required.extend((self.name == "budget").then_some(name));
        }
        properties.extend(self.arguments(commands).map(|arg| (property(arg), schema(arg))));
        if self.spends {
            properties.extend(LAUNCH_ONLY.iter().map(|(name, shape)| ((*name).to_owned(), shape())));
            required.push("command");
        } else {
            let about = "Give every list in full: plans of a large market are hundreds of kilobytes";
            properties.insert("full".to_owned(), json!({"type": "boolean", "description": about}));
        }
        let input =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": input,
            "annotations": {"readOnlyHint": !self.spends, "destructiveHint": self.spends, "openWorldHint": true},
        })
    }

    /// The command line that an agent's arguments stand for, or what is wrong with them.
    pub fn typed(&self, commands: &Command, given: &Map<String, Value>) -> Result<Typed, String> {
        let mut typed = Typed { words: vec![self.name.to_owned()], stdin: None };
        let mut positional = Vec::new();
        for (name, value) in given {
            // What some clients send for everything that was not stated.
            if value.is_null() {
                continue;
            }
            if let Some((file, _)) = self.file.filter(|(file, _)| file == name) {
                let text = value.as_str().ok_or_else(|| format!("`{file}` is the text of a file"))?;
                typed.stdin = Some(text.to_owned());
                positional.push("-".to_owned());
                continue;
            }
            let arg = self.arguments(commands).find(|arg| property(arg) == *name);
            let arg = arg.ok_or_else(|| self.no_argument(commands, name))?;
            let words = words(arg, value).map_err(|wanted| format!("`{name}` is {wanted}"))?;
            if arg.is_positional() { &mut positional } else { &mut typed.words }.extend(words);
        }
        typed.words.extend(positional);
        Ok(typed)
    }

    fn arguments<'a>(&'a self, commands: &'a Command) -> impl Iterator<Item = &'a Arg> {
        let command = commands.find_subcommand(self.name);
        let names = self.takes.iter().copied().flatten();
        names.filter_map(move |name| command?.get_arguments().find(|arg| long(arg) == *name))
    }

    fn no_argument(&self, commands: &Command, name: &str) -> String {
        let known: Vec<String> = self.arguments(commands).map(property).collect();
        match did_you_mean(name, known.iter().map(String::as_str)) {
            Some(meant) => format!("`{}` takes no `{name}`; did you mean `{meant}`?", self.name),
            None => format!("`{}` takes no `{name}`", self.name),
        }
    }
}

/// An argument and its schema.
type Own = (&'static str, fn() -> Value);

/// What the tool `launch` takes and hands on in its own way.
pub const LAUNCH_ONLY: [Own; 3] = [
    (
        "command",
        || json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "The training command, word by word"}),
    ),
    ("run", || json!({"type": "string", "description": "Name the run"})),
    (
        "rehearse",
        || json!({"type": "boolean", "description": "Rehearse on this computer with a fake cloud, for nothing; the command runs here"}),
    ),
];

/// The long name of an option, the id of a positional argument.
fn long(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_else(|| arg.get_id().as_str())
}

fn property(arg: &Arg) -> String {
    long(arg).replace('-', "_")
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// One type each: many clients turn schemas into types of their own and know no lists of types. `words` takes more than it says.
fn schema(arg: &Arg) -> Value {
    let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
    match arg.get_action() {
        ArgAction::SetTrue => json!({"type": "boolean", "description": about}),
        ArgAction::Append => json!({"type": "array", "items": {"type": "string"}, "description": about}),
        _ => json!({"type": "string", "description": about}),
    }
}

/// What is typed for a value, or what the value should be. An option and its value are one word, so that no value becomes an option.
fn words(arg: &Arg, value: &Value) -> Result<Vec<String>, &'static str> {
    let long = long(arg);
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let word = |text: String| {
        if !arg.is_positional() {
            Ok(format!("--{long}={text}"))
        } else if text.starts_with('-') {
            Err("a name, and begins with no hyphen")
        } else {
            Ok(text)
        }
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Bool(is_set)) => Ok(is_set.then(|| format!("--{long}")).into_iter().collect()),
        (ArgAction::SetTrue, _) => Err("true or false"),
        (_, Value::Array(values)) if is_list(arg) => {
            values.iter().map(|value| word(text(value).ok_or("a list of texts")?)).collect()
        }
        _ => Ok(vec![word(text(value).ok_or("a text or a number")?)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Arguments;
    use clap::CommandFactory;

    fn commands() -> Command {
        let mut commands = Arguments::command();
        commands.build();
        commands
    }

    fn typed(tool: &str, given: Value) -> Result<Typed, String> {
        find(tool).unwrap().typed(&commands(), given.as_object().unwrap())
    }

    #[test]
    fn every_argument_of_a_tool_is_one_of_its_command() {
        for tool in &TOOLS {
            let named: usize = tool.takes.iter().map(|names| names.len()).sum();
            let commands = commands();
            let missing: Vec<_> = tool
                .takes
                .iter()
                .copied()
                .flatten()
                .filter(|name| !tool.arguments(&commands).any(|arg| long(arg) == **name))
                .collect();
            assert_eq!(tool.arguments(&commands).count(), named, "{}: {missing:?}", tool.name);
            let described = tool.described(&commands);
            for (name, shape) in described["inputSchema"]["properties"].as_object().unwrap() {
                assert!(shape["description"].as_str().is_some_and(|about| about.len() > 8), "{} {name}", tool.name);
                assert!(shape["type"].is_string(), "clients know no list of types: {} {name} {shape}", tool.name);
            }
        }
    }

    #[test]
    fn arguments_become_the_words_that_a_person_would_type() {
        let line = |tool, given| typed(tool, given).unwrap().words.join(" ");
        let given =
            json!({"model": "gpt-2", "tokens": 1_000_000, "gpus": ["H100:8", "A100"], "spot": true, "live": false});
        let words = line("plan", given);
        for word in ["plan ", "--model=gpt-2", "--tokens=1000000", "--gpus=H100:8", "--gpus=A100", "--spot"] {
            assert!(words.contains(word), "{words}");
        }
        assert!(!words.contains("--live"), "{words}");
        assert_eq!(line("prices", json!({"gpus": "H100:8", "spot": true})), "prices --spot H100:8");
        assert_eq!(line("status", json!({"run": null})), "status");
        assert_eq!(line("plan", json!({"workload": null, "gpus": "A100"})), "plan --gpus=A100");
        let workload = typed("plan", json!({"workload": "[model]\n"})).unwrap();
        assert_eq!((workload.words.join(" ").as_str(), workload.stdin.as_deref()), ("plan -", Some("[model]\n")));
    }

    #[test]
    fn no_value_becomes_an_option_and_no_option_is_reached_that_is_not_listed() {
        let words = typed("plan", json!({"model": "--catalog-dir=/etc", "cloud": "-o csv"})).unwrap().words;
        assert_eq!(words, ["plan", "--model=--catalog-dir=/etc", "--cloud=-o csv"]);
        for (tool, given) in [
            ("status", json!({"run": "--help"})),
            ("prices", json!({"gpus": "-q"})),
            ("plan", json!({"yes": true})),
            ("plan", json!({"locked": "/etc/passwd"})),
            ("plan", json!({"policy": "x"})),
            ("launch", json!({"secret": "x"})),
            ("launch", json!({"agent": "https://example.org/x"})),
            ("plan", json!({"spot": "yes"})),
            ("plan", json!({"model": {"a": 1}})),
            ("plan", json!({"gpus": [1, [2]]})),
            ("plan", json!({"workload": 7})),
        ] {
            assert!(typed(tool, given.clone()).is_err(), "{tool} {given}");
        }
        assert_eq!(
            typed("plan", json!({"modell": "x"})).unwrap_err(),
            "`plan` takes no `modell`; did you mean `model`?"
        );
    }

    #[test]
    fn only_launch_spends() {
        let spending: Vec<&str> = TOOLS.iter().filter(|tool| tool.spends).map(|tool| tool.name).collect();
        assert_eq!(spending, ["launch"]);
        assert!(unknown("plam").contains("`plan`") && unknown("xyzzy").contains("tools/list"));
    }
}
