//! The best action in every cell of a table, four bits each: a table that fits into the processor's cache is read several times as fast.

use crate::availability::chain::PHASES;

/// What to do from idle, and whether to leave on-demand for spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Wait,
    Spot,
    OnDemand,
}

/// Two bits for `Start`, of which none is to wait, and `LEAVE`.
pub const START_SPOT: u8 = 1;
pub const START_ON_DEMAND: u8 = 2;
pub const LEAVE: u8 = 4;

/// By phase, then by steps left, since whoever waits stays in a phase for a while; then by cell of slack.
#[derive(Clone, Debug)]
pub struct Actions {
    /// Steps left at most, and none.
    times: usize,
    /// Bytes of a row: each has the action of a cell and, above it, that of the cell half a row further.
    row: usize,
    packed: Vec<u8>,
}

impl Actions {
    /// To wait in every one of an even number of cells.
    pub fn new(steps: usize, cells: usize) -> Self {
        let (times, row) = (steps + 1, cells / 2);
        Self { times, row, packed: vec![0; PHASES * times * row] }
    }

    /// Of all cells.
    #[inline]
    pub fn put<const CELLS: usize>(&mut self, phase: usize, left: usize, chosen: &[u8; CELLS]) {
        let (low, high) = chosen.split_at(CELLS / 2);
        let from = (phase * self.times + left) * (CELLS / 2);
        for ((packed, low), high) in self.packed[from..from + CELLS / 2].iter_mut().zip(low).zip(high) {
            *packed = low | (high << 4);
        }
    }

    /// What to start from idle, and whether to leave on-demand for spot.
    pub fn at(&self, phase: usize, left: usize, cell: usize) -> (Start, bool) {
        let (byte, shift) = if cell < self.row { (cell, 0) } else { (cell - self.row, 4) };
        let action = self.packed[(phase * self.times + left) * self.row + byte] >> shift;
        let start = match action & (START_SPOT | START_ON_DEMAND) {
            START_ON_DEMAND => Start::OnDemand,
            START_SPOT => Start::Spot,
            _ => Start::Wait,
        };
        (start, action & LEAVE != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_keeps_its_own_action() {
        let mut actions = Actions::new(2, 32);
        let of = |phase: usize, left: usize| -> [u8; 32] {
            std::array::from_fn(|cell| {
                [0, START_SPOT, START_ON_DEMAND, LEAVE | START_SPOT, LEAVE][(phase + left + cell) % 5]
            })
        };
        for (phase, left) in (0..PHASES).flat_map(|phase| [(phase, 1), (phase, 2)]) {
            actions.put(phase, left, &of(phase, left));
        }
        for (phase, left) in (0..PHASES).flat_map(|phase| [(phase, 1), (phase, 2)]) {
            for (cell, action) in of(phase, left).into_iter().enumerate() {
                let (start, leaves) = actions.at(phase, left, cell);
                let bits = [0, START_SPOT, START_ON_DEMAND][start as usize] | (LEAVE * u8::from(leaves));
                assert_eq!(bits, action, "{phase} {left} {cell}");
            }
        }
        assert_eq!(actions.at(PHASES - 1, 0, 31), (Start::Wait, false), "no step is left");
    }
}
