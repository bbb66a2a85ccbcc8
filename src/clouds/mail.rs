//! `Mail`: sends messages of a run by SMTP, and not without TLS beyond this machine.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use lettre::address::{Address, Envelope};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::{AsyncSmtpTransportBuilder, Error};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

use gpuplan_agent::ports::notice::BoxFuture;
use gpuplan_agent::ports::notify::{Message, Notifier, Occasion, PASSWORD};
use gpuplan_clouds_http::{install_tls, is_loopback, root_cause, variable};

/// Whether whoever asks can send as a user of a mail server.
pub fn has_password() -> bool {
    variable(PASSWORD).is_some()
}

/// What the server may take for each answer, how often a message is tried, and the pause between. Judged.
const ANSWER: Duration = Duration::from_secs(15);
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);
/// Bytes of a line of the text, and of a word of the subject, before they are encoded: 76 and 60 signs after (RFC 2045, RFC 2047).
const LINE: usize = 57;
const WORD: usize = 45;

/// `smtps://[USER@]HOST[:PORT]?to=ADDRESS[,ADDRESS][&from=ADDRESS]`; `smtp://` begins in the clear and has to change to TLS before anything is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailAddress {
    /// TLS from the first byte on.
    is_wrapped: bool,
    pub user: Option<String>,
    host: String,
    /// `None`: 465, and 587 with `smtp://`.
    port: Option<u16>,
    from: Address,
    to: Vec<Address>,
}

impl MailAddress {
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no ://")?;
        let is_wrapped = match scheme {
            "smtps" => true,
            "smtp" => false,
            _ => return Err(format!("`{scheme}` is neither smtps nor smtp")),
        };
        let (server, query) = rest.split_once('?').ok_or("it does not say to whom: ?to=ADDRESS")?;
        let server = server.trim_end_matches('/');
        let (user, server) = match server.rsplit_once('@') {
            Some((user, server)) => (Some(decoded(user)), server),
            None => (None, server),
        };
        if user.as_deref().is_some_and(|user| user.contains(':')) {
            return Err(format!(
                "an address has no password, which would stand in the store of the run: set {PASSWORD}"
            ));
        }
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| format!("`{port}` is no port"))?)),
            None => (server, None),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_name) {
            return Err("its server is no name of a host".to_owned());
        }
        let (mut to, mut from) = (Vec::new(), None);
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("to", all)) => to = all.split(',').map(person).collect::<Result<_, _>>()?,
                Some(("from", one)) => from = Some(person(one)?),
                _ => return Err(format!("`{pair}` is neither to=ADDRESS nor from=ADDRESS")),
            }
        }
        let own = user.as_deref().and_then(|user| user.parse().ok());
        let first: &Address = to.first().ok_or("it does not say to whom: ?to=ADDRESS")?;
        let from = from.or(own).unwrap_or_else(|| first.clone());
        Ok(Self { is_wrapped, user, host: host.to_owned(), port, from, to })
    }

    fn server(&self) -> Result<AsyncSmtpTransportBuilder, Error> {
        if !self.is_wrapped && is_loopback(&self.host) {
            return Ok(AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host));
        }
        if self.is_wrapped {
            AsyncSmtpTransport::<Tokio1Executor>::relay(&self.host)
        } else {
            AsyncSmtpTransport::<Tokio1Executor>::starttls_relay(&self.host)
        }
    }
}

/// `%40` is an @.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |known, part| {
        let sign = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(u8::is_ascii_graphic);
        match sign {
            Some(sign) => known + &char::from(sign).to_string() + &part[2..],
            None => known + "%" + part,
        }
    })
}

fn person(text: &str) -> Result<Address, String> {
    decoded(text).parse().map_err(|_| format!("`{text}` is no address of a mailbox"))
}

pub struct Mail {
    address: MailAddress,
    /// Of the user of the server, where it has one.
    password: Option<String>,
}

impl Mail {
    /// With the password of this process's surroundings.
    ///
    /// # Errors
    ///
    /// There is none, and the server wants one.
    pub fn new(address: MailAddress) -> Result<Self, String> {
        let password = variable(PASSWORD);
        if address.user.is_some() && password.is_none() {
            return Err(format!("{PASSWORD} is not set, which the mail server wants of its user"));
        }
        install_tls();
        Ok(Self { address, password })
    }

    async fn send(&self, message: &Message) -> Result<(), Error> {
        let MailAddress { user, port, from, to, .. } = &self.address;
        let mut server = self.address.server()?.timeout(Some(ANSWER));
        if let Some(port) = port {
            server = server.port(*port);
        }
        if let (Some(user), Some(password)) = (user, &self.password) {
            server = server.credentials(Credentials::new(user.clone(), password.clone()));
        }
        let envelope = Envelope::new(Some(from.clone()), to.clone()).expect("an address has somebody to send to");
        let text = text(message, from, to, Timestamp::now());
        server.build::<Tokio1Executor>().send_raw(&envelope, text.as_bytes()).await.map(drop)
    }
}

impl Notifier for Mail {
    fn notify<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let mut tries = 1;
            loop {
                match self.send(message).await {
                    Ok(()) => return Ok(()),
                    Err(error) if tries == TRIES || error.is_permanent() || error.is_client() => {
                        return Err(why(&error));
                    }
                    Err(_) => tries += 1,
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }
}

fn why(error: &Error) -> String {
    match error.status() {
        Some(code) => format!("the mail server refused with {code}"),
        None => format!("the mail server cannot be used: {}", root_cause(error)),
    }
}

/// As RFC 5322 wants it; the text is encoded, so that no server has to know more than ASCII, and no line of it ends the message.
fn text(message: &Message, from: &Address, to: &[Address], now: Timestamp) -> String {
    let Message { event, run, epoch, node, text, spent_usd } = message;
    let what = match event {
        Occasion::Started => "started",
        Occasion::Interrupted => "interrupted",
        Occasion::Finished => "ended",
        Occasion::Budget => "budget",
        Occasion::Stalled => "stalled",
        Occasion::Advice => "advice",
    };
    let spent = spent_usd.map_or_else(String::new, |usd| format!(", ${usd} spent"));
    let body = STANDARD.encode(format!("{text}\r\n\r\nrun {run}, machine {node}, epoch {epoch}{spent}\r\n"));
    let to: Vec<String> = to.iter().map(ToString::to_string).collect();
    let date = DateTimePrinter::new().timestamp_to_string(&now).expect("a year of four digits can be written");
    let mut lines = vec![
        format!("From: {from}"),
        format!("To: {}", to.join(", ")),
        format!("Subject: {}", subject(&format!("gpuplan: {run}: {what}"))),
        format!("Date: {date}"),
        format!("Message-ID: <{}.{}@{}>", now.as_nanosecond(), std::process::id(), from.domain()),
        "Auto-Submitted: auto-generated".to_owned(),
        "MIME-Version: 1.0".to_owned(),
        "Content-Type: text/plain; charset=utf-8".to_owned(),
        "Content-Transfer-Encoding: base64".to_owned(),
        String::new(),
    ];
    lines.extend(body.as_bytes().chunks(LINE / 3 * 4).map(|line| String::from_utf8_lossy(line).into_owned()));
    lines.join("\r\n") + "\r\n"
}

/// A line break in it would begin a header of its own.
fn subject(text: &str) -> String {
    if text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return text.to_owned();
    }
    let (mut words, mut word) = (Vec::new(), String::new());
    for sign in text.chars() {
        if word.len() + sign.len_utf8() > WORD {
            words.push(std::mem::take(&mut word));
        }
        word.push(sign);
    }
    words.push(word);
    let encoded: Vec<String> = words.iter().map(|word| format!("=?utf-8?B?{}?=", STANDARD.encode(word))).collect();
    encoded.join("\r\n ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::Usd;

    #[test]
    fn an_address_says_server_user_and_reader_and_has_no_password() {
        let read = |text: &str| MailAddress::parse(text).unwrap();
        let one = read("smtps://me%40example.com@mail.example.com?to=you@example.org,they@example.org");
        assert_eq!(
            (one.user.as_deref(), one.host.as_str(), one.port),
            (Some("me@example.com"), "mail.example.com", None)
        );
        assert_eq!((one.is_wrapped, one.from.to_string(), one.to.len()), (true, "me@example.com".to_owned(), 2));
        assert_eq!(read("smtp://me@example.com@mail.example.com:2525/?to=you@example.org").port, Some(2525));
        let relay = read("smtp://relay.example.com?to=you@example.org");
        assert_eq!((relay.user, relay.from.to_string()), (None, "you@example.org".to_owned()), "a relay wants no user");
        let from = read("smtps://key@mail.example.com?to=you@example.org&from=runs@example.com").from;
        assert_eq!(from.to_string(), "runs@example.com");
        for (wrong, why) in [
            ("smtps://me:secret@mail.example.com?to=you@example.org", "GPUPLAN_SMTP_PASSWORD"),
            ("smtps://me%3Asecret@mail.example.com?to=you@example.org", "GPUPLAN_SMTP_PASSWORD"),
            ("smtps://mail.example.com", "to=ADDRESS"),
            ("smtps://mail.example.com?from=you@example.org", "to=ADDRESS"),
            ("smtps://mail.example.com?to=you", "`you`"),
            ("smtps://mail.example.com?to=you@example.org&cc=x@example.org", "cc="),
            ("smtps://mail.example.com:x?to=you@example.org", "`x`"),
            ("smtps://?to=you@example.org", "host"),
            ("smtps://mail example?to=you@example.org", "host"),
            ("ftp://mail.example.com?to=you@example.org", "ftp"),
            ("smtps://mail.example.com?to=you@example.org%0D%0ABcc: x@example.org", "mailbox"),
        ] {
            let said = MailAddress::parse(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_message_is_ascii_and_no_name_begins_a_header() {
        let message = Message {
            event: Occasion::Finished,
            run: "müde\r\nBcc: x@example.org".to_owned(),
            epoch: 3,
            node: 1,
            text: ".\r\nzu Ende".repeat(20),
            spent_usd: Usd::parse("3.50").ok(),
        };
        let (from, to) = ("me@example.com".parse().unwrap(), ["you@example.org".parse().unwrap()]);
        let text = text(&message, &from, &to, Timestamp::from_second(1_700_000_000).unwrap());
        assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 78), "{text}");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("Bcc") && head.contains("Date: Tue, 14 Nov 2023 22:13:20 -0000"), "{head}");
        let body = STANDARD.decode(body.replace("\r\n", "")).unwrap();
        assert!(
            String::from_utf8(body)
                .unwrap()
                .ends_with("zu Ende\r\n\r\nrun müde\r\nBcc: x@example.org, machine 1, epoch 3, $3.50 spent\r\n")
        );
        assert_eq!(subject("gpuplan: a: ended"), "gpuplan: a: ended");
    }
}
