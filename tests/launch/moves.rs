//! A run that moves from one gang to another, by hand: what the old one said last says nothing of the new one.

use gpuplan::launch::controller::Controller;
use gpuplan::launch::controller::liveness::Sign;
use gpuplan::launch::events::{Action, Event, Order, Outcome, Report};
use gpuplan::launch::launcher::{LaunchError, MachineId};

use crate::launch::simulation::{HOUR, SILENCE, WORST_CHANGEOVER};
use crate::launch::{made, terms};

const LOOK: f64 = 10.0;

/// A run of one machine in the dearest spot pool, while the others are sold out.
struct Led {
    controller: Controller,
    now: f64,
    is_sold_out: bool,
    ordered: Vec<Order>,
    destroyed: Vec<MachineId>,
    has_notice: bool,
}

impl Led {
    fn in_the_dearest_pool() -> Self {
        let controller = Controller::new(terms(1, None), 0, 0.0);
        let (ordered, destroyed) = (Vec::new(), Vec::new());
        let mut led = Self { controller, now: 0.0, is_sold_out: true, ordered, destroyed, has_notice: false };
        led.hear(Event::Clock);
        while led.controller.gang_epoch().is_none() {
            assert!(led.now < 24.0 * HOUR, "it never begins");
            led.now += LOOK;
            led.hear(Event::Clock);
        }
        led
    }

    /// Machines are there as they are ordered, unless they are sold out, and end as they are told.
    fn hear(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.controller.step(self.now, event) {
                match action {
                    Action::Create(order) => {
                        let is_refused = self.is_sold_out && order.choice.pool.zone_id.as_deref() != Some("c");
                        let sold_out = LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() };
                        let machine = made(&order, format!("m-{}", order.epoch));
                        let outcome = if is_refused { Err(sold_out) } else { Ok(machine) };
                        events.push(Event::Answered { token: order.token.clone(), outcome });
                        self.ordered.push(*order);
                    }
                    Action::Destroy(machine) => {
                        self.destroyed.push(machine.clone());
                        events.push(Event::Destroyed(machine));
                    }
                    Action::Notify => self.has_notice = true,
                    Action::List | Action::Wake(_) | Action::Say(_) => {}
                }
            }
        }
    }

    fn says(&mut self, epoch: u64, beat: u64, outcome: Option<Outcome>) {
        let sign = Sign { epoch, beat };
        self.hear(Event::Reported(Report { epoch, sign, done: 0.1, has_saved: true, has_started: true, outcome }));
    }

    fn running(&self) -> u64 {
        self.controller.gang_epoch().unwrap()
    }
}

/// A machine that hung as it booted was paid for to the end of its lease, hours later: the last word of the gang before it was in the store.
#[test]
fn a_gang_that_takes_over_and_never_speaks_is_noticed() {
    let mut led = Led::in_the_dearest_pool();
    let (old, mut beat) = (led.running(), 0);
    led.is_sold_out = false;
    while !led.has_notice {
        assert!(led.now < 24.0 * HOUR, "it never moves");
        (led.now, beat) = (led.now + LOOK, beat + 1);
        led.says(old, beat, None);
        led.hear(Event::Clock);
    }
    led.says(old, beat + 1, Some(Outcome::Interrupted));
    let (new, since) = (led.running(), led.now);
    assert!(new > old, "the new one has taken over");
    let hangs = MachineId(format!("m-{new}"));
    while !led.destroyed.contains(&hangs) {
        assert!(led.now - since < WORST_CHANGEOVER + 10.0 * SILENCE, "nobody notices that {hangs} hangs");
        led.now += LOOK;
        // As the store has it, at each look.
        led.says(old, beat + 1, Some(Outcome::Interrupted));
        led.hear(Event::Clock);
    }
    assert!(led.now - since >= WORST_CHANGEOVER, "it had its time to boot");
}

/// It was taken for a refusal of its place, which was then not asked for a while, and for an interruption.
#[test]
fn a_lease_that_ends_says_nothing_of_its_place() {
    let mut led = Led::in_the_dearest_pool();
    let old = led.running();
    led.now += HOUR;
    led.says(old, 1, Some(Outcome::CapReached));
    assert!(led.destroyed.contains(&MachineId(format!("m-{old}"))), "what ends itself is ended");
    assert_eq!(led.controller.interruptions, 0);
    assert!(led.controller.gang_epoch().is_some_and(|new| new > old), "it goes on at once, where there was room");
}
