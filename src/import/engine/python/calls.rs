//! Calls of a Python program with the arguments that are written out, the values of its names, and the defaults of its command line.
//! Nothing is run: what only a run would tell is left out. However long a line is, each of its letters is looked at a bounded number of times.

use std::collections::{BTreeMap, BTreeSet};

/// Letters of a line in which a name before a sign, and a value behind it, is looked for: none of a job is longer.
const BEFORE: usize = 128;
const BEHIND: usize = 256;
/// Brackets that are open at once: CPython refuses a program with more (`MAXLEVEL` of its tokenizer).
const DEEPEST: usize = 200;
/// Letters of a text that names fill: one that holds itself doubles with each line.
const LONGEST_TEXT: usize = 16_384;

/// A call, or a dictionary, and what it is told by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub arguments: Vec<(String, String)>,
    /// The function that it decorates.
    pub function: Option<String>,
    /// Its first argument, where that is a text: the flag that `add_argument` adds.
    first: Option<String>,
    /// Its first argument, where it has no name and its value is written out.
    pub positional: Option<String>,
    /// Lists of texts that it is told by name, with commas between them.
    pub lists: Vec<(String, String)>,
    /// Names of arguments whose values only a run would tell.
    pub computed: Vec<String>,
    pub is_dictionary: bool,
    /// Of a list the name that it is given, and its texts.
    list: Option<(String, Vec<String>)>,
    /// Whether its first argument stands on a later line.
    awaits_first: bool,
    /// Whether it is the head of a function: its arguments are those that it has by itself.
    is_head: bool,
}

/// Values that names are set to, the last of each.
pub type Values = BTreeMap<String, String>;

/// Calls of a program. A name that the program sets to a literal before is that literal, or else the one that it is set to behind.
pub fn calls(text: &str) -> Vec<Call> {
    calls_with(text, &[])
}

/// The same of a program that is started with these flags, which win over the defaults of its command line.
pub fn calls_with(text: &str, flags: &[(String, String)]) -> Vec<Call> {
    let code = without_long_texts(text);
    let mut first = Scanner::default();
    first.read(&code);
    let given =
        flags.iter().flat_map(|(key, value)| [key.clone(), format!("args.{key}")].map(|key| (key, value.clone())));
    first.set.extend(given);
    let mut second = Scanner { set: first.set, doubtful: first.doubtful, ..Scanner::default() };
    second.flags = flags.iter().map(|(key, _)| key.clone()).collect();
    second.read(&code);
    second.all.extend(second.open);
    second.all
}

/// Texts in three quotes, which are mostly documentation, become empty.
pub fn without_long_texts(text: &str) -> String {
    let (mut rest, mut all) = (text, String::new());
    loop {
        let starts = |at: usize| ["\"\"\"", "'''"].into_iter().find(|quote| rest[at..].starts_with(quote));
        let mut quotes = rest.match_indices(['"', '\'']);
        let Some((at, quote)) = quotes.find_map(|(at, _)| Some((at, starts(at)?))) else {
            all.push_str(rest);
            return all;
        };
        all.push_str(&rest[..at]);
        all.push_str("\"\"");
        let inner = &rest[at + quote.len()..];
        let end = inner.find(quote).unwrap_or(inner.len());
        all.extend(std::iter::repeat_n('\n', inner[..end].matches('\n').count()));
        rest = inner.get(end + quote.len()..).unwrap_or_default();
    }
}

/// The last letters before a sign and the first behind one.
fn near_end(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(BEFORE))..]
}

fn near_start(text: &str) -> &str {
    &text[..text.floor_char_boundary(BEHIND)]
}

/// The same of a program that is started with these flags.
pub fn values_with(text: &str, flags: &[(String, String)]) -> Values {
    let mut set = values(text);
    let given =
        flags.iter().flat_map(|(key, value)| [key.clone(), format!("args.{key}")].map(|key| (key, value.clone())));
    set.extend(given);
    set
}

/// Values that the names of a program are set to.
pub fn values(text: &str) -> Values {
    let mut scanner = Scanner::default();
    scanner.read(&without_long_texts(text));
    scanner.set
}

#[derive(Default)]
struct Scanner {
    open: Vec<Call>,
    all: Vec<Call>,
    set: Values,
    /// Flags that whoever starts the program gives it: their defaults count no more.
    flags: Vec<String>,
    /// Conditions that a line stands under, by their indents.
    conditions: Vec<usize>,
    /// Names that are set to different values under a condition: which of them counts only a run would tell.
    doubtful: BTreeSet<String>,
    /// Calls that decorate what is defined next.
    decorators: Vec<usize>,
    /// Whether a command line is made of its functions' arguments (Fire, Typer), so that their values count as names'.
    is_cli: bool,
}

impl Scanner {
    fn read(&mut self, code: &str) {
        self.is_cli = code.contains("fire.Fire(") || code.contains("typer.run(") || code.contains(".command()");
        for line in code.lines() {
            if self.open.is_empty() {
                self.enter(line);
                self.define(line.trim_start());
            }
            self.line(line);
        }
    }

    /// Conditions end with their blocks.
    fn enter(&mut self, line: &str) {
        let start = line.trim_start();
        if start.is_empty() || start.starts_with('#') {
            return;
        }
        let indent = line.len() - start.len();
        self.conditions.retain(|condition| *condition < indent);
        let is_condition = ["if ", "elif ", "else:"].iter().any(|word| start.starts_with(word));
        if is_condition && !start.contains("__name__") {
            self.conditions.push(indent);
        }
    }

    /// A name is set to a value that is written out.
    fn assign(&mut self, name: String, value: String) {
        let is_other = self.set.get(&name).is_some_and(|before| *before != value);
        if is_other && !self.conditions.is_empty() {
            self.doubtful.insert(name.clone());
        }
        if self.doubtful.contains(&name) {
            self.set.remove(&name);
        } else {
            self.set.insert(name, value);
        }
    }

    /// `def train():` takes the decorators before it.
    fn define(&mut self, line: &str) {
        let Some(rest) = ["def ", "async def ", "class "].iter().find_map(|word| line.strip_prefix(word)) else {
            return;
        };
        let name = rest.split(|letter| !is_name(letter)).next().unwrap_or_default();
        for at in self.decorators.drain(..) {
            self.all[at].function = Some(name.to_owned());
        }
    }

    fn line(&mut self, line: &str) {
        let mut quote = None;
        let start = line.trim_start();
        if let Some(call) = self.open.last_mut().filter(|call| call.awaits_first && !start.is_empty()) {
            (call.positional, call.awaits_first) = (unnamed(near_start(start), &self.set), false);
        }
        let indent = line.len() - start.len();
        for (at, letter) in line.char_indices() {
            let (before, after) = (near_end(&line[..at]), near_start(&line[at + letter.len_utf8()..]));
            match (letter, quote) {
                (end, Some(begin)) if end == begin && !before.ends_with('\\') => quote = None,
                (_, Some(_)) => {}
                ('"' | '\'', None) => {
                    quote = Some(letter);
                    if let Some((_, texts)) = self.open.last_mut().and_then(|call| call.list.as_mut()) {
                        texts.extend(after.split_once(letter).map(|(text, _)| text.to_owned()));
                    }
                    let is_first = before.trim_end().ends_with('(') || at <= indent;
                    if let (true, Some(call)) = (is_first, self.open.last_mut().filter(|call| call.first.is_none())) {
                        call.first = after.split_once(letter).map(|(text, _)| text.to_owned());
                    }
                }
                ('#', None) => break,
                ('(' | '[' | '{', None) => {
                    // Of a dictionary the name that it is given: `hyperparameters = {`.
                    let before = before.trim_end();
                    let before = if letter == '{' { before.strip_suffix('=').unwrap_or("") } else { before };
                    let name =
                        before.trim_end().rsplit(|letter| !is_name(letter)).next().unwrap_or_default().to_owned();
                    let list = (letter == '[').then(|| (named_before(before), Vec::new()));
                    let (inner, is_call) = (after.trim_start(), letter == '(');
                    let positional = if is_call { unnamed(inner, &self.set) } else { None };
                    let awaits_first = is_call && (inner.is_empty() || inner.starts_with('#'));
                    if self.open.len() >= DEEPEST {
                        self.open.clear();
                    }
                    self.open.push(Call {
                        name,
                        is_dictionary: letter == '{',
                        positional,
                        list,
                        awaits_first,
                        is_head: is_call && ["def ", "async def "].iter().any(|word| start.starts_with(word)),
                        ..Call::default()
                    });
                }
                (')' | ']' | '}', None) => self.close(),
                (':', None) => self.entry(before, after),
                ('=', None) if !before.ends_with(['=', '!', '<', '>', ':']) && !after.starts_with('=') => {
                    self.argument(before, after);
                }
                _ => {}
            }
        }
    }

    fn close(&mut self) {
        let Some(call) = self.open.pop() else { return };
        if let (Some((key, texts)), Some(parent)) = (&call.list, self.open.last_mut())
            && !key.is_empty()
            && !texts.is_empty()
        {
            parent.lists.push((key.clone(), texts.join(",")));
        }
        let default = call.arguments.iter().find(|(key, _)| key == "default").map(|(_, value)| value.clone());
        if let (Some(flag), Some(default)) = (call.first.as_deref().and_then(|text| text.strip_prefix("--")), default) {
            let name = flag.replace('-', "_");
            if !self.flags.contains(&name) {
                self.set.insert(format!("args.{name}"), default.clone());
                self.set.insert(name, default);
            }
        }
        let is_part = |parent: &&mut Call| call.is_dictionary && parent.is_dictionary && parent.name.is_empty();
        match self.open.last_mut().filter(is_part) {
            Some(parent) => parent.arguments.extend(call.arguments),
            None => {
                if matches!(call.name.rsplit('.').next(), Some("function" | "cls" | "server")) {
                    self.decorators.push(self.all.len());
                }
                self.all.push(call);
            }
        }
    }

    /// `"InstanceType": "ml.p4d.24xlarge"`
    fn entry(&mut self, before: &str, after: &str) {
        let Some(dictionary) = self.open.last_mut().filter(|call| call.is_dictionary) else { return };
        let Some(value) = literal(after.trim_start(), &self.set) else { return };
        let mut parts = before.trim_end().rsplit(['"', '\'']);
        if let (Some(""), Some(key)) = (parts.next(), parts.next()) {
            dictionary.arguments.push((with_underscores(key), value));
        }
    }

    /// `gpu="H100"` in a call, `GPU: str = "H100"` outside.
    fn argument(&mut self, before: &str, after: &str) {
        let name = name_at_end(before);
        match (self.open.last_mut(), literal(after.trim_start(), &self.set)) {
            (Some(call), Some(value)) if call.is_head => {
                if self.is_cli && !self.flags.contains(&name) {
                    self.set.insert(name, value);
                }
            }
            (Some(call), Some(value)) => call.arguments.push((name, value)),
            (Some(call), None) => call.computed.push(name),
            (None, Some(value)) if !self.flags.contains(&name) => {
                self.assign(name, value);
            }
            (None, _) => {}
        }
    }
}

/// The name in front of a sign of equality, without its type: `gpu=`, `GPU: str = `. Empty: there is no such sign.
fn named_before(before: &str) -> String {
    before.trim_end().strip_suffix('=').map_or_else(String::new, name_at_end)
}

fn name_at_end(before: &str) -> String {
    let last = before.rsplit([',', '(']).next().unwrap_or(before);
    let name = last.split(':').next().unwrap_or(last).trim();
    name.rsplit(|letter| !is_name(letter)).next().unwrap_or_default().to_owned()
}

/// The value of an argument without a name.
fn unnamed(text: &str, set: &Values) -> Option<String> {
    let name = text.find(|letter| !is_name(letter)).unwrap_or(text.len());
    let is_named = text[name..].trim_start().starts_with('=');
    if is_named || text.starts_with(['[', '{', '(']) { None } else { literal(text, set) }
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '.'
}

/// `InstanceType` as `instance_type`, `MODEL_ID` as `model_id`.
fn with_underscores(key: &str) -> String {
    let (mut all, mut was_small) = (String::new(), false);
    for letter in key.chars() {
        if letter.is_ascii_uppercase() && was_small {
            all.push('_');
        }
        was_small = letter.is_ascii_lowercase();
        all.push(letter.to_ascii_lowercase());
    }
    all
}

/// A text without its quotes, of a list the first, a number, a name that is set to one; the default of a variable of the environment or of the
/// command line, a text with such names in it, and `gpu.A100(count=4, size="80GB")` of Modal's first versions. `None`: only a run would tell.
pub fn literal(text: &str, set: &Values) -> Option<String> {
    let text = without_calls(text)?;
    let quoted = |text: &str| {
        let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        Some(text[1..].split_once(quote)?.0.to_owned())
    };
    if let Some(text) = quoted(text) {
        return Some(text);
    }
    if let Some(inner) = text.strip_prefix('f').and_then(quoted) {
        return filled(&inner, set);
    }
    if let Some(card) = text.strip_prefix("modal.gpu.").or_else(|| text.strip_prefix("gpu.")) {
        return card_of_modal(card, set);
    }
    let word = text.split(|letter| !is_name(letter)).next()?;
    // `4 * count`, `2 if small else 8`, `value[0]` and calls are computed.
    let rest = text[word.len()..].trim_start();
    if !(rest.is_empty() || rest.starts_with([',', ')', ']', '}', '#', ';'])) {
        return None;
    }
    let of = |wanted: &str| set.get(wanted).cloned();
    // `script_args.model_name`, `config.model_name` have the name's value where a class or a flag sets it.
    let of_object = || {
        let (object, name) = word.rsplit_once('.')?;
        let object = object.to_ascii_lowercase();
        ["args", "config", "cfg", "opt", "self"].iter().any(|end| object.ends_with(end)).then(|| of(name)).flatten()
    };
    let is_literal = word.starts_with(|first: char| first.is_ascii_digit()) || matches!(word, "True" | "False");
    of(word).or_else(of_object).or_else(|| is_literal.then(|| word.to_owned()))
}

/// What stands in the calls that hand a value on: `int(os.environ.get("N", 4))`, `field(default="gpt2")` of a data class. `None`: no value does.
fn without_calls(text: &str) -> Option<&str> {
    let mut text = text;
    loop {
        text = text.trim_start_matches(['[', '(']);
        let inner = |functions: &[&str]| functions.iter().find_map(|function| text.strip_prefix(function));
        text = if let Some(inner) = inner(&["os.environ.get(", "os.getenv("]) {
            inner.split_once(',')?.1.trim_start()
        } else if let Some(inner) = inner(&["int(", "str(", "typer.Option(", "typer.Argument("]) {
            inner
        } else if let Some(inner) = inner(&["field(", "dataclasses.field("]) {
            inner.split_once("default=")?.1
        } else {
            return Some(text);
        };
    }
}

/// `{GPU}:{COUNT}`. A name that is not known stays in its brackets. `None`: too long to be a word of a job.
fn filled(text: &str, set: &Values) -> Option<String> {
    let mut parts = text.split('{');
    let mut all = parts.next()?.to_owned();
    for part in parts {
        let known = part.split_once('}').and_then(|(name, rest)| Some((set.get(name)?, rest)));
        match known {
            Some((value, rest)) => all.extend([value, rest]),
            None => all.extend(["{", part]),
        }
        if all.len() > LONGEST_TEXT {
            return None;
        }
    }
    Some(all)
}

/// `A100(count=4, size="80GB")`, `A10G(count=N_GPU)`
fn card_of_modal(card: &str, set: &Values) -> Option<String> {
    let (name, inner) = card.split_once('(')?;
    let given = |key: &str| {
        let rest = inner.split_once(key)?.1;
        let value = rest.split([',', ')']).next()?;
        literal(value, set).or_else(|| Some(format!("${value}")))
    };
    let size = given("size=").map(|size| format!("-{size}")).unwrap_or_default();
    Some(format!("{name}{size}:{}", given("count=").unwrap_or_else(|| "1".to_owned())))
}
