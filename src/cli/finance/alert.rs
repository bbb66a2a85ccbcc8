//! Alerts of `budget --actual`: rules that are broken and what stands out, to a webhook or by mail.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::runtime::runtime;
use gpuplan_agent::ports::notify::{Message, Notifier, Occasion};
use gpuplan_budget::portfolio::verdict::Verdict;
use gpuplan_budget::status::BudgetStatus;
use gpuplan_report::finance::money::Money;
use gpuplan_report::finance::rules_text::words;
use gpuplan_report::finance::status_text::{anomaly_words, head};

/// How long a webhook may take.
const NOTIFYING: Duration = Duration::from_mins(1);
/// The program by which Unix sends mail: Postfix, Exim, msmtp and others bring it under this name.
const SENDMAIL: &str = "sendmail";

/// Where somebody reads.
enum Reader {
    /// A webhook, or a mailbox by a mail server of the user's.
    Sent(Box<dyn Notifier>),
    /// A mailbox by this computer's own mail program.
    Mail(String),
}

/// `https://...`, `mailto:cfo@example.com` or `cfo@example.com`, checked before anything is computed.
pub fn check(addresses: &[String], session: &Session) -> Result<(), Diagnostic> {
    for address in addresses {
        if let Reader::Sent(_) = reader(address)?
            && session.offline
        {
            return Err(Diagnostic::usage("nobody can be notified over the network with --offline")
                .hint("--notify mailto:cfo@example.com"));
        }
    }
    Ok(())
}

fn reader(address: &str) -> Result<Reader, Diagnostic> {
    let mail = address.strip_prefix("mailto:").or_else(|| Some(address).filter(|address| !address.contains("://")));
    let Some(mail) = mail else {
        return gpuplan_clouds::reader::Reader::parse(address)
            .and_then(gpuplan_clouds::reader::Reader::notifier)
            .map(Reader::Sent)
            .map_err(|error| Diagnostic::usage(error).hint("--notify https://HOST/PATH"));
    };
    // A line break in it would begin a header of its own.
    let is_address = mail.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.'))
        && mail.bytes().all(|byte| byte.is_ascii_graphic() && !b",;<>\"".contains(&byte));
    if is_address {
        Ok(Reader::Mail(mail.to_owned()))
    } else {
        Err(Diagnostic::usage(format!("`{address}` is not an address to notify"))
            .hint("--notify https://HOST/PATH")
            .hint("--notify mailto:cfo@example.com"))
    }
}

/// What there is to say; `None`: every rule is kept, and nothing stands out.
fn text(status: &BudgetStatus) -> Option<String> {
    let rules = status.rules.iter().filter(|rule| matches!(rule.verdict, Verdict::Broken | Verdict::Warned));
    let money = Money::in_currency(status.exchange.as_ref());
    let mut alerts: Vec<String> = rules.map(|rule| words(rule, money)).collect();
    alerts.extend(status.anomalies.iter().map(|anomaly| anomaly_words(anomaly, money)));
    (!alerts.is_empty()).then(|| format!("- {}\n\n{}\n", alerts.join("\n- "), head(status).join("\n")))
}

/// Tells everybody, and says who could not be told.
pub fn tell(addresses: &[String], status: &BudgetStatus) -> Result<(), Diagnostic> {
    let Some(text) = text(status).filter(|_| !addresses.is_empty()) else { return Ok(()) };
    let mut failed = Vec::new();
    for address in addresses {
        let told = match reader(address)? {
            Reader::Sent(notifier) => post(&*notifier, status, &text),
            Reader::Mail(to) => mail(&to, &status.name, &text),
        };
        // The path of a webhook is its key.
        failed.extend(told.err().map(|why| format!("{}: {why}", address.split("://").next().unwrap_or(address))));
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Diagnostic::unexpected(format!("an alert was not delivered: {}", failed.join("; "))))
}

fn post(notifier: &dyn Notifier, status: &BudgetStatus, text: &str) -> Result<(), String> {
    let message = Message {
        event: Occasion::Budget,
        run: status.name.clone(),
        epoch: 0,
        node: 0,
        text: text.to_owned(),
        spent_usd: Some(status.total.spent_usd),
    };
    let runtime = runtime().map_err(|error| error.message)?;
    let told = runtime.block_on(async { tokio::time::timeout(NOTIFYING, notifier.notify(&message)).await });
    told.unwrap_or_else(|_| Err(format!("no answer within {} s", NOTIFYING.as_secs())))
}

/// A message of RFC 5322; `-t` takes the reader from it, and `-i` lets a line be a single point.
fn mail(to: &str, name: &str, text: &str) -> Result<(), String> {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let message = format!(
        "To: {to}\nSubject: Budget of {name}: something to look at\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\nAuto-Submitted: auto-generated\n\n{text}"
    );
    let started = Command::new(SENDMAIL).args(["-t", "-i"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut sending = started.map_err(|error| format!("`{SENDMAIL}` does not start ({error})"))?;
    let written = sending.stdin.take().map(|mut stdin| stdin.write_all(message.as_bytes()));
    let ended = sending.wait().map_err(|error| error.to_string())?;
    match written {
        Some(Ok(())) if ended.success() => Ok(()),
        _ => Err(format!("`{SENDMAIL}` failed ({ended})")),
    }
}
