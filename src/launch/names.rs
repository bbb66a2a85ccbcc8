//! Names, tokens and tags of machines: the same run, epoch, node and attempt always have the same.

use jiff::Timestamp;

use gpuplan_runstore::sha256;

/// Tags of everything that is rented, which docs/launch.md lists; a cloud that forbids colons writes underscores.
pub const RUN: &str = "gpuplan:run";
pub const EPOCH: &str = "gpuplan:epoch";
pub const NODE: &str = "gpuplan:node";
pub const EXPIRES: &str = "gpuplan:expires";
pub const OWNER: &str = "gpuplan:owner";
/// The number of the leader that rented it.
pub const LEAD: &str = "gpuplan:lead";

/// Which run, of all of its name that there ever were, and who leads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    pub run: String,
    /// When it was launched, in nanoseconds since 1970: a cloud remembers the tokens of an earlier run of the same name for a day.
    pub at: i128,
    /// The number of the leader: two that lead one run never have the same token.
    pub lead: u64,
}

impl Launch {
    /// `at` as a time.
    pub fn moment(&self) -> Timestamp {
        Timestamp::from_nanosecond(self.at).expect("`at` was a time: `RunSpec::launch`")
    }
}

/// Repeating a call with it never rents a second machine. 64 characters: EC2 takes no more.
pub fn token(launch: &Launch, epoch: u64, node: u32, attempt: u64) -> String {
    let Launch { run, at, lead } = launch;
    // Lengths keep apart what a run may be called.
    sha256(format!("{}:{run}:{at}:{lead}:{epoch}:{node}:{attempt}", run.len()))
}

/// A second safety on clouds where a name is unique.
pub fn machine(run: &str, epoch: u64, node: u32) -> String {
    let plain: String =
        run.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    format!("gpuplan-{}-e{epoch}-n{node}", plain.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_by_everything_and_stay() {
        let of = |run: &str, at, lead| Launch { run: run.to_owned(), at, lead };
        let one = token(&of("a", 7, 1), 1, 2, 3);
        assert_eq!((one.len(), &one), (64, &token(&of("a", 7, 1), 1, 2, 3)));
        let others = [
            token(&of("b", 7, 1), 1, 2, 3),
            token(&of("a", 8, 1), 1, 2, 3),
            token(&of("a", 7, 2), 1, 2, 3),
            token(&of("a", 7, 1), 2, 2, 3),
            token(&of("a", 7, 1), 1, 1, 3),
            token(&of("a", 7, 1), 1, 2, 4),
        ];
        assert!(others.iter().all(|other| *other != one));
        assert_eq!(machine("Llama_3.1", 2, 0), "gpuplan-llama-3-1-e2-n0");
    }
}
