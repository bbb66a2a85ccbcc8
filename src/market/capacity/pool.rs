//! `Pool`: machines that are held already, as a budget over months counts them.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Capacity, CapacityError, Committed, OWN, Own, beginning, rate};
use gpuplan_units::UsdPerHour;

/// Machines of one `[[own]]` or `[[committed]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub name: String,
    /// `own` for own machines.
    pub cloud: String,
    pub region: Option<String>,
    /// Of own machines their name.
    pub instance_type: String,
    pub nodes: u32,
    /// Cash for an hour of a machine, used or not.
    pub paid: UsdPerHour,
    /// Cash for an hour of a machine that is used, beside `paid`.
    pub marginal: UsdPerHour,
    /// Cost of an hour of a machine, used or not, that is not cash: what own machines lose in value.
    pub depreciation: UsdPerHour,
    /// `None`: from ever, for ever.
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Capacity {
    /// What is held, and nothing of discounts.
    pub fn held(own: Vec<Own>, committed: Vec<Committed>) -> Self {
        Self { committed, own, ..Self::default() }
    }

    /// Together with what another file says.
    pub fn and(mut self, other: Self) -> Self {
        self.discount.extend(other.discount);
        self.committed.extend(other.committed);
        self.own.extend(other.own);
        self
    }

    /// Every `[[committed]]` and `[[own]]`, in the order of the file.
    pub fn pools(&self) -> Result<Vec<Pool>, CapacityError> {
        let pools: Result<Vec<Pool>, CapacityError> =
            self.committed.iter().map(Committed::pool).chain(self.own.iter().map(Own::pool)).collect();
        let pools = pools?;
        let mut names = BTreeSet::new();
        match pools.iter().find(|pool| !names.insert(&pool.name)) {
            Some(twice) => {
                Err(CapacityError::Invalid { of: twice.name.clone(), detail: "the name is used twice".to_owned() })
            }
            None => Ok(pools),
        }
    }

    /// The discounts with this pool alone, whenever it is there; without any machines for `None`.
    pub fn with_only(&self, pool: Option<&str>) -> Self {
        let is_it = |name: &str| pool == Some(name);
        let committed = self.committed.iter().filter(|row| is_it(&row.name));
        let own = self.own.iter().filter(|row| is_it(&row.name));
        Self {
            discount: self.discount.clone(),
            committed: committed.map(|row| Committed { from: None, until: None, ..row.clone() }).collect(),
            own: own.map(|row| Own { from: None, until: None, ..row.clone() }).collect(),
        }
    }
}

impl Committed {
    fn pool(&self) -> Result<Pool, CapacityError> {
        let rate = rates_of(&self.name);
        Ok(Pool {
            name: self.name.clone(),
            cloud: self.cloud.clone(),
            region: Some(self.region.clone()),
            instance_type: self.instance_type.clone(),
            nodes: self.nodes,
            paid: rate(Some(&self.usd_per_hour))?,
            marginal: rate(self.marginal_usd_per_hour.as_deref())?,
            depreciation: UsdPerHour::default(),
            from: self.from.map(beginning),
            until: self.until.map(beginning),
        })
    }
}

impl Own {
    fn pool(&self) -> Result<Pool, CapacityError> {
        let rate = rates_of(&self.name);
        let (marginal, full) = (rate(self.usd_per_hour.as_deref())?, rate(Some(&self.full_usd_per_hour))?);
        let depreciation = full.nanos() - marginal.nanos();
        if depreciation < 0 {
            let detail =
                format!("full_usd_per_hour = {full} is less than usd_per_hour = {marginal}, which is a part of it");
            return Err(CapacityError::Invalid { of: self.name.clone(), detail });
        }
        Ok(Pool {
            name: self.name.clone(),
            cloud: OWN.to_owned(),
            region: None,
            instance_type: self.name.clone(),
            nodes: self.nodes,
            paid: UsdPerHour::default(),
            marginal,
            depreciation: UsdPerHour::from_nanos(depreciation),
            from: self.from.map(beginning),
            until: self.until.map(beginning),
        })
    }
}

/// Reads a rate; nothing is nothing.
fn rates_of(name: &str) -> impl Fn(Option<&str>) -> Result<UsdPerHour, CapacityError> + '_ {
    move |text| {
        text.map_or(Ok(UsdPerHour::default()), rate)
            .map_err(|detail| CapacityError::Invalid { of: name.to_owned(), detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[[committed]]\nname = \"year\"\ncloud = \"aws\"\ninstance_type = \"p5.48xlarge\"\nregion = \"us-east-1\"\nnodes = 2\n\
        usd_per_hour = \"31.46\"\nmarginal_usd_per_hour = \"0.5\"\nuntil = 2027-01-01\n\n\
        [[own]]\nname = \"lab\"\ngpu = \"h100-sxm5-80\"\ngpus_per_node = 8\nnodes = 4\nusd_per_hour = \"2.5\"\nfull_usd_per_hour = \"14\"\n";

    #[test]
    fn a_pool_says_what_is_cash_and_what_is_not() {
        let capacity = Capacity::read(TEXT).unwrap();
        let pools = capacity.pools().unwrap();
        let rates: Vec<[String; 3]> = pools
            .iter()
            .map(|pool| [pool.paid, pool.marginal, pool.depreciation].map(|rate| rate.to_string()))
            .collect();
        assert_eq!(rates, [["31.46", "0.50", "0.00"], ["0.00", "2.50", "11.50"]]);
        assert_eq!(pools[0].until, "2027-01-01T00:00:00Z".parse().ok());
        let only = capacity.with_only(Some("lab")).pools().unwrap();
        assert_eq!((only.len(), only[0].name.as_str()), (1, "lab"));
        assert!(capacity.with_only(None).pools().unwrap().is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_refused_by_name() {
        let said = |text: &str| Capacity::read(text).unwrap().pools().unwrap_err().to_string();
        assert!(
            said(&TEXT.replace("\"14\"", "\"2\"")).starts_with("capacity.toml: lab: full_usd_per_hour = 2.00 is less")
        );
        assert_eq!(said(&TEXT.replace("\"lab\"", "\"year\"")), "capacity.toml: year: the name is used twice");
        assert!(said(&TEXT.replace("\"31.46\"", "\"x\"")).starts_with("capacity.toml: year: "));
    }
}
