//! Values of the settings of alerts.

use super::scrape_values::TargetAddress;
use std::path::PathBuf;
use std::time::Duration;

/// Values of the settings of alerts.
#[derive(Clone, Debug, Default)]
pub struct AlertSettings {
    /// File of rules; `None` for no rules.
    pub rules: Option<PathBuf>,
    /// Time between two evaluations of the rules, unless their group states another one.
    pub interval: Duration,
    /// Alertmanagers that receive the alerts.
    pub alertmanagers: Vec<TargetAddress>,
    /// Program that receives new and resolved alerts.
    pub command: Option<PathBuf>,
}
