//! `Logger`: where the agent's words and the program's output go.

/// Where the program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Where the agent's words and the program's output go.
pub trait Logger: Send + Sync {
    fn say(&self, line: &str);

    /// What the program wrote, as it is.
    fn pass(&self, stream: Stream, bytes: &[u8]);
}
