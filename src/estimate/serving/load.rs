//! What a load makes of one replica: how many sequences run, how long people wait, and how much it can be given.

use crate::misfit::Infeasible;
use crate::serving::{PassTime, Replica, ReplicaMemory, ServingEstimate};
use gpuplan_units::{Bytes, Quantiles, Seconds};

/// Load that a replica is planned for, of what it can do at most: the rest is for bursts and for what the estimate is off by.
pub const HEADROOM: f64 = 0.8;
/// Sequences that run at once scatter like arrivals; so many deviations of a Poisson count have room (99 % of a normal one).
pub(super) const ROOM_DEVIATIONS: f64 = 2.33;
/// Steps of a search for a load at most, and how near to it one ends, as a share: figures are shown to three digits.
const HALVINGS: u32 = 40;
const NEAR: f64 = 1e-6;
/// Rounds in which the number of running sequences of a closed loop settles.
const LOOP_ROUNDS: u32 = 16;
/// The smallest load that is looked at, in running sequences.
const LEAST_BATCH: f64 = 1e-3;

/// What may come too late, as `Infeasible::Slow` names it.
pub const FIRST: &str = "the first token";
pub const NEXT: &str = "every further token";

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

/// Users who send the next request when the last one is answered, as benchmarks load an engine and a job its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Users {
    pub count: f64,
    /// Requests of one user in the whole run, of which the first come all at once.
    pub requests_each: f64,
    /// All prompts have the same length, and all answers.
    pub equally_long: bool,
    /// Passes for which the scheduler is told to hold a new request back, so that it reads several together.
    pub held_passes: f64,
}

impl Users {
    /// So many for a long time, with requests of different lengths.
    pub fn steady(count: f64) -> Self {
        Self { count, requests_each: f64::INFINITY, equally_long: false, held_passes: 0.0 }
    }
}

/// One replica with its room, asked for many loads.
pub struct Flow<'a> {
    replica: &'a Replica<'a>,
    pub held: ReplicaMemory,
    /// GPU seconds of a prompt among others, and alone from first to last.
    prompt: f64,
    pub alone: f64,
    answer: f64,
    /// Passes that write an answer.
    passes: f64,
    /// Prompts are read on the same GPUs.
    reads: bool,
}

/// Weights, workspace and cache of the fullest GPU, or what is missing for one sequence.
fn room(replica: &Replica) -> Result<ReplicaMemory, Infeasible> {
    let held = if replica.serving.answer_tokens == 0 { replica.held_once()? } else { replica.held() };
    if held.sequences == 0 {
        return Err(Infeasible::NeedsMemory { need: Bytes(held.least), have: replica.machine.memory });
    }
    Ok(held)
}

impl<'a> Flow<'a> {
    /// An error where not one sequence fits.
    pub fn new(replica: &'a Replica<'a>) -> Result<Self, Infeasible> {
        let held = room(replica)?;
        let answer = f64::from(replica.serving().answer_tokens);
        let alone = if answer > 0.0 { replica.prompt_alone() } else { replica.once(1.0)?.total() };
        let passes = answer / replica.tokens_gained();
        Ok(Self { replica, held, prompt: replica.prompt().total(), alone, answer, passes, reads: true })
    }

    /// Answers alone, of prompts that others read.
    pub fn writing(replica: &'a Replica<'a>) -> Result<Self, Infeasible> {
        Ok(Self { prompt: 0.0, reads: false, ..Self::new(replica)? })
    }

    pub fn replica(&self) -> &'a Replica<'a> {
        self.replica
    }

    /// With `batch` running sequences on average.
    pub fn state(&self, batch: f64) -> Result<State, Infeasible> {
        if self.answer > 0.0 { Ok(self.generating(batch)) } else { self.answering(batch) }
    }

    /// A request takes `P` for its prompt and its share of `A` passes. Beside a pass over all running sequences a prompt is
    /// read; prompts wait for each other as in a queue with one server and scattered lengths: M/M/1, whose wait exceeds `t`
    /// with chance `rho exp(-(1 - rho) t / S)` (Kleinrock, "Queueing Systems" I, section 5.12).
    fn generating(&self, batch: f64) -> State {
        let pass = self.replica.pass(batch.max(1.0)).total();
        let requests_per_second = batch / (self.passes * pass + batch * self.prompt);
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
        State {
            batch,
            requests_per_second,
            pass_seconds: pass,
            per_token: (self.passes * pass + batch * self.prompt) / self.answer,
            first_token,
        }
    }

    /// Under users who send again as soon as they are answered. What does not fit waits for room. Prompts of those who run are read
    /// one after the other, and in a steady state a newcomer finds as many waiting as somebody who looks in from outside, with one
    /// user less: mean value analysis of a closed network (Reiser and Lavenberg, J. ACM 27, 1980) with a server of constant service
    /// times, in Schweitzer's approximation. While a user waits others' prompts are read, and those that are left while he is answered.
    pub fn closed_loop(&self, users: &Users) -> State {
        let costs = self.replica.engine_costs();
        let groups = self.replica.groups();
        let running = users.count.min(f64::from(self.held.sequences)).max(1.0);
        // Each attention group reads prompts of its own.
        let (others, prompt) = ((running / groups - 1.0).max(0.0), self.prompt * groups);
        let all_at_once = others * prompt / 2.0;
        let together = if users.equally_long { others.min(costs.in_step) * prompt / 2.0 } else { 0.0 };
        let at_start = 1.0 / users.requests_each;
        let (mut batch, mut reading, mut state) = (running, prompt, self.generating(running));
        for _ in 0..LOOP_ROUNDS {
            let pass = self.replica.pass(batch.max(1.0)).total();
            let steady = (reading - prompt).max(together);
            let wait = at_start * all_at_once + (1.0 - at_start) * steady;
            let first = self.alone + costs.request + (costs.passes + users.held_passes) * pass + wait;
            let per_token = (self.passes * pass + (others * prompt - wait).max(0.0)) / self.answer;
            let writing = self.answer * per_token;
            let requests_per_second = running / (first + writing);
            let rate = requests_per_second / groups;
            let queue = (rate * (reading - prompt / 2.0)).max(0.0);
            reading = f64::midpoint(reading, prompt * (1.0 + others / (others + 1.0) * queue));
            let first = first + (users.count - running) / requests_per_second;
            let first_token = Quantiles { expected: first, p50: first, p90: first + wait };
            state = State { batch, requests_per_second, pass_seconds: pass, per_token, first_token };
            batch = f64::midpoint(batch, writing * requests_per_second);
        }
        state
    }

    /// Models that answer in one pass take all who have come since the last one began: a newcomer waits for the rest of a
    /// pass, evenly spread, and for his own.
    fn answering(&self, batch: f64) -> Result<State, Infeasible> {
        let pass = self.replica.once(batch.max(1.0))?.total();
        if self.replica.serving().images.is_some() {
            return self.drawing(batch, pass);
        }
        let busy = batch.min(1.0);
        let first_token = Quantiles {
            expected: pass * (1.0 + busy / 2.0),
            p50: pass * (1.0 + (busy - 0.5).max(0.0)),
            p90: pass * (1.0 + (busy - 0.1).max(0.0)),
        };
        Ok(State { batch, requests_per_second: batch / pass, pass_seconds: pass, per_token: 0.0, first_token })
    }

    /// Images gain little by being made together, so that they wait for each other: a queue with one server and constant times, whose wait exceeds
    /// `t` with chance `rho exp(-2 (1 - rho) t / S)` (half of the wait of scattered times: Kleinrock, "Queueing Systems" I, section 5.6). Where all
    /// are there already none comes after the others.
    fn drawing(&self, batch: f64, pass: f64) -> Result<State, Infeasible> {
        let most = f64::from(self.held.sequences).max(1.0);
        let (rate, least) = (batch / pass, self.replica.once(most)?.total() / most);
        let load = rate * least.min(self.alone);
        let first_token = if load < 1.0 - 1e-9 {
            let scale = self.alone / (2.0 * (1.0 - load));
            let wait = |exceeded: f64| if load > exceeded { scale * (load / exceeded).ln() } else { 0.0 };
            Quantiles { expected: self.alone + load * scale, p50: self.alone + wait(0.5), p90: self.alone + wait(0.1) }
        } else {
            Quantiles { expected: pass, p50: pass, p90: pass }
        };
        Ok(State { batch, requests_per_second: rate, pass_seconds: pass, per_token: 0.0, first_token })
    }

    /// Everything that fits runs: the most that the replica can do.
    pub fn full(&self) -> Result<State, Infeasible> {
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
        // Requests that all are there from the start are sent as others are answered: no queue of newcomers grows without end.
        if self.answer > 0.0 && !best.first_token.expected.is_finite() {
            best.first_token = self.closed_loop(&Users::steady(best.batch)).first_token;
        }
        Ok(best)
    }

    /// The largest load that leaves headroom and keeps the targets, or the target that no load keeps.
    pub fn most(&self) -> Result<State, Infeasible> {
        let serving = self.replica.serving();
        let idle = self.state(LEAST_BATCH)?;
        let targets = [
            (FIRST, idle.first_token.p90, serving.time_to_first_token),
            (NEXT, idle.per_token, serving.time_per_token),
        ];
        let missed = targets
            .into_iter()
            .filter_map(|(what, least, target)| Some((what, least, target.filter(|target| least > target.0)?)));
        // Of two the one that is missed by more: keeping the other would not help.
        if let Some((what, least, target)) = missed.max_by(|a, b| (a.1 / a.2.0).total_cmp(&(b.1 / b.2.0))) {
            return Err(Infeasible::Slow { what, least: Seconds(least), target });
        }
        let limit = HEADROOM * self.full()?.requests_per_second;
        let keeps = |state: &State| {
            let in_time = |figure: f64, target: Option<Seconds>| target.is_none_or(|target| figure <= target.0);
            state.batch + ROOM_DEVIATIONS * state.batch.sqrt()
                <= f64::from(self.held.sequences).max(1.0 + ROOM_DEVIATIONS)
                && state.requests_per_second <= limit
                && state.first_token.p90.is_finite()
                && in_time(state.first_token.p90, serving.time_to_first_token)
                && in_time(state.per_token, serving.time_per_token)
        };
        let (mut low, mut high) = (idle, f64::from(self.held.sequences));
        for _ in 0..HALVINGS {
            if high <= low.batch * (1.0 + NEAR) {
                break;
            }
            let state = self.state((low.batch * high).sqrt())?;
            if keeps(&state) { low = state } else { high = state.batch }
        }
        Ok(low)
    }

    /// The state under this load, by false position: an end that stays twice counts half (the Illinois rule, Dowell and Jarratt, BIT 11, 1971).
    pub fn under(&self, requests_per_second: f64) -> Result<State, Infeasible> {
        let miss = |state: &State| state.requests_per_second - requests_per_second;
        let (mut low, mut high) = (0.0, f64::from(self.held.sequences));
        let mut state = self.state(high)?;
        let (mut below, mut above, mut was_below) = (-requests_per_second, miss(&state), None);
        for _ in 0..HALVINGS {
            if above <= 0.0 || miss(&state).abs() <= NEAR * requests_per_second || high - low <= NEAR * low {
                break;
            }
            state = self.state((low * above - high * below) / (above - below))?;
            let missed = miss(&state);
            let less = if was_below.replace(missed < 0.0) == Some(missed < 0.0) { 0.5 } else { 1.0 };
            if missed < 0.0 {
                (low, below, above) = (state.batch, missed, above * less);
            } else {
                (high, above, below) = (state.batch, missed, below * less);
            }
        }
        Ok(state)
    }

    /// A round: every running sequence from its prompt to the last token of its answer.
    pub fn round(&self, state: &State) -> Result<PassTime, Infeasible> {
        let running = state.batch.max(1.0);
        if self.answer > 0.0 {
            return Ok(PassTime::default()
                .plus(self.replica.pass(running), self.passes)
                .plus(self.replica.prompt(), if self.reads { running } else { 0.0 }));
        }
        self.replica.once(running)
    }

    /// Sequences that the engine is told to run at most.
    pub fn batch_limit(&self, state: &State) -> u32 {
        let wanted = (state.batch + ROOM_DEVIATIONS * state.batch.sqrt()).ceil().max(1.0);
        (wanted as u32).min(self.held.sequences)
    }

    /// `replicas` of this in `state`, each alone able to do `most` requests a second.
    pub fn served(
        &self,
        state: &State,
        most: f64,
        replicas: u32,
        batch_limit: u32,
        (nodes_each, on_a_node): (u32, u32),
    ) -> ServingEstimate {
        let all = f64::from(replicas);
        ServingEstimate {
            replicas,
            batch_limit,
            batch: state.batch,
            requests_per_second: all * state.requests_per_second,
            most_requests_per_second: all * most,
            first_token: state.first_token,
            per_token: state.per_token,
            prompt_seconds: self.alone,
            pass_seconds: state.pass_seconds,
            cache_bytes_per_token: self.held.token,
            nodes_each,
            on_a_node,
            prefill: None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Correction, Machine};
    use gpuplan_hardware::{GpuLink, Hardware};
    use gpuplan_units::{BytesPerSecond, Hours};
    use gpuplan_workload::file::WorkloadFile;
    use gpuplan_workload::{Layout, Models, Workload};

    /// Figures that engines published; nothing is fitted on them.
    static PUBLISHED: &str = include_str!("../../../benchmarks/serving/published.csv");

    pub fn workload(serving: &str, model: &str) -> Workload {
        resolved(&Models::embedded().unwrap(), serving, model)
    }

    pub fn resolved(models: &Models, serving: &str, model: &str) -> Workload {
        let text = format!("[model]\npreset = \"{model}\"\n[serving]\n{serving}");
        WorkloadFile::parse(&text).unwrap().resolve(models, None).unwrap().workload
    }

    /// On so many cards of a machine with a fast link, as far as the card has one.
    pub fn on<T>(gpu: &str, tensor: u32, workload: &Workload, asked: impl Fn(&Flow) -> T) -> T {
        on_replica(gpu, tensor, workload, |replica| asked(&Flow::new(&replica).unwrap()))
    }

    pub fn on_replica<T>(gpu: &str, tensor: u32, workload: &Workload, asked: impl Fn(Replica) -> T) -> T {
        let hardware = Hardware::embedded().unwrap();
        let gpu = hardware.gpu(hardware.find_gpu(gpu).unwrap());
        let bandwidth = gpu.link_gb_per_s_one_way.map_or(gpu.pcie_bandwidth(), BytesPerSecond::from_gb);
        let link = if gpu.link_gb_per_s_one_way.is_some() {
            GpuLink::Fast { bandwidth, domain: if gpu.id.starts_with("gb") { 72 } else { 8 } }
        } else {
            GpuLink::Pcie { bandwidth }
        };
        let machine = Machine {
            gpu,
            memory: gpu.memory(),
            gpus_per_node: 8,
            card_share: 1.0,
            link,
            sheet_link: link,
            host_copy: gpu.pcie_bandwidth(),
            node_network: BytesPerSecond::from_gbit(3200.0),
            network_assumed: false,
            has_fabric: true,
        };
        let layout = Layout { tensor, ..Layout::default() };
        let serving = workload.serving.unwrap();
        let unmeasured = Correction::NONE;
        let replica = Replica::new(workload, &serving, machine, &unmeasured, layout);
        asked(replica)
    }

    /// Predicted over measured rate, by engine, and a line for each row.
    fn compared() -> (BTreeMap<String, Vec<f64>>, String) {
        let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut said = String::new();
        let mut reader = csv::Reader::from_reader(PUBLISHED.as_bytes());
        for row in reader.records().map(Result::unwrap) {
            let number = |index: usize| row[index].parse::<f64>().unwrap();
            let serving = format!(
                "requests = 1000000\nprompt_tokens = {}\nanswer_tokens = {}\nweights = \"{}\"\nkv_cache = \"{}\"\nengine = \"{}\"",
                &row[7], &row[8], &row[5], &row[6], &row[0]
            );
            let workload = workload(&serving, &row[2]);
            let (answer, value) = (number(8), number(11));
            let rate = on(&row[3], number(4) as u32, &workload, |flow| {
                let state = if row[9].is_empty() { flow.full().unwrap() } else { flow.state(number(9)).unwrap() };
                if &row[10] == "seconds_per_token" { 1.0 / state.per_token } else { state.requests_per_second * answer }
            });
            let measured = if &row[10] == "seconds_per_token" { 1.0 / value } else { value };
            let named = [0, 2, 3, 7, 8, 9].map(|index| row[index].to_owned()).join(" ");
            said.push_str(&format!("{named}: {:+.0} %\n", (rate / measured - 1.0) * 100.0));
            ratios.entry(row[0].to_owned()).or_default().push(rate / measured);
        }
        (ratios, said)
    }

    #[test]
    fn engines_do_about_what_was_published() {
        let (ratios, said) = compared();
        let error = |engine: &str| {
            ratios[engine].iter().map(|ratio| (ratio - 1.0).abs()).sum::<f64>() / ratios[engine].len() as f64
        };
        let errors = ["tensorrt-llm", "vllm"].map(error);
        println!("{errors:.3?}\n{said}");
        assert!(errors[0] < 0.07 && errors[1] < 0.125, "{errors:.3?}\n{said}");
    }

    const CHAT: &str = "requests_per_second = 20\nprompt_tokens = 512\nanswer_tokens = 256\n";

    #[test]
    fn more_load_means_longer_waits_and_slower_answers() {
        let workload = workload(CHAT, "llama-3.1-8b");
        on("h100-sxm5-80", 1, &workload, |flow| {
            let states: Vec<State> = [2.0, 8.0, 16.0, 24.0].iter().map(|rate| flow.under(*rate).unwrap()).collect();
            for (state, rate) in states.iter().zip([2.0, 8.0, 16.0, 24.0]) {
                assert!((state.requests_per_second / rate - 1.0).abs() < 0.02, "{state:?}");
                assert!(state.first_token.p50 <= state.first_token.p90, "{state:?}");
            }
            let rises = |of: fn(&State) -> f64| states.windows(2).all(|pair| of(&pair[0]) < of(&pair[1]));
            assert!(
                rises(|state| state.batch) && rises(|state| state.per_token) && rises(|state| state.first_token.p90)
            );
            // Little's law: what runs is what comes times how long it stays.
            let busy = states[2];
            assert!((busy.batch / (busy.requests_per_second * 256.0 * busy.per_token) - 1.0).abs() < 0.01, "{busy:?}");
        });
    }

    #[test]
    fn a_target_takes_load_away_and_an_impossible_one_is_named() {
        let most = |target: &str| {
            let workload = workload(&format!("{CHAT}{target}"), "llama-3.1-8b");
            on("l40s", 1, &workload, |flow| {
                flow.most().map(|state| (state.requests_per_second, state.per_token, state.first_token.p90))
            })
        };
        let (free, held) = (most("").unwrap(), most("time_per_token = \"30ms\"").unwrap());
        assert!(held.1 <= 0.03 && held.0 < free.0, "{held:?} {free:?}");
        let soon = most("time_to_first_token = \"150ms\"").unwrap();
        assert!(soon.2 <= 0.15 && soon.0 < free.0, "{soon:?}");
        assert!(matches!(most("time_to_first_token = \"5ms\""), Err(Infeasible::Slow { what: FIRST, .. })));
        assert!(matches!(most("time_per_token = \"5ms\""), Err(Infeasible::Slow { what: NEXT, .. })));
    }

    #[test]
    fn keys_and_values_take_the_published_bytes() {
        let token = |model: &str, format: &str, gpu: &str, tensor: u32| {
            let workload = workload(&format!("{CHAT}weights = \"int4\"\nkv_cache = \"{format}\""), model);
            on(gpu, tensor, &workload, |flow| flow.held.token)
        };
        // 32 layers x 2 x 8 heads x 128 x 2 bytes; multi-head attention has four times as many heads.
        assert!((token("llama-3.1-8b", "bf16", "h100-sxm5-80", 1) - 131_072.0).abs() < 1.0);
        assert!((token("llama-3.1-8b", "fp8", "h100-sxm5-80", 1) - 65_536.0).abs() < 1.0);
        assert!((token("llama-2-7b", "bf16", "h100-sxm5-80", 1) - 524_288.0).abs() < 1.0);
        assert!((token("llama-3.3-70b", "bf16", "h100-sxm5-80", 4) - 81_920.0).abs() < 1.0);
        // A latent of 512 + 64 in 61 layers, whole on every rank: 70 KB (DeepSeek-V3, arXiv 2412.19437, section 2.1.1).
        assert!((token("deepseek-v3", "bf16", "h200-sxm-141", 8) - 61.0 * 576.0 * 2.0).abs() < 1.0);
    }

    #[test]
    fn what_does_not_fit_says_what_it_needs() {
        let workload = workload(CHAT, "llama-3.3-70b");
        let hardware = Hardware::embedded().unwrap();
        let gpu = hardware.gpu(hardware.find_gpu("h100-sxm5-80").unwrap());
        let machine = Machine {
            gpu,
            memory: gpu.memory(),
            gpus_per_node: 1,
            card_share: 1.0,
            link: GpuLink::Single,
            sheet_link: GpuLink::Single,
            host_copy: gpu.pcie_bandwidth(),
            node_network: BytesPerSecond::from_gbit(100.0),
            network_assumed: true,
            has_fabric: false,
        };
        let serving = workload.serving.unwrap();
        let unmeasured = Correction::NONE;
        let replica = Replica::new(&workload, &serving, machine, &unmeasured, Layout::default());
        match Flow::new(&replica).map(|_| ()) {
            Err(Infeasible::NeedsMemory { need, have }) => assert!(need.0 > 141e9 && have == gpu.memory()),
            other => panic!("{other:?}"),
        }
        assert_eq!(serving.requests(), 20.0 * Hours(730.0).0 * 3600.0);
    }

    #[test]
    fn one_pass_models_take_who_has_come() {
        let workload = workload("images_per_second = 1000\n", "resnet-50");
        on("a100-sxm4-80", 1, &workload, |flow| {
            let (idle, busy) = (flow.under(10.0).unwrap(), flow.under(2000.0).unwrap());
            assert!(idle.first_token.p90 < busy.first_token.p90 && busy.batch > 1.0, "{idle:?} {busy:?}");
            // More than the 2,500 to 3,000 images a second of training, forward and backward, and less than int8 engines reach.
            let most = flow.full().unwrap().requests_per_second;
            assert!((4_000.0..20_000.0).contains(&most), "{most}");
        });
    }
}
