//! Signals to the agent itself, heard as notices: a scheduler or a person says that the machine goes.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::event::Event;
use crate::ports::notice::{Notice, Urgency};

type Kind = fn() -> SignalKind;

/// Slurm sends SIGUSR1 where `--signal=USR1@SECONDS` says so.
const HEARD: [(&str, Kind); 4] = [
    ("SIGTERM", SignalKind::terminate),
    ("SIGINT", SignalKind::interrupt),
    ("SIGHUP", SignalKind::hangup),
    ("SIGUSR1", SignalKind::user_defined1),
];

/// From now on none of them ends the agent.
pub fn listen(grace: Duration, events: mpsc::Sender<Event>) -> io::Result<()> {
    for (name, kind) in HEARD {
        let (mut arriving, events) = (signal(kind())?, events.clone());
        tokio::spawn(async move {
            while arriving.recv().await.is_some() {
                let notice = Notice { urgency: Urgency::Leave, from: name.to_owned(), left: Some(grace) };
                let _ = events.send(Event::Notice { notice, by_cloud: false }).await;
            }
        });
    }
    Ok(())
}
