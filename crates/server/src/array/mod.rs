//! Status of an array for `/metrics`, `/status` and a page, all made from one [`Report`].
//!
//! The server does not run arrays. The program that runs one implements [`ArrayMonitor`].

mod metrics;
mod panel;
mod report;

pub use metrics::text as metrics_text;
pub use panel::{Panel, router};
pub use report::{
    AreaReport, ArrayMonitor, CountersReport, LatenciesReport, LatencyReport, MemberReport, Report,
    TaskReport,
};
