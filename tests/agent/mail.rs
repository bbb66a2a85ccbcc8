//! People are told by mail: with a password that stands nowhere, and that no mail server hears in the clear beyond this machine.

use crate::agent::bench::{Bench, files};
use gpuplan_testbed::smtp::MailServer;

const PASSWORD: &str = "correct horse battery";

#[test]
fn a_mailbox_is_told_by_a_password_that_stands_nowhere() {
    let server = MailServer::start(Some(("me@example.com", PASSWORD)));
    let bench = Bench::with(&[("GPUPLAN_SMTP_PASSWORD", PASSWORD)]);
    let address = format!("smtp://me%40example.com@127.0.0.1:{}?to=you@example.org,they@example.org", server.port);
    let mut agent = bench.start("a", &["--notify", &address], &["sh", "-c", "env; echo ready"]);
    agent.ends_with(0);
    let letters = server.letters();
    let subject = |head: &'_ str| head.lines().find_map(|line| line.strip_prefix("Subject: ")).map(str::to_owned);
    let mut subjects: Vec<String> = letters.iter().filter_map(|letter| subject(&letter.head)).collect();
    subjects.sort();
    assert_eq!(subjects, ["gpuplan: t: ended", "gpuplan: t: started"], "{letters:?}");
    for letter in &letters {
        assert_eq!(letter.login, Some(("me@example.com".to_owned(), PASSWORD.to_owned())));
        assert_eq!(
            (letter.from.as_str(), letter.to.join(" ")),
            ("me@example.com", "you@example.org they@example.org".to_owned())
        );
        assert!(letter.text.contains("run t, machine 0, epoch 1"), "{}", letter.text);
    }
    assert!(agent.log().contains("ready") && !agent.log().contains(PASSWORD), "{}", agent.log());
    for file in files(&bench.path("store")) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains(PASSWORD) && !text.contains("GPUPLAN_SMTP_PASSWORD"), "{}", file.display());
    }
}

#[test]
fn a_mailbox_that_cannot_be_reached_costs_nothing_but_a_warning() {
    let server = MailServer::start(Some(("me", PASSWORD)));
    let bench = Bench::with(&[("GPUPLAN_SMTP_PASSWORD", "another")]);
    let address = |scheme: &str| format!("{scheme}://me@127.0.0.1:{}?to=you@example.org", server.port);
    let mut refused = bench.start("a", &["--notify", &address("smtp")], &["true"]);
    refused.ends_with(0);
    assert!(refused.log().contains("the mail server refused with 535"), "{}", refused.log());
    // It has no TLS, so it hears no user, no password and no word of the run.
    let heard = server.heard().len();
    let other = Bench::with(&[("GPUPLAN_SMTP_PASSWORD", "another")]);
    let mut in_the_clear = other.start("b", &["--notify", &address("smtps")], &["true"]);
    in_the_clear.ends_with(0);
    assert!(in_the_clear.log().contains("nobody was notified"), "{}", in_the_clear.log());
    let heard = server.heard()[heard..].to_owned();
    assert!(!heard.contains("AUTH") && !heard.contains("you@") && server.letters().is_empty(), "{heard}");
    let unarmed = Bench::new();
    let mut without = unarmed.start("c", &["--notify", &address("smtp")], &["true"]);
    without.ends_with(2);
    assert!(without.log().contains("GPUPLAN_SMTP_PASSWORD is not set"), "{}", without.log());
    let mut in_the_address = bench.start("d", &["--notify", "smtps://me:x@127.0.0.1?to=you@example.org"], &["true"]);
    in_the_address.ends_with(2);
    assert!(in_the_address.log().contains("an address has no password"), "{}", in_the_address.log());
}
