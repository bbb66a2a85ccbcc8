//! Charts with two axes: plans by cost and time, and money or a price over time.

use crate::page::chart::scale::{Quantity, Scale};
use crate::page::chart::svg::{CHARACTER, Svg};

const LEFT: f64 = 58.0;
const RIGHT: f64 = 18.0;
/// Room above the plot for the name of the upright axis.
const TOP: f64 = 26.0;
/// Room under the axis for ticks and its name.
const BOTTOM: f64 = 46.0;
/// Height of the plot. Pixels.
const HEIGHT: f64 = 260.0;
const LEGEND_ROW: f64 = 20.0;
/// Labels nearer than this would cover each other.
const LABEL_ROOM: f64 = 15.0;

/// What a point is, by its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A filled square on its corner.
    Best,
    /// A filled circle, joined with its neighbours.
    Frontier,
    /// A ring.
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScatterPoint {
    pub hours: f64,
    pub usd: f64,
    pub mark: Mark,
    /// Its row in the table beside.
    pub label: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScatterPlot {
    pub x_name: String,
    pub y_name: String,
    pub points: Vec<ScatterPoint>,
}

impl ScatterPlot {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let legend =
            [(Mark::Best, "recommended"), (Mark::Frontier, "on the frontier"), (Mark::Other, "beside the list")];
        let legend: Vec<_> =
            legend.into_iter().filter(|(mark, _)| self.points.iter().any(|point| point.mark == *mark)).collect();
        let top = TOP + legend_height(legend.iter().map(|(_, words)| *words), width);
        let x = Scale::over(self.points.iter().map(|point| point.hours), Quantity::Hours, (LEFT, width - RIGHT))?;
        let y = Scale::over(self.points.iter().map(|point| point.usd), Quantity::Usd, (top + HEIGHT, top))?;
        let plot = Plot { x, y, width, top, x_name: &self.x_name, y_name: &self.y_name };
        draw_legend(svg, width, legend.iter().map(|(_, words)| *words), |svg, at, index| {
            mark(svg, legend[index].0, at);
        });
        plot.draw_axes(svg);
        let on_frontier = self.points.iter().filter(|point| point.mark != Mark::Other);
        let mut joined: Vec<(f64, f64)> = on_frontier.map(|point| plot.at(point.hours, point.usd)).collect();
        joined.sort_by(|a, b| a.0.total_cmp(&b.0));
        svg.path("join", &joined);
        let mut taken: Vec<(f64, f64)> = Vec::new();
        // The recommended one is drawn last, above the others, but chooses the place of its label first.
        let mut order: Vec<&ScatterPoint> = self.points.iter().collect();
        order.sort_by_key(|point| point.mark != Mark::Best);
        for point in &order {
            let at = plot.at(point.hours, point.usd);
            let is_last = at.0 > width - RIGHT - 2.0 * CHARACTER;
            let label = (at.0 + if is_last { -9.0 } else { 9.0 }, at.1 - 7.0);
            let is_free = taken.iter().all(|other: &(f64, f64)| {
                (other.0 - label.0).abs() > LABEL_ROOM || (other.1 - label.1).abs() > LABEL_ROOM
            });
            if is_free {
                taken.push(label);
                svg.text(if is_last { "v e" } else { "v" }, label, &point.label);
            }
        }
        for point in order.iter().rev() {
            mark(svg, point.mark, plot.at(point.hours, point.usd));
        }
        Some(plot.bottom())
    }
}

fn mark(svg: &mut Svg, mark: Mark, at: (f64, f64)) {
    match mark {
        Mark::Best => svg.diamond("best", at, 8.0),
        Mark::Frontier => svg.circle("dot", at, 4.5),
        Mark::Other => svg.circle("ring", at, 4.5),
    }
}

/// How a line is drawn, which tells lines apart without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    Solid,
    Dashed,
    Dotted,
    /// Dots and dashes in turn.
    DashDotted,
}

impl Stroke {
    fn class(self) -> &'static str {
        match self {
            Self::Solid => "solid",
            Self::Dashed => "dashed",
            Self::Dotted => "dotted",
            Self::DashDotted => "dash-dotted",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    pub stroke: Stroke,
    /// Time as the chart counts it, and dollars.
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Hours or months.
    pub time: Quantity,
    pub x_name: String,
    pub y_name: String,
    /// A price begins where it is, money that adds up at zero.
    pub begins_at_zero: bool,
    pub series: Vec<Series>,
}

impl LineChart {
    pub fn draw(&self, svg: &mut Svg, width: f64) -> Option<f64> {
        let names = || self.series.iter().map(|line| line.name.as_str());
        let top = TOP + legend_height(names(), width);
        let (ends, rise) = ((LEFT, width - RIGHT), (top + HEIGHT, top));
        let all = || self.series.iter().flat_map(|line| &line.points);
        let x = Scale::from_zero(all().map(|point| point.0), self.time, ends)?;
        let values = all().map(|point| point.1);
        let y = if self.begins_at_zero {
            Scale::from_zero(values, Quantity::Usd, rise)
        } else {
            Scale::over(values, Quantity::Usd, rise)
        }?;
        let plot = Plot { x, y, width, top, x_name: &self.x_name, y_name: &self.y_name };
        draw_legend(svg, width, names(), |svg, at, index| {
            svg.line(self.series[index].stroke.class(), (at.0 - 10.0, at.1), (at.0 + 10.0, at.1));
        });
        plot.draw_axes(svg);
        for series in &self.series {
            let course: Vec<(f64, f64)> = series.points.iter().map(|(hours, usd)| plot.at(*hours, *usd)).collect();
            svg.path(series.stroke.class(), &course);
        }
        Some(plot.bottom())
    }
}

/// The plot between two axes, in a drawing of this width whose plot begins at `top`. Pixels.
struct Plot<'a> {
    x: Scale,
    y: Scale,
    width: f64,
    top: f64,
    x_name: &'a str,
    y_name: &'a str,
}

impl Plot<'_> {
    fn at(&self, hours: f64, usd: f64) -> (f64, f64) {
        (self.x.at(hours), self.y.at(usd))
    }

    /// Grid, ticks and names of both axes. The name of the upright one stands above it, where it needs no turning.
    fn draw_axes(&self, svg: &mut Svg) {
        let (right, floor) = (self.width - RIGHT, self.top + HEIGHT);
        for (at, label) in self.y.ticks(svg.currency) {
            svg.line("grid", (LEFT, at), (right, at));
            svg.text("t e", (LEFT - 6.0, at + 4.0), &label);
        }
        let mut last = f64::NEG_INFINITY;
        for (at, label) in self.x.ticks(svg.currency) {
            svg.line("tick", (at, floor), (at, floor + 5.0));
            let half = label.chars().count() as f64 * CHARACTER / 2.0;
            if at - half > last {
                let is_last = at + half > self.width - 2.0;
                let (class, x) = if is_last { ("t e", self.width - 2.0) } else { ("t m", at) };
                svg.text(class, (x, floor + 19.0), &label);
                last = at + half + 4.0;
            }
        }
        svg.line("tick", (LEFT, floor), (right, floor));
        svg.text("t", (6.0, self.top - 12.0), &format!("{}{}", self.y_name, self.y.note()));
        svg.text("t e", (right, floor + 38.0), &format!("{}{}", self.x_name, self.x.note()));
    }

    /// Where the drawing ends.
    fn bottom(&self) -> f64 {
        self.top + HEIGHT + BOTTOM
    }
}

fn legend_places<'a>(names: impl Iterator<Item = &'a str>, width: f64) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (LEFT, LEGEND_ROW / 2.0 + 4.0);
    let mut places = Vec::new();
    for name in names {
        let needed = name.chars().count() as f64 * CHARACTER + 48.0;
        if x > LEFT && x + needed > width {
            (x, y) = (LEFT, y + LEGEND_ROW);
        }
        places.push((x, y));
        x += needed;
    }
    places
}

fn legend_height<'a>(names: impl Iterator<Item = &'a str>, width: f64) -> f64 {
    legend_places(names, width).last().map_or(0.0, |(_, y)| y + LEGEND_ROW / 2.0)
}

fn draw_legend<'a>(
    svg: &mut Svg,
    width: f64,
    names: impl Iterator<Item = &'a str> + Clone,
    sample: impl Fn(&mut Svg, (f64, f64), usize),
) {
    for (index, ((x, y), name)) in legend_places(names.clone(), width).into_iter().zip(names).enumerate() {
        sample(svg, (x + 10.0, y), index);
        svg.text("l", (x + 26.0, y + 4.0), name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(hours: f64, usd: f64, mark: Mark, label: &str) -> ScatterPoint {
        ScatterPoint { hours, usd, mark, label: label.to_owned() }
    }

    fn points(points: Vec<ScatterPoint>) -> ScatterPlot {
        ScatterPlot { x_name: "time".to_owned(), y_name: "cost".to_owned(), points }
    }

    #[test]
    fn points_that_coincide_share_one_label_and_the_best_keeps_its_own() {
        let mut svg = Svg::default();
        let same = points(vec![
            point(1.0, 10.0, Mark::Frontier, "7"),
            point(1.0, 10.0, Mark::Best, "8"),
            point(9.0, 2.0, Mark::Other, "9"),
        ]);
        let height = same.draw(&mut svg, 320.0).unwrap();
        let drawn = svg.finish("narrow", "a", (320.0, height), "", "");
        assert!(!drawn.contains(">7</text>") && drawn.contains(">8</text>") && drawn.contains(">9</text>"), "{drawn}");
        assert!(drawn.contains("recommended") && drawn.contains("beside the list"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(points(vec![]).draw(&mut Svg::default(), 320.0), None);
        let empty = LineChart {
            time: Quantity::Hours,
            x_name: String::new(),
            y_name: String::new(),
            begins_at_zero: true,
            series: vec![],
        };
        assert_eq!(empty.draw(&mut Svg::default(), 320.0), None);
        assert_eq!(points(vec![point(f64::NAN, 1.0, Mark::Best, "1")]).draw(&mut Svg::default(), 320.0), None);
    }
}
