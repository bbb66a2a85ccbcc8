//! What a load makes of one replica: how many sequences run, how long people wait, and how much it can be given.

use crate::estimate::serving::{Held, Parts, Replica, Served};
use crate::estimate::subject::Misfit;
use crate::units::{Quantiles, Seconds};

/// Load that a replica is planned for, of what it can do at most: the rest is for bursts and for what the estimate is off by.
pub const HEADROOM: f64 = 0.8;
/// Sequences that run at once scatter like arrivals; so many deviations of a Poisson count have room (99 % of a normal one).
const ROOM_DEVIATIONS: f64 = 2.33;
/// Halvings of a search for a load.
const HALVINGS: u32 = 40;
/// The smallest load that is looked at, in running sequences.
const LEAST_BATCH: f64 = 1e-3;

/// A steady state of one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Sequences that run.
    pub batch: f64,
    pub requests_per_second: f64,
    pub pass_seconds: f64,
    pub per_token: f64,
    pub first_token: Quantiles<f64>,
}

/// One replica with its room, asked for many loads.
pub struct Flow<'a> {
    replica: &'a Replica<'a>,
    pub held: Held,
    /// GPU seconds of a prompt among others, and alone from first to last.
    prompt: f64,
    pub alone: f64,
    answer: f64,
}

impl<'a> Flow<'a> {
    /// An error where not one sequence fits.
    pub fn new(replica: &'a Replica<'a>) -> Result<Self, Misfit> {
        let held = replica.room()?;
        let answer = f64::from(replica.serving().answer_tokens);
        let alone = if answer > 0.0 { replica.prompt_alone() } else { replica.once(1.0)?.total() };
        Ok(Self { replica, held, prompt: replica.prompt().total(), alone, answer })
    }

    /// With `batch` running sequences on average.
    pub fn state(&self, batch: f64) -> Result<State, Misfit> {
        if self.answer > 0.0 { Ok(self.generating(batch)) } else { self.answering(batch) }
    }

    /// A request takes `P` for its prompt and its share of `A` passes. Beside a pass over all running sequences a prompt is
    /// read; prompts wait for each other as in a queue with one server and scattered lengths: M/M/1, whose wait exceeds `t`
    /// with chance `rho exp(-(1 - rho) t / S)` (Kleinrock, "Queueing Systems" I, section 5.12).
    fn generating(&self, batch: f64) -> State {
        let pass = self.replica.pass(batch.max(1.0)).total();
        let requests_per_second = batch / (self.answer * pass + batch * self.prompt);
        // Somebody's answer is being written, so that a newcomer waits for the end of a pass.
        let busy = batch.min(1.0);
        let beside = busy * pass;
        let service = self.prompt + beside / self.replica.prompts_a_pass();
        let load = requests_per_second * service;
        let wait = |exceeded: f64| if load > exceeded { service / (1.0 - load) * (load / exceeded).ln() } else { 0.0 };
        let rest = |exceeded: f64| pass * (1.0 - exceeded / busy).max(0.0);
        let own = self.alone + beside * self.replica.prompt_passes();
        let (mean, half, tenth) = if load < 1.0 {
            (load * service / (1.0 - load) + beside / 2.0, wait(0.5) + rest(0.5), wait(0.1) + rest(0.1))
        } else {
            (f64::INFINITY, f64::INFINITY, f64::INFINITY)
        };
        let first_token = Quantiles { expected: own + mean, p50: own + half, p90: own + tenth };
        State { batch, requests_per_second, pass_seconds: pass, per_token: pass + batch * self.prompt / self.answer, first_token }
    }

    /// Models that answer in one pass take all who have come since the last one began: a newcomer waits for the rest of a
    /// pass, evenly spread, and for his own.
    fn answering(&self, batch: f64) -> Result<State, Misfit> {
        let pass = self.replica.once(batch.max(1.0))?.total();
        let busy = batch.min(1.0);
        let first_token =
            Quantiles { expected: pass * (1.0 + busy / 2.0), p50: pass * (1.0 + (busy - 0.5).max(0.0)), p90: pass * (1.0 + (busy - 0.1).max(0.0)) };
        Ok(State { batch, requests_per_second: batch / pass, pass_seconds: pass, per_token: 0.0, first_token })
    }

    /// Everything that fits runs: the most that the replica can do.
    pub fn full(&self) -> Result<State, Misfit> {
        let most = f64::from(self.held.sequences);
        let mut best = self.state(most)?;
        // Smaller batches than fit are faster only where tiles of the products just overflow.
        let mut batch = most / 2.0;
        while batch >= 1.0 && batch > most / 16.0 {
            let state = self.state(batch.floor())?;
            if state.requests_per_second > best.requests_per_second {
                best = state;
            }
            batch /= 2.0;
        }
        Ok(best)
    }

    /// The largest load that leaves headroom and keeps the targets, or the target that no load keeps.
    pub fn most(&self) -> Result<State, Misfit> {
        let serving = self.replica.serving();
        let idle = self.state(LEAST_BATCH)?;
        let targets =
            [("first token", idle.first_token.p90, serving.time_to_first_token), ("each token", idle.per_token, serving.time_per_token)];
        for (what, least, target) in targets {
            if let Some(target) = target.filter(|target| least > target.0) {
                return Err(Misfit::Slow { what, least: Seconds(least), target });
            }
        }
        let limit = HEADROOM * self.full()?.requests_per_second;
        let keeps = |state: &State| {
            let in_time = |figure: f64, target: Option<Seconds>| target.is_none_or(|target| figure <= target.0);
            state.batch + ROOM_DEVIATIONS * state.batch.sqrt() <= f64::from(self.held.sequences).max(1.0 + ROOM_DEVIATIONS)
                && state.requests_per_second <= limit
                && in_time(state.first_token.p90, serving.time_to_first_token)
                && in_time(state.per_token, serving.time_per_token)
        };
        let (mut low, mut high) = (idle, f64::from(self.held.sequences));
        for _ in 0..HALVINGS {
            let state = self.state((low.batch * high).sqrt())?;
            if keeps(&state) { low = state } else { high = state.batch }
        }
        Ok(low)
    }

    /// The state under this load.
    pub fn under(&self, requests_per_second: f64) -> Result<State, Misfit> {
        let (mut low, mut high) = (0.0, f64::from(self.held.sequences));
        let mut state = self.state(high)?;
        for _ in 0..HALVINGS {
            state = self.state(f64::midpoint(low, high))?;
            if state.requests_per_second < requests_per_second { low = state.batch } else { high = state.batch }
        }
        Ok(state)
    }

    /// A round: every running sequence from its prompt to the last token of its answer.
    pub fn round(&self, state: &State) -> Result<Parts, Misfit> {
        let running = state.batch.max(1.0);
        if self.answer > 0.0 {
            return Ok(Parts::default().plus(self.replica.pass(running), self.answer).plus(self.replica.prompt(), running));
        }
        self.replica.once(running)
    }

    /// Sequences that the engine is told to run at most.
    pub fn batch_limit(&self, state: &State) -> u32 {
        let wanted = (state.batch + ROOM_DEVIATIONS * state.batch.sqrt()).ceil().max(1.0);
        (wanted as u32).min(self.held.sequences)
    }

    /// `replicas` of this in `state`, each alone able to do `most` requests a second.
    pub fn served(&self, state: &State, most: f64, replicas: u32, batch_limit: u32, (nodes_each, on_a_node): (u32, u32)) -> Served {
        let all = f64::from(replicas);
        Served {
            replicas,
            batch_limit,
            batch: state.batch,
            requests_per_second: all * state.requests_per_second,
            most_requests_per_second: all * most,
            first_token: state.first_token,
            per_token: state.per_token,
            prompt_seconds: self.alone,
            pass_seconds: state.pass_seconds,
            cache_bytes_per_token: self.held.token * f64::from(self.replica.layout().model_parallel()),
            nodes_each,
            on_a_node,
        }
    }
}
