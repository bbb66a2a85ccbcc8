//! The commands of a script, in order, each with its words expanded.

use std::rc::Rc;

use super::arithmetic;
use super::condition;
use super::expand::is_unknown;
use super::lex::{Token, tokens};
use super::pattern::covers;
use super::shape::{self, arithmetic_of, asks_for_arguments, ends, is_test};
use super::shells::{inner_script, is_shell, script_file};
use super::tree::{Node, Simple, nodes};
use super::variables::{Value, Variables, Way};

/// Scripts in scripts: `bash -c`, `source`.
const DEEPEST: usize = 8;
/// More commands than a person wrote.
pub const MOST_COMMANDS: usize = 5_000;
/// Bytes of a script that are read; a longer one carries data.
pub const LONGEST_SCRIPT: usize = 1 << 20;
/// Commands that a loop starts side by side: no machine of the catalog has more cards.
const MOST_SIDE_BY_SIDE: usize = 16;

/// Programs that submit a job or rent machines, and print its name: `JOB=$(sbatch --parsable train.sbatch)`.
const SUBMIT: [&str; 7] = ["sbatch", "runpodctl", "runpod", "gcloud", "aws", "hf", "sky"];

/// Variables by which launchers and CUDA learn how many GPUs and machines a command has.
const ENVIRONMENT: [&str; 5] = ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NPROC_PER_NODE", "NNODES", "MODEL_ID"];

/// A simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub words: Vec<String>,
    /// Variables that hold where it stands, of those that say on how many GPUs it runs.
    pub environment: Vec<(&'static str, String)>,
    /// A quote in it is never closed: the word with the quote and all behind it are missing.
    pub is_cut: bool,
    /// What follows does not wait for it.
    pub is_background: bool,
    /// It stands in a function that the script does not call itself.
    pub is_aside: bool,
    /// The here-document that `sbatch` is given for a script.
    pub input: Option<String>,
}

/// A function of a script.
struct Function {
    name: String,
    body: Rc<[Node]>,
    is_called: bool,
}

/// A script that is being read.
pub struct Script<'a> {
    variables: Variables,
    /// Files beside the script. `None`: there is no such file.
    open: &'a dyn Fn(&str) -> Option<String>,
    /// Files that the script itself writes.
    written: Vec<(String, String)>,
    commands: Vec<Command>,
    functions: Vec<Function>,
    is_background: bool,
    depth: usize,
    steps: usize,
    is_cut: bool,
}

impl<'a> Script<'a> {
    pub fn new(open: &'a dyn Fn(&str) -> Option<String>) -> Self {
        let (written, commands, functions) = (Vec::new(), Vec::new(), Vec::new());
        let variables = Variables::default();
        Self { variables, open, written, commands, functions, is_background: false, depth: 0, steps: 0, is_cut: false }
    }

    /// A variable that the engine or its file sets.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.set(name, Value::Text(value.to_owned()));
    }

    /// A text with the variables known so far in it.
    pub fn expanded(&mut self, text: &str) -> String {
        self.variables.document(text)
    }

    pub fn read(&mut self, text: &str) {
        if self.depth < DEEPEST {
            self.depth += 1;
            let read = &text[..text.floor_char_boundary(LONGEST_SCRIPT)];
            self.is_cut |= read.len() < text.len();
            self.block(&nodes(&tokens(&read.replace("\r\n", "\n"))));
            if self.depth == 1 {
                self.rest_of_functions();
            }
            self.depth -= 1;
        }
    }

    /// What no command of the script calls is read all the same: something else may.
    fn rest_of_functions(&mut self) {
        // What the script does itself comes last, and counts.
        let own = std::mem::take(&mut self.commands);
        for function in std::mem::take(&mut self.functions).into_iter().filter(|function| !function.is_called) {
            self.block(&function.body);
        }
        for command in &mut self.commands {
            command.is_aside = true;
        }
        self.commands.extend(own);
    }

    /// A function with its arguments. Those that the script is not given itself are none.
    fn call(&mut self, at: usize, words: &[String]) {
        if self.depth >= DEEPEST {
            return;
        }
        self.functions[at].is_called = true;
        let body = Rc::clone(&self.functions[at].body);
        let before = self.variables.arguments();
        let is_own = |word: &&String| !matches!(word.as_str(), "$@" | "$*" | "$1" | "$2" | "$3" | "$4" | "$5" | "$6");
        self.variables.give(words.iter().filter(is_own).cloned().collect());
        self.depth += 1;
        self.block(&body);
        self.depth -= 1;
        self.variables.take_back(before);
    }

    /// Variables that hold a text behind its last command.
    pub fn variables(&self) -> Vec<(String, String)> {
        self.variables.texts().map(|(name, text)| (name.clone(), text.clone())).collect()
    }

    /// Values that were kept and compared for its conditions.
    #[cfg(test)]
    pub fn work_of_ways(&self) -> usize {
        self.variables.kept
    }

    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Whether the script is longer than what was read of it.
    pub fn is_cut(&self) -> bool {
        self.is_cut || self.steps > MOST_COMMANDS
    }

    /// The last of the batch scripts that the script writes.
    pub fn written_job(&self) -> Option<String> {
        let is_job = |text: &str| text.lines().any(|line| line.starts_with("#SBATCH"));
        self.written.iter().rev().find(|(_, text)| is_job(text)).map(|(_, text)| text.clone())
    }

    /// A file that the script writes, or that lies beside it.
    pub fn file(&self, path: &str) -> Option<String> {
        let written = self.written.iter().rev().find(|(name, _)| name == path).map(|(_, text)| text.clone());
        written.or_else(|| (self.open)(path))
    }

    /// `((COUNT++))`, `let COUNT+=2`: a variable gets another value, which is not known where a part of it is not. `((COUNT == 2))` asks.
    fn arithmetic(&mut self, sum: &str) -> Option<bool> {
        let mut value = arithmetic::evaluate(sum, &|name| self.variables.text(name));
        for (name, sum) in sum.split(',').filter_map(arithmetic::assignment) {
            value = arithmetic::evaluate(&sum, &|name| self.variables.text(name));
            self.set(&name, &value.map_or_else(|| format!("${name}"), |value| value.to_string()));
        }
        value.map(|value| value != 0)
    }

    fn block(&mut self, all: &[Node]) {
        for node in all {
            self.node(node);
        }
    }

    /// Whether it succeeds. `None`: not known.
    fn node(&mut self, node: &Node) -> Option<bool> {
        self.steps += 1;
        if self.steps > MOST_COMMANDS {
            return None;
        }
        match node {
            Node::Simple(simple) => return self.simple(simple),
            Node::Not(inner) => return self.node(inner).map(|holds| !holds),
            Node::Group(inner) => match arithmetic_of(inner) {
                Some(sum) => return self.arithmetic(&sum),
                None => self.block(inner),
            },
            Node::Background(inner) => {
                let before = std::mem::replace(&mut self.is_background, true);
                self.node(inner);
                self.is_background = before;
            }
            Node::Function(name, body) => {
                self.functions.retain(|known| known.name != *name);
                self.functions.push(Function { name: name.clone(), body: body.as_slice().into(), is_called: false });
            }
            Node::Chain(first, rest) => return self.chain(first, rest),
            Node::If(branches, otherwise) => self.branches(branches, otherwise),
            Node::Case(subject, arms) => self.case(subject, arms),
            // A script is read as one that is started without arguments: a loop over them ends at once.
            Node::While(test, _) if test.iter().any(asks_for_arguments) => {}
            Node::Loop(Some((_, values)), _) if values.iter().any(|value| value.contains("$@")) => {}
            Node::While(test, body) => {
                self.block(test);
                self.block(body);
            }
            Node::Loop(variable, body) => self.repeat(variable.as_ref(), body),
        }
        None
    }

    /// A loop, read once with an unknown value; once for each where its commands run side by side.
    fn repeat(&mut self, variable: Option<&(String, Vec<String>)>, body: &[Node]) {
        let Some((name, values)) = variable else { return self.block(body) };
        let values: Vec<String> = values.iter().flat_map(|word| self.variables.fields(word)).collect();
        let is_known = values.iter().all(|value| !is_unknown(value));
        let is_parallel = body.iter().any(|node| matches!(node, Node::Background(_)));
        if is_parallel && is_known && (2..=MOST_SIDE_BY_SIDE).contains(&values.len()) {
            for value in &values {
                self.set(name, value);
                self.block(body);
            }
            return self.set(name, &format!("${name}"));
        }
        let value = match values.as_slice() {
            [only] => only.clone(),
            _ => format!("${name}"),
        };
        self.set(name, &value);
        self.block(body);
    }

    fn chain(&mut self, first: &Node, rest: &[(bool, Node)]) -> Option<bool> {
        let mut status = self.node(first);
        // What is no test is taken to succeed.
        let mut is_test = !matches!(first, Node::Simple(simple) if !is_test(simple));
        for (is_and, next) in rest {
            status = match (status, is_and) {
                (Some(true), true) | (Some(false), false) => self.node(next),
                (None, true) if !is_test => self.node(next),
                (None, _) => {
                    self.perhaps(|script| {
                        script.node(next);
                    });
                    None
                }
                (decided, _) => decided,
            };
            is_test &= !matches!(next, Node::Simple(simple) if !shape::is_test(simple));
        }
        status
    }

    fn branches(&mut self, branches: &[(Vec<Node>, Vec<Node>)], otherwise: &[Node]) {
        let (mut ways, mut last) = (Vec::new(), otherwise);
        self.variables.begin();
        for (test, body) in branches {
            let mut holds = None;
            for node in test {
                holds = self.node(node);
            }
            match self.searched(test).or(holds) {
                Some(true) => {
                    last = body.as_slice();
                    break;
                }
                None if !ends(body) => {
                    // What its test has changed is a part of this way too.
                    let mut way = self.variables.changed();
                    self.variables.begin();
                    self.block(body);
                    way.extend(self.variables.end());
                    ways.push(way);
                }
                _ => {}
            }
        }
        self.block(last);
        ways.push(self.variables.end());
        self.variables.take_one_of(ways);
    }

    /// A test that searches what another command prints.
    fn searched(&mut self, test: &[Node]) -> Option<bool> {
        let [first, Node::Simple(search)] = test else { return None };
        let (is_negated, first) = match first {
            Node::Not(inner) => (true, &**inner),
            other => (false, other),
        };
        let Node::Simple(print) = first else { return None };
        let mut words = |simple: &Simple| -> Vec<String> {
            simple.words.iter().flat_map(|word| self.variables.fields(word)).collect()
        };
        condition::finds(&words(print), &words(search)).map(|found| found != is_negated)
    }

    fn case(&mut self, subject: &str, arms: &[(Vec<String>, Vec<Node>)]) {
        let subject = self.variables.joined(subject);
        if is_unknown(&subject) {
            let is_whole = arms.iter().any(|(patterns, _)| patterns.iter().any(|pattern| pattern == "*"));
            let bodies: Vec<&[Node]> =
                arms.iter().map(|(_, body)| body.as_slice()).filter(|body| !ends(body)).collect();
            return self.one_of(&bodies, is_whole);
        }
        for (patterns, body) in arms {
            let patterns: Vec<String> = patterns.iter().map(|word| self.variables.joined(word)).collect();
            if patterns.iter().any(|one| covers(one, &subject)) {
                return self.block(body);
            }
        }
    }

    /// One of several ways, where it is not known which; none of them, unless they are the whole of what can be.
    fn one_of(&mut self, ways: &[&[Node]], is_whole: bool) {
        let mut taken: Vec<Way> = if is_whole { Vec::new() } else { vec![Way::new()] };
        for way in ways {
            self.variables.begin();
            self.block(way);
            taken.push(self.variables.end());
        }
        self.variables.take_one_of(taken);
    }

    fn perhaps(&mut self, read: impl FnOnce(&mut Self)) {
        self.variables.begin();
        read(self);
        let way = self.variables.end();
        self.variables.take_one_of(vec![way, Way::new()]);
    }

    fn simple(&mut self, simple: &Simple) -> Option<bool> {
        let mut words = Vec::new();
        let mut rest = simple.words.as_slice();
        // Assignments come first, or alone, or behind the words that declare.
        while let Some((word, more)) = rest.split_first() {
            let declares = matches!(word.as_str(), "export" | "declare" | "local" | "readonly" | "typeset");
            let is_option = words.is_empty() && word.starts_with('-') && rest.len() < simple.words.len();
            if !(declares || is_option || self.assign(word, simple)) {
                break;
            }
            rest = more;
        }
        if rest.is_empty() && !simple.is_cut {
            return Some(true);
        }
        for word in rest {
            words.extend(self.variables.fields(word));
        }
        let document = simple
            .document
            .as_ref()
            .map(|(text, is_quoted)| if *is_quoted { text.clone() } else { self.variables.document(text) });
        self.command(words, document, simple)
    }

    fn command(&mut self, words: Vec<String>, document: Option<String>, simple: &Simple) -> Option<bool> {
        let name = words.first().map(String::as_str).unwrap_or_default();
        if let Some(at) = self.functions.iter().position(|function| function.name == name) {
            self.call(at, &words[1..]);
            return None;
        }
        match (name, words.get(1)) {
            ("shift", count) => {
                self.variables.shift(count.map_or(Some(1), |count| count.parse().ok()));
                return None;
            }
            ("[" | "[[" | "test", _) => return condition::holds(&words),
            ("let", _) => {
                for sum in &words[1..] {
                    self.arithmetic(sum);
                }
                return None;
            }
            ("true" | ":", _) => return Some(true),
            ("false", _) => return Some(false),
            ("read", _) => {
                let name = words.last().cloned().unwrap_or_default();
                let value = document.unwrap_or_else(|| format!("${name}"));
                self.set(&name, &value);
                return None;
            }
            ("source" | ".", Some(path)) => {
                if let Some(text) = self.file(path) {
                    self.read(&text);
                }
                return None;
            }
            // Which of several commands it is only a run tells.
            ("eval", Some(word)) if is_unknown(word.split_whitespace().next().unwrap_or(word)) && words.len() == 2 => {
                self.commands.push(Command { words, ..Command::default() });
                return None;
            }
            ("eval", _) => {
                self.read(&words[1..].join(" "));
                return None;
            }
            // `set -- serve "$MODEL"` gives the script arguments of its own.
            ("set", Some(first)) if first == "--" => {
                self.variables.set("@", Value::List(words[2..].to_vec()));
                return Some(true);
            }
            ("echo" | "printf", _) => {
                // `printf "%s" "$PROGRAM" > train.py`
                if let (Some(output), Some(text)) = (&simple.output, words.last().filter(|_| words.len() > 1)) {
                    self.written.push((self.variables.joined(output), text.clone()));
                }
                return None;
            }
            ("unset", _) => return None,
            _ => {}
        }
        self.program(words, document, simple);
        None
    }

    /// A command that the shell does not run itself, with its environment, and what it reads as a script.
    fn program(&mut self, words: Vec<String>, document: Option<String>, simple: &Simple) {
        if let (Some(output), Some(text)) = (&simple.output, &document) {
            let path = self.variables.joined(output);
            self.written.push((path, text.clone()));
        }
        let inner = inner_script(&words);
        let file = script_file(&words).and_then(|path| self.file(path));
        let is_shell = words.last().is_some_and(|last| is_shell(last));
        // `env CUDA_VISIBLE_DEVICES=0 python ...`, `docker run -e CUDA_VISIBLE_DEVICES=0,1 ...`
        let given =
            |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned);
        let value = |name: &str| given(name).or_else(|| self.variables.text(name));
        let environment = ENVIRONMENT.iter().filter_map(|name| Some((*name, value(name)?))).collect();
        let (is_cut, is_background) = (simple.is_cut, self.is_background);
        let is_submitted = words.first().is_some_and(|name| name.rsplit('/').next() == Some("sbatch"));
        let input = document.clone().filter(|_| is_submitted);
        self.commands.push(Command { words, environment, is_cut, is_background, is_aside: false, input });
        for text in inner.into_iter().chain(file).chain(document.filter(|_| is_shell)) {
            self.read(&text);
        }
    }

    /// `NAME=value`, `NAME+=value`, `NAME=(list)`. Whether the word is one.
    fn assign(&mut self, word: &str, simple: &Simple) -> bool {
        let Some((name, value)) = word.split_once('=') else {
            // `export NAME`
            return simple.words.len() > 1
                && simple.words[0] == "export"
                && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        };
        self.submit(value);
        let is_word = |text: &str| text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let element = name.strip_suffix(']').and_then(|name| name.split_once('['));
        if let Some((name, key)) = element.filter(|(name, _)| !name.is_empty() && is_word(name)) {
            let (key, value) = (self.variables.joined(key), self.variables.joined(value));
            self.variables.put(name, &key, value);
            return true;
        }
        let (name, adds) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
        let is_name = !name.is_empty() && !name.starts_with(|letter: char| letter.is_ascii_digit()) && is_word(name);
        if !is_name {
            return false;
        }
        let value = match value.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
            Some(inner) => Value::List(self.list(inner)),
            None => Value::Text(self.variables.joined(value)),
        };
        let value = match (adds, self.variables.remove(name), value) {
            (true, Some(Value::List(mut before)), Value::List(more)) => {
                before.extend(more);
                Value::List(before)
            }
            (true, Some(Value::Text(before)), Value::Text(more)) => Value::Text(before + &more),
            (_, _, value) => value,
        };
        self.variables.set(name, value);
        true
    }

    /// A command whose output is kept, where it submits a job.
    fn submit(&mut self, value: &str) {
        let value = value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value);
        let Some(inner) = value.strip_prefix("$(").and_then(|inner| inner.strip_suffix(')')) else { return };
        let is_assignment = |word: &&str| word.contains('=') && !word.starts_with('-');
        let first = inner.split_whitespace().find(|word| !is_assignment(word)).unwrap_or_default();
        if SUBMIT.contains(&first.rsplit('/').next().unwrap_or(first)) {
            self.read(inner);
        }
    }

    /// The words of an array, comments between them left out.
    fn list(&mut self, inner: &str) -> Vec<String> {
        let mut all = Vec::new();
        for token in tokens(inner) {
            if let Token::Word(word) = token {
                all.extend(self.variables.fields(&word));
            }
        }
        all
    }
}
