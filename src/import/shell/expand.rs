//! A word as the shell expands it: quotes, variables, defaults, patterns, arithmetic. What is not known stays as it is written.

use super::arithmetic::evaluate;
use super::lex::{piece_length, plain_length};
use super::pattern::{without_end, without_start};
use super::substitute;
use super::variables::{Value, Variables};

/// Whether a text still has something in it that only a run of the script would tell.
pub fn is_unknown(text: &str) -> bool {
    text.contains('$')
}

/// A longer text is no argument that a person wrote, and doubles with each variable that holds the one before twice.
const LONGEST: usize = 200_000;
/// Patterns are tried at each place of a text.
const LONGEST_FOR_PATTERNS: usize = 4_000;
/// Defaults in defaults.
const DEEPEST: usize = 20;
/// Substitutions in substitutions.
const DEEPEST_SUBSTITUTION: usize = 5;

/// An expansion, before it is split.
enum Expanded {
    Text(String),
    /// Of `$@` and `${list[@]}`: each a word of its own even in quotes.
    List(Vec<String>),
}

/// An element of an array.
enum Element {
    Is(String),
    /// There is no such key.
    None,
    Unknown,
}

/// What stands in `$'...'` (Bash manual, "ANSI-C Quoting"); numbers of letters stay as they are written.
fn unescaped(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        match (letter, if letter == '\\' { letters.next() } else { None }) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some('t')) => plain.push('\t'),
            ('\\', Some(quoted @ ('\\' | '\'' | '"' | '?'))) => plain.push(quoted),
            (first, second) => plain.extend([Some(first), second].into_iter().flatten()),
        }
    }
    plain
}

impl Variables {
    /// The words that a word becomes.
    pub fn fields(&mut self, word: &str) -> Vec<String> {
        let mut fields = Fields::default();
        self.expand(word, &mut fields, 0);
        fields.done()
    }

    /// The same where nothing is split: the value of an assignment, or a text in quotes.
    pub fn joined(&mut self, word: &str) -> String {
        let mut fields = Fields { is_whole: true, ..Fields::default() };
        self.expand(word, &mut fields, 0);
        fields.done().join(" ")
    }

    /// A here-document: no quotes, but variables.
    pub fn document(&mut self, text: &str) -> String {
        let mut fields = Fields { is_whole: true, is_begun: true, ..Fields::default() };
        self.quoted(text, &mut fields, 0);
        fields.done().join(" ")
    }

    fn expand(&mut self, word: &str, fields: &mut Fields, depth: usize) {
        let mut at = 0;
        while at < word.len() && fields.length < LONGEST {
            let rest = &word[at..];
            let length = piece_length(rest).unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
            let piece = &rest[..length];
            at += length;
            match piece.as_bytes() {
                [b'\'', .., b'\''] => {
                    fields.is_begun = true;
                    fields.push(&piece[1..length - 1]);
                }
                [b'"', .., b'"'] => {
                    let is_list = piece.starts_with("\"${") && piece.ends_with("[@]}\"");
                    fields.is_begun |= !is_list;
                    self.quoted(&piece[1..length - 1], fields, depth);
                }
                b"\\\n" => {}
                [b'\\', ..] => fields.push(&piece[1..]),
                [b'$', b'\'', .., b'\''] => {
                    fields.is_begun = true;
                    fields.push(&unescaped(&piece[2..length - 1]));
                }
                // `$"..."` is translated.
                b"$" if rest.starts_with("$\"") => {}
                [b'$' | b'`', ..] => {
                    let (expanded, length) = self.expansion(&word[at - length..], depth);
                    at += length - piece.len();
                    match expanded {
                        Expanded::Text(text) => fields.push_split(&text),
                        Expanded::List(list) => {
                            for (index, text) in list.iter().enumerate() {
                                if index > 0 {
                                    fields.end();
                                }
                                fields.push_split(text);
                            }
                        }
                    }
                }
                _ => fields.push(piece),
            }
        }
    }

    fn quoted(&mut self, text: &str, fields: &mut Fields, depth: usize) {
        let mut at = 0;
        while at < text.len() && fields.length < LONGEST {
            let rest = &text[at..];
            match rest.chars().next() {
                Some('\\') => {
                    let next = rest[1..].chars().next();
                    match next {
                        Some('\n') => {}
                        Some(escaped @ ('$' | '`' | '"' | '\\')) => fields.push(escaped.encode_utf8(&mut [0; 4])),
                        Some(other) => {
                            fields.push("\\");
                            fields.push(other.encode_utf8(&mut [0; 4]));
                        }
                        None => fields.push("\\"),
                    }
                    at += 1 + next.map_or(0, char::len_utf8);
                }
                Some('$' | '`') => {
                    let (expanded, length) = self.expansion(rest, depth);
                    at += length;
                    match expanded {
                        Expanded::Text(text) => fields.push(&text),
                        Expanded::List(list) => {
                            for (index, text) in list.iter().enumerate() {
                                if index > 0 {
                                    fields.end();
                                }
                                fields.push(text);
                            }
                        }
                    }
                }
                Some(letter) => {
                    let length = plain_length(rest).max(letter.len_utf8());
                    fields.push(&rest[..length]);
                    at += length;
                }
                None => break,
            }
        }
    }

    /// What a text that begins with `$` or a backquote expands to, and how much of it that takes.
    fn expansion(&mut self, text: &str, depth: usize) -> (Expanded, usize) {
        let unknown = |length: usize| (Expanded::Text(text[..length].to_owned()), length);
        if text.starts_with('`') {
            let length = piece_length(text).unwrap_or(1);
            let inner = text[..length].trim_matches('`').to_owned();
            let printed = self.substituted(&inner);
            return (Expanded::Text(printed.unwrap_or_else(|| format!("$({inner})"))), length);
        }
        if text.starts_with("$((") {
            let length = piece_length(text).unwrap_or(1);
            let inner = text.get(3..length.saturating_sub(2)).unwrap_or_default();
            let value = evaluate(inner, &|name| self.text(name));
            return value.map_or_else(|| unknown(length), |value| (Expanded::Text(value.to_string()), length));
        }
        if text.starts_with("$(") {
            let length = piece_length(text).unwrap_or(1);
            let inner = text.get(2..length.saturating_sub(1)).unwrap_or_default().to_owned();
            return self.substituted(&inner).map_or_else(|| unknown(length), |text| (Expanded::Text(text), length));
        }
        if text.starts_with("${") {
            let Some(length) = piece_length(text) else { return unknown(1) };
            let inner = text[2..length - 1].to_owned();
            let expanded = if depth < DEEPEST { self.parameter(&inner, depth) } else { None };
            return (expanded.unwrap_or_else(|| Expanded::Text(text[..length].to_owned())), length);
        }
        let name: String =
            text[1..].chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        let name = if name.starts_with(|letter: char| letter.is_ascii_digit()) { name[..1].to_owned() } else { name };
        if name.is_empty() {
            // Arguments that the script has given itself.
            if let (Some(Value::List(own)), true) = (self.get("@"), text.starts_with("$@")) {
                return (Expanded::List(own.clone()), 2);
            }
            // `$@`, `$?`, or a dollar alone.
            return unknown(
                1 + text[1..].chars().next().filter(|one| "@*#?$!-".contains(*one)).map_or(0, char::len_utf8),
            );
        }
        let length = 1 + name.len();
        self.text(&name).map_or_else(|| unknown(length), |value| (Expanded::Text(value), length))
    }

    /// What a command prints in `$(...)`. `None`: not known.
    fn substituted(&mut self, inner: &str) -> Option<String> {
        // Each substitution reads its text anew.
        if self.depth >= DEEPEST_SUBSTITUTION || inner.len() > LONGEST_FOR_PATTERNS {
            return None;
        }
        self.depth += 1;
        let printed = substitute::output(inner, &mut |word| self.fields(word));
        self.depth -= 1;
        printed
    }

    /// `${...}`. `None`: not known.
    fn parameter(&mut self, inner: &str, depth: usize) -> Option<Expanded> {
        let counts = inner.starts_with('#') && inner.len() > 1;
        let body = if counts { &inner[1..] } else { inner };
        let name: String = body.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
        let mut operation = &body[name.len()..];
        if name.is_empty() {
            return None;
        }
        let subscript = operation.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let Some((index, rest)) = subscript {
            operation = rest;
            let list = match self.get(&name)? {
                Value::List(list) => list.clone(),
                // What only a run would tell may be any number of words.
                Value::Text(text) if is_unknown(text) => return None,
                Value::Text(text) => vec![text.clone()],
            };
            return match (index, operation, counts) {
                ("@" | "*", "", true) => Some(Expanded::Text(list.len().to_string())),
                ("@" | "*", "", false) => Some(Expanded::List(list)),
                ("@" | "*", ..) | (.., true) => None,
                (index, operation, false) => {
                    let element = match self.element(&list, index, depth) {
                        Element::Is(text) => Some(text),
                        Element::None => None,
                        Element::Unknown => return None,
                    };
                    self.operated(&name, element, operation, depth).map(Expanded::Text)
                }
            };
        }
        let value = self.text(&name);
        if counts {
            return value
                .filter(|value| !is_unknown(value))
                .map(|value| Expanded::Text(value.chars().count().to_string()));
        }
        self.operated(&name, value, operation, depth).map(Expanded::Text)
    }

    /// An element of an array by its number, or by its key where the array has keys (`declare -A`). Of an index that only a run would tell it is
    /// what all elements are.
    fn element(&mut self, list: &[String], index: &str, depth: usize) -> Element {
        let index = self.inner(index, depth);
        let keyed = |one: &str| one.strip_prefix('[').and_then(|rest| Some(rest.split_once("]=")?.1.to_owned()));
        let values: Option<Vec<String>> = list.iter().map(|one| keyed(one)).collect();
        let key = format!("[{index}]=");
        let found = match (evaluate(&index, &|name| self.text(name)), &values) {
            (_, Some(values)) if is_unknown(&index) => same(values),
            (_, Some(_)) => {
                let value = list.iter().rev().find_map(|one| one.strip_prefix(&key));
                return value.map_or(Element::None, |value| Element::Is(value.to_owned()));
            }
            (Some(at), None) => usize::try_from(at).ok().and_then(|at| list.get(at).cloned()),
            (None, None) => same(list),
        };
        found.map_or(Element::Unknown, Element::Is)
    }

    fn operated(&mut self, name: &str, value: Option<String>, operation: &str, depth: usize) -> Option<String> {
        let (is_strict, rest) = match operation.strip_prefix(':') {
            Some(rest) if rest.starts_with(['-', '=', '+', '?']) => (true, rest),
            _ => (false, operation),
        };
        let is_missing = value.as_ref().is_none_or(|value| is_strict && value.is_empty());
        if let Some(word) = rest.strip_prefix(['-', '=']) {
            if !is_missing {
                return value;
            }
            let default = self.inner(word, depth);
            if rest.starts_with('=') {
                self.set(name, Value::Text(default.clone()));
            }
            return Some(default);
        }
        if let Some(word) = rest.strip_prefix('+') {
            return Some(if is_missing { String::new() } else { self.inner(word, depth) });
        }
        let value = value?;
        if rest.is_empty() || rest.starts_with('?') {
            return Some(value);
        }
        if is_unknown(&value) || value.len() > LONGEST_FOR_PATTERNS {
            return None;
        }
        match operation.as_bytes() {
            [b'#', b'#', ..] => Some(without_start(&value, &self.inner(&operation[2..], depth), true)),
            [b'#', ..] => Some(without_start(&value, &self.inner(&operation[1..], depth), false)),
            [b'%', b'%', ..] => Some(without_end(&value, &self.inner(&operation[2..], depth), true)),
            [b'%', ..] => Some(without_end(&value, &self.inner(&operation[1..], depth), false)),
            b",," => Some(value.to_lowercase()),
            b"^^" => Some(value.to_uppercase()),
            [b'/', ..] => {
                let is_all = operation.starts_with("//");
                let (from, to) = operation
                    .trim_start_matches('/')
                    .split_once('/')
                    .unwrap_or((operation.trim_start_matches('/'), ""));
                let is_plain = !from.is_empty() && !from.contains(['*', '?', '[', '#', '%']);
                let (from, to) = (self.inner(from, depth), self.inner(to, depth));
                is_plain.then(|| if is_all { value.replace(&from, &to) } else { value.replacen(&from, &to, 1) })
            }
            _ => None,
        }
    }

    fn inner(&mut self, word: &str, depth: usize) -> String {
        let mut fields = Fields { is_whole: true, ..Fields::default() };
        self.expand(word, &mut fields, depth + 1);
        fields.done().join(" ")
    }
}

/// The one text that all of these are.
fn same(all: &[String]) -> Option<String> {
    let first = all.first()?;
    all.iter().all(|one| one == first).then(|| first.clone())
}

/// Words in the making.
#[derive(Default)]
struct Fields {
    all: Vec<String>,
    current: String,
    /// There is a word, even if it is empty.
    is_begun: bool,
    /// Nothing is split.
    is_whole: bool,
    length: usize,
}

impl Fields {
    fn push(&mut self, text: &str) {
        self.current.push_str(text);
        self.length += text.len();
        self.is_begun |= !text.is_empty();
    }

    /// Text of an expansion outside quotes. An expansion that is not known is one word.
    fn push_split(&mut self, text: &str) {
        if self.is_whole || text.starts_with("$(") {
            return self.push(text);
        }
        let mut parts = text.split([' ', '\t', '\n']).peekable();
        while let Some(part) = parts.next() {
            self.push(part);
            if parts.peek().is_some() {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        if self.is_begun {
            self.all.push(std::mem::take(&mut self.current));
        }
        self.is_begun = false;
    }

    fn done(mut self) -> Vec<String> {
        self.end();
        self.all
    }
}
