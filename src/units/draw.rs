//! Numbers drawn from a seed: the same seed gives the same draws on every machine.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one addition and two mixes a number.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The `stream`-th of independent sequences of this seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut draws = Self(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        draws.next();
        draws
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to just below 1, each of 2^53 values alike.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.uniform() * end as f64) as usize).min(end.saturating_sub(1))
    }

    /// Normally distributed with mean 0 and deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
