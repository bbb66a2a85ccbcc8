//! `Reader`: where somebody reads what becomes of a run, by the address that was given: a webhook, or a mailbox.

use gpuplan_agent::Notifier;

use crate::mail::{Mail, MailAddress};
use crate::webhook::Webhook;

/// An address that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    Webhook(String),
    Mail(MailAddress),
}

impl Reader {
    /// # Errors
    ///
    /// What is wrong with the address, in words. They do not repeat that of a webhook, whose path is its key.
    pub fn parse(address: &str) -> Result<Self, String> {
        if address.starts_with("smtps://") || address.starts_with("smtp://") {
            return MailAddress::parse(address).map(Self::Mail);
        }
        if address.starts_with("mailto:") || (address.contains('@') && !address.contains('/')) {
            return Err("mail is sent through a server of yours: smtps://USER@HOST?to=ADDRESS".to_owned());
        }
        Webhook::new(address).map(|_| Self::Webhook(address.to_owned()))
    }

    /// Machines have to be given one that stands in no address.
    pub fn needs_password(&self) -> bool {
        matches!(self, Self::Mail(address) if address.user.is_some())
    }

    /// # Errors
    ///
    /// This process lacks what it takes, such as the password of the mailbox.
    pub fn notifier(self) -> Result<Box<dyn Notifier>, String> {
        Ok(match self {
            Self::Webhook(url) => Box::new(Webhook::new(&url)?),
            Self::Mail(address) => Box::new(Mail::new(address)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_webhook_or_a_mailbox_and_a_mailbox_alone_needs_a_server() {
        assert!(matches!(Reader::parse("https://hooks.example.com/x"), Ok(Reader::Webhook(_))));
        assert!(matches!(Reader::parse("smtps://me@mail.example.com?to=you@example.org"), Ok(Reader::Mail(_))));
        for mailbox in ["mailto:me@example.com", "me@example.com"] {
            assert!(Reader::parse(mailbox).unwrap_err().contains("smtps://USER@HOST?to="), "{mailbox}");
        }
        for wrong in ["http://example.com", "x", "smtps://mail.example.com"] {
            assert!(Reader::parse(wrong).is_err(), "{wrong}");
        }
    }
}
