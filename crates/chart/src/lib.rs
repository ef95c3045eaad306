//! Charts and tables of figures.
//!
//! A [`Figure`] contains what to show, as plain data. [`page::section`] draws a figure for an HTML page,
//! [`page::document`] makes the page, [`svg::standalone`] draws a figure as an SVG file, and [`Figure::csv`]
//! lists its values. Every text of a figure is escaped when the figure is drawn.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod colour;
mod escape;
mod figure;
mod number;
pub mod page;
pub mod svg;

pub use colour::{COLOURS, Palette, any_colour};
pub use escape::escape;
pub use figure::{Axis, BarSeries, Figure, LineSeries, Scale, TableRow};
pub use number::{about, bytes, plain, tick};
