//! Status of an array for `/metrics`, `/status` and a page, all made from one [`Report`].

pub mod metrics;
mod panel;
mod report;

pub use panel::{Panel, Source, router};
pub use report::{
    AreaReport, CountersReport, LatenciesReport, LatencyReport, MemberReport, Report, TaskReport,
    filling, level,
};
