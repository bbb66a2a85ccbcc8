//! A script as tokens: words with their quotes still on, operators, here-documents. Comments and continued lines are gone.

use std::collections::HashMap;

/// A piece of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// With its quotes and expansions; an assignment of an array is one word.
    Word(String),
    /// `;`, `&&`, `|`, `(` and their like; a line's end is `\n`.
    Operator(&'static str),
    /// `>`, `<` and their like; the next word is their file.
    Redirect(&'static str),
    /// Text behind `<<`. Quoted marks leave it as it is.
    Document { text: String, is_quoted: bool },
    /// A quote is never closed: the word with the quote and the rest of its line are missing.
    Cut,
}

/// Longest first.
const OPERATORS: [&str; 11] = [";;&", ";;", ";&", ";", "&&", "||", "|&", "|", "&", "(", ")"];
const REDIRECTS: [&str; 10] = ["&>>", "&>", "<<<", "<>", ">>", ">&", "<&", ">|", ">", "<"];

pub fn tokens(script: &str) -> Vec<Token> {
    let mut lexer = Lexer { text: script, at: 0, tokens: Vec::new(), open: Vec::new(), ends: None, in_vain: 0 };
    while lexer.at < lexer.text.len() {
        lexer.next();
    }
    lexer.documents();
    lexer.tokens
}

/// A here-document that was announced on this line: where its token stands, and the mark that ends it.
struct Open {
    token: usize,
    mark: String,
    strips_tabs: bool,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    open: Vec<Open>,
    ends: Option<Ends<'a>>,
    /// Letters that were searched for the end of words that are never closed.
    in_vain: usize,
}

/// Where each line begins, by what it says, and by what it says behind its tabs: of two million here-documents each finds its end at once.
struct Ends<'a> {
    plain: HashMap<&'a str, Vec<usize>>,
    without_tabs: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Ends<'a> {
    fn of(text: &'a str) -> Self {
        let (mut at, mut all) = (0, Self { plain: HashMap::new(), without_tabs: HashMap::new() });
        for line in text.split_inclusive('\n') {
            let says = line.trim_end_matches(['\n', '\r']);
            all.plain.entry(says).or_default().push(at);
            all.without_tabs.entry(says.trim_start_matches('\t')).or_default().push(at);
            at += line.len();
        }
        all
    }

    /// The first line from here on that says no more than the mark.
    fn next(&self, open: &Open, from: usize) -> Option<usize> {
        let all = if open.strips_tabs { &self.without_tabs } else { &self.plain };
        let lines = all.get(open.mark.as_str())?;
        lines.get(lines.partition_point(|at| *at < from)).copied()
    }
}

/// Times the length of a script that its letters are searched in vain, before what is left of it is cut: no script has so many open quotes.
const PATIENCE: usize = 8;

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next(&mut self) {
        let rest = self.rest();
        if rest.starts_with("\\\n") {
            self.at += 2;
        } else if rest.starts_with('\n') {
            self.at += 1;
            self.tokens.push(Token::Operator("\n"));
            self.documents();
        } else if rest.starts_with([' ', '\t', '\r']) {
            self.at += 1;
        } else if rest.starts_with('#') {
            self.at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some(length) = placeholder(rest) {
            self.tokens.push(Token::Word(rest[..length].to_owned()));
            self.at += length;
        } else if rest.starts_with("<<") && !rest.starts_with("<<<") {
            self.announce();
        } else if let Some(redirect) = REDIRECTS.iter().find(|one| rest.starts_with(**one)) {
            self.at += redirect.len();
            self.tokens.push(Token::Redirect(redirect));
        } else if let Some(operator) = OPERATORS.iter().find(|one| rest.starts_with(**one)) {
            self.at += operator.len();
            self.tokens.push(Token::Operator(operator));
        } else {
            self.word();
        }
    }

    fn word(&mut self) {
        match word_length(self.rest()) {
            Some(length) => {
                let word = self.rest()[..length].to_owned();
                self.at += length;
                // `2>`: the number belongs to the redirection.
                let is_descriptor =
                    self.rest().starts_with(['<', '>']) && word.chars().all(|letter| letter.is_ascii_digit());
                if !is_descriptor {
                    self.tokens.push(Token::Word(word));
                }
            }
            None => {
                let rest = self.rest();
                let (line, all) = (rest.find('\n').unwrap_or(rest.len()), rest.len());
                self.in_vain += all;
                self.at += if self.in_vain > PATIENCE * self.text.len() { all } else { line };
                self.tokens.push(Token::Cut);
            }
        }
    }

    /// `<<EOF`, `<<-EOF`, `<< 'EOF'`.
    fn announce(&mut self) {
        self.at += 2;
        let strips_tabs = self.rest().starts_with('-');
        self.at += usize::from(strips_tabs);
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        let length = word_length(self.rest()).unwrap_or(0);
        let raw = self.rest()[..length].to_owned();
        self.at += length;
        let mark: String = raw.chars().filter(|letter| !matches!(letter, '\'' | '"' | '\\')).collect();
        if mark.is_empty() {
            return;
        }
        self.open.push(Open { token: self.tokens.len(), strips_tabs, mark: mark.clone() });
        self.tokens.push(Token::Document { text: String::new(), is_quoted: mark != raw });
    }

    /// Reads the bodies of the here-documents that the line before announced.
    fn documents(&mut self) {
        for open in std::mem::take(&mut self.open) {
            let text = self.text;
            let end = self.ends.get_or_insert_with(|| Ends::of(text)).next(&open, self.at);
            // Without its end it is no document.
            let Some(end) = end else { continue };
            let lines = text[self.at..end].split_inclusive('\n');
            let body = lines.map(|line| if open.strips_tabs { line.trim_start_matches('\t') } else { line }).collect();
            self.at = end + text[end..].find('\n').map_or(text.len() - end, |length| length + 1);
            if let Some(Token::Document { text, .. }) = self.tokens.get_mut(open.token) {
                *text = body;
            }
        }
    }
}

/// Bytes of a name to fill in, `<output_dir>`, which a shell would take for two files.
fn placeholder(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('<')?;
    let length = inner.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')).count();
    let rest = inner.get(length..)?.strip_prefix('>')?;
    (length > 1 && (rest.is_empty() || rest.starts_with([' ', '\n', '\r', '\t']))).then_some(length + 2)
}

/// Bytes of the word that a text begins with. `None`: a quote or a bracket of it is never closed.
fn word_length(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at..];
        at += match letter {
            ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | ')' | '<' | '>' => break,
            '(' if is_assignment(&text[..at]) => closed(rest, ('(', ')'), 0)?,
            '(' => break,
            _ => piece_length(rest)?,
        };
    }
    Some(at)
}

/// `NAME=` or `NAME+=`, behind which a bracket begins an array.
fn is_assignment(text: &str) -> bool {
    text.strip_suffix('=').is_some_and(|name| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

/// Bytes of the first piece of a text: a quoted text, an expansion, letters that mean themselves, or one that does not.
pub fn piece_length(text: &str) -> Option<usize> {
    piece(text, 0)
}

/// Bytes that a text begins with and that mean themselves wherever they stand: most of a script, and taken at once.
pub fn plain_length(text: &str) -> usize {
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric() || !byte.is_ascii() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b':')
    };
    text.as_bytes().iter().take_while(|byte| is_plain(byte)).count()
}

/// Deeper nesting is no word that a person wrote, and would end the stack.
const DEEPEST: usize = 40;

fn piece(text: &str, depth: usize) -> Option<usize> {
    if depth > DEEPEST {
        return None;
    }
    let letter = text.chars().next()?;
    match letter {
        '\\' => Some(1 + text[1..].chars().next().map_or(0, char::len_utf8)),
        '\'' => Some(text[1..].find('\'')? + 2),
        '$' if text.starts_with("$'") => escaped(text),
        '"' => double_quoted(text, depth + 1),
        '`' => Some(text[1..].find('`')? + 2),
        '$' if text.starts_with("$(") => Some(1 + closed(&text[1..], ('(', ')'), depth + 1)?),
        '$' if text.starts_with("${") => Some(1 + closed(&text[1..], ('{', '}'), depth + 1)?),
        other => Some(plain_length(text).max(other.len_utf8())),
    }
}

/// Bytes of `$'it\'s'`, in which a backslash keeps the quote behind it.
fn escaped(text: &str) -> Option<usize> {
    let mut at = 2;
    loop {
        match text.as_bytes().get(at)? {
            b'\'' => return Some(at + 1),
            b'\\' => at += 1 + text[at + 1..].chars().next()?.len_utf8(),
            _ => at += text[at..].chars().next()?.len_utf8(),
        }
    }
}

fn double_quoted(text: &str, depth: usize) -> Option<usize> {
    let mut at = 1;
    loop {
        let rest = &text[at..];
        match rest.chars().next()? {
            '"' => return Some(at + 1),
            '\'' => at += 1,
            '$' if rest.starts_with("$'") => at += 1,
            _ => at += piece(rest, depth)?,
        }
    }
}

/// Bytes up to the bracket that closes the one a text begins with.
fn closed(text: &str, (open, close): (char, char), depth: usize) -> Option<usize> {
    let (mut at, mut brackets) = (0, 0);
    loop {
        let rest = &text[at..];
        let letter = rest.chars().next()?;
        let begins_a_word = text[..at].chars().next_back().is_none_or(|before| before.is_whitespace() || before == '(');
        if letter == open {
            brackets += 1;
            at += letter.len_utf8();
        } else if letter == close {
            brackets -= 1;
            at += letter.len_utf8();
            if brackets == 0 {
                return Some(at);
            }
        } else if letter == '#' && begins_a_word && open == '(' {
            at += rest.find('\n')?;
        } else {
            at += piece(rest, depth)?;
        }
    }
}
