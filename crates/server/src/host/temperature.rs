//! Measurement `host_temp`: degrees Celsius; tags `chip` and `sensor`.

use super::{Readings, rounded};
use std::fs;
use std::path::{Path, PathBuf};

/// Sensors found at the start: name of the chip, name of the sensor, and path of its reading.
pub struct Temperatures {
    sensors: Vec<(String, String, PathBuf)>,
}

impl Temperatures {
    /// Finds hardware monitors or, without any, thermal zones.
    pub fn find() -> Temperatures {
        let mut sensors = monitors();
        if sensors.is_empty() {
            sensors = zones();
        }
        sensors.sort();
        Temperatures { sensors }
    }

    pub fn read(&self, readings: &mut Readings) {
        for (chip, sensor, path) in &self.sensors {
            if let Some(millidegrees) = text(path).and_then(|text| text.parse::<i64>().ok()) {
                let fields = vec![("celsius", rounded(millidegrees as f64 / 1000.0))];
                readings.add("host_temp", &[("chip", chip), ("sensor", sensor)], fields);
            }
        }
    }
}

fn monitors() -> Vec<(String, String, PathBuf)> {
    let mut sensors = Vec::new();
    for monitor in entries(Path::new("/sys/class/hwmon")) {
        let chip = text(&monitor.join("name")).unwrap_or_else(|| name_of(&monitor));
        for input in entries(&monitor) {
            let file = name_of(&input);
            let Some(number) = file
                .strip_suffix("_input")
                .filter(|number| number.starts_with("temp"))
            else {
                continue;
            };
            let label = text(&monitor.join(format!("{number}_label")))
                .unwrap_or_else(|| number.to_string());
            sensors.push((chip.clone(), label, input));
        }
    }
    sensors
}

fn zones() -> Vec<(String, String, PathBuf)> {
    let zones = entries(Path::new("/sys/class/thermal"))
        .into_iter()
        .filter(|path| path.join("temp").exists());
    zones
        .map(|zone| {
            (
                text(&zone.join("type")).unwrap_or_else(|| "thermal".into()),
                name_of(&zone),
                zone.join("temp"),
            )
        })
        .collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}
