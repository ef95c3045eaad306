//! Lines of the forecast, each with its origin.

use super::choose::{JournalLimit, PATIENCE_S, most_journal, most_memory};
use super::fit::processors;
use super::range::Range;
use super::simulated::Simulated;
use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::forecast::{Bound, Choice, Forecast};
use crate::registry::Names;
use crate::words::{DAY_S, bytes, count, duration, plain};

/// Origin of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Given by the user.
    Given,
    /// Measured on this machine; with the time.
    Measured(String),
    /// Measured by a trial in memory while planning.
    Tried,
    /// Computed from other figures.
    Modelled,
    /// Simulated with the store's own code on simulated disks.
    Simulated,
    /// Tried out with generated samples, and corrected by the difference between real and generated samples.
    RealSets,
    /// Published in the papers.
    Paper,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Given => f.write_str("given"),
            Origin::Measured(when) => write!(f, "measured here, {when}"),
            Origin::Tried => f.write_str("tried out just now"),
            Origin::Modelled => f.write_str("modelled"),
            Origin::Simulated => f.write_str("simulated"),
            Origin::RealSets => f.write_str("median and range of real sensors"),
            Origin::Paper => f.write_str("paper"),
        }
    }
}

/// A line of the forecast.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// Value as text.
    pub value: String,
    /// Origin of the value.
    pub origin: Origin,
    /// True for a line that only experts need.
    pub is_detail: bool,
}

/// Returns all lines.
pub fn figures(
    demand: &Demand,
    calibration: &Calibration,
    choice: &Choice,
    forecast: &Forecast,
    simulated: &Simulated,
    range: Option<&Range>,
) -> Vec<Figure> {
    let mut lines = Lines(Vec::new());
    stream(demand, &mut lines);
    kept(demand, forecast, range, &mut lines);
    space(demand, forecast, choice, simulated, range, &mut lines);
    written(demand, forecast, range, &mut lines);
    devices(demand, forecast, simulated, &mut lines);
    memory(demand, calibration, forecast, choice, &mut lines);
    journal(demand, calibration, choice, &mut lines);
    safety(demand, forecast, &mut lines);
    lines.0
}

struct Lines(Vec<Figure>);

impl Lines {
    fn add(&mut self, name: &str, value: String, origin: Origin) {
        self.push(name, value, origin, false);
    }

    /// Adds a line that only experts need.
    fn detail(&mut self, name: &str, value: String, origin: Origin) {
        self.push(name, value, origin, true);
    }

    fn push(&mut self, name: &str, value: String, origin: Origin, is_detail: bool) {
        self.0.push(Figure {
            name: name.to_string(),
            value,
            origin,
            is_detail,
        });
    }
}

/// Returns a number of bytes, with its range for real samples.
fn bytes_in_range(
    forecast: &Forecast,
    range: Option<&Range>,
    of: impl Fn(&Forecast) -> f64,
) -> String {
    match range {
        None => bytes(of(forecast)),
        Some(range) => format!(
            "{} ({} to {})",
            bytes(of(forecast)),
            bytes(of(&range.low)),
            bytes(of(&range.high))
        ),
    }
}

fn stream(demand: &Demand, lines: &mut Lines) {
    lines.add(
        "samples a second",
        format!(
            "{} ({} rows)",
            count(demand.samples_per_s()),
            count(demand.rows_per_s())
        ),
        Origin::Given,
    );
    lines.add("samples are", demand.samples_in_words(), Origin::Given);
}

fn kept(demand: &Demand, forecast: &Forecast, range: Option<&Range>, lines: &mut Lines) {
    let samples = demand.samples_per_row();
    lines.add(
        "a sample on disk",
        bytes_in_range(forecast, range, |forecast| forecast.disk_row / samples),
        match range {
            None => Origin::Tried,
            Some(_) => Origin::RealSets,
        },
    );
    lines.detail("a row on disk", bytes(forecast.disk_row), Origin::Modelled);
    let bound = match forecast.bound {
        Bound::Block => "B",
        Bound::Memory => "memory",
        Bound::Journal => "the journal",
    };
    lines.detail(
        "rows of a block",
        format!("{}, bounded by {bound}", count(forecast.rows)),
        Origin::Modelled,
    );
    for life in demand
        .lifetimes
        .iter()
        .filter(|_| demand.lifetimes.len() > 1)
    {
        lines.add(
            &format!("  class {}", life.name),
            format!(
                "{} % of the sensors, {}, {}",
                plain(life.share * 100.0),
                duration(life.keep_s),
                bytes(forecast.disk_row * demand.rows_per_s() * life.share * life.keep_s)
            ),
            Origin::Modelled,
        );
    }
}

fn space(
    demand: &Demand,
    forecast: &Forecast,
    choice: &Choice,
    simulated: &Simulated,
    range: Option<&Range>,
    lines: &mut Lines,
) {
    let of_space = format!("{} of {} free", bytes(choice.budget), bytes(demand.space()));
    lines.add(
        "disk budget",
        of_space,
        match demand.budget {
            Some(_) => Origin::Given,
            None => Origin::Measured("now".to_string()),
        },
    );
    lines.add(
        "kept at the end",
        format!(
            "{}, {} % of the budget",
            bytes_in_range(forecast, range, |forecast| forecast.kept_bytes),
            plain(100.0 * forecast.live)
        ),
        Origin::Modelled,
    );
    lines.detail(
        "live fraction (V)",
        format!(
            "{}, merging begins at Um = {}",
            plain(forecast.live),
            plain(choice.merge_from)
        ),
        Origin::Modelled,
    );
    lines.detail(
        "least budget that planes",
        bytes(forecast.least_budget),
        Origin::Modelled,
    );
    lines.detail(
        "lanes",
        format!(
            "{} filled of {}: one a lifetime",
            plain(forecast.open_lanes),
            choice.lanes
        ),
        Origin::Modelled,
    );
    let planing = if forecast.planes(choice) {
        format!(
            "yes, R = {} and could be {} times as large",
            bytes(choice.segment_bytes),
            plain(forecast.margin(choice))
        )
    } else {
        "no".to_string()
    };
    lines.detail("planing, R ≤ (C/n)·(Um − V)", planing, Origin::Paper);
    lines.detail(
        "segments written again by merges",
        match simulated.written_per_byte {
            Some(written) => format!("{} bytes for each stored", plain((written - 1.0).max(0.0))),
            None => "the simulated store filled up".to_string(),
        },
        Origin::Simulated,
    );
}

fn written(demand: &Demand, forecast: &Forecast, range: Option<&Range>, lines: &mut Lines) {
    lines.add(
        "stored a day",
        bytes_in_range(forecast, range, |forecast| forecast.segments_per_s * DAY_S),
        Origin::Modelled,
    );
    lines.detail(
        "journal a day",
        bytes(forecast.journal_per_s * DAY_S),
        Origin::Modelled,
    );
    lines.add(
        "written to devices a day",
        bytes(forecast.device_per_s * DAY_S),
        Origin::Modelled,
    );
    let raw = forecast.amplification(demand);
    let stored = forecast.device_per_s / forecast.segments_per_s;
    lines.detail(
        "K_wa",
        format!(
            "{} over raw samples, {} over stored bytes",
            plain(raw),
            plain(stored)
        ),
        Origin::Modelled,
    );
    if let Some(rate) = demand.sustained() {
        let measured = demand
            .disks
            .iter()
            .find_map(|disk| disk.measured.clone())
            .unwrap_or_default();
        let share = 100.0 * (forecast.segments_per_s + forecast.journal_per_s) / rate;
        lines.add(
            "share of the disks' rate",
            format!("{} % of {}/s", plain(share), bytes(rate)),
            Origin::Measured(measured),
        );
    }
}

fn devices(demand: &Demand, forecast: &Forecast, simulated: &Simulated, lines: &mut Lines) {
    if let Some(tbw) = demand.tbw {
        let years =
            tbw * demand.disks.len().max(1) as f64 / (forecast.device_per_s * DAY_S * 365.25);
        lines.add(
            "life of the SSD",
            format!("{} years for {} written", plain(years), bytes(tbw)),
            Origin::Modelled,
        );
        let days = tbw / (100e6 * DAY_S);
        lines.add(
            "  for comparison",
            format!("{} days at 100 MB/s", plain(days)),
            Origin::Paper,
        );
    }
    let Some((raid, array)) = demand.raid.zip(simulated.array) else {
        return;
    };
    lines.add(
        "array",
        format!(
            "stripes of {} of data, {} of syndromes",
            bytes(raid.stripe() as f64),
            bytes((raid.syndromes() * raid.strip) as f64)
        ),
        Origin::Given,
    );
    for (name, bytes_of, written) in [
        ("  a byte of segments", array.segment_piece, array.segments),
        ("  a byte of journal", array.journal_piece, array.journal),
    ] {
        lines.add(
            name,
            format!(
                "{} written, {} read by members (pieces of {})",
                plain(written.written),
                plain(written.read),
                bytes(bytes_of)
            ),
            Origin::Simulated,
        );
    }
}

fn memory(
    demand: &Demand,
    calibration: &Calibration,
    forecast: &Forecast,
    choice: &Choice,
    lines: &mut Lines,
) {
    let (why, origin) = if choice.memory >= most_memory(demand) {
        (
            "half of the machine's memory, the maximum: the 1:1 rule",
            Origin::Paper,
        )
    } else {
        let why = match forecast.bound {
            Bound::Journal => {
                "buffers up to the size at which the journal seals them, plus a quarter"
            }
            _ => "full buffers, plus a quarter",
        };
        (why, Origin::Modelled)
    };
    lines.add(
        "memory of the store",
        format!("{}: {why}", bytes(choice.memory)),
        origin,
    );
    lines.detail("  in use", bytes(forecast.memory), Origin::Modelled);
    lines.detail(
        "  names and look-up",
        format!(
            "{} a sensor, {}{}",
            bytes(forecast.registry.each),
            match demand.per_host {
                1 => "each with a tag value of its own".to_string(),
                sensors => format!("{sensors} with the tags of each host"),
            },
            match forecast.registry.names {
                Names::InMemory => "",
                Names::InFiles => ", in files",
                Names::Dormant => ", in files, and read from them when a sensor sends again",
            }
        ),
        Origin::Tried,
    );
    lines.detail(
        "  index of the blocks",
        format!(
            "{} for at most {}: merges coalesce small ones",
            bytes(forecast.index_bytes),
            count(forecast.blocks)
        ),
        Origin::Modelled,
    );
    lines.detail(
        "  left to the page cache",
        format!(
            "{} (at least half: the 1:1 rule)",
            bytes(demand.ram - choice.memory)
        ),
        Origin::Paper,
    );
    lines.add(
        "processors busy",
        format!(
            "{} of {}",
            plain(processors(demand, calibration)),
            plain(demand.processors)
        ),
        Origin::Tried,
    );
}

fn journal(demand: &Demand, calibration: &Calibration, choice: &Choice, lines: &mut Lines) {
    let limit = most_journal(demand, calibration);
    let why = match limit {
        _ if choice.journal_bytes < limit.bytes() => "holds the rows in buffers".to_string(),
        JournalLimit::Patience(_) => format!(
            "the maximum that a start after a crash reads in {}",
            duration(PATIENCE_S)
        ),
        JournalLimit::Least(_) => format!(
            "the minimum, a few rows of each sensor, although a start after a crash takes more than {} to read it",
            duration(PATIENCE_S)
        ),
        JournalLimit::Budget(_) => "the maximum for which the disk budget has space".to_string(),
    };
    lines.add(
        "journal",
        format!("{}: {why}", bytes(choice.journal_bytes)),
        Origin::Modelled,
    );
}

fn safety(demand: &Demand, forecast: &Forecast, lines: &mut Lines) {
    let (interval, text) = if demand.is_synced {
        (0.0, "nothing acknowledged".to_string())
    } else {
        let sync = demand
            .disks
            .iter()
            .filter_map(|disk| disk.sync_s)
            .fold(0.0, f64::max);
        let seconds = 0.1 + sync;
        (
            seconds,
            format!(
                "{} samples ({} ms)",
                count(demand.samples_per_s() * seconds),
                plain(seconds * 1000.0)
            ),
        )
    };
    let origin = if interval > 0.1 {
        Origin::Measured("the time of a sync".to_string())
    } else {
        Origin::Modelled
    };
    lines.add("a power cut loses", text, origin);
    lines.add(
        "start",
        format!(
            "{}, after a crash {}",
            duration(forecast.start_s),
            duration(forecast.crash_start_s)
        ),
        Origin::Tried,
    );
}
