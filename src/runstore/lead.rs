//! `Lead`: who leads a run, rents its machines and ends them. An object `lead/<n>`, create-only: the highest number leads.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::layout::numbered;
use crate::run::{Run, after};
use crate::store::StoreError;

/// Who leads, as it says itself. No two leaders write the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lead {
    /// The journal that it keeps: another process with the same journal may follow without asking.
    pub journal: String,
    /// For people: user and machine.
    pub by: String,
    /// By its own clock.
    pub at: Timestamp,
}

/// The highest leader that there is.
#[derive(Clone, Debug, PartialEq)]
pub struct Leading {
    pub number: u64,
    /// `None`: its object cannot be read, which makes it nobody's own.
    pub lead: Option<Lead>,
    /// It has ended the run, or left it on purpose, and anybody may follow.
    pub is_over: bool,
}

/// What a leader goes on with, as it says once, before it rents or ends anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeps {
    /// The gang of earlier leaders that goes on; `None`: every machine of theirs is to end.
    pub epoch: Option<u64>,
}

/// Who ordered a machine, as its boot script tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderedBy {
    /// The number of the leader.
    pub lead: u64,
    /// When it took the lead, as it said itself: numbers begin again once a run was deleted.
    pub lead_at: Timestamp,
    pub epoch: u64,
    /// The launch that the run goes back to, which tells it from an earlier one of the same name; `None`: ordered before this was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched_at: Option<Timestamp>,
}

/// Whether a machine that has just booted is still wanted. That the store cannot be read is an error, and none of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mandate {
    /// Who ordered it leads, or who leads goes on with it.
    Holds,
    /// Somebody else leads since, and has not said yet what it goes on with.
    Undecided { by: String },
    /// Whoever leads by now does not know it, or the run was deleted.
    Ended { by: String },
}

impl Run {
    /// Whether a machine that was ordered so may begin its work.
    pub async fn mandate(&self, ordered: &OrderedBy) -> Result<Mandate, StoreError> {
        let deleted = Mandate::Ended { by: "nobody: the run was deleted".to_owned() };
        let Some(leading) = self.leading().await? else { return Ok(deleted) };
        let own = self.read::<Lead>(&self.layout.lead(ordered.lead)).await?;
        if own.is_none_or(|own| own.at != ordered.lead_at) {
            return Ok(deleted);
        }
        if leading.number == ordered.lead {
            return Ok(Mandate::Holds);
        }
        let by = leading.lead.map_or_else(|| "somebody".to_owned(), |lead| lead.by);
        let keeps = self.read::<Keeps>(&self.layout.lead_keeps(leading.number)).await?;
        Ok(match keeps {
            None => Mandate::Undecided { by },
            Some(keeps) if keeps.epoch == Some(ordered.epoch) => Mandate::Holds,
            Some(_) => Mandate::Ended { by },
        })
    }

    /// Says what the leader of this number goes on with. What was said first counts.
    pub async fn lead_keeps(&self, number: u64, keeps: Keeps) -> Result<(), StoreError> {
        self.create(&self.layout.lead_keeps(number), &keeps).await.map(drop)
    }

    /// `None`: nobody has led this run yet.
    pub async fn leading(&self) -> Result<Option<Leading>, StoreError> {
        let listed = self.store.list(&self.layout.leads()).await?;
        let Some(number) = listed.iter().filter_map(|object| numbered(object.file_name())).max() else {
            return Ok(None);
        };
        let lead = match self.read::<Lead>(&self.layout.lead(number)).await {
            Err(StoreError::Unreadable { .. }) => None,
            lead => lead?,
        };
        Ok(Some(Leading { number, lead, is_over: self.store.exists(&self.layout.lead_over(number)).await? }))
    }

    /// The number that is taken next.
    pub fn lead_after(&self, number: u64) -> Result<u64, StoreError> {
        after(number, &self.layout.lead(number))
    }

    /// False if somebody else has this number.
    pub async fn take_lead(&self, number: u64, lead: &Lead) -> Result<bool, StoreError> {
        self.create(&self.layout.lead(number), lead).await
    }

    /// Whether this one still leads: its object is there, as it wrote it, and no next one. After `down` there is none.
    pub async fn is_leading(&self, number: u64, lead: &Lead) -> Result<bool, StoreError> {
        let (own, next) = (self.layout.lead(number), self.layout.lead(number + 1));
        let (own, next) = futures_util::future::join(self.read::<Lead>(&own), self.store.exists(&next)).await;
        Ok(own?.as_ref() == Some(lead) && !next?)
    }

    /// When the number was taken, by the clock of the store. `None`: nobody has it.
    pub async fn lead_taken_at(&self, number: u64) -> Result<Option<Timestamp>, StoreError> {
        let (own, listed) = (number.to_string(), self.store.list(&self.layout.leads()).await?);
        let found = listed.iter().find(|object| object.file_name() == own);
        Ok(found.and_then(|object| Timestamp::from_second(object.modified_seconds()).ok()))
    }

    /// Says that this leader has ended the run.
    pub async fn end_lead(&self, number: u64, lead: &Lead) -> Result<(), StoreError> {
        self.create(&self.layout.lead_over(number), lead).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::store::Store;

    fn lead(journal: &str) -> Lead {
        Lead { journal: journal.to_owned(), by: "a@b".to_owned(), at: Timestamp::UNIX_EPOCH }
    }

    #[tokio::test]
    async fn of_two_who_take_the_lead_one_has_it_until_the_next_number() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        let (one, two) = (lead("1"), lead("2"));
        assert_eq!(run.leading().await.unwrap(), None);
        assert!(run.take_lead(1, &one).await.unwrap() && !run.take_lead(1, &two).await.unwrap());
        assert!(run.take_lead(1, &one).await.unwrap(), "an answer that was lost is our own");
        assert!(run.is_leading(1, &one).await.unwrap() && !run.is_leading(1, &two).await.unwrap());
        assert!(run.lead_taken_at(1).await.unwrap().is_some() && run.lead_taken_at(2).await.unwrap().is_none());
        assert!(run.take_lead(2, &two).await.unwrap());
        assert!(!run.is_leading(1, &one).await.unwrap() && run.is_leading(2, &two).await.unwrap());
        run.end_lead(2, &two).await.unwrap();
        let leading = run.leading().await.unwrap().unwrap();
        assert_eq!((leading.number, leading.lead, leading.is_over), (2, Some(two.clone()), true));
        run.store.write(&format!("runs/a/lead/{}", u64::MAX), b"{}".to_vec()).await.unwrap();
        assert_eq!(run.leading().await.unwrap().map(|leading| leading.number), Some(2), "no run gets there");
        assert!(run.lead_after(2).is_ok_and(|next| next == 3) && run.lead_after((1 << 53) - 1).is_err());
        // After `down`, another run of this name.
        run.delete_all().await.unwrap();
        assert!(!run.is_leading(2, &two).await.unwrap(), "a leader that slept meanwhile leads nothing");
    }

    #[tokio::test]
    async fn a_machine_of_a_deposed_leader_is_wanted_only_if_the_next_one_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        let ordered = |epoch| OrderedBy { lead: 1, lead_at: Timestamp::UNIX_EPOCH, epoch, launched_at: None };
        assert!(matches!(run.mandate(&ordered(4)).await.unwrap(), Mandate::Ended { .. }), "nobody led it");
        run.take_lead(1, &lead("1")).await.unwrap();
        assert_eq!(run.mandate(&ordered(4)).await.unwrap(), Mandate::Holds);
        run.take_lead(2, &lead("2")).await.unwrap();
        assert_eq!(run.mandate(&ordered(4)).await.unwrap(), Mandate::Undecided { by: "a@b".to_owned() });
        run.lead_keeps(2, Keeps { epoch: Some(4) }).await.unwrap();
        run.lead_keeps(2, Keeps { epoch: Some(5) }).await.unwrap();
        assert_eq!(run.mandate(&ordered(4)).await.unwrap(), Mandate::Holds);
        assert_eq!(run.mandate(&ordered(5)).await.unwrap(), Mandate::Ended { by: "a@b".to_owned() });
        std::fs::write(folder.path().join("runs/a/lead-keeps/2"), "{").unwrap();
        assert!(matches!(run.mandate(&ordered(4)).await, Err(StoreError::Unreadable { .. })), "unknown is no answer");
        // After `down` and another launch of this name numbers begin again.
        run.delete_all().await.unwrap();
        run.take_lead(1, &Lead { at: Timestamp::from_second(9).unwrap(), ..lead("3") }).await.unwrap();
        assert!(matches!(run.mandate(&ordered(4)).await.unwrap(), Mandate::Ended { .. }));
    }
}
