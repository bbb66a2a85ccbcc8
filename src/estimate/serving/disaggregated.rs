//! Prompts and answers on GPUs of their own: how many copies of each a load wants, and how long people wait.
//!
//! A copy that reads prompts reads one after the other in each of its attention groups. It hands the keys and values over to a copy that writes
//! answers, whose passes no prompt stands beside (Zhong et al., "DistServe", OSDI'24, arXiv 2401.09670). Requests are dealt out at random, so that
//! every reader has a queue of its own.

use crate::misfit::Infeasible;
use crate::serving::Replica;
use crate::serving::load::{FIRST, Flow, HEADROOM, NEXT, ROOM_DEVIATIONS, State, Users};
use crate::serving::prefill::PrefillEstimate;
use gpuplan_units::{Quantiles, Seconds};
use gpuplan_workload::Workers;

/// Router, and the handshake of both copies before the cache is sent. Seconds, fitted on published runs with the model and GPU left out that are judged
/// (prior 0.1 +- 0.1); 0.15 to 0.2 are left of the first tokens of single requests.
const HANDOVER_SECONDS: f64 = 0.11;
/// Share of time that the attention groups of a reader read, which go through the layers together whether each has a prompt or not. Fitted with the
/// former (prior 0.8 +- 0.15).
const GROUPS_BUSY: f64 = 0.86;
/// Halvings of a search for a batch.
const HALVINGS: u32 = 40;
/// Rounds in which a closed loop settles.
const LOOP_ROUNDS: u32 = 24;
/// Copies of a kind beyond which no load is looked at.
const MOST_WORKERS: u32 = 4096;

/// One copy of each kind, asked for many loads and counts.
pub struct Pools<'a> {
    prefill: &'a Replica<'a>,
    decode: &'a Flow<'a>,
    /// Seconds of a reader's queue for one prompt, and queues of a reader.
    service: f64,
    queues: f64,
    /// A prompt alone, from its arrival to the cache in the other pool.
    alone: f64,
    transfer: f64,
}

impl<'a> Pools<'a> {
    /// `prefill` reads ([`Replica::reading`]), `decode` writes ([`Flow::writing`]).
    pub fn new(prefill: &'a Replica<'a>, decode: &'a Flow<'a>) -> Result<Self, Infeasible> {
        // One prompt has to fit beside the weights.
        Flow::new(prefill)?;
        let queues = prefill.groups();
        let busy = if queues > 1.0 { GROUPS_BUSY } else { 1.0 };
        let transfer = transfer_seconds(prefill, decode.replica());
        Ok(Self {
            prefill,
            decode,
            service: prefill.prompt().total() * queues / busy,
            queues,
            alone: prefill.prompt_alone() + HANDOVER_SECONDS + transfer,
            transfer,
        })
    }

    /// With so many copies, where requests come at this rate.
    pub fn state(&self, workers: Workers, requests_per_second: f64) -> Result<State, Infeasible> {
        let each = requests_per_second / f64::from(workers.decode);
        let most = f64::from(self.decode.held.sequences);
        let (mut low, mut high) = (0.0, most);
        let mut writing = self.decode.state(high)?;
        for _ in 0..HALVINGS {
            let state = self.decode.state(f64::midpoint(low, high))?;
            if state.requests_per_second < each {
                low = state.batch;
            } else {
                high = state.batch;
            }
            writing = state;
        }
        let load = self.load(workers, requests_per_second);
        let wait = |exceeded: f64| {
            if load >= 1.0 {
                f64::INFINITY
            } else if load > exceeded {
                self.service / (1.0 - load) * (load / exceeded).ln()
            } else {
                0.0
            }
        };
        let mean = if load < 1.0 { load * self.service / (1.0 - load) } else { f64::INFINITY };
        let own = self.alone + writing.pass_seconds;
        let first_token = Quantiles { expected: own + mean, p50: own + wait(0.5), p90: own + wait(0.1) };
        Ok(State { requests_per_second: each, first_token, ..writing })
    }

    /// Share of time that the readers read.
    fn load(&self, workers: Workers, requests_per_second: f64) -> f64 {
        requests_per_second * self.service / (f64::from(workers.prefill) * self.queues)
    }

    /// Requests a second of the pool that is full first.
    pub fn most(&self, workers: Workers) -> Result<f64, Infeasible> {
        let reading = f64::from(workers.prefill) * self.queues / self.service;
        Ok(reading.min(f64::from(workers.decode) * self.decode.full()?.requests_per_second))
    }

    /// The fewest copies of each kind that carry this load and keep the targets; units of `stated` where that is given.
    pub fn fewest(&self, requests_per_second: f64, stated: Option<Workers>) -> Result<Workers, Infeasible> {
        self.reachable()?;
        let unit = stated.unwrap_or(Workers { prefill: 1, decode: 1 });
        let times = |units: Workers| Workers {
            prefill: unit.prefill.saturating_mul(units.prefill),
            decode: unit.decode.saturating_mul(units.decode),
        };
        let mut units = Workers { prefill: 1, decode: 1 };
        while units.prefill.max(units.decode) <= MOST_WORKERS {
            let workers = times(units);
            let state = self.state(workers, requests_per_second)?;
            let (reads, writes) =
                (self.reads_in_time(workers, requests_per_second, &state), self.writes_in_time(&state));
            match (reads && writes, stated.is_some()) {
                (true, _) => return Ok(workers),
                (false, true) => units = Workers { prefill: units.prefill + 1, decode: units.decode + 1 },
                // A later token is late for the writers alone; a first one may be late for both.
                (false, false) if !writes => units.decode += 1,
                (false, false) => units.prefill += 1,
            }
        }
        Err(Infeasible::Unsupported { detail: format!("more than {MOST_WORKERS} copies would be needed") })
    }

    /// An error where not even one request alone is answered in time.
    fn reachable(&self) -> Result<(), Infeasible> {
        let serving = self.prefill.serving();
        let idle = self.decode.state(1.0)?;
        let least = [
            (FIRST, self.alone + idle.pass_seconds, serving.time_to_first_token),
            (NEXT, idle.per_token, serving.time_per_token),
        ];
        let missed = least.into_iter().find_map(|(what, least, target)| {
            let target = target.filter(|target| least > target.0)?;
            Some(Infeasible::Slow { what, least: Seconds(least), target })
        });
        missed.map_or(Ok(()), Err)
    }

    fn reads_in_time(&self, workers: Workers, requests_per_second: f64, state: &State) -> bool {
        let target = self.prefill.serving().time_to_first_token;
        self.load(workers, requests_per_second) <= HEADROOM
            && target.is_none_or(|target| state.first_token.p90 <= target.0)
    }

    fn writes_in_time(&self, state: &State) -> bool {
        let target = self.prefill.serving().time_per_token;
        let room = f64::from(self.decode.held.sequences).max(1.0 + ROOM_DEVIATIONS);
        state.batch + ROOM_DEVIATIONS * state.batch.sqrt() <= room
            && target.is_none_or(|target| state.per_token <= target.0)
            && self.decode.full().is_ok_and(|full| state.requests_per_second <= HEADROOM * full.requests_per_second)
    }

    /// What the readers do then.
    pub fn prefill(&self, workers: Workers, requests_per_second: f64) -> PrefillEstimate {
        PrefillEstimate {
            workers: workers.prefill,
            gpus_each: self.prefill.layout().model_parallel(),
            load: self.load(workers, requests_per_second),
            handover_seconds: HANDOVER_SECONDS + self.transfer,
        }
    }

    /// A prompt alone, without what is handed over.
    pub fn prompt_seconds(&self) -> f64 {
        self.prefill.prompt_alone()
    }

    /// Under users who send again as soon as they are answered ([`Flow::closed_loop`]): those who wait for a reader, and those whose answers are
    /// written. What does not fit waits for room.
    pub fn closed_loop(&self, workers: Workers, users: &Users) -> Result<State, Infeasible> {
        let costs = self.prefill.engine_costs();
        let answer = f64::from(self.prefill.serving().answer_tokens);
        let (readers, writers) = (f64::from(workers.prefill) * self.queues, f64::from(workers.decode));
        let running = users.count.min(f64::from(self.decode.held.sequences) * writers).max(1.0);
        let beside = self.alone + costs.request;
        let alone = self.prefill.prompt_alone();
        let (mut reading, mut batch) = (self.service, running / writers);
        let mut state = self.decode.state(batch)?;
        for _ in 0..LOOP_ROUNDS {
            state = self.decode.state(batch.max(1.0))?;
            let rate = (running / (beside - alone + reading + answer * state.per_token)).min(readers / self.service);
            let queue = (rate / readers * (reading - self.service / 2.0)).max(0.0);
            reading = f64::midpoint(reading, self.service * (1.0 + (running - 1.0) / running * queue));
            batch = f64::midpoint(batch, (rate * answer * state.per_token).min(running) / writers);
            state.requests_per_second = rate;
        }
        let at_start = 1.0 / users.requests_each;
        let all_at_once = (running / readers - 1.0).max(0.0) * self.service / 2.0;
        let wait = at_start * all_at_once + (1.0 - at_start) * (reading - self.service).max(0.0);
        let outside = (users.count - running) / state.requests_per_second;
        let first = beside + costs.passes * state.pass_seconds + wait + outside;
        Ok(State { first_token: Quantiles { expected: first, p50: first, p90: first + wait }, ..state })
    }
}

/// Keys and values of one prompt from one copy to the other: every GPU that shares the heads sends its part, over the link where both copies are in
/// one domain, else over its part of the network. Latent vectors are sent to each GPU that shares the heads.
fn transfer_seconds(prefill: &Replica, decode: &Replica) -> f64 {
    let bytes = prefill.stage_layers() * decode.cache_bytes() * decode.head_split() * prefill.prompt;
    let lanes = prefill.head_split().min(decode.head_split()).max(1.0);
    let gpus = prefill.layout().model_parallel() + decode.layout().model_parallel();
    let machine = &prefill.machine;
    let each = if gpus <= machine.link_domain(gpus) {
        machine.link_bus(prefill.constants)
    } else {
        machine.network_bus(prefill.constants) / f64::from(machine.gpus_per_node)
    };
    bytes / (lanes * each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::load::tests::{on_replica, resolved};
    use gpuplan_workload::{Models, Serving};

    /// Runs that were published with both layouts (`benchmarks/serving/README.md`).
    static PUBLISHED: &str = include_str!("../../../benchmarks/serving/disaggregated.csv");

    /// One copy of each kind, of so many GPUs.
    fn on_pools<T>(
        gpu: &str,
        gpus: (u32, u32),
        keys: &str,
        model: &str,
        ask: impl Fn(Pools) -> Result<T, Infeasible>,
    ) -> Result<T, Infeasible> {
        let models = Models::embedded().unwrap();
        let writing = resolved(&models, keys, model);
        let serving = writing.serving.unwrap();
        let mut reading = writing.clone();
        reading.serving = Some(Serving { layout: serving.disaggregation.unwrap().prefill, ..serving });
        on_replica(gpu, gpus.1, &writing, |writer| {
            on_replica(gpu, gpus.0, &reading, |reader| {
                let reader = reader.reading();
                let flow = Flow::writing(&writer)?;
                ask(Pools::new(&reader, &flow)?)
            })
        })
    }

    /// The errors in the median are what was found; those of each row are printed.
    #[test]
    fn published_runs_are_met() {
        let mut errors: [Vec<f64>; 3] = Default::default();
        let mut too_large = 0;
        for row in csv::Reader::from_reader(PUBLISHED.as_bytes()).records().map(Result::unwrap) {
            let number = |index: usize| row[index].parse::<f64>().unwrap();
            let whole = |index: usize| number(index) as u32;
            let keys = format!(
                "requests_per_second = 1\nprompt_tokens = {}\nanswer_tokens = {}\nweights = \"{}\"\nkv_cache = \"{}\"\nengine = \"{}\"\n\
                 disaggregated = true\ntensor_parallel = {}\nattention_data_parallel = {}\nexpert_parallel = {}\n\
                 prefill_tensor_parallel = {}\nprefill_attention_data_parallel = {}\nprefill_expert_parallel = {}",
                &row[14],
                &row[15],
                &row[4],
                &row[5],
                &row[2],
                whole(11) / whole(12),
                whole(12),
                &row[13] == "1",
                whole(7) / whole(8),
                whole(8),
                &row[9] == "1"
            );
            let users =
                Users { count: number(16), requests_each: number(20), equally_long: &row[19] == "0", held_passes: 0.0 };
            let workers = Workers { prefill: whole(6), decode: whole(10) };
            let (first, each, answer) = (number(17) / 1e3, number(18) / 1e3, number(15));
            let found =
                on_pools(&row[1], (whole(7), whole(11)), &keys, &row[0], |pools| pools.closed_loop(workers, &users));
            let Ok(state) = found else {
                too_large += 1;
                continue;
            };
            let made = state.first_token.expected;
            let ratios =
                [(first + answer * each) / (made + answer * state.per_token), made / first, state.per_token / each];
            println!("{} {} {} {}: {:.2?}", &row[0], &row[1], &row[2], &row[16], ratios);
            for (errors, ratio) in errors.iter_mut().zip(ratios) {
                errors.push((ratio - 1.0).abs());
            }
        }
        // 0.2 % too much memory for DeepSeek-V3 in 8 bits on four GPUs of a GB200, each with all weights of attention.
        assert!(too_large <= 3, "{too_large}");
        for ((errors, name), most) in
            errors.iter_mut().zip(["tokens/s", "first token", "per token"]).zip([0.16, 0.49, 0.17])
        {
            errors.sort_by(f64::total_cmp);
            let median = errors[errors.len() / 2];
            println!("{name}: {} runs, median {:.1} %", errors.len(), 100.0 * median);
            assert!(median <= most, "{name}: {median:.3}");
        }
    }

    const CHAT: &str = "requests_per_second = 20\nprompt_tokens = 4096\nanswer_tokens = 256\ndisaggregated = true\n";

    #[test]
    fn prompts_do_not_hold_answers_up() {
        let workload = resolved(&Models::embedded().unwrap(), CHAT, "llama-3.1-8b");
        let together = on_replica("h100-sxm5-80", 1, &workload, |replica| {
            let flow = Flow::new(&replica).unwrap();
            flow.under(2.0).unwrap().per_token
        });
        let apart = on_pools("h100-sxm5-80", (1, 1), CHAT, "llama-3.1-8b", |pools| {
            Ok(pools.state(Workers { prefill: 1, decode: 1 }, 2.0)?.per_token)
        });
        let apart = apart.unwrap();
        assert!(apart < together, "{apart} {together}");
    }

    #[test]
    fn more_load_takes_more_copies_of_the_pool_that_is_full() {
        let fewest = |keys: &str, rate: f64| {
            let keys = format!("{CHAT}{keys}");
            on_pools("h100-sxm5-80", (1, 1), &keys, "llama-3.1-8b", |pools| pools.fewest(rate, None))
        };
        let (few, many) = (fewest("", 5.0).unwrap(), fewest("", 50.0).unwrap());
        assert!(many.prefill > few.prefill && many.decode >= few.decode, "{few:?} {many:?}");
        let quick = fewest("time_per_token = \"9ms\"", 50.0).unwrap();
        assert!(quick.decode > many.decode && quick.prefill == many.prefill, "{quick:?} {many:?}");
        let soon = fewest("time_to_first_token = \"500ms\"", 50.0).unwrap();
        assert!(soon.prefill > many.prefill, "{soon:?} {many:?}");
        assert!(matches!(fewest("time_to_first_token = \"50ms\"", 5.0), Err(Infeasible::Slow { what: FIRST, .. })));
        assert!(matches!(fewest("time_per_token = \"2ms\"", 5.0), Err(Infeasible::Slow { what: NEXT, .. })));
    }
}
