//! `Rented`: a machine as the one who leads the run paid for it, from the order to its end; and what the launch had expected.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::costs::side_costs::SidePrice;
use crate::run::{Run, text};
use crate::store::StoreError;
use gpuplan_units::billing::{minimum_billed_seconds, read_minimum};
use gpuplan_units::{Quantiles, Usd, UsdPerHour};

/// One machine, from the time that it was created until it cost nothing any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rented {
    /// The cloud's own name of it.
    pub machine: String,
    pub epoch: u64,
    pub node: u32,
    pub cloud: String,
    pub region: String,
    #[serde(default)]
    pub zone: Option<String>,
    pub instance_type: String,
    /// `spot` or `on-demand`.
    pub purchase: String,
    /// As the forecast of the spec names the place.
    pub place: String,
    /// Frozen at launch.
    pub rate_usd_per_hour: UsdPerHour,
    /// Charged at least.
    #[serde(default = "minimum_billed_seconds", alias = "rule", deserialize_with = "read_minimum")]
    pub minimum_seconds: u32,
    pub from: Timestamp,
    /// `None`: it may still cost money.
    pub to: Option<Timestamp>,
    /// Seconds that are paid for; more than between `from` and `to` where a stand-in for a cloud makes time pass faster.
    pub seconds: f64,
}

/// Everything rented for a run so far. Written again as it grows, by who leads the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllRented {
    pub version: u32,
    pub machines: Vec<Rented>,
    /// How the run ended, where it did, and when, in the words of `status`.
    #[serde(default)]
    pub end: Option<String>,
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// Times that the cloud took machines away.
    #[serde(default)]
    pub interruptions: u32,
}

pub const VERSION: u32 = 1;

/// What a launch expected, kept in its spec for whoever compares it with what came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Id of the plan.
    pub plan: String,
    pub gpu: String,
    pub gpus_per_node: f64,
    pub framework: String,
    /// Everything on the bill, machines or not.
    pub cost_usd: Quantiles<Usd>,
    /// From the request to the last save.
    pub hours: Quantiles<f64>,
    /// Machines taken away or broken, on the mean.
    pub interruptions: f64,
    /// That the run trains on; `None`: it does not count in tokens.
    #[serde(default)]
    pub tokens: Option<f64>,
    /// Of every place to rent at.
    pub prices: Vec<ExpectedPrice>,
    /// What the forecast of the time rests on; `None`: an older version launched it.
    #[serde(default)]
    pub basis: Option<ForecastBasis>,
    /// Of disks, storage and data from another cloud.
    #[serde(default)]
    pub beside: Vec<SidePrice>,
    /// Data that every new machine fetches from another cloud.
    #[serde(default)]
    pub fetched_bytes: Option<f64>,
}

/// What a forecast of time was of and rested on, so that what came can be compared with what would be said today.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ForecastBasis {
    pub model: String,
    pub task: String,
    /// Of the estimate.
    pub constants_version: String,
    /// Of the calibrations and profiles that corrected it.
    #[serde(default)]
    pub measured_sha256: Option<String>,
    /// By which earlier runs had multiplied the time.
    pub time_factor: f64,
}

/// Where the price of a place came from. The price itself is the place's own in the spec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedPrice {
    pub place: String,
    /// As published, of one machine, where another one was agreed.
    pub list_usd_per_hour: UsdPerHour,
    /// `live`, `cached`, `snapshot`, `estimate` or `yours`, and the source's id.
    pub origin: String,
    pub source: String,
    pub observed_at: Timestamp,
}

impl Run {
    /// The one object of a led run that says what its machines cost outside their agents: booting and ending included. What was
    /// told of a machine that is gone stands: money was counted by it. What cannot be read, or is of a newer version, is not written
    /// over.
    pub async fn write_rented(&self, all: AllRented) -> Result<(), StoreError> {
        let mut machines = self.rented().await?.map_or_else(Vec::new, |told| told.machines);
        machines.retain(|told| told.to.is_some());
        let told = machines.clone();
        // Who adopted a run knows an earlier machine by epoch and node alone.
        let is_told = |machine: &Rented| {
            let same_place = |known: &Rented| (known.epoch, known.node) == (machine.epoch, machine.node);
            told.iter()
                .any(|known| known.machine == machine.machine || (machine.machine.contains(' ') && same_place(known)))
        };
        machines.extend(all.machines.iter().filter(|machine| !is_told(machine)).cloned());
        self.store.write(&self.layout.rented(), text(&AllRented { machines, ..all })).await
    }

    /// `None`: nobody leads it, or did when this was not written yet.
    pub async fn rented(&self) -> Result<Option<AllRented>, StoreError> {
        match self.read::<AllRented>(&self.layout.rented()).await? {
            Some(all) if all.version != VERSION => {
                let detail = format!(
                    "it is of version {}, and this program reads {VERSION}: use the newest gpuplan",
                    all.version
                );
                Err(StoreError::Unreadable { key: self.layout.rented(), detail })
            }
            found => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::store::Store;

    #[tokio::test]
    async fn the_newest_word_stands_and_another_version_is_not_guessed_at() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().display().to_string()).unwrap();
        let run = Run::new(store.clone(), Layout::new("a").unwrap());
        assert_eq!(run.rented().await.unwrap(), None);
        let mut all = AllRented { version: VERSION, interruptions: 1, ..AllRented::default() };
        run.write_rented(all.clone()).await.unwrap();
        all.end = Some("completed".to_owned());
        run.write_rented(all.clone()).await.unwrap();
        assert_eq!(run.rented().await.unwrap(), Some(all.clone()));
        let machine = |seconds: f64, to: Option<Timestamp>| Rented {
            machine: "i-1".to_owned(),
            epoch: 1,
            node: 0,
            cloud: "aws".to_owned(),
            region: "us-east-1".to_owned(),
            zone: None,
            instance_type: "g5.xlarge".to_owned(),
            purchase: "spot".to_owned(),
            place: String::new(),
            rate_usd_per_hour: UsdPerHour::default(),
            minimum_seconds: 60,
            from: Timestamp::UNIX_EPOCH,
            to,
            seconds,
        };
        for (seconds, to, told) in
            [(1.0, None, 1.0), (2.0, Some(Timestamp::UNIX_EPOCH), 2.0), (3.0, Some(Timestamp::UNIX_EPOCH), 2.0)]
        {
            run.write_rented(AllRented { machines: vec![machine(seconds, to)], ..all.clone() }).await.unwrap();
            assert_eq!(run.rented().await.unwrap().unwrap().machines[0].seconds, told, "{seconds}");
        }
        let adopted = Rented { machine: "epoch 1 node 0".to_owned(), ..machine(9.0, Some(Timestamp::UNIX_EPOCH)) };
        let next = Rented { machine: "i-2".to_owned(), epoch: 2, ..machine(4.0, None) };
        run.write_rented(AllRented { machines: vec![adopted, next], ..all.clone() }).await.unwrap();
        let told: Vec<f64> =
            run.rented().await.unwrap().unwrap().machines.iter().map(|machine| machine.seconds).collect();
        assert_eq!(told, [2.0, 4.0]);
        run.write_rented(AllRented { version: 2, ..all.clone() }).await.unwrap();
        let newer = store.read("runs/a/rented.json").await.unwrap();
        let refused = run.rented().await.unwrap_err().to_string();
        assert!(refused.contains("runs/a/rented.json") && refused.contains("version 2"), "{refused}");
        assert!(run.write_rented(all).await.is_err(), "a newer account is not written over");
        assert_eq!(store.read("runs/a/rented.json").await.unwrap(), newer);
        assert_eq!(store.folders("runs").await.unwrap(), ["a"]);
        assert!(store.folders("none").await.unwrap().is_empty());
    }
}
