//! What Google Cloud is asked for prices, risks and of the account.

#[cfg(not(feature = "gcp"))]
use crate::CLOUD;
#[cfg(feature = "gcp")]
use crate::account::{Account, identity, project};
use crate::prices::billing;
#[cfg(feature = "gcp")]
use crate::prices::{calendar, capacity, machine_list, preemptions, spot_prices};
use gpuplan_market::Sources;

#[cfg(feature = "gcp")]
pub fn sources() -> Sources {
    let project = project::Project::from_environment();
    Sources {
        machines: vec![Box::new(machine_list::ListedMachines { project: project.clone() })],
        prices: vec![
            Box::new(billing::SkuPrices::from_environment()),
            Box::new(spot_prices::SpotPrices { project: project.clone() }),
        ],
        risks: vec![
            Box::new(preemptions::Preemptions { project: project.clone() }),
            Box::new(capacity::Capacity { project: project.clone() }),
            Box::new(calendar::CalendarAdvice { project: project.clone() }),
        ],
        account: Some(Box::new(Account { project })),
        tried: identity::tried(),
        needs_feature: None,
    }
}

#[cfg(not(feature = "gcp"))]
pub fn sources() -> Sources {
    Sources {
        prices: vec![Box::new(billing::SkuPrices::from_environment())],
        needs_feature: Some(CLOUD),
        ..Sources::default()
    }
}
