//! What the leader would do wrong without a fix. The simulated world can take each fix out, to show that it would be missed.

/// A fix that is taken out of the simulated leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// An object that does not change counts as a sign of life.
    OldWordIsLife,
    /// A store that does not answer counts as a gang that says nothing.
    BlindIsSilent,
    /// Whoever stops a run looks once, whatever was ordered just now.
    StopForgetsOrders,
    /// The tokens of a run are those of any run of its name.
    TokenOfTheName,
    /// A leader never looks whether it still leads.
    NobodyAsksWhoLeads,
    /// Each machine gets a whole life, whatever those before have cost.
    LifeWithoutLease,
    /// Whoever follows begins a new balance.
    LedgerIsForgotten,
    /// A program that is ended for the leader's own reasons has no notice.
    EndsWithoutNotice,
    /// Time is what the leader's clock says, which jumps.
    WallClock,
    /// A machine begins, whoever leads by the time that it has booted.
    DeposedMachineBegins,
    /// A gang that was ordered beside another one begins while that one still works.
    NewGangDoesNotWait,
    /// A list says what is there when its answer comes, however long ago the cloud was asked.
    ListsHaveNoAge,
    /// A machine that reboots forgets when it was to end.
    RebootForgetsTheEnd,
    /// A lease pays for the planned price, and spot machines may cost their highest.
    LeaseAtThePlannedPrice,
    /// While the gang before it is the last that spoke, nobody counts for how long a new one has said nothing.
    WordsOfTheOldGangCount,
    /// A program hears nothing of the end of its machine's lease.
    LeaseEndsWithoutNotice,
    /// Whoever goes on with a gang takes the first lease of the run that ends for the gang's own.
    AnyLeaseEndsTheGang,
    /// An agent takes terms beyond what the leader granted for its machine, and moves the last of its timers.
    RenewsBeyondItsShare,
    /// An agent goes on where the store does not answer.
    RenewsWithoutTheStore,
    /// An agent renews whatever its program does.
    RenewsWithoutProgress,
    /// A term counts from when the answer came.
    TermBeginsWithTheAnswer,
    /// The machine goes by a clock that somebody sets.
    LeaseByTheWallClock,
    /// Whoever follows counts the leases that left the run no further from nothing.
    FruitlessIsForgotten,
    /// That the run is completed is heard of the gang that runs alone.
    CompletionIsMissed,
}

impl Mutant {
    pub const ALL: [Self; 24] = [
        Self::OldWordIsLife,
        Self::BlindIsSilent,
        Self::StopForgetsOrders,
        Self::TokenOfTheName,
        Self::NobodyAsksWhoLeads,
        Self::LifeWithoutLease,
        Self::LedgerIsForgotten,
        Self::EndsWithoutNotice,
        Self::WallClock,
        Self::DeposedMachineBegins,
        Self::NewGangDoesNotWait,
        Self::ListsHaveNoAge,
        Self::RebootForgetsTheEnd,
        Self::LeaseAtThePlannedPrice,
        Self::WordsOfTheOldGangCount,
        Self::LeaseEndsWithoutNotice,
        Self::AnyLeaseEndsTheGang,
        Self::RenewsBeyondItsShare,
        Self::RenewsWithoutTheStore,
        Self::RenewsWithoutProgress,
        Self::TermBeginsWithTheAnswer,
        Self::LeaseByTheWallClock,
        Self::FruitlessIsForgotten,
        Self::CompletionIsMissed,
    ];

    /// The seed that caught it last: looked at first, since the others take minutes. Where it catches it no more, they are searched.
    pub fn caught_at(self) -> u64 {
        match self {
            Self::OldWordIsLife | Self::TokenOfTheName | Self::LifeWithoutLease => 0,
            Self::LedgerIsForgotten | Self::LeaseAtThePlannedPrice | Self::AnyLeaseEndsTheGang => 1,
            Self::WallClock => 15,
            Self::EndsWithoutNotice => 5,
            Self::BlindIsSilent => 16,
            Self::ListsHaveNoAge => 88,
            Self::StopForgetsOrders => 38,
            Self::DeposedMachineBegins => 107,
            Self::NewGangDoesNotWait => 162,
            Self::NobodyAsksWhoLeads => 279,
            Self::RebootForgetsTheEnd => 579,
            Self::WordsOfTheOldGangCount => 1244,
            Self::LeaseEndsWithoutNotice => 28,
            Self::RenewsBeyondItsShare => 45,
            Self::RenewsWithoutTheStore => 35,
            Self::RenewsWithoutProgress => 191,
            Self::TermBeginsWithTheAnswer => 677,
            Self::LeaseByTheWallClock => 391,
            Self::FruitlessIsForgotten => 535,
            Self::CompletionIsMissed => 448,
        }
    }
}
