//! Charts of rows, each with its words above its bar: nothing has to be turned or cut, however narrow the page.

use crate::page::chart::scale::{Quantity, Scale};
use crate::page::chart::svg::{CHARACTER, Svg, fitted};

const TOP: f64 = 8.0;
/// One row: a line of words, the bar, a gap. Pixels.
const ROW: f64 = 44.0;
/// To the line on which the words stand; marks of a bar begin below them.
const WORDS: f64 = 14.0;
const BAR: f64 = 14.0;
const SIDE: f64 = 4.0;
/// Room under the rows for an axis.
const AXIS: f64 = 30.0;

/// A part of a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub name: String,
    pub value: f64,
    /// The value in words.
    pub words: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    pub bars: Vec<Bar>,
}

impl BarChart {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let largest = self.bars.iter().map(|row| row.value).filter(|value| value.is_finite()).fold(0.0, f64::max);
        if largest <= 0.0 {
            return None;
        }
        for (index, row) in self.bars.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            head(svg, y, width, &row.name, &row.words);
            svg.bar("bar", (SIDE, y + WORDS + 4.0), (width - 2.0 * SIDE) * (row.value / largest).clamp(0.0, 1.0), BAR);
        }
        Some(TOP + self.bars.len() as f64 * ROW)
    }
}

/// One figure from its median to its 90th percentile.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    pub name: String,
    pub words: String,
    pub median: f64,
    pub p90: f64,
    pub expected: f64,
    pub is_best: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RangeChart {
    pub ranges: Vec<Range>,
    /// A value that each should not pass, marked by a line; shorter than `ranges`: none has one.
    pub limits: Vec<Option<f64>>,
    /// Lengths compare amounts: the axis begins at zero and counts evenly.
    pub is_from_zero: bool,
}

impl RangeChart {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let limits = self.limits.iter().flatten().copied();
        let all = self.ranges.iter().flat_map(|row| [row.median, row.p90, row.expected]).chain(limits);
        let sides = (SIDE + 16.0, width - 20.0);
        let x = if self.is_from_zero {
            Scale::from_zero(all, Quantity::Usd, sides)?
        } else {
            Scale::over(all, Quantity::Usd, sides)?
        };
        let bottom = TOP + self.ranges.len() as f64 * ROW;
        axis(svg, &x, bottom, width);
        for (index, row) in self.ranges.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            head(svg, y, width, &row.name, &row.words);
            let middle = y + WORDS + 4.0 + BAR / 2.0;
            let (from, to) = (x.at(row.median), x.at(row.p90));
            svg.bar(if row.is_best { "bar" } else { "range" }, (from.min(to), middle - 4.0), (to - from).abs(), 8.0);
            svg.diamond("best", (x.at(row.expected), middle), 6.0);
            if let Some(limit) = self.limits.get(index).copied().flatten() {
                svg.line("limit", (x.at(limit), middle - BAR / 2.0), (x.at(limit), middle + 10.0));
            }
        }
        Some(bottom + AXIS)
    }
}

/// What is done of something and what is ahead, against a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub name: String,
    pub words: String,
    pub done: f64,
    pub ahead: f64,
    pub limit: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PartsChart {
    pub parts: Vec<Part>,
}

impl PartsChart {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let all = self.parts.iter().flat_map(|row| [row.done + row.ahead, row.limit.unwrap_or_default()]);
        let x = Scale::from_zero(all, Quantity::Usd, (SIDE, width - 20.0))?;
        let bottom = TOP + self.parts.len() as f64 * ROW;
        axis(svg, &x, bottom, width);
        for (index, row) in self.parts.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            head(svg, y, width, &row.name, &row.words);
            let (top, from, to) = (y + WORDS + 4.0, x.at(row.done), x.at(row.done + row.ahead));
            if row.ahead > 0.0 {
                svg.bar("range", (from, top), to - from, BAR);
            }
            if row.done > 0.0 {
                svg.bar("bar", (x.at(0.0), top), from - x.at(0.0), BAR);
            }
            if let Some(limit) = row.limit {
                svg.line("limit", (x.at(limit), top), (x.at(limit), top + BAR + 6.0));
            }
        }
        Some(bottom + AXIS)
    }
}

/// A whole and its parts, which all rows have in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    pub name: String,
    pub words: String,
    pub parts: Vec<f64>,
}

/// Dark and light in turn, so that neighbours differ in print too.
#[derive(Clone, Debug, PartialEq)]
pub struct StackChart {
    pub stacks: Vec<Stack>,
}

impl StackChart {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let wholes = self.stacks.iter().map(|row| row.parts.iter().sum::<f64>());
        let x = Scale::from_zero(wholes, Quantity::Usd, (SIDE, width - 20.0))?;
        let bottom = TOP + self.stacks.len() as f64 * ROW;
        axis(svg, &x, bottom, width);
        for (index, row) in self.stacks.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            head(svg, y, width, &row.name, &row.words);
            let mut sum = 0.0;
            for (part, value) in row.parts.iter().enumerate() {
                let (from, to) = (x.at(sum), x.at(sum + value));
                sum += value;
                if to > from {
                    svg.bar(if part % 2 == 0 { "bar" } else { "range" }, (from, y + WORDS + 4.0), to - from, BAR);
                }
            }
        }
        Some(bottom + AXIS)
    }
}

/// What something adds at either end; negative: saves.
#[derive(Clone, Debug, PartialEq)]
pub struct Swing {
    pub name: String,
    pub words: String,
    pub low: f64,
    pub high: f64,
}

/// Both ways from a middle line, the widest first: a tornado.
#[derive(Clone, Debug, PartialEq)]
pub struct SwingChart {
    pub swings: Vec<Swing>,
}

impl SwingChart {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let ends = || self.swings.iter().flat_map(|row| [row.low, row.high]).filter(|end| end.is_finite());
        let furthest = ends().map(f64::abs).fold(0.0, f64::max);
        if furthest <= 0.0 {
            return None;
        }
        let (middle, half) = (width / 2.0, width / 2.0 - SIDE);
        let bottom = TOP + self.swings.len() as f64 * ROW;
        for (index, row) in self.swings.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            head(svg, y, width, &row.name, &row.words);
            for end in [row.low, row.high].into_iter().filter(|end| end.is_finite() && *end != 0.0) {
                let long = half * end.abs() / furthest;
                let class = if end < 0.0 { "range" } else { "bar" };
                svg.bar(class, (if end < 0.0 { middle - long } else { middle }, y + WORDS + 4.0), long, BAR);
            }
        }
        svg.line("tick", (middle, TOP), (middle, bottom));
        Some(bottom)
    }
}

/// When one machine was there. Hours since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub name: String,
    pub words: String,
    pub from: f64,
    pub to: f64,
    /// It costs money still.
    pub is_open: bool,
    /// Rented on terms on which it cannot be taken back.
    pub is_firm: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub spans: Vec<Span>,
    pub until: f64,
}

impl Timeline {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let x = Scale::from_zero(
            self.spans.iter().map(|row| row.to).chain([self.until]),
            Quantity::Hours,
            (SIDE, width - 20.0),
        )?;
        let bottom = TOP + self.spans.len() as f64 * ROW;
        axis(svg, &x, bottom, width);
        for (index, row) in self.spans.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            head(svg, y, width, &row.name, &row.words);
            let (from, to, top) = (x.at(row.from), x.at(row.to), y + WORDS + 4.0);
            svg.bar(if row.is_firm { "bar" } else { "range" }, (from, top), to - from, BAR);
            if !row.is_open {
                svg.line("tick", (to, top - 2.0), (to, top + BAR + 2.0));
            }
        }
        Some(bottom + AXIS)
    }
}

/// Name at the left, value at the right.
fn head(svg: &mut Svg, y: f64, width: f64, name: &str, words: &str) {
    let room = width - 2.0 * SIDE - words.chars().count() as f64 * CHARACTER - CHARACTER;
    svg.text("l", (SIDE, y + WORDS), &fitted(name, room));
    svg.text("l e", (width - SIDE, y + WORDS), words);
}

fn axis(svg: &mut Svg, x: &Scale, bottom: f64, width: f64) {
    let mut last = f64::NEG_INFINITY;
    for (at, label) in x.ticks(svg.currency) {
        svg.line("grid", (at, TOP), (at, bottom));
        let half = label.chars().count() as f64 * CHARACTER / 2.0;
        let middle = at.clamp(half, width - half);
        if middle - half > last {
            svg.text("t m", (middle, bottom + 18.0), &label);
            last = middle + half + 4.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_as_long_as_their_share_of_the_largest() {
        let row = |name: &str, value| Bar { name: name.to_owned(), value, words: String::new() };
        let bars = BarChart { bars: vec![row("a", 100.0), row("b", 25.0)] };
        let mut svg = Svg::default();
        let height = bars.draw(&mut svg, 408.0).unwrap();
        let drawn = svg.finish("wide", "a", (408.0, height), "", "");
        assert!(drawn.contains(r#"width="400.0""#) && drawn.contains(r#"width="100.0""#), "{drawn}");
        assert!(!drawn.contains("limit"));
        assert_eq!(BarChart { bars: vec![row("a", 0.0)] }.draw(&mut Svg::default(), 400.0), None);
    }

    #[test]
    fn parts_stand_behind_each_other_and_swings_on_both_sides() {
        let part = |done, ahead, limit| Part { name: String::new(), words: String::new(), done, ahead, limit };
        let mut svg = Svg::default();
        let parts = PartsChart { parts: vec![part(50.0, 50.0, Some(200.0)), part(0.0, 0.0, None)] };
        let height = parts.draw(&mut svg, 424.0).unwrap();
        let drawn = svg.finish("wide", "a", (424.0, height), "", "");
        assert!(drawn.contains(r#"class="range" x="104.0""#), "{drawn}");
        assert!(drawn.contains(r#"class="limit" x1="404.0""#), "{drawn}");
        let mut svg = Svg::default();
        let stack = |parts| Stack { name: String::new(), words: String::new(), parts };
        let stacks = StackChart { stacks: vec![stack(vec![50.0, 100.0, 50.0]), stack(vec![0.0, 100.0, 0.0])] };
        let height = stacks.draw(&mut svg, 424.0).unwrap();
        let drawn = svg.finish("wide", "a", (424.0, height), "", "");
        assert_eq!(
            (drawn.matches(r#"class="bar""#).count(), drawn.matches(r#"class="range""#).count()),
            (2, 2),
            "{drawn}"
        );
        assert!(drawn.contains(r#"class="range" x="104.0" y="26.0" width="200.0""#), "{drawn}");
        let swing = |low, high| Swing { name: String::new(), words: String::new(), low, high };
        let mut svg = Svg::default();
        let height = SwingChart { swings: vec![swing(-50.0, 100.0)] }.draw(&mut svg, 208.0).unwrap();
        let drawn = svg.finish("wide", "a", (208.0, height), "", "");
        assert!(drawn.contains(r#"class="range" x="54.0" y="26.0" width="50.0""#), "{drawn}");
        assert!(drawn.contains(r#"class="bar" x="104.0" y="26.0" width="100.0""#), "{drawn}");
        assert_eq!(SwingChart { swings: vec![swing(0.0, 0.0)] }.draw(&mut Svg::default(), 300.0), None);
    }
}
