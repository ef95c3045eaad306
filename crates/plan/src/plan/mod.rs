//! The plan: a configuration, a forecast with the origin of every figure, and alternatives if the demand does not
//! fit.

mod choose;
mod fit;
mod lines;
mod range;
mod simulated;
mod toml;

use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::demand::Lifetime;
use crate::forecast::{Choice, Forecast};
use crate::words::{bytes, plain};
use choose::choose;
pub use fit::Alternative;
use fit::{alternatives, obstacles, warnings};
use lines::figures;
pub use lines::{Figure, Origin};
use range::Range;
pub use simulated::{Simulated, Streams};
use std::fmt::Write;

/// Configuration, forecast, obstacles and alternatives for a demand.
#[derive(Clone, Debug)]
pub struct StorePlan {
    /// Configuration.
    pub choice: Choice,
    /// Forecast.
    pub forecast: Forecast,
    /// Lines of the forecast.
    pub figures: Vec<Figure>,
    /// Reasons why the demand does not fit one machine; empty if it fits.
    pub obstacles: Vec<String>,
    /// Changes that would make the demand fit.
    pub alternatives: Vec<Alternative>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Results of the simulations.
    pub simulated: Simulated,
    is_synced: bool,
    lifetimes: Vec<Lifetime>,
    tbw: Option<f64>,
}

impl StorePlan {
    /// Makes a plan for samples like those of the recording. Without a recording, makes a plan for samples like the
    /// median of real sets, with the range of real sets. `calibration` is that of the demand.
    pub fn make(demand: &Demand, calibration: &Calibration) -> StorePlan {
        if demand.recording.is_some() {
            return StorePlan::make_exactly(demand, calibration);
        }
        let median = range::median(demand, calibration);
        let choice = choose(demand, &median);
        let range = Range::make(demand, calibration, &choice);
        StorePlan::with_range(demand, &median, choice, Some(&range))
    }

    /// Makes a plan for exactly the samples of the calibration.
    pub fn make_exactly(demand: &Demand, calibration: &Calibration) -> StorePlan {
        let choice = choose(demand, calibration);
        StorePlan::with_range(demand, calibration, choice, None)
    }

    fn with_range(
        demand: &Demand,
        calibration: &Calibration,
        choice: Choice,
        range: Option<&Range>,
    ) -> StorePlan {
        let mut forecast = Forecast::make(demand, calibration, &choice);
        let simulated = Simulated::run(demand, &choice, &forecast);
        forecast.device_per_s = simulated.device_per_s(&forecast);
        let obstacles = obstacles(demand, calibration, &choice, &forecast);
        let alternatives = if obstacles.is_empty() {
            Vec::new()
        } else {
            alternatives(demand, calibration)
        };
        let mut warnings = warnings(demand, &choice, &forecast);
        warnings.extend(
            range
                .iter()
                .flat_map(|range| range.notes(obstacles.is_empty())),
        );
        StorePlan {
            figures: figures(demand, calibration, &choice, &forecast, &simulated, range),
            warnings,
            choice,
            forecast,
            obstacles,
            alternatives,
            simulated,
            is_synced: demand.is_synced,
            lifetimes: demand.lifetimes.clone(),
            tbw: demand.tbw,
        }
    }

    /// Returns the configuration for `seiner serve --config`; `None` if the demand does not fit.
    pub fn to_toml(&self) -> Option<String> {
        let fits = self.obstacles.is_empty();
        fits.then(|| toml::text(&self.choice, self.is_synced, self.tbw, &self.lifetimes))
    }

    /// Returns the whole plan as text.
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
        let (details, main): (Vec<&Figure>, Vec<&Figure>) =
            self.figures.iter().partition(|figure| figure.is_detail);
        text.push_str(&table_of_figures(&main));
        text.push_str(&table_of_alternatives(&self.alternatives));
        if !self.obstacles.is_empty() && self.alternatives.is_empty() {
            let _ = writeln!(
                text,
                "\nNo single change suffices. Use more machines and keep less data."
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "\nnote: {warning}");
        }
        let _ = writeln!(text, "\nDetails (docs/glossary.md explains the letters):");
        text.push_str(&table_of_figures(&details));
        match self.to_toml() {
            Some(toml) => {
                let _ = writeln!(text, "\nConfiguration:\n{toml}");
            }
            None => {
                text.push_str("\nThere is no configuration, because the demand does not fit.\n")
            }
        }
        text
    }
}

/// Returns figures as a table: name, value, origin.
fn table_of_figures(figures: &[&Figure]) -> String {
    const WIDEST: usize = 44;
    let longest =
        |of: &dyn Fn(&Figure) -> usize| figures.iter().map(|one| of(one)).max().unwrap_or(0);
    let width = longest(&|figure| figure.name.chars().count());
    let values = longest(&|figure| figure.value.chars().count()).min(WIDEST);
    let mut text = String::from("\n");
    for figure in figures {
        let _ = writeln!(
            text,
            "{:width$}  {:values$}  ({})",
            figure.name, figure.value, figure.origin
        );
    }
    text
}

/// Returns the alternatives as a table: change, effects, cost.
fn table_of_alternatives(alternatives: &[Alternative]) -> String {
    if alternatives.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        [
            "What would fit",
            "V",
            "written a second",
            "memory of the store",
            "gives up",
        ]
        .map(String::from),
    ];
    rows.extend(alternatives.iter().map(|alternative| {
        [
            alternative.what.clone(),
            plain(alternative.live),
            bytes(alternative.written_per_s),
            bytes(alternative.memory),
            alternative.gives_up.clone(),
        ]
    }));
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::from("\n");
    for row in &rows {
        let [what, live, written, memory, gives_up] = row;
        let _ = writeln!(
            text,
            "{what:0$}  {live:1$}  {written:2$}  {memory:3$}  {gives_up}",
            widths[0], widths[1], widths[2], widths[3]
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Bound;
    use crate::trial::Starts;
    use crate::words::DAY_S;

    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    use crate::demand::{Clockwork, Disk, Raid, Values};

    fn demand() -> Demand {
        Demand {
            sensors: 10_000.0,
            every_s: 10.0,
            fields: 4,
            per_host: 1,
            lifetimes: Lifetime::of_all(30.0 * DAY_S),
            budget: None,
            values: Values::Decimals,
            clockwork: Clockwork::Regular,
            recording: None,
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

    /// Returns the calibration of the samples that all demands here use; the trials run once.
    fn calibration() -> &'static Calibration {
        static ONCE: std::sync::OnceLock<Calibration> = std::sync::OnceLock::new();
        ONCE.get_or_init(|| Calibration::make(&demand()).unwrap())
    }

    fn plan(demand: &Demand) -> StorePlan {
        StorePlan::make(demand, calibration())
    }

    /// Plans for a processor that needs `replay_s` seconds to read a row back from a journal.
    fn plan_with_replay(demand: &Demand, replay_s: f64) -> StorePlan {
        let mut calibration = calibration().clone();
        let starts = Starts {
            replay_s,
            begin_s: replay_s,
            entry_s: replay_s,
            ..calibration.starts
        };
        calibration.starts = starts;
        calibration.small_starts = Some(starts);
        StorePlan::make_exactly(demand, &calibration)
    }

    fn a_million() -> Demand {
        Demand {
            sensors: 1e6,
            lifetimes: Lifetime::of_all(30.0 * DAY_S),
            disks: vec![Disk {
                free_bytes: 4e12,
                ..Disk::default()
            }],
            ..demand()
        }
    }

    #[test]
    fn a_small_demand_fits_and_its_configuration_is_sound() {
        let plan = plan(&demand());
        assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
        assert!(plan.alternatives.is_empty());
        assert!(plan.forecast.planes(&plan.choice));
        let row = plan.forecast.disk_row;
        assert!(
            (1.0..20.0).contains(&row),
            "a row of four decimals takes {row} bytes"
        );
        let options = crate::soak::options(&plan.choice, false);
        options.check().unwrap();
        let toml = plan.to_toml().expect("a configuration");
        assert!(toml.contains("durability = \"100ms\""), "{toml}");
        assert!(plan.to_text().contains("It fits"));
        assert!(
            plan.figures
                .iter()
                .any(|figure| figure.name.contains("life of the SSD"))
        );
    }

    #[test]
    fn an_impossible_demand_is_reported_with_alternatives() {
        let demand = Demand {
            lifetimes: Lifetime::of_all(20_000.0 * DAY_S),
            ..demand()
        };
        let plan = plan(&demand);
        assert_eq!(plan.to_toml(), None);
        assert!(
            plan.obstacles
                .iter()
                .any(|obstacle| obstacle.contains("are kept")),
            "{:?}",
            plan.obstacles
        );
        assert!(
            plan.alternatives
                .iter()
                .any(|alternative| alternative.what.contains("machines"))
        );
        assert!(
            plan.alternatives
                .iter()
                .any(|alternative| alternative.what.contains("keep "))
        );
        assert!(
            plan.alternatives
                .iter()
                .any(|alternative| alternative.what.contains("a budget of"))
        );
    }

    #[test]
    fn a_plan_for_generated_samples_states_the_range_of_real_ones() {
        let plan = plan(&demand());
        let exact = StorePlan::make_exactly(&demand(), calibration());
        assert!(plan.forecast.disk_row > exact.forecast.disk_row);
        let text = plan.to_text();
        assert!(text.contains(" to ") && text.contains("--like"), "{text}");
        assert!(!exact.to_text().contains("--like"));
        // The demand fits with samples like the median, but not with all.
        let space = plan.forecast.least_budget * 1.2;
        let tight = StorePlan::make(
            &Demand {
                budget: Some(space),
                ..demand()
            },
            calibration(),
        );
        assert!(tight.obstacles.is_empty(), "{:?}", tight.obstacles);
        let warned = |words: &str| tight.warnings.iter().any(|text| text.contains(words));
        assert!(
            warned("compress worst, it does not fit"),
            "{:?}",
            tight.warnings
        );
    }

    #[test]
    fn too_many_names_for_the_memory_are_an_obstacle() {
        let demand = Demand {
            lifetimes: Lifetime::of_all(DAY_S),
            sensors: 50e6,
            every_s: 3600.0,
            ram: 4.0 * GIB,
            ..demand()
        };
        let plan = plan(&demand);
        assert!(
            plan.obstacles
                .iter()
                .any(|obstacle| obstacle.contains("names") && obstacle.contains("--per-host")),
            "{:?}",
            plan.obstacles
        );
        assert!(
            plan.alternatives
                .iter()
                .any(|alternative| alternative.what.contains("of memory")),
            "{:?}",
            plan.alternatives
        );
    }

    #[test]
    fn device_writes_include_parity() {
        let plain = plan(&demand());
        let raid = Some(Raid {
            level: 6,
            members: 6,
            strip: 16 << 10,
        });
        let array = plan(&Demand { raid, ..demand() });
        let ratio = array.forecast.device_per_s / plain.forecast.device_per_s;
        // The ratio is 6/4 for whole stripes, and more for single blocks.
        assert!((1.5..3.0).contains(&ratio), "{ratio}");
        assert!((array.choice.segment_bytes as u64).is_multiple_of(64 << 10));
    }

    #[test]
    fn less_memory_makes_smaller_blocks() {
        let rich = plan_with_replay(
            &Demand {
                sensors: 300_000.0,
                ..demand()
            },
            0.1e-6,
        );
        let poor = plan_with_replay(
            &Demand {
                sensors: 300_000.0,
                ram: 0.5 * GIB,
                ..demand()
            },
            0.1e-6,
        );
        assert!(poor.forecast.rows < rich.forecast.rows);
        // Blocks with few rows share bundles, and take hardly more bytes per row.
        let ratio = poor.forecast.disk_row / rich.forecast.disk_row;
        assert!((0.5..1.3).contains(&ratio), "{ratio}");
    }

    #[test]
    fn available_memory_is_used_before_it_limits_buffers() {
        let rich = plan_with_replay(&a_million(), 0.1e-6);
        assert_eq!(rich.forecast.bound, Bound::Journal);
        assert!(rich.choice.memory < 4.0 * GIB, "{:?}", rich.choice);
        assert!(rich.forecast.memory < rich.choice.memory);
        let why = "buffers up to the size at which the journal seals them";
        assert!(rich.to_text().contains(why), "{}", rich.to_text());
        let poor = plan_with_replay(
            &Demand {
                ram: GIB,
                ..a_million()
            },
            0.1e-6,
        );
        assert_eq!(poor.forecast.bound, Bound::Memory);
        assert_eq!(poor.choice.memory, 0.5 * GIB);
        assert!(poor.to_text().contains("the maximum: the 1:1 rule"));
        assert!(poor.forecast.disk_row > rich.forecast.disk_row);
    }

    #[test]
    fn the_journal_is_read_back_in_time_on_any_processor() {
        for row_s in [0.05e-6, 0.2e-6, 1e-6] {
            let plan = plan_with_replay(&a_million(), row_s);
            let replay_s = plan.forecast.crash_start_s - plan.forecast.start_s;
            // The journal is a whole number of MiB.
            assert!(replay_s < 10.0 * 1.2, "{row_s}: {replay_s} s");
            let why = "the maximum that a start after a crash reads in 10 s";
            assert!(plan.to_text().contains(why), "{}", plan.to_text());
        }
        let slow = plan_with_replay(&a_million(), 4e-6);
        assert!(
            slow.to_text().contains("takes more than 10 s to read it"),
            "{}",
            slow.to_text()
        );
        let small = plan_with_replay(&demand(), 0.1e-6);
        assert!(small.to_text().contains("holds the rows in buffers"));
    }

    #[test]
    fn an_index_that_does_not_fit_into_memory_is_reported() {
        let demand = Demand {
            ram: GIB,
            lifetimes: Lifetime::of_all(20.0 * 365.0 * DAY_S),
            ..a_million()
        };
        // Uses a set time instead of the trial: on a busy machine an index entry may seem to take no time.
        let plan = plan_with_replay(&demand, 1e-6);
        assert!(
            plan.obstacles
                .iter()
                .any(|obstacle| obstacle.contains("the index of")),
            "{:?}",
            plan.obstacles
        );
        assert!(
            plan.warnings
                .iter()
                .any(|text| text.contains("a start reads"))
        );
    }
}
