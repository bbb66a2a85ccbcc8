//! Charts as data, and each as a drawing for a wide and for a narrow page.

mod axes;
mod rows;
mod scale;
pub mod svg;

pub use axes::{LineChart, Mark, ScatterPlot, ScatterPoint, Series, Stroke};
pub use rows::{
    Bar, BarChart, Part, PartsChart, Range, RangeChart, Span, Stack, StackChart, Swing, SwingChart, Timeline,
};
pub use scale::Quantity;

use crate::page::chart::svg::Svg;
use gpuplan_budget::exchange::Currency;

/// Pixels of a drawing beside text on a desk, and of one on a telephone.
pub const WIDE: f64 = 720.0;
pub const NARROW: f64 = 320.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    /// What can be seen, in a sentence, for those who do not see it.
    pub description: String,
    pub kind: ChartKind,
    /// Of its amounts.
    pub currency: Currency,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ChartKind {
    /// Cost against time.
    Scatter(ScatterPlot),
    /// Parts of a whole.
    Bars(BarChart),
    /// From the median to the 90th percentile.
    Ranges(RangeChart),
    /// What is done and what is ahead, against a limit.
    Parts(PartsChart),
    /// Wholes and their parts.
    Stacks(StackChart),
    /// What adds and what saves.
    Swings(SwingChart),
    /// Something over time.
    Lines(LineChart),
    /// When each machine was there.
    Timeline(Timeline),
}

impl Chart {
    pub fn new(title: impl Into<String>, description: impl Into<String>, kind: ChartKind) -> Self {
        Self { title: title.into(), description: description.into(), kind, currency: Currency::USD }
    }

    /// Of amounts that are not dollars.
    pub fn in_currency(self, currency: Currency) -> Self {
        Self { currency, ..self }
    }

    /// Twice: the style sheet shows the one that fits. Empty where nothing can be drawn.
    pub fn drawn(&self, id: &str) -> String {
        let each = [("wide", WIDE), ("narrow", NARROW)].map(|(class, width)| {
            let mut svg = Svg::in_currency(self.currency);
            let height = match &self.kind {
                ChartKind::Scatter(plot) => plot.draw(&mut svg, width),
                ChartKind::Bars(bars) => bars.draw(&mut svg, width),
                ChartKind::Ranges(ranges) => ranges.draw(&mut svg, width),
                ChartKind::Parts(parts) => parts.draw(&mut svg, width),
                ChartKind::Stacks(stacks) => stacks.draw(&mut svg, width),
                ChartKind::Swings(swings) => swings.draw(&mut svg, width),
                ChartKind::Lines(lines) => lines.draw(&mut svg, width),
                ChartKind::Timeline(timeline) => timeline.draw(&mut svg, width),
            };
            height.map(|height| {
                svg.finish(class, &format!("{id}-{class}"), (width, height), &self.title, &self.description)
            })
        });
        each.into_iter().flatten().collect()
    }
}
