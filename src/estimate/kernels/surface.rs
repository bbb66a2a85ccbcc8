//! `Surface`: measured times over three axes, and what lies between them.

/// Logarithm of microseconds over two outer axes and one along a row. Every outer place has rows of its own, and a row ends where
/// nobody measured.
///
/// Between measured points the logarithm of time is linear in the logarithm of each place, which for products is the same as linear
/// in the logarithm of efficiency; along a row it may bend on a monotone cubic. Either way no time between two points leaves the
/// range of the two.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Surface {
    /// What the first axis says, four figures where it is a shape, and the rows of that place.
    outer: Vec<([f64; 4], std::ops::Range<usize>)>,
    /// Logarithms of the first figure of each outer place.
    outer_places: Vec<f32>,
    /// Logarithm of the second axis, row by row.
    middle: Vec<f32>,
    /// Logarithms of the places along a row.
    along: Vec<f32>,
    /// Row by row.
    cells: Vec<f32>,
    form: Form,
}

/// What is known of a kind of kernel beside its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Form {
    /// By how much time grows beyond the last place of each axis, as powers: what stands beyond is computed at the rate of the edge.
    pub growth: [f32; 3],
    /// Time bends smoothly along a row, from what a launch takes to what the work takes. Times of products jump from tile to tile.
    pub is_curved: bool,
}

/// Two neighbours on an axis, the share of the second one, and how far beyond the last place the question lies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bracket {
    low: usize,
    share: f32,
    beyond: f32,
}

impl Bracket {
    /// `places` has at least one, smallest first. Before the first place time is level: it is what a launch takes.
    fn new(places: &[f32], at: f32) -> Self {
        let next = places.partition_point(|place| *place <= at);
        let low = next.saturating_sub(1);
        if next == 0 {
            return Self { low, share: 0.0, beyond: 0.0 };
        }
        if next == places.len() {
            return Self { low, share: 0.0, beyond: at - places[low] };
        }
        Self { low, share: (at - places[low]) / (places[next] - places[low]), beyond: 0.0 }
    }
}

/// A place on an axis as it is compared. A place may be 0, which has no logarithm.
fn logarithm(place: f64) -> f32 {
    place.max(0.5).ln() as f32
}

impl Surface {
    /// Of the lines of one part of a table: the names of the axes, the places along a row, the rows. `None` for what is no table.
    pub(super) fn read(text: &str, step: f64, form: Form) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let along: Vec<f32> = lines
            .next()?
            .strip_prefix("along,")?
            .split(',')
            .map(|place| Some(logarithm(place.parse().ok()?)))
            .collect::<Option<_>>()?;
        let mut surface =
            Self { outer: Vec::new(), outer_places: Vec::new(), middle: Vec::new(), along, cells: Vec::new(), form };
        let mut last = "";
        for line in lines {
            let (outer, rest) = line.split_once(',')?;
            let (middle, cells) = rest.split_once(',')?;
            if outer != last || surface.outer.is_empty() {
                surface.begin(outer)?;
                last = outer;
            }
            surface.push(logarithm(middle.parse().ok()?), cells, step)?;
        }
        (!surface.outer.is_empty() && surface.is_sorted()).then_some(surface)
    }

    fn begin(&mut self, outer: &str) -> Option<()> {
        let mut figures = [0.0; 4];
        for (index, text) in outer.split('x').enumerate() {
            *figures.get_mut(index)? = text.parse().ok()?;
        }
        self.outer.push((figures, self.middle.len()..self.middle.len()));
        self.outer_places.push(logarithm(figures[0]));
        Some(())
    }

    /// A row: a code for the first cell, then differences. What it lacks at its end goes on as the row before it does, or else as
    /// its work grows.
    fn push(&mut self, middle: f32, cells: &str, step: f64) -> Option<()> {
        let width = self.along.len();
        let start = self.cells.len();
        let mut code = 0_i32;
        for difference in cells.split(' ') {
            code = code.checked_add(difference.parse().ok()?)?;
            self.cells.push((f64::from(code) * step) as f32);
        }
        let (_, rows) = self.outer.last_mut()?;
        let has_row_before = rows.start < rows.end;
        rows.end += 1;
        self.middle.push(middle);
        for column in self.cells.len() - start..width {
            let rise = if has_row_before {
                self.cells[start - width + column] - self.cells[start - width + column - 1]
            } else {
                self.form.growth[2] * (self.along[column] - self.along[column - 1])
            };
            self.cells.push(self.cells[start + column - 1] + rise);
        }
        (self.cells.len() == start + width).then_some(())
    }

    fn is_sorted(&self) -> bool {
        let sorted = |places: &[f32]| places.is_sorted_by(|a, b| a < b);
        sorted(&self.along) && self.outer.iter().all(|(_, rows)| sorted(&self.middle[rows.clone()]))
    }

    /// Largest place of the second axis at any place of the first.
    pub(super) fn last_middle(&self) -> f64 {
        f64::from(self.middle.iter().copied().fold(f32::MIN, f32::max)).exp()
    }

    /// Figures of the first axis, by the number that `seconds_on` takes.
    pub(super) fn shapes(&self) -> impl Iterator<Item = &[f64; 4]> {
        self.outer.iter().map(|(figures, _)| figures)
    }

    pub(super) fn seconds(&self, outer: f64, middle: f64, along: f64) -> f64 {
        let place = Bracket::new(&self.outer_places, logarithm(outer));
        let column = Bracket::new(&self.along, logarithm(along));
        let middle = logarithm(middle);
        let low = self.on(place.low, middle, column);
        let between =
            if place.share > 0.0 { low + place.share * (self.on(place.low + 1, middle, column) - low) } else { low };
        seconds(between + place.beyond * self.form.growth[0] + column.beyond * self.form.growth[2])
    }

    /// On one place of the first axis, where nothing lies between two of them.
    pub(super) fn seconds_on(&self, outer: usize, middle: f64, along: f64) -> f64 {
        let column = Bracket::new(&self.along, logarithm(along));
        seconds(self.on(outer, logarithm(middle), column) + column.beyond * self.form.growth[2])
    }

    fn on(&self, outer: usize, middle: f32, column: Bracket) -> f32 {
        let (_, rows) = &self.outer[outer];
        let row = Bracket::new(&self.middle[rows.clone()], middle);
        let low = self.cell(rows.start + row.low, column);
        let between =
            if row.share > 0.0 { low + row.share * (self.cell(rows.start + row.low + 1, column) - low) } else { low };
        between + row.beyond * self.form.growth[1]
    }

    fn cell(&self, row: usize, column: Bracket) -> f32 {
        let at = row * self.along.len() + column.low;
        let low = self.cells[at];
        if column.share == 0.0 {
            return low;
        }
        let high = self.cells[at + 1];
        if !self.form.is_curved {
            return low + column.share * (high - low);
        }
        let width = self.along[column.low + 1] - self.along[column.low];
        let before = (column.low > 0)
            .then(|| (low - self.cells[at - 1]) * width / (self.along[column.low] - self.along[column.low - 1]));
        let after = self
            .along
            .get(column.low + 2)
            .map(|next| (self.cells[at + 2] - high) * width / (next - self.along[column.low + 1]));
        cubic(low, high, [before, after], column.share)
    }
}

/// The monotone cubic of Fritsch and Butland (1984): its slope at a point is the harmonic mean of the chords on both sides, here in
/// units of the interval, and level at a maximum or minimum.
fn cubic(low: f32, high: f32, chords: [Option<f32>; 2], share: f32) -> f32 {
    let rise = high - low;
    let [before, after] = chords.map(|chord| match chord {
        None => rise,
        Some(chord) if chord * rise > 0.0 => 2.0 * chord * rise / (chord + rise),
        Some(_) => 0.0,
    });
    let (s, r) = (share, 1.0 - share);
    low * (1.0 + 2.0 * s) * r * r + before * s * r * r + high * (3.0 - 2.0 * s) * s * s - after * s * s * r
}

fn seconds(ln_microseconds: f32) -> f64 {
    f64::from(ln_microseconds.exp()) * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "axes,n,k,m\nalong,1,2,4\n1,1,0 50 50\n1,2,50 50\n2,1,100\n";

    const FLAT: Form = Form { growth: [1.0, 1.0, 2.0], is_curved: false };

    fn surface() -> Surface {
        Surface::read(TEXT, 0.02, FLAT).unwrap()
    }

    fn ln(surface: &Surface, outer: f64, middle: f64, along: f64) -> f64 {
        (surface.seconds(outer, middle, along) * 1e6).ln()
    }

    #[test]
    fn a_measured_point_is_answered_as_measured_and_the_middle_of_two_by_their_mean() {
        let surface = surface();
        assert!((ln(&surface, 1.0, 1.0, 2.0) - 1.0).abs() < 1e-5);
        assert!((ln(&surface, 1.0, 1.0, 2.0_f64.sqrt()) - 0.5).abs() < 1e-5);
        assert!((ln(&surface, 1.0, 2.0_f64.sqrt(), 1.0) - 0.5).abs() < 1e-5);
        assert!((ln(&surface, 2.0_f64.sqrt(), 1.0, 1.0) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn a_short_row_goes_on_like_the_one_before_it_and_a_first_one_like_its_work() {
        let surface = surface();
        assert!((ln(&surface, 1.0, 2.0, 4.0) - 3.0).abs() < 1e-5);
        assert!((ln(&surface, 2.0, 1.0, 4.0) - (2.0 + 2.0 * 4.0_f64.ln())).abs() < 1e-5);
    }

    #[test]
    fn beyond_the_grid_time_grows_with_the_work_and_below_it_not_at_all() {
        let surface = surface();
        assert!((ln(&surface, 1.0, 4.0, 1.0) - (1.0 + 2.0_f64.ln())).abs() < 1e-5);
        assert!((ln(&surface, 1.0, 1.0, 8.0) - (2.0 + 2.0 * 2.0_f64.ln())).abs() < 1e-5);
        assert!(ln(&surface, 0.1, 0.1, 0.1).abs() < 1e-5);
    }

    #[test]
    fn a_curve_bends_and_stays_between_its_points() {
        let curved =
            Surface::read("axes,n,k,m\nalong,1,2,4,8\n1,1,0 0 50 50\n", 0.02, Form { is_curved: true, ..FLAT })
                .unwrap();
        let at = |along: f64| ln(&curved, 1.0, 1.0, along);
        assert!(at(1.5).abs() < 1e-5 && at(4.0).abs() > 0.99 && at(4.0) < 1.01);
        // Below the chord, since it starts level.
        assert!(at(2.0_f64.sqrt() * 2.0) < 0.49);
        // On a straight line the cubic is that line.
        assert!((at(4.0 * 2.0_f64.sqrt()) - 1.5).abs() < 1e-4);
        let places: Vec<f64> = (0..300).map(|step| at(f64::from(step).mul_add(0.025, 1.0))).collect();
        assert!(places.is_sorted_by(|a, b| a <= &(b + 1e-5)));
    }

    #[test]
    fn damage_is_no_surface() {
        for text in [
            "",
            "axes,n,k,m\n",
            "axes,a\nalong,1,2\n1,1,0 50 50\n",
            "axes,a\nalong,2,1\n1,1,0 5\n",
            "axes,a\nalong,1\n",
        ] {
            assert!(Surface::read(text, 0.02, FLAT).is_none(), "{text}");
        }
    }
}
