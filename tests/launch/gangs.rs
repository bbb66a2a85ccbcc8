//! A gang that comes to nothing: the controller goes on while the run gets any further, and ends it when it does not.

use jiff::Timestamp;

use gpuplan::launch::controller::Controller;
use gpuplan::launch::controller::liveness::Sign;
use gpuplan::launch::events::{Action, End, Event, Order, Outcome, Report, ResumeState, Standing, Terms};
use gpuplan::launch::launcher::{LaunchError, Machine, MachineId, MachineState};
use gpuplan::launch::rental::Rental;
use gpuplan::runstore::{Lease, Ledger};
use gpuplan::units::Usd;

use crate::launch::{made, terms};

/// A run of three machines, led by hand.
struct Led {
    controller: Controller,
    now: f64,
    /// Of the present gang.
    machines: Vec<Machine>,
    gangs: u32,
    beats: u64,
}

impl Led {
    fn new() -> Self {
        let mut led = Self {
            controller: Controller::new(terms(3, None), 0, 0.0),
            now: 0.0,
            machines: Vec::new(),
            gangs: 0,
            beats: 0,
        };
        led.hear(Event::Clock);
        led
    }

    /// Every order is answered and every machine ends as it is told.
    fn hear(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.controller.step(self.now, event) {
                match action {
                    Action::Create(order) => {
                        if order.node == 0 {
                            (self.gangs, self.machines) = (self.gangs + 1, Vec::new());
                        }
                        let machine = made(&order, format!("{}-{}", order.epoch, order.node));
                        self.machines.push(machine.clone());
                        events.push(Event::Answered { token: order.token, outcome: Ok(machine) });
                    }
                    Action::Destroy(machine) => events.push(Event::Destroyed(machine)),
                    Action::Notify | Action::List | Action::Wake(_) | Action::Say(_) => {}
                }
            }
        }
    }

    fn report(&mut self, done: f64, has_started: bool, outcome: Option<Outcome>) {
        let epoch = self.controller.epoch();
        self.beats += 1;
        let sign = Sign { epoch, beat: self.beats };
        self.hear(Event::Reported(Report { epoch, sign, done, has_saved: true, has_started, outcome }));
    }

    /// Time passes in steps of ten seconds until the gang of this number is whole.
    fn comes_to_gang(&mut self, number: u32) {
        let until = self.now + 24.0 * 3600.0;
        while (self.gangs, self.machines.len()) != (number, 3) {
            assert!(
                self.controller.end().is_none() && self.gangs <= number,
                "{} gangs: {:?}",
                self.gangs,
                self.controller.end()
            );
            assert!(self.now < until, "nothing comes any more");
            self.now += 10.0;
            self.hear(Event::Clock);
        }
    }

    fn why_it_failed(&self) -> &str {
        match self.controller.end() {
            Some(End::Failed(why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn failed() -> Outcome {
    Outcome::Failed("exit code 1".to_owned())
}

#[test]
fn a_program_that_fails_on_several_machines_is_started_anew_while_it_gets_further() {
    let mut led = Led::new();
    for gang in 1..=5 {
        led.comes_to_gang(gang);
        led.report(0.1 * f64::from(gang), true, None);
        led.report(0.1 * f64::from(gang), true, Some(failed()));
    }
    for gang in 6..=8 {
        led.comes_to_gang(gang);
        led.report(0.5, true, Some(failed()));
    }
    assert!(
        led.why_it_failed()
            .contains("3 times in a row its program failed before the run got any further (exit code 1)")
    );
}

/// Each gang lives to its end, restores, and gets no further.
#[test]
fn lives_that_are_too_short_end_the_run_before_they_cost_more() {
    let mut led = Led::new();
    for gang in 1..=3 {
        led.comes_to_gang(gang);
        led.report(0.0, true, None);
        let mut listed = led.machines.clone();
        (listed[1].state, listed[1].reason) = (MachineState::Gone, Some("end of life".to_owned()));
        led.hear(Event::Listed { machines: listed.into(), asked_at: led.now });
    }
    assert!(led.why_it_failed().contains("end of life"), "{}", led.why_it_failed());
}

#[test]
fn a_gang_of_which_one_never_joins_is_given_up() {
    let mut led = Led::new();
    let first = led.controller.epoch();
    for _ in 0..1000 {
        led.now += 10.0;
        // The first machine lives, and waits.
        led.report(0.0, false, None);
        if led.controller.epoch() > first {
            return;
        }
    }
    panic!("the gang waits for ever, and costs money");
}

/// Seeds 562424 and 620746 of a million: a machine whose answer took a minute and a half was missed by a list that was late, and a
/// second gang was rented beside it.
#[test]
fn a_list_that_misses_a_machine_just_heard_of_does_not_make_it_gone() {
    let mut controller = Controller::new(Terms { settles: 120.0, ..terms(1, None) }, 0, 0.0);
    let orders = |actions: Vec<Action>| -> Vec<Order> {
        actions
            .into_iter()
            .filter_map(|action| if let Action::Create(order) = action { Some(*order) } else { None })
            .collect()
    };
    let nothing = |asked_at| Event::Listed { machines: [].into(), asked_at };
    let first = orders(controller.step(0.0, Event::Clock)).remove(0);
    controller
        .step(84.0, Event::Answered { token: first.token.clone(), outcome: Ok(made(&first, "first".to_owned())) });
    assert!(orders(controller.step(116.0, nothing(116.0))).is_empty());
    assert_eq!((controller.interruptions, controller.rentals().open().count()), (0, 1));
    // While it is being ended, such a list does not make it gone either.
    controller.step(120.0, Event::Stop);
    controller.step(126.0, nothing(126.0));
    assert_eq!((controller.end(), controller.rentals().open().count()), (None, 1));
    // Asked before, and answered late: it is as old as the question.
    controller.step(146.0, nothing(140.0));
    assert_eq!((controller.end(), controller.rentals().open().count()), (None, 1));
    controller.step(148.0, nothing(145.0));
    assert_eq!(controller.end(), Some(&End::Stopped), "lists are late by a minute at most");
}

/// A machine that waits for the run stands in the second place of two.
#[test]
fn the_first_order_goes_where_a_machine_waits_and_no_later_one_does() {
    let whole = terms(1, None);
    let mut places = whole.spot.clone();
    assert!(places.len() > 1, "there is something to choose");
    let (best, waits) = (places[0].pool.clone(), places.swap_remove(1).pool);
    let ordered = |actions: Vec<Action>| {
        actions.into_iter().find_map(|action| if let Action::Create(order) = action { Some(order) } else { None })
    };
    for (first, expected) in [(None, &best), (Some(waits.clone()), &waits)] {
        let mut controller = Controller::new(Terms { first, ..whole.clone() }, 0, 0.0);
        let order = ordered(controller.step(0.0, Event::Clock)).unwrap();
        assert_eq!(order.choice.pool, *expected);
        let sold_out = Err(LaunchError::Capacity { code: "none".to_owned() });
        let next = controller.step(1.0, Event::Answered { token: order.token, outcome: sold_out });
        assert_ne!(ordered(next).unwrap().choice.pool, *expected, "what was refused is passed over as ever");
    }
}

/// Whoever followed ended all of a healthy gang, unsaved work and all, for an order of a gang before it that nobody had answered.
#[test]
fn an_order_of_an_earlier_gang_without_an_answer_ends_no_gang_that_is_all_there() {
    let terms = terms(1, None);
    let place = terms.spot[0].clone();
    let machine = MachineId("m".to_owned());
    let goes_on = |open_since: Option<f64>| {
        let mut past = ResumeState { epoch: 2, orders: 3, open_since, ..ResumeState::default() };
        past.standing.push(Standing { machine: machine.clone(), epoch: 2, pool: place.pool.clone() });
        past.rentals.add(Rental {
            machine: machine.clone(),
            rate: place.rate,
            minimum_seconds: 60,
            since: 1000.0,
            until: None,
            moved: None,
        });
        Controller::resume(terms.clone(), past, 2000.0).gang_epoch()
    };
    assert_eq!([None, Some(900.0), Some(1000.0)].map(goes_on), [Some(2), Some(2), None]);
}

/// Whoever had the store alone took the lease of a gang that was left long ago for that of the gang which runs, and ended it, unsaved work and all.
#[test]
fn a_gang_that_is_led_on_ends_with_its_own_lease() {
    let terms = terms(1, None);
    let place = terms.spot[0].clone();
    let lease = |token: &str, granted_at: f64| Lease {
        token: token.to_owned(),
        most_usd_per_hour: place.rate,
        minimum_seconds: 60,
        start_usd: Usd::ZERO,
        usd: Usd::parse("200").unwrap(),
        granted_at,
        seconds: 10_000.0,
        machine: None,
        done: None,
    };
    let actions = Controller::new(terms.clone(), 1, 0.0).step(0.0, Event::Clock).into_iter();
    let mut orders = actions.filter_map(|action| if let Action::Create(order) = action { Some(order) } else { None });
    let order = orders.next().unwrap();
    let runs = Machine { token: "second".to_owned(), ..made(&order, "m".to_owned()) };
    let mut past = ResumeState { epoch: 2, orders: 2, ..ResumeState::default() };
    let (machine, pool) = (runs.id.clone(), runs.pool.clone());
    past.standing.push(Standing { machine: machine.clone(), epoch: 2, pool });
    let (rate, minimum_seconds, since) = (place.rate, 60, 9000.0);
    past.rentals.add(Rental { machine, rate, minimum_seconds, since, until: None, moved: None });
    let (mut ledger, open) = (Ledger::new(Timestamp::UNIX_EPOCH), [lease("first", 0.0), lease("second", 9000.0)]);
    for lease in open {
        ledger.grant(lease);
    }
    past.ledger = Some(ledger);
    let mut controller = Controller::resume(terms, past, 12_000.0);
    controller.step(12_000.0, Event::Clock);
    assert_eq!(controller.gang_epoch(), Some(2), "that of the first is over");
    controller.step(12_010.0, Event::Listed { machines: [runs].into(), asked_at: 12_009.0 });
    assert_eq!(controller.running().map(|(_, ends_at)| ends_at), Some(19_000.0));
}

/// The run was completed while nobody led, and its machine had ended: whoever came next called it out of money, or rented another.
#[test]
fn a_run_that_was_completed_before_its_lease_ended_is_completed() {
    let terms = terms(1, None);
    let (place, machine) = (terms.spot[0].clone(), MachineId("m".to_owned()));
    let mut past = ResumeState { epoch: 1, orders: 1, ..ResumeState::default() };
    past.standing.push(Standing { machine: machine.clone(), epoch: 1, pool: place.pool.clone() });
    let (rate, minimum_seconds, since) = (place.rate, 60, 0.0);
    past.rentals.add(Rental { machine: machine.clone(), rate, minimum_seconds, since, until: None, moved: None });
    let mut ledger = Ledger::new(Timestamp::UNIX_EPOCH);
    ledger.grant(Lease {
        token: "first".to_owned(),
        most_usd_per_hour: rate,
        minimum_seconds,
        start_usd: Usd::ZERO,
        usd: Usd::parse("200").unwrap(),
        granted_at: 0.0,
        seconds: 10_000.0,
        machine: Some(machine.0.clone()),
        done: None,
    });
    past.ledger = Some(ledger);
    let resumed = Controller::resume(terms, past, 40_000.0);
    let read = |outcome: Option<Outcome>| {
        let mut controller = resumed.clone();
        controller.step(40_000.0, Event::Clock);
        assert_eq!((controller.gang_epoch(), controller.end()), (Some(1), None), "nobody has looked yet");
        let sign = Sign { epoch: 1, beat: 1 };
        controller.step(
            40_001.0,
            Event::Reported(Report { epoch: 1, sign, done: 0.5, has_saved: true, has_started: true, outcome }),
        );
        controller.step(40_002.0, Event::Destroyed(machine.clone()));
        controller.step(41_000.0, Event::Clock);
        (controller.gang_epoch(), controller.end().cloned())
    };
    assert_eq!(read(Some(Outcome::Completed)), (None, Some(End::Completed)));
    assert_eq!(read(None), (None, None), "it goes on with another");
}

/// A program that hangs on every machine would cost a lease on each, until all the money is gone.
#[test]
fn leases_that_leave_the_run_no_further_end_it_and_others_do_not() {
    let mut led = Led::new();
    for gang in 1..=4 {
        led.comes_to_gang(gang);
        led.report(0.1 * f64::from(gang), true, Some(Outcome::CapReached));
    }
    for gang in 5..=7 {
        led.comes_to_gang(gang);
        led.report(0.4, true, Some(Outcome::CapReached));
    }
    assert!(led.why_it_failed().contains("3 times in a row a lease ended before the run got any further"));
    // It counts more steps than were planned, so nobody knows.
    let mut led = Led::new();
    for gang in 1..=5 {
        led.comes_to_gang(gang);
        led.report(1.0, true, Some(Outcome::CapReached));
    }
    assert_eq!(led.controller.end(), None);
}

/// `its work is saved` was said of programs that had saved nothing, and a run that never counted steps was `starting` to its end.
#[test]
fn what_is_kept_and_where_a_run_stands_is_said_as_it_is() {
    let terms = terms(1, None);
    let (mut controller, mut said) = (Controller::new(terms, 0, 0.0), Vec::new());
    let mut hear = |now: f64, event: Event, said: &mut Vec<String>| {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in controller.step(now, event) {
                match action {
                    Action::Create(order) => {
                        let machine = made(&order, format!("{}-{}", order.epoch, order.node));
                        events.push(Event::Answered { token: order.token, outcome: Ok(machine) });
                    }
                    Action::Destroy(machine) => events.push(Event::Destroyed(machine)),
                    Action::Say(text) => said.push(text),
                    Action::Notify | Action::List | Action::Wake(_) => {}
                }
            }
        }
        (controller.epoch(), controller.saved(), controller.standing(now))
    };
    let report = |epoch: u64, beat: u64, has_saved: bool, outcome: Option<Outcome>| {
        let sign = Sign { epoch, beat };
        Event::Reported(Report { epoch, sign, done: 0.0, has_saved, has_started: true, outcome })
    };
    let (epoch, saved, standing) = hear(0.0, Event::Clock, &mut said);
    assert!(saved.is_none() && standing.starts_with("starting"), "{standing}");
    let (_, saved, standing) = hear(100.0, report(epoch, 1, false, None), &mut said);
    assert!(saved.is_none() && standing.starts_with("running on"), "{standing}");
    hear(200.0, report(epoch, 2, false, Some(Outcome::Interrupted)), &mut said);
    assert!(said.iter().any(|text| text.contains("interrupted, nothing was saved")), "{said:?}");
    let mut epoch = epoch;
    for now in (300..40_000).step_by(100) {
        epoch = hear(f64::from(now), Event::Clock, &mut said).0;
    }
    let (_, saved, _) = hear(40_100.0, report(epoch, 1, true, None), &mut said);
    assert_eq!(saved, Some(0.0), "how far is not known, but it is saved");
    hear(40_200.0, report(epoch, 2, true, Some(Outcome::Interrupted)), &mut said);
    assert!(said.iter().any(|text| text.contains("interrupted, its work is saved")), "{said:?}");
}
