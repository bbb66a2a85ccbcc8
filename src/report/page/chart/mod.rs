//! Charts as data, and each as a drawing for a wide and for a narrow page.

mod axes;
mod rows;
mod scale;
pub mod svg;

pub use axes::{Line, Lines, Mark, Point, Points, Stroke};
pub use rows::{Bars, Row, Spread, Spreads, Stay, Stays};

use crate::page::chart::svg::Svg;

/// Pixels of a drawing beside text on a desk, and of one on a telephone.
pub const WIDE: f64 = 720.0;
pub const NARROW: f64 = 320.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    /// What can be seen, in a sentence, for those who do not see it.
    pub description: String,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Cost against time.
    Points(Points),
    /// Parts of a whole.
    Bars(Bars),
    /// From the middle to the bad case.
    Spreads(Spreads),
    /// Something over time.
    Lines(Lines),
    /// When each machine was there.
    Stays(Stays),
}

impl Chart {
    pub fn new(title: impl Into<String>, description: impl Into<String>, kind: Kind) -> Self {
        Self { title: title.into(), description: description.into(), kind }
    }

    /// Twice: the style sheet shows the one that fits. Empty where nothing can be drawn.
    pub fn drawn(&self, id: &str) -> String {
        let each = [("wide", WIDE), ("narrow", NARROW)].map(|(class, width)| {
            let mut svg = Svg::default();
            let height = match &self.kind {
                Kind::Points(points) => points.draw(&mut svg, width),
                Kind::Bars(bars) => bars.draw(&mut svg, width),
                Kind::Spreads(spreads) => spreads.draw(&mut svg, width),
                Kind::Lines(lines) => lines.draw(&mut svg, width),
                Kind::Stays(stays) => stays.draw(&mut svg, width),
            };
            height.map(|height| {
                svg.finish(class, &format!("{id}-{class}"), (width, height), &self.title, &self.description)
            })
        });
        each.into_iter().flatten().collect()
    }
}
