//! A small mail server on 127.0.0.1, which keeps what it was given and everything that was said to it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

#[derive(Clone, Debug, Default)]
pub struct Letter {
    /// User and password, where somebody signed in before.
    pub login: Option<(String, String)>,
    pub from: String,
    pub to: Vec<String>,
    /// Lines of the head.
    pub head: String,
    /// What a person reads.
    pub text: String,
}

#[derive(Clone)]
pub struct MailServer {
    pub port: u16,
    letters: Arc<Mutex<Vec<Letter>>>,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl MailServer {
    /// Takes this user's password alone; `None`: of anybody, without one.
    pub fn start(user: Option<(&str, &str)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            Self { port: listener.local_addr().unwrap().port(), letters: Arc::default(), heard: Arc::default() };
        let (serving, user) = (server.clone(), user.map(|(user, password)| (user.to_owned(), password.to_owned())));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serving, user) = (serving.clone(), user.clone());
                thread::spawn(move || serving.serve(&stream, user.as_ref()));
            }
        });
        server
    }

    pub fn letters(&self) -> Vec<Letter> {
        self.letters.lock().unwrap().clone()
    }

    /// Every byte, in the order in which it came.
    pub fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }

    /// One connection; `None`: the other side went away.
    fn serve(&self, stream: &TcpStream, user: Option<&(String, String)>) -> Option<()> {
        let (mut out, mut lines) = (stream, BufReader::new(stream));
        let mut say = |text: &str| out.write_all(format!("{text}\r\n").as_bytes()).ok();
        let mut letter = Letter::default();
        say("220 localhost")?;
        loop {
            let line = self.line(&mut lines)?;
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word.to_ascii_uppercase().as_str() {
                "EHLO" => say("250-localhost\r\n250 AUTH PLAIN")?,
                "AUTH" => {
                    let decoded = STANDARD.decode(rest.strip_prefix("PLAIN ")?).ok()?;
                    let parts: Vec<String> = decoded
                        .split(|byte| *byte == 0)
                        .map(|part| String::from_utf8_lossy(part).into_owned())
                        .collect();
                    let login = (parts.get(1)?.clone(), parts.get(2)?.clone());
                    let is_right = user == Some(&login);
                    letter.login = is_right.then_some(login);
                    say(if is_right { "235 welcome" } else { "535 no such user or password" })?;
                }
                "MAIL" if user.is_some() && letter.login.is_none() => say("530 sign in first")?,
                "MAIL" => {
                    letter = Letter { login: letter.login, from: address(rest), ..Letter::default() };
                    say("250 yes")?;
                }
                "RCPT" => {
                    letter.to.push(address(rest));
                    say("250 yes")?;
                }
                "DATA" => {
                    say("354 go on")?;
                    let (mut head, mut body, mut is_head) = (String::new(), String::new(), true);
                    loop {
                        match self.line(&mut lines)?.as_str() {
                            "." => break,
                            "" if is_head => is_head = false,
                            line if is_head => head += &format!("{line}\n"),
                            line => body += line,
                        }
                    }
                    let text = STANDARD.decode(body).unwrap_or_default();
                    (letter.head, letter.text) = (head, String::from_utf8_lossy(&text).into_owned());
                    self.letters.lock().unwrap().push(letter.clone());
                    say("250 taken")?;
                }
                "QUIT" => return say("221 bye"),
                _ => say("500 what?")?,
            }
        }
    }

    fn line(&self, lines: &mut impl BufRead) -> Option<String> {
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).ok().filter(|bytes| *bytes > 0)?;
        self.heard.lock().unwrap().extend(&line);
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

fn address(text: &str) -> String {
    text.split(['<', '>']).nth(1).unwrap_or_default().to_owned()
}
