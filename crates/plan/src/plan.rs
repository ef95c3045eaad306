//! The plan: a configuration, a forecast with the origin of every figure, and ways out where the
//! demand does not fit.

use crate::calibration::{Calibration, in_words};
use crate::demand::Demand;
use crate::forecast::{Bound, Choice, DAY_S, Forecast, UM};
use std::fmt::Write;

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = MIB * KIB;
/// The store gets this share of the memory, the page cache the other.
const MEMORY_SHARE: f64 = 0.5;
/// Rows taken over HTTP cost so many times what appending them costs (benchmarks `peers`, `embedded`).
const PORT_COST: f64 = 3.5;
/// A machine is full at this share of its processors or of its disks' rate.
const HEADROOM: f64 = 0.7;
/// A start after a crash should not take longer, s.
const PATIENCE_S: f64 = 10.0;
/// Blocks larger than needed for this much of the best compression are not worth their memory.
const NEARLY: f64 = 1.02;

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user said so.
    Given,
    /// Measured on this machine, when.
    Measured(String),
    /// Tried out in memory while planning.
    Tried,
    /// Computed from the others.
    Modelled,
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
            Origin::Paper => f.write_str("paper"),
        }
    }
}

/// A line of the forecast.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its value, for people.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// A way to make a demand fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// What is done.
    pub what: String,
    /// What it costs.
    pub gives_up: String,
}

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is set.
    pub choice: Choice,
    /// What comes of it.
    pub forecast: Forecast,
    /// The same in lines.
    pub figures: Vec<Figure>,
    /// Why it does not fit one machine; empty if it does.
    pub obstacles: Vec<String>,
    /// How it would.
    pub ways: Vec<Way>,
    /// What deserves attention though it fits.
    pub warnings: Vec<String>,
    is_synced: bool,
}

impl Plan {
    /// Makes a plan.
    pub fn make(demand: &Demand, calibration: &Calibration) -> Plan {
        let choice = choose(demand, calibration);
        let forecast = Forecast::make(demand, calibration, &choice);
        let obstacles = obstacles(demand, calibration, &choice, &forecast);
        let ways = if obstacles.is_empty() {
            Vec::new()
        } else {
            ways(demand, calibration)
        };
        Plan {
            figures: figures(demand, calibration, &choice, &forecast),
            warnings: warnings(demand, &choice, &forecast),
            choice,
            forecast,
            obstacles,
            ways,
            is_synced: demand.is_synced,
        }
    }

    /// The configuration as `seiner serve --config` takes it.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let set = &self.choice;
        let _ = writeln!(
            text,
            "durability = \"{}\"",
            if self.is_synced { "sync" } else { "100ms" }
        );
        let _ = writeln!(text, "memory = \"{} MiB\"", (set.memory / MIB).round());
        let _ = writeln!(text, "block_bytes = \"{} B\"", set.block_bytes);
        let _ = writeln!(
            text,
            "segment_bytes = \"{} KiB\"",
            (set.segment_bytes / KIB).round()
        );
        let _ = writeln!(
            text,
            "journal_bytes = \"{} MiB\"",
            (set.journal_bytes / MIB).round()
        );
        let _ = writeln!(text, "idle_seal = \"{}s\"", set.idle_seal_s.round());
        text
    }

    /// All of it as text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let verdict = if self.obstacles.is_empty() {
            "It fits one machine."
        } else {
            "It does not fit one machine:"
        };
        let _ = writeln!(text, "{verdict}");
        for obstacle in &self.obstacles {
            let _ = writeln!(text, "  - {obstacle}");
        }
        let width = self
            .figures
            .iter()
            .map(|figure| figure.name.chars().count())
            .max()
            .unwrap_or(0);
        let values = self
            .figures
            .iter()
            .map(|figure| figure.value.chars().count())
            .max()
            .unwrap_or(0)
            .min(44);
        let _ = writeln!(text);
        for figure in &self.figures {
            let _ = writeln!(
                text,
                "{:width$}  {:values$}  ({})",
                figure.name, figure.value, figure.origin
            );
        }
        if !self.ways.is_empty() {
            let _ = writeln!(text, "\nWhat would fit:");
            for way in &self.ways {
                let _ = writeln!(text, "  - {} ({})", way.what, way.gives_up);
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "\nnote: {warning}");
        }
        let _ = writeln!(text, "\nConfiguration:\n{}", self.to_toml());
        text
    }
}

/// B, R, memory and journal.
fn choose(demand: &Demand, calibration: &Calibration) -> Choice {
    let memory = (demand.ram * MEMORY_SHARE).max(32.0 * MIB);
    let segment = segment(demand);
    let with = |block_bytes: f64, journal_bytes: f64| Choice {
        block_bytes,
        segment_bytes: segment,
        memory,
        journal_bytes,
        // Nobody is silent who speaks at least once in three intervals.
        idle_seal_s: (demand.every_s * 3.0).max(600.0),
    };
    let disk_row = |choice: &Choice| Forecast::make(demand, calibration, choice).disk_row;
    // The journal must hold what buffers hold, as far as a start may take to read it.
    let most = (calibration.rows_per_s * calibration.journal_row(64.0) * PATIENCE_S
        / crate::forecast::JOURNAL_FILL)
        .min(demand.capacity().max(GIB) / 20.0)
        .max(64.0 * MIB);
    let journal = |block_bytes: f64| {
        let rows =
            crate::calibration::buffer_limit(block_bytes, demand.fields) / calibration.row_bytes;
        let needed = rows * demand.sensors * calibration.journal_row(rows)
            / crate::forecast::JOURNAL_FILL
            * 1.1;
        round_up(needed.clamp(64.0 * MIB, most), 16.0 * MIB)
    };
    let choices: Vec<Choice> = [1.0, 2.0, 4.0, 8.0, 16.0]
        .map(|kib| with(kib * KIB, journal(kib * KIB)))
        .to_vec();
    let best = choices.iter().map(disk_row).fold(f64::MAX, f64::min);
    let smallest = choices
        .iter()
        .find(|choice| disk_row(choice) <= best * NEARLY);
    let chosen = *smallest.expect("the best one is nearly the best");
    Choice {
        memory: round_up(
            needed_memory(demand, calibration, &chosen).min(chosen.memory),
            16.0 * MIB,
        ),
        ..chosen
    }
}

/// No more than buffers that fill would take, with a quarter to spare.
fn needed_memory(demand: &Demand, calibration: &Calibration, choice: &Choice) -> f64 {
    let forecast = Forecast::make(demand, calibration, choice);
    (forecast.memory * 1.25).max(64.0 * MIB)
}

/// R: small enough to plane with a wide margin, large enough that there are not too many.
fn segment(demand: &Demand) -> f64 {
    let share = demand.capacity() * (1.0 - UM) / 8.0;
    let stripe = demand
        .raid
        .map_or(1.0 * MIB, |raid| (raid.stripe() as f64).max(1.0 * MIB));
    round_up(share.clamp(MIB, 256.0 * MIB), stripe)
}

fn round_up(value: f64, unit: f64) -> f64 {
    (value / unit).ceil() * unit
}

/// Processors that a demand keeps busy.
fn processors(demand: &Demand, calibration: &Calibration) -> f64 {
    demand.rows_per_s() / calibration.rows_per_s * PORT_COST
}

/// Why it does not fit.
fn obstacles(
    demand: &Demand,
    calibration: &Calibration,
    choice: &Choice,
    forecast: &Forecast,
) -> Vec<String> {
    let mut obstacles = Vec::new();
    let busy = processors(demand, calibration);
    if busy > demand.processors * HEADROOM {
        obstacles.push(format!(
            "{} processors would be busy, {} of {} may be",
            plain(busy),
            plain(demand.processors * HEADROOM),
            plain(demand.processors)
        ));
    }
    let names = demand.sensors * calibration.source_bytes;
    let memory = demand.ram * MEMORY_SHARE;
    if names > memory * 0.7 {
        obstacles.push(format!(
            "names of the sensors alone take {} of memory, the store may have {}",
            bytes(names),
            bytes(memory)
        ));
    }
    if forecast.live > UM {
        obstacles.push(format!(
            "{} are kept, the disks have room for {}",
            bytes(forecast.kept_bytes),
            bytes(demand.capacity() * UM)
        ));
    } else if !forecast.planes(choice) {
        obstacles.push(
            "the room left is less than a segment: merging would cost writes all the time"
                .to_string(),
        );
    }
    if let Some(rate) = demand.sustained()
        && forecast.segments_per_s + forecast.journal_per_s > rate * HEADROOM
    {
        obstacles.push(format!(
            "{}/s are written, the disks keep up {}/s",
            bytes(forecast.segments_per_s + forecast.journal_per_s),
            bytes(rate)
        ));
    }
    obstacles
}

/// What would fit, each tried by planning it.
fn ways(demand: &Demand, calibration: &Calibration) -> Vec<Way> {
    let fits = |demand: &Demand| {
        let choice = choose(demand, calibration);
        let forecast = Forecast::make(demand, calibration, &choice);
        obstacles(demand, calibration, &choice, &forecast).is_empty()
    };
    let mut ways = Vec::new();
    let nodes = (2..=1000).find(|nodes| {
        fits(&Demand {
            sensors: demand.sensors / f64::from(*nodes),
            ..demand.clone()
        })
    });
    if let Some(nodes) = nodes {
        ways.push(Way {
            what: format!("{nodes} machines like this, each with a part of the sensors"),
            gives_up: "each sensor lives on one machine; copies need as many again".to_string(),
        });
    }
    let largest = |scale: &dyn Fn(f64) -> Demand| {
        (1..200)
            .map(|step| 0.97f64.powi(step))
            .find(|part| fits(&scale(*part)))
    };
    if let Some(part) = largest(&|part| Demand {
        keep_s: demand.keep_s * part,
        ..demand.clone()
    }) {
        ways.push(Way {
            what: format!(
                "keep {} instead of {}",
                duration(demand.keep_s * part),
                duration(demand.keep_s)
            ),
            gives_up: "what is older".to_string(),
        });
    }
    if let Some(part) = largest(&|part| Demand {
        every_s: demand.every_s / part,
        ..demand.clone()
    }) {
        ways.push(Way {
            what: format!(
                "a sample every {} instead of every {}",
                duration(demand.every_s / part),
                duration(demand.every_s)
            ),
            gives_up: "detail".to_string(),
        });
    }
    let with_room = |factor: f64| {
        let mut more = demand.clone();
        for disk in &mut more.disks {
            disk.free_bytes *= factor;
        }
        more
    };
    if let Some(factor) = (1..400)
        .map(|step| 1.0 + f64::from(step) * 0.05)
        .find(|factor| fits(&with_room(*factor)))
    {
        ways.push(Way {
            what: format!("disks with {} free", bytes(demand.capacity() * factor)),
            gives_up: "money".to_string(),
        });
    }
    if let Some(factor) = (1..7).map(|power| 2f64.powi(power)).find(|factor| {
        fits(&Demand {
            ram: demand.ram * factor,
            ..demand.clone()
        })
    }) {
        ways.push(Way {
            what: format!("{} of memory", bytes(demand.ram * factor)),
            gives_up: "money".to_string(),
        });
    }
    if ways.is_empty() {
        ways.push(Way {
            what: "none of these alone: more machines and less kept".to_string(),
            gives_up: "both".to_string(),
        });
    }
    ways
}

fn warnings(demand: &Demand, choice: &Choice, forecast: &Forecast) -> Vec<String> {
    let mut warnings: Vec<String> = demand
        .disks
        .iter()
        .flat_map(|disk| {
            disk.warnings
                .iter()
                .map(|text| format!("{}: {text}", disk.name))
        })
        .collect();
    if demand.sustained().is_none() {
        warnings.push("the disks were not measured: `seiner lab disk DIR`, then --measured, says whether they keep up".to_string());
    }
    match forecast.bound {
        Bound::Memory => warnings.push("memory ends the filling of buffers before they reach B: more of it would save disk".to_string()),
        Bound::Journal => warnings.push("the journal ends the filling of buffers before they reach B: a start after a crash would take longer with more of it".to_string()),
        Bound::Block => {}
    }
    if forecast.rows < 16.0 {
        warnings.push(format!(
            "blocks hold {} rows only, so that each sample takes {} on disk",
            plain(forecast.rows),
            bytes(forecast.disk_row / demand.fields as f64)
        ));
    }
    if let Some(raid) = demand.raid
        && !(choice.segment_bytes as u64).is_multiple_of(raid.stripe())
    {
        warnings.push("segments are no multiple of the stripe".to_string());
    }
    warnings
}

fn figures(
    demand: &Demand,
    calibration: &Calibration,
    choice: &Choice,
    forecast: &Forecast,
) -> Vec<Figure> {
    let mut lines = Lines(Vec::new());
    stream(demand, &mut lines);
    kept(demand, forecast, choice, &mut lines);
    written(demand, forecast, &mut lines);
    memory(demand, calibration, forecast, choice, &mut lines);
    safety(demand, forecast, &mut lines);
    lines.0
}

struct Lines(Vec<Figure>);

impl Lines {
    fn add(&mut self, name: &str, value: String, origin: Origin) {
        self.0.push(Figure {
            name: name.to_string(),
            value,
            origin,
        });
    }
}

fn stream(demand: &Demand, lines: &mut Lines) {
    lines.add(
        "samples a second (A)",
        format!(
            "{} ({} rows)",
            plain(demand.samples_per_s()),
            plain(demand.rows_per_s())
        ),
        Origin::Given,
    );
    lines.add(
        "samples are",
        in_words(demand.values, demand.clockwork),
        Origin::Given,
    );
}

fn kept(demand: &Demand, forecast: &Forecast, choice: &Choice, lines: &mut Lines) {
    let fields = demand.fields as f64;
    lines.add(
        "a sample on disk",
        format!(
            "{} (a row {})",
            bytes(forecast.disk_row / fields),
            bytes(forecast.disk_row)
        ),
        Origin::Tried,
    );
    let bound = match forecast.bound {
        Bound::Block => "B",
        Bound::Memory => "memory",
        Bound::Journal => "the journal",
    };
    lines.add(
        "rows of a block",
        format!("{}, bounded by {bound}", plain(forecast.rows)),
        Origin::Modelled,
    );
    lines.add(
        "kept at the end (D)",
        bytes(forecast.kept_bytes),
        Origin::Modelled,
    );
    lines.add(
        "room on the disks (C)",
        bytes(demand.capacity()),
        Origin::Measured("now".to_string()),
    );
    lines.add(
        "live fraction (V)",
        format!("{} of Um = {UM}", plain(forecast.live)),
        Origin::Modelled,
    );
    let planing = if forecast.planes(choice) {
        format!("yes: R could be {}", bytes(forecast.planing_segment))
    } else {
        "no".to_string()
    };
    lines.add("planing, R ≤ C·(Um − V)", planing, Origin::Paper);
    lines.add(
        "lanes",
        "1: all samples have one lifetime".to_string(),
        Origin::Modelled,
    );
}

fn written(demand: &Demand, forecast: &Forecast, lines: &mut Lines) {
    lines.add(
        "stored a day",
        bytes(forecast.segments_per_s * DAY_S),
        Origin::Modelled,
    );
    lines.add(
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
    lines.add(
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
    if let Some(raid) = demand.raid {
        lines.add(
            "stripe",
            format!(
                "{} of data; segments are written in whole ones",
                bytes(raid.stripe() as f64)
            ),
            Origin::Given,
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
    lines.add(
        "memory in use",
        format!("{} of {}", bytes(forecast.memory), bytes(choice.memory)),
        Origin::Modelled,
    );
    lines.add(
        "  names and look-up",
        format!("{} a sensor", bytes(calibration.source_bytes)),
        Origin::Tried,
    );
    lines.add(
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
                plain(demand.samples_per_s() * seconds),
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
            "{} s, after a crash {} s",
            plain(forecast.start_s),
            plain(forecast.crash_start_s)
        ),
        Origin::Tried,
    );
}

/// A number for people: three digits that count.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    if value == 0.0 {
        return "0".to_string();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Bytes for people.
pub fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = if value.abs() < 1.0 {
        0.0
    } else {
        (value.abs().log2() / 10.0).floor().min(5.0)
    };
    format!(
        "{} {}",
        plain(value / 1024f64.powf(step)),
        units[step as usize]
    )
}

/// A duration for people.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{} s", plain(s)),
        s if s < 7200.0 => format!("{} min", plain(s / 60.0)),
        s if s < 2.0 * DAY_S => format!("{} h", plain(s / 3600.0)),
        s if s < 730.0 * DAY_S => format!("{} days", plain(s / DAY_S)),
        s => format!("{} years", plain(s / DAY_S / 365.25)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::{Clockwork, Disk, Raid, Values};

    fn demand() -> Demand {
        Demand {
            sensors: 10_000.0,
            every_s: 10.0,
            fields: 4,
            keep_s: 30.0 * DAY_S,
            values: Values::Decimals,
            clockwork: Clockwork::Regular,
            ram: 8.0 * GIB,
            processors: 4.0,
            is_synced: false,
            disks: vec![Disk {
                name: "/data".into(),
                free_bytes: 500.0 * GIB,
                sustained: Some(200e6),
                ..Disk::default()
            }],
            tbw: Some(290e12),
            raid: None,
        }
    }

    fn plan(demand: &Demand) -> Plan {
        Plan::make(demand, &Calibration::make(demand).unwrap())
    }

    #[test]
    fn a_small_demand_fits_and_its_configuration_is_sound() {
        let plan = plan(&demand());
        assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
        assert!(plan.ways.is_empty());
        assert!(plan.forecast.planes(&plan.choice));
        let row = plan.forecast.disk_row;
        assert!(
            (1.0..20.0).contains(&row),
            "a row of four decimals takes {row} bytes"
        );
        let options = crate::soak::options(&plan.choice, false);
        options.check().unwrap();
        assert!(plan.to_toml().contains("durability = \"100ms\""));
        assert!(plan.to_text().contains("It fits"));
        assert!(
            plan.figures
                .iter()
                .any(|figure| figure.name.contains("life of the SSD"))
        );
    }

    #[test]
    fn what_does_not_fit_is_told_with_ways_out() {
        let demand = Demand {
            keep_s: 20_000.0 * DAY_S,
            ..demand()
        };
        let plan = plan(&demand);
        assert!(
            plan.obstacles
                .iter()
                .any(|obstacle| obstacle.contains("are kept")),
            "{:?}",
            plan.obstacles
        );
        assert!(plan.ways.iter().any(|way| way.what.contains("machines")));
        assert!(plan.ways.iter().any(|way| way.what.contains("keep ")));
        assert!(plan.ways.iter().any(|way| way.what.contains("disks with")));
    }

    #[test]
    fn too_many_names_for_the_memory() {
        let demand = Demand {
            keep_s: DAY_S,
            sensors: 50e6,
            every_s: 3600.0,
            ram: 4.0 * GIB,
            ..demand()
        };
        let plan = plan(&demand);
        assert!(
            plan.obstacles
                .iter()
                .any(|obstacle| obstacle.contains("names")),
            "{:?}",
            plan.obstacles
        );
        assert!(
            plan.ways.iter().any(|way| way.what.contains("of memory")),
            "{:?}",
            plan.ways
        );
    }

    #[test]
    fn parity_is_written_too() {
        let plain = plan(&demand());
        let raid = Some(Raid {
            level: 6,
            members: 6,
            strip: 16 << 10,
        });
        let array = plan(&Demand { raid, ..demand() });
        let ratio = array.forecast.device_per_s / plain.forecast.device_per_s;
        assert!((ratio - 1.5).abs() < 0.05, "{ratio}");
        assert!((array.choice.segment_bytes as u64).is_multiple_of(64 << 10));
    }

    #[test]
    fn less_memory_makes_smaller_blocks_and_larger_samples() {
        let rich = plan(&Demand {
            sensors: 300_000.0,
            ..demand()
        });
        let poor = plan(&Demand {
            sensors: 300_000.0,
            ram: 0.5 * GIB,
            ..demand()
        });
        assert!(poor.forecast.rows < rich.forecast.rows);
        assert!(poor.forecast.disk_row > rich.forecast.disk_row);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(plain(0.0), "0");
        assert_eq!(plain(123_456.0), "123456");
        assert_eq!(bytes(0.82), "0.82 B");
        assert_eq!(bytes(3.0 * GIB), "3 GiB");
        assert_eq!(duration(90.0), "90 s");
        assert_eq!(duration(365.25 * DAY_S * 3.0), "3 years");
    }
}
