//! Calls of a leader to the clouds of its run, and its word to the agents. Each looks first whether it still leads.

use std::collections::BTreeMap;

use futures_util::future::{join, join_all};

use crate::controller::events::{Event, Order, Outcome, Report};
use crate::controller::liveness::Sign;
use crate::execute::error::LeadError;
use crate::execute::{CALL, Leader, ask_to_stop};
use crate::ports::launch_error::LaunchError;
use crate::ports::launcher::Launcher;
use crate::ports::machine::{MachineId, Pool};
use crate::spec::Offered;
use gpuplan_runstore::{Status, StoreError};

impl<'a> Leader<'a, '_> {
    /// Before the first machine of a gang is asked for. An event: nothing is asked of the cloud.
    pub(super) async fn prepare_gang(&mut self, order: &Order) -> Result<Option<Event>, LeadError> {
        if order.epoch == self.gang_epoch {
            return Ok(None);
        }
        // A place that refuses costs one call, its own.
        let mut before = self.store_epochs.get(&self.gang_epoch).copied();
        if self.may_have_reported || before.is_none() {
            let store = self.wiring.store;
            let (highest, status) = join(store.highest_epoch(), store.status(0)).await;
            let status = match status {
                // What cannot be read says nothing.
                Err(StoreError::Unreadable { .. }) => Ok(None),
                status => status,
            };
            match highest.and_then(|highest| Ok((highest, status?))) {
                Ok((_, Some(status))) if status.has_completed(self.spec.started_at) => {
                    return Ok(Some(Event::Reported(completed(&status))));
                }
                Ok((highest, _)) => before = Some(highest),
                // Words of the last gang would be taken for those of this one: the same order is tried again.
                Err(error) => {
                    let outcome = Err(LaunchError::Unclear { code: error.to_string() });
                    return Ok(Some(Event::Answered { token: order.token.clone(), outcome }));
                }
            }
            self.may_have_reported = false;
            if order.epoch > 1 {
                self.write_rented().await?;
            }
        }
        // A gang that runs still speaks while another one is ordered beside it.
        let runs = self.controller.gang_epoch();
        self.store_epochs.retain(|epoch, _| runs == Some(*epoch));
        self.store_epochs.extend(before.map(|before| (order.epoch, before)));
        self.gang_epoch = order.epoch;
        Ok(None)
    }

    pub(super) fn launcher(&self, cloud: &str) -> Result<&'a dyn Launcher, LeadError> {
        let wanted = self.spec.rented_from(cloud);
        let launchers: &'a [Box<dyn Launcher>] = self.wiring.launchers;
        let found = launchers.iter().find(|launcher| launcher.cloud() == wanted);
        found.map(|launcher| &**launcher).ok_or_else(|| LeadError::NoLauncher(wanted.to_owned()))
    }

    /// It has ended if the cloud in which it stands says so. Where nobody has heard which that is, all of them have to: each calls a
    /// machine that it does not know ended.
    pub(super) fn destroy(&mut self, id: MachineId) {
        if self.stays.as_ref().is_some_and(|(stays, _)| *stays == id) {
            self.calls.push(Box::pin(std::future::ready(Ok(Event::Destroyed(id)))));
            return;
        }
        let cloud = self.cloud_of.get(&id).and_then(|cloud| self.launcher(cloud).ok());
        let clouds = cloud.map_or_else(|| self.responsible(), |cloud| vec![cloud]);
        let (leadership, store) = (self.leadership.clone(), self.wiring.store);
        self.calls.push(Box::pin(async move {
            match leadership.still_holds(store).await {
                Ok(true) => {}
                // Else it would end the machines of its successor.
                Ok(false) => return Err(LeadError::Followed),
                // Nobody who does not know whether he leads ends anything.
                Err(_) => return Ok(Event::Clock),
            }
            let answers = join_all(clouds.iter().map(|cloud| tokio::time::timeout(CALL, cloud.destroy(&id)))).await;
            let is_gone = answers.iter().all(|answer| matches!(answer, Ok(Ok(()))));
            // The controller asks again until it is gone.
            Ok(if is_gone { Event::Destroyed(id) } else { Event::Clock })
        }));
    }

    /// The newest epoch of the store is that of the present gang, which has spoken.
    pub(super) fn notify(&mut self) {
        let store = self.wiring.store;
        self.calls.push(Box::pin(async move {
            // One that does not hear it is ended all the same.
            let _ = tokio::time::timeout(CALL, ask_to_stop(store)).await;
            Ok(Event::Clock)
        }));
    }

    /// Of all clouds together: what one lists says nothing of the machines of another, and nothing is known while one does not answer.
    pub(super) fn list(&mut self) {
        let (run, clouds, asked_at) = (self.spec.run.clone(), self.responsible(), self.wiring.clock.now());
        let stays = self.stays.as_ref().map(|(id, _)| id.clone());
        self.calls.push(Box::pin(async move {
            let calls = clouds.iter().map(|cloud| tokio::time::timeout(CALL, cloud.list(Some(&run))));
            let answers = join_all(calls).await.into_iter().map(|answer| answer.ok()?.ok());
            let listed: Option<Vec<_>> = answers.collect();
            let Some(listed) = listed else { return Ok(Event::Clock) };
            let machines = listed.into_iter().flatten().filter(|machine| Some(&machine.id) != stays.as_ref());
            Ok(Event::Listed { machines: machines.collect(), asked_at })
        }));
    }

    /// What spot machines cost now, of every cloud that says so. Of one that does not answer the prices stay what they were.
    pub(super) fn ask_prices(&mut self) {
        let spec = self.spec;
        let clouds: Vec<_> = self.responsible();
        let questions = clouds.into_iter().map(|cloud| {
            let is_there = |offered: &&Offered| spec.rented_from(&offered.pool.cloud) == cloud.cloud();
            let places = spec.spot.iter().filter(is_there).map(|offered| (offered.pool.clone(), offered.zones.clone()));
            (cloud, places.collect::<Vec<_>>())
        });
        let (questions, wanted) = (questions.collect::<Vec<_>>(), spec.spot.iter().map(|offered| offered.pool.clone()));
        let wanted: Vec<Pool> = wanted.collect();
        self.calls.push(Box::pin(async move {
            let calls = questions.iter().map(|(cloud, places)| tokio::time::timeout(CALL, cloud.spot_prices(places)));
            let mut prices = BTreeMap::new();
            for ((_, places), answer) in questions.iter().zip(join_all(calls).await) {
                if let Ok(Ok(said)) = answer {
                    prices.extend(places.iter().map(|(pool, _)| pool).zip(said));
                }
            }
            let prices: Vec<_> = wanted.iter().map(|pool| prices.get(pool).copied().flatten()).collect();
            Ok(if prices.iter().any(Option::is_some) { Event::Priced(prices) } else { Event::Clock })
        }));
    }

    /// The clouds of this run.
    fn responsible(&self) -> Vec<&'a dyn Launcher> {
        let launchers: &'a [Box<dyn Launcher>] = self.wiring.launchers;
        let used = self.spec.clouds();
        launchers.iter().map(|launcher| &**launcher).filter(|launcher| used.contains(launcher.cloud())).collect()
    }
}

/// What an agent has said to the end.
fn completed(status: &Status) -> Report {
    Report {
        epoch: status.ordered_epoch.unwrap_or_default(),
        sign: Sign { epoch: status.epoch, beat: status.beat },
        done: 1.0,
        has_saved: status.committed.is_some(),
        has_started: true,
        outcome: Some(Outcome::Completed),
    }
}
