//! The tool `launch`: plans, shows a person what would be rented, and rents it only when they have typed the name of the run.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::mcp::call::Answer;
use crate::mcp::client::Client;
use crate::mcp::message::Message;
use crate::mcp::tool::{self, Tool, Typed};
use crate::session::diagnostic::Diagnostic;

/// The field of the form that a person fills in.
const FIELD: &str = "run";

/// What is launched, apart from the question to the planner.
struct Wanted {
    run: String,
    command: Vec<String>,
    rehearses: bool,
}

pub fn call(
    client: &mut Client,
    tool: &Tool,
    mut given: Map<String, Value>,
    message: &Message,
) -> Result<Answer, Diagnostic> {
    let wanted = match Wanted::take(&mut given) {
        Ok(wanted) => wanted,
        Err(wrong) => return Ok(Answer::refused(&wrong, "tools/list shows the arguments")),
    };
    let of_launch = |name: &str| tool::LAUNCH.contains(&name.replace('_', "-").as_str());
    let (delivery, question): (Map<_, _>, Map<_, _>) = given.into_iter().partition(|(name, _)| of_launch(name));
    let typed = |given: &Map<String, Value>| tool.typed(&client.commands, given);
    let (question, delivery) = match (typed(&question), typed(&delivery)) {
        (Ok(question), Ok(delivery)) => (question, delivery),
        (Err(wrong), _) | (_, Err(wrong)) => return Ok(Answer::refused(&wrong, "tools/list shows the arguments")),
    };
    let planned = client.program.json(&question.with_command("plan"));
    if planned.is_error {
        return Ok(planned);
    }
    let launch = wanted.launch(&question, &delivery, &planned.document);
    let told = match client.program.told(&wanted.with(&launch, &["--dry-run"])) {
        Ok(told) => told,
        Err(refused) => return Ok(refused),
    };
    let about = format!("{told}\n\ncommand   {}", quoted(&wanted.command));
    if !client.asks_people {
        return Ok(unasked(&about, &wanted.line(&question, &delivery)));
    }
    let run = &wanted.run;
    let asked = format!("{about}\n\nTo launch this, type the name of the run: {run}");
    match client.ask_person(&asked, FIELD, &format!("Type {run} to launch it"), message)? {
        Some(typed) if typed.trim() == *run => {}
        _ => return Ok(Answer::refused("nobody confirmed it: nothing was rented", "")),
    }
    Ok(match client.program.told(&wanted.with(&launch, &["--yes", "--detach"])) {
        Ok(told) => Answer { document: json!({"version": 1, "run": run, "told": told}), is_error: false },
        Err(refused) => refused,
    })
}

/// For a client that cannot ask: what would be rented, and what a person types.
fn unasked(about: &str, line: &str) -> Answer {
    let message = format!(
        "a person has to confirm this, and this client cannot ask one (it has no elicitation): nothing was rented\n\n{about}"
    );
    Answer::refused(&message, line)
}

impl Wanted {
    fn take(given: &mut Map<String, Value>) -> Result<Self, String> {
        let words = given.remove("command").and_then(|words| serde_json::from_value::<Vec<String>>(words).ok());
        let command =
            words.filter(|words| !words.is_empty()).ok_or("`command` is the training command, word by word")?;
        let run = match given.remove("run") {
            None | Some(Value::Null) => Timestamp::now().strftime("run-%Y%m%d-%H%M%S").to_string(),
            Some(Value::String(run)) => run,
            Some(_) => return Err("`run` is a name".to_owned()),
        };
        let rehearses = match given.remove("rehearse") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(rehearses)) => rehearses,
            Some(_) => return Err("`rehearse` is true or false".to_owned()),
        };
        Ok(Self { run, command, rehearses })
    }

    /// The launch of exactly this plan. Prices were asked for it already.
    fn launch(&self, question: &Typed, delivery: &Typed, plan: &Value) -> Typed {
        let stale = question.words.iter().filter(|word| *word == "--accept-stale-prices").cloned();
        let mut words = vec!["launch".to_owned()];
        words.extend(stale.chain(self.options()).chain(delivery.words.iter().skip(1).cloned()));
        words.push("-".to_owned());
        Typed { words, stdin: Some(plan.to_string()) }
    }

    fn options(&self) -> impl Iterator<Item = String> {
        std::iter::once(format!("--run={}", self.run)).chain(self.rehearses.then(|| "--cloud=fake".to_owned()))
    }

    fn with(&self, launch: &Typed, more: &[&str]) -> Typed {
        let mut words = launch.words.clone();
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words.push("--".to_owned());
        words.extend(self.command.iter().cloned());
        Typed { words, stdin: launch.stdin.clone() }
    }

    /// What a person types for the same launch.
    fn line(&self, question: &Typed, delivery: &Typed) -> String {
        let file = question.stdin.is_some();
        let asked = question.words.iter().skip(1).filter(|word| *word != "-").cloned();
        let words: Vec<String> = asked.chain(self.options()).chain(delivery.words.iter().skip(1).cloned()).collect();
        let save = if file { "save the workload as workload.toml, then: " } else { "" };
        let name = if file { " workload.toml" } else { "" };
        format!("{save}gpuplan launch{name} {} -- {}", quoted(&words), quoted(&self.command))
    }
}

impl Typed {
    /// The same question to another command.
    fn with_command(&self, command: &str) -> Self {
        let words = std::iter::once(command.to_owned()).chain(self.words.iter().skip(1).cloned());
        Self { words: words.collect(), stdin: self.stdin.clone() }
    }
}

/// As a shell reads it, with control characters shown and not obeyed.
fn quoted(words: &[String]) -> String {
    let is_plain =
        |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c));
    let quote = |word: &String| {
        let shown: String =
            word.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
        if is_plain(word) { shown } else { format!("'{}'", shown.replace('\'', r"'\''")) }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn wanted(given: Value) -> Result<Wanted, String> {
        Wanted::take(&mut given.as_object().unwrap().clone())
    }

    #[test]
    fn a_launch_is_of_the_plan_that_was_shown_and_asks_no_prices_again() {
        let wanted = wanted(json!({"command": ["python", "train.py"], "run": "r", "rehearse": true})).unwrap();
        let question =
            Typed { words: words(&["launch", "--live", "--accept-stale-prices", "--model=gpt-2"]), stdin: None };
        let delivery = Typed { words: words(&["launch", "--workdir=."]), stdin: None };
        let launch = wanted.launch(&question, &delivery, &json!({"version": 1}));
        let yes = wanted.with(&launch, &["--yes"]);
        assert_eq!(
            yes.words.join(" "),
            "launch --accept-stale-prices --run=r --cloud=fake --workdir=. - --yes -- python train.py"
        );
        assert_eq!(yes.stdin.as_deref(), Some(r#"{"version":1}"#));
        assert_eq!(question.with_command("plan").words[0], "plan");
        let line = wanted.line(&question, &delivery);
        assert!(line.starts_with("gpuplan launch --live") && line.ends_with("-- python train.py"), "{line}");
    }

    #[test]
    fn what_a_person_reads_is_what_is_run() {
        assert_eq!(quoted(&words(&["sh", "-c", "echo 'a b' $X"])), r"sh -c 'echo '\''a b'\'' $X'");
        assert_eq!(quoted(&words(&["a\u{1b}[2Kb\n", ""])), r"'a\u{1b}[2Kb\n' ''");
    }

    #[test]
    fn a_launch_without_a_command_is_refused() {
        for given in [json!({}), json!({"command": []}), json!({"command": "sh"}), json!({"command": ["x"], "run": 1})]
        {
            assert!(wanted(given.clone()).is_err(), "{given}");
        }
        assert!(wanted(json!({"command": ["x"]})).unwrap().run.starts_with("run-"));
    }
}
