//! `OwnRuns`: what this user's finished runs say of the time of the next one, by program and GPU, and how much doubt they leave.
//!
//! The band of a step is the error of a program and GPU that nobody has seen. Its logarithm is taken to be normal around 0 with
//! variance v, and two runs share a part of it (`correlation`). Given the log ratios x of n runs, with K the correlations among them
//! and k those with the next run, its log ratio is normal around k'K^-1 x with variance v (1 - k'K^-1 k): the conditional normal
//! distribution (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, equations 2.25 and 2.26). Where few runs or
//! far ones are known the mean stays near 0, so nothing is shrunk by hand. The variance itself is doubted as well: as a scaled inverse
//! chi-squared with `DEGREES` (Gelman et al., "Bayesian Data Analysis", 3rd edition, section 3.2) it becomes
//! v (DEGREES + d/n x'K^-1 x / v) / (DEGREES + d), so that runs which are further off than the band allows make it wider. Only the d
//! different pairs of program and GPU count there: repeats of one may be alike in more than is known.

use nalgebra::{DMatrix, DVector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_hardware::Gpu;
use gpuplan_units::names::word;
use gpuplan_workload::{Model, Training};

/// What is run: code of one kind on one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    pub model: String,
    pub task: String,
    pub framework: String,
}

impl Program {
    pub fn new(model: &Model, training: &Training) -> Self {
        Self { model: model.name.clone(), task: word(training.task), framework: training.framework.id().to_owned() }
    }
}

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnRun {
    pub run: String,
    #[serde(flatten)]
    pub program: Program,
    /// Id of the catalog.
    pub gpu: String,
    /// Time of its work over what the estimate says without any earlier run.
    pub time_ratio: f64,
    /// Its forecast was made with the constants of today.
    pub same_constants: bool,
}

/// What two runs of one user have in common, in the words of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Similarity {
    Neither,
    Gpu,
    Program,
    Both,
}

impl Similarity {
    fn between(a: (&Program, &str), b: (&Program, &str)) -> Self {
        match (a.0 == b.0, a.1 == b.1) {
            (true, true) => Self::Both,
            (true, false) => Self::Program,
            (false, true) => Self::Gpu,
            (false, false) => Self::Neither,
        }
    }

    /// Of the log errors of two runs.
    fn correlation(self) -> f64 {
        match self {
            Self::Neither => OF_USER,
            Self::Gpu => OF_USER + OF_GPU,
            Self::Program => OF_USER + OF_PROGRAM,
            Self::Both => OF_USER + OF_GPU + OF_PROGRAM,
        }
    }
}

/// Parts of the variance of a log error that runs share, from 1,067 published runs predicted by constants that were fitted without
/// their code base (`gpuplan accuracy --refit --residuals`), a code base standing for a user and each weighing as the root of its runs.
/// Mean products of pairs over the variance are .04 where nothing else is shared, .12 on one GPU, .36 for one program (.24 to .60 by how
/// the four bases that have such pairs weigh) and .39 for both (.34 to .48). The rest goes with batch, layout and count, and stays in the band.
const OF_USER: f64 = 0.04;
const OF_GPU: f64 = 0.08;
const OF_PROGRAM: f64 = 0.30;
/// Variance that a forecast by other constants adds, over that of the band: refits moved predictions by some 4 % where errors are 12 %.
/// Judged.
const OF_OTHER_CONSTANTS: f64 = 0.1;
/// Degrees of freedom with which the band is believed: the same residuals have a kurtosis of 6.9, as a t distribution with 5.5 has.
const DEGREES: f64 = 5.5;

/// More runs say nothing more, and the newest say it best. Judged.
const MOST_RUNS: usize = 64;

/// Finished runs, newest first, made ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnRuns {
    runs: Vec<OwnRun>,
    /// K^-1, K^-1 x and x'K^-1 x.
    inverse: DMatrix<f64>,
    weighted: DVector<f64>,
    square: f64,
    /// Different pairs of program and GPU.
    kinds: usize,
}

/// What the runs say of one program on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experience {
    /// Multiplies the expected time.
    pub time: f64,
    /// Part of the band's log variance that is left, before the runs' own scatter says how large it is.
    left: f64,
    square: f64,
    kinds: usize,
    pub runs: usize,
}

impl OwnRuns {
    /// `runs` come newest first. `None`: there is none.
    pub fn new(mut runs: Vec<OwnRun>) -> Option<Self> {
        runs.truncate(MOST_RUNS);
        let among = |a: usize, b: usize| {
            let (one, other) = (&runs[a], &runs[b]);
            let shared = Similarity::between((&one.program, &one.gpu), (&other.program, &other.gpu)).correlation();
            if a == b { 1.0 + if one.same_constants { 0.0 } else { OF_OTHER_CONSTANTS } } else { shared }
        };
        let correlations = DMatrix::from_fn(runs.len(), runs.len(), among);
        let logs = DVector::from_iterator(runs.len(), runs.iter().map(|run| run.time_ratio.ln()));
        // Sums of blocks of ones with a positive diagonal are positive definite.
        let inverse = correlations.cholesky().filter(|_| !runs.is_empty())?.inverse();
        let weighted = &inverse * &logs;
        let square = logs.dot(&weighted);
        let is_first =
            |at: usize| runs[..at].iter().all(|run| (&run.program, &run.gpu) != (&runs[at].program, &runs[at].gpu));
        let kinds = (0..runs.len()).filter(|at| is_first(*at)).count();
        Some(Self { runs, inverse, weighted, square, kinds })
    }

    pub fn runs(&self) -> &[OwnRun] {
        &self.runs
    }

    pub fn experience(&self, gpu: &Gpu, model: &Model, training: &Training) -> Experience {
        self.about(&Program::new(model, training), &gpu.id)
    }

    fn about(&self, program: &Program, gpu: &str) -> Experience {
        let shared = self.similarities(program, gpu).map(|(similarity, _)| similarity.correlation());
        let shared = DVector::from_iterator(self.runs.len(), shared);
        let known = shared.dot(&(&self.inverse * &shared));
        Experience {
            time: shared.dot(&self.weighted).exp(),
            left: 1.0 - known,
            square: self.square,
            kinds: self.kinds,
            runs: self.runs.len(),
        }
    }

    fn similarities<'a>(
        &'a self,
        program: &'a Program,
        gpu: &'a str,
    ) -> impl Iterator<Item = (Similarity, &'a OwnRun)> {
        self.runs.iter().map(move |run| (Similarity::between((program, gpu), (&run.program, &run.gpu)), run))
    }

    /// Such as `2 of this program on H100 took 1.08 x as long as said, 3 others 0.97 x`: counts, and medians of what was.
    pub fn description_of(&self, gpu: &Gpu, model: &Model, training: &Training) -> String {
        let program = Program::new(model, training);
        let words = [
            (Similarity::Both, format!("of this program on {}", gpu.name)),
            (Similarity::Program, "of this program on other GPUs".to_owned()),
            (Similarity::Gpu, format!("of other programs on {}", gpu.name)),
            (Similarity::Neither, "of other programs on other GPUs".to_owned()),
        ];
        let parts = words.into_iter().filter_map(|(wanted, words)| {
            let mut ratios: Vec<f64> = self
                .similarities(&program, &gpu.id)
                .filter(|(similarity, _)| *similarity == wanted)
                .map(|(_, run)| run.time_ratio)
                .collect();
            ratios.sort_by(f64::total_cmp);
            let middle = f64::midpoint(*ratios.get(ratios.len() / 2)?, *ratios.get((ratios.len() - 1) / 2)?);
            Some(format!("{} {words} took {middle:.2} x as long as estimated", ratios.len()))
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

impl Experience {
    /// The log variance of a band, which is `before`, with what the runs say.
    pub fn variance(&self, before: f64) -> f64 {
        let (kinds, runs) = (self.kinds as f64, self.runs as f64);
        let scatter = (DEGREES + kinds / runs * self.square / before.max(f64::MIN_POSITIVE)) / (DEGREES + kinds);
        before * self.left * scatter
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::band::{Regime, time_band};
    use crate::doubts::Doubts;
    use crate::measurements::correction::Certainty;

    fn run(model: &str, gpu: &str, time_ratio: f64) -> OwnRun {
        let program = Program { model: model.to_owned(), task: "pretrain".to_owned(), framework: "fsdp".to_owned() };
        OwnRun { run: format!("{model}-{gpu}"), program, gpu: gpu.to_owned(), time_ratio, same_constants: true }
    }

    /// Of the program `a` on the GPU `h`.
    fn asked(runs: Vec<OwnRun>) -> Experience {
        let program = run("a", "h", 1.0).program;
        OwnRuns::new(runs).unwrap().about(&program, "h")
    }

    /// Half-widths of the band, as logarithms.
    fn width(experience: Option<Experience>) -> f64 {
        let (low, high) = time_band(Regime::Compute, Doubts::default(), Certainty::default(), experience);
        (high / low).ln()
    }

    #[test]
    fn one_run_is_the_shrinkage_that_its_correlation_says() {
        let one = asked(vec![run("a", "h", 1.1)]);
        let r = Similarity::Both.correlation();
        assert!(
            (one.time.ln() - r * 1.1_f64.ln()).abs() < 1e-12 && (one.left - (1.0 - r * r)).abs() < 1e-12,
            "{one:?}"
        );
        // A second that says the same moves it further, and never past what was seen.
        let two = asked(vec![run("a", "h", 1.1); 2]);
        assert!(two.time > one.time && two.time < 1.1 && two.left < one.left, "{two:?}");
    }

    #[test]
    fn the_same_program_on_the_same_gpu_says_most() {
        let [both, program, gpu, neither] =
            [("a", "h"), ("a", "x"), ("b", "h"), ("b", "x")].map(|(model, gpu)| asked(vec![run(model, gpu, 1.2)]));
        assert!(
            both.time > program.time && program.time > gpu.time.min(neither.time) && neither.time >= 1.0,
            "{both:?} {program:?} {gpu:?}"
        );
        assert!(both.left < program.left && program.left < 1.0 && neither.left <= 1.0);
        let older = asked(vec![OwnRun { same_constants: false, ..run("a", "h", 1.2) }]);
        assert!(older.time < both.time && older.left > both.left, "other constants said it otherwise");
    }

    #[test]
    fn runs_as_the_band_has_them_narrow_it_and_runs_far_outside_widen_it() {
        let plain = width(None);
        assert!(width(Some(asked(vec![run("a", "h", 1.02); 3]))) < 0.8 * plain);
        let scattered = vec![run("a", "h", 2.0), run("a", "h", 0.6), run("a", "h", 1.5)];
        assert!(width(Some(asked(scattered))) > plain);
        assert_eq!(OwnRuns::new(Vec::new()), None);
    }

    proptest! {
        #[test]
        fn any_runs_give_a_finite_time_within_what_was_seen_and_a_band(
            runs in proptest::collection::vec((0_usize..3, 0_usize..3, 0.2_f64..5.0, any::<bool>()), 1..80),
        ) {
            let names = ["a", "b", "c"];
            let runs: Vec<OwnRun> = runs
                .into_iter()
                .map(|(model, gpu, ratio, same_constants)| OwnRun { same_constants, ..run(names[model], names[gpu], ratio) })
                .collect();
            let seen = runs.iter().map(|run| run.time_ratio.ln().abs()).fold(0.0, f64::max);
            let program = run("a", "h", 1.0).program;
            let experience = OwnRuns::new(runs).unwrap().about(&program, "a");
            prop_assert!(experience.time.is_finite() && experience.time.ln().abs() <= 3.0 * seen + 1e-9);
            prop_assert!(experience.left > 0.0 && experience.left <= 1.0 + 1e-9);
            prop_assert!(width(Some(experience)) > 0.0);
        }
    }
}
