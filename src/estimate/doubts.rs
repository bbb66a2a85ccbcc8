//! What the band of a step cannot know from the kind of run alone.

/// What the band cannot know from the regime alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// No constant has seen a run of the framework.
    Framework,
    /// Hardly any published run on this GPU's generation was in the fit, or none.
    Gpu,
    /// Nor on chips of its vendor: one suite has eight.
    Vendor,
    /// Model parts that few rows cover: encoder-decoders, image transformers, expert parallelism.
    Structure,
    /// Keys and values that pass around a ring.
    Context,
    /// Recipes of eight bits and fewer differ in what they leave in sixteen.
    EightBits,
    /// Experts: products in groups, permuted tokens and uneven loads cost more than their arithmetic.
    Experts,
    /// More GPUs than but one published source has.
    Scale,
    /// Formats with a scale for every block of numbers: no run in mxfp8 is in the fit, and those in nvfp4 are of one source.
    BlockScaling,
    /// Software older than most published runs: the same kernels became faster since, and sources disagree on how much.
    Age,
    /// Only the size of the model is known. No published run is of this kind, so its width is that of what nothing has measured.
    Shape,
    /// No stack is named: whether its kernels are fused, its attention is written for the GPU and its traffic hides is open.
    Stack,
    /// How a run that is known to have run was split over its GPUs, or what it recomputed, is chosen here.
    Setting,
}

impl Doubt {
    pub const ALL: [Self; 13] = [
        Self::Framework,
        Self::Gpu,
        Self::Vendor,
        Self::Structure,
        Self::Context,
        Self::EightBits,
        Self::Experts,
        Self::Scale,
        Self::BlockScaling,
        Self::Age,
        Self::Shape,
        Self::Stack,
        Self::Setting,
    ];

    /// Word of the constants file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Framework => "framework",
            Self::Gpu => "gpu",
            Self::Vendor => "vendor",
            Self::Structure => "structure",
            Self::Context => "context",
            Self::EightBits => "eight-bits",
            Self::Experts => "experts",
            Self::Scale => "scale",
            Self::BlockScaling => "block-scaling",
            Self::Age => "age",
            Self::Shape => "shape",
            Self::Stack => "stack",
            Self::Setting => "setting",
        }
    }

    /// About what a case leaves open. Published runs state it, so that the width is found by leaving it open.
    pub fn is_left_open(self) -> bool {
        matches!(self, Self::Stack | Self::Setting)
    }

    /// Half-width before any run is looked at, which a fit on few code bases stays near. Judged.
    pub fn guess(self) -> f64 {
        match self {
            Self::Gpu | Self::Context | Self::EightBits | Self::Scale | Self::BlockScaling => 0.10,
            Self::Structure => 0.15,
            Self::Stack | Self::Setting => 0.20,
            // Beside a regime's own, what holds 80 % of the sources of `benchmarks/unfitted` that name such a stack, and of those of before 2023
            // whose figure is a step or a rate. The same 512 H100 trained GPT-3 27 % faster after a year of software (MLPerf Training 3.0 and 4.0).
            Self::Framework | Self::Age => 0.30,
            Self::Experts => 0.30,
            Self::Shape => 0.35,
            // The fit has runs of AMD itself, 10 % off. Those of others took 1.8 to 2.2 times as long as the estimate (Poro and OpenEuroLLM on
            // MI250X, Transformer Engine on MI300X: `benchmarks/unfitted`).
            Self::Vendor => 0.50,
        }
    }
}

/// The doubts of one estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    pub framework: bool,
    pub gpu: bool,
    pub vendor: bool,
    pub structure: bool,
    pub context: bool,
    pub eight_bits: bool,
    pub experts: bool,
    pub scale: bool,
    pub block_scaling: bool,
    pub age: bool,
    pub shape: bool,
    pub stack: bool,
    pub setting: bool,
    /// Something is trained: what is unfamiliar about a run counts (`unfamiliar`).
    pub training: bool,
    /// The stack is a library and no program.
    pub library: bool,
    /// Image transformers.
    pub images: bool,
    /// Kernels that wait for the host for a good part of their time.
    pub launches: bool,
}

impl Doubts {
    pub fn holds(self, doubt: Doubt) -> bool {
        match doubt {
            Doubt::Framework => self.framework,
            Doubt::Gpu => self.gpu,
            Doubt::Vendor => self.vendor,
            Doubt::Structure => self.structure,
            Doubt::Context => self.context,
            Doubt::EightBits => self.eight_bits,
            Doubt::Experts => self.experts,
            Doubt::Scale => self.scale,
            Doubt::BlockScaling => self.block_scaling,
            Doubt::Age => self.age,
            Doubt::Shape => self.shape,
            Doubt::Stack => self.stack,
            Doubt::Setting => self.setting,
        }
    }
}
