//! Machines and groups that should have ended themselves by now, by the clock of their cloud: this computer's may be wrong by a day.

use jiff::Timestamp;

use crate::running::terminate::rents_at;
use crate::runs::launchers::Launchers;
use crate::session::printer::Printer;
use gpuplan_launch::{Group, Machine};

/// Whether a machine is past its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    No,
    Yes,
    /// By this computer's clock alone, since its cloud does not say what time it is.
    Unknown,
}

/// `there`: what the machine's cloud says the time is; `here`: what this computer does.
fn judged(machine: &Machine, there: Option<Timestamp>, here: Timestamp) -> Overdue {
    match there {
        Some(now) if machine.is_overdue(now) => Overdue::Yes,
        None if machine.is_overdue(here) => Overdue::Unknown,
        _ => Overdue::No,
    }
}

/// What a cloud says the time is; `None`: it has not said it.
pub fn time_at(clouds: &Launchers, cloud: &str) -> Option<Timestamp> {
    clouds.iter().find(|one| one.cloud() == cloud).and_then(|one| one.time())
}

/// After the clouds have listed their machines.
pub fn overdue(clouds: &Launchers, machine: &Machine) -> Overdue {
    let cloud = clouds.iter().find(|cloud| rents_at(cloud.cloud(), machine));
    judged(machine, cloud.and_then(|cloud| cloud.time()), Timestamp::now())
}

/// Nobody who says yes to the others means a machine that may be at work.
pub fn say_unknown(machine: &Machine, printer: &Printer) {
    let (id, run, end, cloud) = (&machine.id, &machine.run, machine.expires_at, &machine.pool.cloud);
    printer.note(&format!(
        "warning: {id} of {run} should have ended itself at {end:.0} by this computer's clock, and {cloud} does not say what time it is; \
         `gpuplan stop {run}` ends it"
    ));
}

/// It starts nothing any more, by the clock of its cloud; a group of one that does not say the time may still do.
pub fn is_past(clouds: &Launchers, group: &Group) -> bool {
    time_at(clouds, &group.cloud).is_some_and(|now| group.is_past(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_launch::{MachineId, MachineState, Market, Pool};
    use jiff::SignedDuration;

    /// `gc -y` ended healthy machines of every run where this computer's clock was a day ahead.
    #[test]
    fn a_clock_that_is_a_day_ahead_makes_no_machine_overdue() {
        let at = |hours| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
        let pool = Pool {
            cloud: "aws".to_owned(),
            region: "us-east-1".to_owned(),
            zone_id: None,
            instance_type: "p5.48xlarge".to_owned(),
            market: Market::Spot,
        };
        let machine = Machine {
            id: MachineId("i-1".to_owned()),
            run: "r".to_owned(),
            epoch: 1,
            node: 0,
            token: String::new(),
            pool,
            state: MachineState::Running,
            reason: None,
            was_taken: false,
            created_at: at(0),
            expires_at: at(10),
            owner: String::new(),
        };
        let of = |there: Option<i64>, here| judged(&machine, there.map(at), at(here));
        assert_eq!(of(Some(2), 2 + 24), Overdue::No, "this computer is a day ahead");
        assert_eq!(of(Some(11), 11 - 24), Overdue::Yes, "and a day behind");
        assert_eq!([of(None, 2), of(None, 2 + 24)], [Overdue::No, Overdue::Unknown]);
    }
}
