//! Slack in cells: how wide they are, rows of costs over them, and slack that is lost.

#![expect(
    clippy::inline_always,
    reason = "what the programme's pass calls is compiled with it, for each kind of vectors"
)]

/// Cells of slack at most.
pub const MOST_CELLS: usize = 64;
/// Cells are a step wide near no slack, where a changeover decides, and this share of the slack where there is more. A step is at most
/// half a changeover, so waiting for the length of one is never lost between two cells.
const WIDTH_OF_SLACK: f64 = 0.1;
/// By slack. Cells above the most slack only fill a processor's vectors: less slack never follows from more.
pub type CostRow<const CELLS: usize> = [f32; CELLS];

/// How far a loss of slack shorter than a cell reaches into the cell below, so many times.
pub struct Loss<const CELLS: usize> {
    share: CostRow<CELLS>,
    times: u32,
}

/// Cells from no slack to the most. Seconds.
pub fn cells(most: f64, step: f64) -> Vec<f64> {
    let mut slacks = vec![0.0];
    let mut slack = 0.0;
    while slack < most && slacks.len() < MOST_CELLS {
        slack += width(slack, step);
        slacks.push(slack);
    }
    slacks
}

/// Of the cell above this slack. Seconds.
pub fn width(slack: f64, step: f64) -> f64 {
    step.max(WIDTH_OF_SLACK * slack)
}

/// A row by its cells. A loop of its own, since `array::from_fn` is at times called, and then compiled for the least of processors.
#[inline(always)]
pub fn each<const CELLS: usize>(of: impl Fn(usize) -> f32) -> CostRow<CELLS> {
    let mut row = [0.0; CELLS];
    for (cell, cost) in row.iter_mut().enumerate() {
        *cost = of(cell);
    }
    row
}

#[inline(always)]
pub fn between<const CELLS: usize>(from: &CostRow<CELLS>, to: &CostRow<CELLS>, share: f32) -> CostRow<CELLS> {
    each(|cell| from[cell] + share * (to[cell] - from[cell]))
}

impl<const CELLS: usize> Loss<CELLS> {
    /// No cell is narrower than a step.
    pub fn new(seconds: f64, step: f64, slacks: &[f64]) -> Self {
        let times = (seconds / step - 1e-9).ceil().clamp(0.0, MOST_CELLS as f64);
        let each = if times > 0.0 { seconds / times } else { 0.0 };
        let mut share = [0.0; CELLS];
        for (cell, pair) in slacks.windows(2).enumerate() {
            share[cell + 1] = (each / (pair[1] - pair[0])).min(1.0) as f32;
        }
        Self { share, times: times as u32 }
    }

    /// The values with so much slack less; there is never less than none.
    #[inline(always)]
    pub fn applied_to(&self, row: &CostRow<CELLS>) -> CostRow<CELLS> {
        let mut lost = *row;
        for _ in 0..self.times {
            let mut below = [lost[0]; CELLS];
            below[1..].copy_from_slice(&lost[..CELLS - 1]);
            lost = each(|cell| lost[cell] + self.share[cell] * (below[cell] - lost[cell]));
        }
        lost
    }
}
