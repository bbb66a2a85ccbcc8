//! A script as a tree: simple commands, and what stands around them.

use super::lex::Token;

/// Deeper nesting is no script that a person wrote, and would end the stack.
const DEEPEST: usize = 60;

/// More are read and left out.
const MOST_BRANCHES: usize = 100;

/// A part of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Simple(Simple),
    /// A command, and what follows `&&` (true) or `||`.
    Chain(Box<Node>, Vec<(bool, Node)>),
    /// Conditions and what follows if they hold; then what follows if none does.
    If(Vec<(Vec<Node>, Vec<Node>)>, Vec<Node>),
    /// The variable and its values, of a `for`; then the body.
    Loop(Option<(String, Vec<String>)>, Vec<Node>),
    /// The test of a `while` or `until`; then the body.
    While(Vec<Node>, Vec<Node>),
    /// The subject; patterns and what they choose.
    Case(String, Vec<(Vec<String>, Vec<Node>)>),
    Group(Vec<Node>),
    /// A name and the body that it stands for.
    Function(String, Vec<Node>),
    /// `! command`
    Not(Box<Node>),
    /// `command &`: what follows does not wait for it.
    Background(Box<Node>),
}

/// Words with their quotes on, and where input and output go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    pub words: Vec<String>,
    pub document: Option<(String, bool)>,
    pub output: Option<String>,
    /// A quote in it is never closed.
    pub is_cut: bool,
}

pub fn nodes(tokens: &[Token]) -> Vec<Node> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let mut all = Vec::new();
    while parser.at < tokens.len() {
        all.extend(parser.block(&[]));
        // A word that closes what nobody opened.
        parser.at += 1;
    }
    all
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn word(&self) -> Option<&str> {
        match self.tokens.get(self.at) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn operator(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Operator(operator)) => Some(operator),
            _ => None,
        }
    }

    fn takes(&mut self, keyword: &str) -> bool {
        let is_there = self.word() == Some(keyword);
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_separators(&mut self) {
        while matches!(self.operator(), Some("\n" | ";" | "&" | "|" | "|&")) {
            self.at += 1;
        }
    }

    /// Commands up to one of these words, or up to what only an outer block ends.
    fn block(&mut self, ends: &[&str]) -> Vec<Node> {
        const CLOSING: [&str; 8] = ["then", "elif", "else", "fi", "do", "done", "esac", "}"];
        let mut all = Vec::new();
        self.depth += 1;
        loop {
            self.skip_separators();
            let is_end = self.word().is_some_and(|word| ends.contains(&word) || CLOSING.contains(&word))
                || matches!(self.operator(), Some(")" | ";;" | ";&" | ";;&"));
            if is_end || self.at >= self.tokens.len() || self.depth > DEEPEST {
                break;
            }
            let before = self.at;
            let node = self.chain();
            let is_background = self.operator() == Some("&");
            all.push(if is_background { Node::Background(Box::new(node)) } else { node });
            self.at = self.at.max(before + 1);
        }
        self.depth -= 1;
        all
    }

    fn chain(&mut self) -> Node {
        let first = self.command();
        let mut rest = Vec::new();
        while let Some(operator @ ("&&" | "||")) = self.operator() {
            self.at += 1;
            while self.operator() == Some("\n") {
                self.at += 1;
            }
            rest.push((operator == "&&", self.command()));
        }
        if rest.is_empty() { first } else { Node::Chain(Box::new(first), rest) }
    }

    fn command(&mut self) -> Node {
        if self.operator() == Some("(") {
            self.at += 1;
            let inner = self.block(&[")"]);
            self.at += usize::from(self.operator() == Some(")"));
            return self.redirected(Node::Group(inner));
        }
        let node = match self.word() {
            Some("!") => {
                self.at += 1;
                self.depth += 1;
                let inner = if self.depth > DEEPEST { Node::Group(Vec::new()) } else { self.command() };
                self.depth -= 1;
                return Node::Not(Box::new(inner));
            }
            Some("if") => self.condition(),
            Some("for" | "while" | "until" | "select") => self.repetition(),
            Some("case") => self.case(),
            Some("{") => Node::Group(self.braces()),
            Some("function") => {
                self.at += 1;
                let name = self.word().unwrap_or_default().to_owned();
                self.at += 1;
                self.function(name)
            }
            _ if matches!(
                self.tokens.get(self.at + 1..self.at + 3),
                Some([Token::Operator("("), Token::Operator(")")])
            ) =>
            {
                let name = self.word().unwrap_or_default().to_owned();
                self.at += 1;
                self.function(name)
            }
            _ => return Node::Simple(self.simple()),
        };
        self.redirected(node)
    }

    /// Redirections behind a compound command change no command in it.
    fn redirected(&mut self, node: Node) -> Node {
        while let Some(Token::Redirect(_) | Token::Document { .. }) = self.tokens.get(self.at) {
            let has_file = matches!(self.tokens[self.at], Token::Redirect(_));
            self.at += 1 + usize::from(has_file);
        }
        node
    }

    fn function(&mut self, name: String) -> Node {
        while matches!(self.operator(), Some("(" | ")" | "\n")) {
            self.at += 1;
        }
        match self.word() {
            Some("{") => Node::Function(name, self.braces()),
            _ => Node::Group(Vec::new()),
        }
    }

    fn braces(&mut self) -> Vec<Node> {
        self.at += 1;
        let inner = self.block(&["}"]);
        self.takes("}");
        inner
    }

    fn condition(&mut self) -> Node {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        self.at += 1;
        loop {
            let test = self.block(&["then"]);
            self.takes("then");
            let body = self.block(&["elif", "else", "fi"]);
            if branches.len() < MOST_BRANCHES {
                branches.push((test, body));
            }
            if !self.takes("elif") {
                break;
            }
        }
        if self.takes("else") {
            otherwise = self.block(&["fi"]);
        }
        self.takes("fi");
        Node::If(branches, otherwise)
    }

    fn repetition(&mut self) -> Node {
        let is_for = matches!(self.word(), Some("for" | "select"));
        self.at += 1;
        let mut variable = None;
        let mut test = Vec::new();
        if is_for {
            if let Some(name) = self.word().map(str::to_owned) {
                self.at += 1;
                let mut values = Vec::new();
                if self.takes("in") {
                    while let Some(word) = self.word() {
                        values.push(word.to_owned());
                        self.at += 1;
                    }
                }
                variable = Some((name, values));
            }
            // `for ((i = 0; i < 4; i++))`
            while self.at < self.tokens.len() && self.word() != Some("do") {
                self.at += 1;
            }
        } else {
            test = self.block(&["do"]);
        }
        self.takes("do");
        let body = self.block(&["done"]);
        self.takes("done");
        if is_for { Node::Loop(variable, body) } else { Node::While(test, body) }
    }

    fn case(&mut self) -> Node {
        self.at += 1;
        let subject = self.word().unwrap_or_default().to_owned();
        self.at += 1;
        self.skip_separators();
        self.takes("in");
        let mut arms = Vec::new();
        loop {
            self.skip_separators();
            if self.at >= self.tokens.len() || self.takes("esac") {
                break;
            }
            let mut patterns = Vec::new();
            while self.at < self.tokens.len() && self.operator() != Some(")") {
                patterns.extend(self.word().map(str::to_owned));
                self.at += 1;
            }
            self.at += 1;
            arms.push((patterns, self.block(&["esac"])));
            if matches!(self.operator(), Some(";;" | ";&" | ";;&")) {
                self.at += 1;
            } else if self.word().is_some_and(|word| word != "esac") || self.operator().is_some() {
                // A word that belongs to nothing here.
                self.at += 1;
            }
        }
        Node::Case(subject, arms)
    }

    fn simple(&mut self) -> Simple {
        let mut command = Simple::default();
        loop {
            match self.tokens.get(self.at) {
                Some(Token::Word(word)) => command.words.push(word.clone()),
                Some(Token::Document { text, is_quoted }) => command.document = Some((text.clone(), *is_quoted)),
                Some(Token::Cut) => command.is_cut = true,
                Some(Token::Redirect(redirect)) => {
                    if let Some(Token::Word(file)) = self.tokens.get(self.at + 1) {
                        if matches!(*redirect, ">" | ">>" | ">|") {
                            command.output = Some(file.clone());
                        }
                        self.at += 1;
                    }
                }
                _ => return command,
            }
            self.at += 1;
        }
    }
}
