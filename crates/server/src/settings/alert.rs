//! Settings of alerts.

use super::scrape_values::TargetAddress;
use super::setting::Setting;
use super::text::{duration, file};
use std::time::Duration;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 4] = [
    Setting {
        name: "alert_rules",
        default: "none",
        form: "PATH|none",
        help: "File (YAML) with rules of alerts and recorded series, in the form of Prometheus: see \
               [alerts.md](alerts.md). The server reads it at its start, and again when it changes.",
        assign: |settings, text| file(text).map(|path| settings.alert.rules = path),
    },
    Setting {
        name: "alert_interval",
        default: "15s",
        form: "DURATION",
        help: "Time between two evaluations of the rules of a group that states no interval. A shorter time notices a fault \
               sooner, and costs more queries.",
        assign: |settings, text| match duration(text)? {
            time if time >= Duration::from_millis(100) => {
                settings.alert.interval = time;
                Ok(())
            }
            _ => Err(format!("{text:?} is too short; give at least 100ms")),
        },
    },
    Setting {
        name: "alertmanager",
        default: "none",
        form: "URL ...|none",
        help: "Alertmanagers that receive the alerts, with spaces between them: `http://localhost:9093`. A path before \
               `/api/v2/alerts` is a part of the URL.",
        assign: |settings, text| {
            let addresses = match text {
                "none" => Vec::new(),
                _ => {
                    let all = text.split_whitespace().map(TargetAddress::parse);
                    all.collect::<Result<_, _>>()?
                }
            };
            settings.alert.alertmanagers = addresses;
            Ok(())
        },
    },
    Setting {
        name: "alert_command",
        default: "none",
        form: "PATH|none",
        help: "Program that the server runs when alerts begin to fire or are resolved, with a JSON list of them on its \
               standard input. It has 30 s.",
        assign: |settings, text| file(text).map(|path| settings.alert.command = path),
    },
];
