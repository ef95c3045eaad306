//! Check if one machine suffices for a demand: obstacles, changes with which it suffices, and warnings.

use super::choose::{choose, most_memory};
use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::forecast::{Bound, Choice, Forecast};
use crate::registry::{Names, Registry};
use crate::words::{bytes, count, duration, plain};

/// Cost of a row through HTTP, as a multiple of the cost of appending it (benchmarks `peers`, `embedded`).
const PORT_COST: f64 = 3.5;
/// Share of the processors, or of the disks' rate, above which a machine counts as full.
const HEADROOM: f64 = 0.7;
/// Duration of a start in seconds above which there is a warning.
const LONG_START_S: f64 = 60.0;

/// A change that makes a demand fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Description of the change.
    pub what: String,
    /// Cost of the change.
    pub gives_up: String,
    /// Live share V after the change.
    pub live: f64,
    /// Bytes of segments and journal written per second after the change, on each machine.
    pub written_per_s: f64,
    /// Memory of the store after the change, in bytes.
    pub memory: f64,
}

/// Returns the number of processors that a demand keeps busy.
pub fn processors(demand: &Demand, calibration: &Calibration) -> f64 {
    let registry = Registry::of(demand, calibration, most_memory(demand));
    demand.rows_per_s() / calibration.rows_per_s * PORT_COST + registry.recall_s(demand)
}

/// Returns the reasons why the demand does not fit; empty if it fits.
pub fn obstacles(
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
    let memory = most_memory(demand);
    let registry = forecast.registry;
    if !registry.fits() {
        obstacles.push(format!(
            "names and figures of the sensors alone take {} of memory{}, the store may have {} and keeps {} for them{}",
            bytes(registry.claimed),
            match registry.names {
                Names::InMemory => "",
                Names::InFiles | Names::Dormant => " with all names on the disk",
            },
            bytes(memory),
            bytes(registry.limit),
            match demand.per_host {
                1 => ". Sensors of a host share its tags: --per-host N plans for N sensors of each host",
                _ => "",
            }
        ));
    }
    if forecast.index_bytes > memory * 0.5 {
        obstacles.push(format!(
            "the index of {} blocks takes {} of memory, the store may have {}",
            count(forecast.blocks),
            bytes(forecast.index_bytes),
            bytes(memory)
        ));
    }
    if forecast.live > choice.merge_from {
        obstacles.push(format!(
            "{} are kept, the budget has space for {} (Um = {} of {})",
            bytes(forecast.kept_bytes),
            bytes(choice.budget * choice.merge_from),
            plain(choice.merge_from),
            bytes(choice.budget)
        ));
    } else if !forecast.planes(choice) {
        obstacles.push(
            "the space above Um is smaller than the open segments: merges would rewrite data continuously"
                .to_string(),
        );
    }
    if let Some(rate) = demand.sustained()
        && forecast.segments_per_s + forecast.journal_per_s > rate * HEADROOM
    {
        obstacles.push(format!(
            "{}/s are written, the disks sustain {}/s",
            bytes(forecast.segments_per_s + forecast.journal_per_s),
            bytes(rate)
        ));
    }
    obstacles
}

/// Returns the changes that make the demand fit. Each change was checked by planning the changed
/// demand.
pub fn alternatives(demand: &Demand, calibration: &Calibration) -> Vec<Alternative> {
    let planner = Planner(calibration);
    let mut alternatives = Vec::new();
    let mut add = |found: Option<(Demand, String)>, gives_up: &str| {
        if let Some((demand, what)) = found {
            alternatives.push(planner.alternative(&demand, what, gives_up));
        }
    };
    add(
        planner.first((2..=1000).map(|nodes| {
            let part = Demand {
                sensors: demand.sensors / f64::from(nodes),
                ..demand.clone()
            };
            let what = format!("{nodes} machines like this, each with a part of the sensors");
            (part, what)
        })),
        "money; each sensor is on one machine, and copies need as many machines again",
    );
    let parts = || (1..200).map(|step| 0.97f64.powi(step));
    let keep = demand.mean_keep_s();
    add(
        planner.first(parts().map(|part| {
            let words = [keep * part, keep].map(duration);
            let what = format!("keep {} instead of {}", words[0], words[1]);
            (demand.with_keep(part), what)
        })),
        "older data",
    );
    add(
        planner.first(parts().map(|part| {
            let rarer = Demand {
                every_s: demand.every_s / part,
                ..demand.clone()
            };
            let words = [demand.every_s / part, demand.every_s].map(duration);
            (
                rarer,
                format!("a sample every {} instead of every {}", words[0], words[1]),
            )
        })),
        "detail",
    );
    add(
        planner.first((1..400).map(|step| {
            let factor = 1.05f64.powi(step);
            let budget = demand.budget() * factor;
            let mut larger = Demand {
                budget: Some(budget),
                ..demand.clone()
            };
            for disk in &mut larger.disks {
                disk.free_bytes *= factor.max(budget / demand.space().max(1.0));
            }
            (larger, format!("a budget of {}", bytes(budget)))
        })),
        "disk space",
    );
    add(
        planner.first((1..7).map(|power| {
            let richer = Demand {
                ram: demand.ram * 2f64.powi(power),
                ..demand.clone()
            };
            let what = format!("{} of memory in the machine", bytes(richer.ram));
            (richer, what)
        })),
        "money",
    );
    add(
        planner.first((1..7).map(|power| {
            let stronger = Demand {
                processors: demand.processors * 2f64.powi(power),
                ..demand.clone()
            };
            let what = format!("{} processors", plain(stronger.processors));
            (stronger, what)
        })),
        "money",
    );
    alternatives
}

/// Plans changed demands.
struct Planner<'a>(&'a Calibration);

impl Planner<'_> {
    /// Returns the first demand that fits.
    fn first(
        &self,
        mut demands: impl Iterator<Item = (Demand, String)>,
    ) -> Option<(Demand, String)> {
        demands.find(|(demand, _)| {
            let choice = choose(demand, self.0);
            let forecast = Forecast::make(demand, self.0, &choice);
            obstacles(demand, self.0, &choice, &forecast).is_empty()
        })
    }

    fn alternative(&self, demand: &Demand, what: String, gives_up: &str) -> Alternative {
        let choice = choose(demand, self.0);
        let forecast = Forecast::make(demand, self.0, &choice);
        Alternative {
            what,
            gives_up: gives_up.to_string(),
            live: forecast.live,
            written_per_s: forecast.segments_per_s + forecast.journal_per_s,
            memory: choice.memory,
        }
    }
}

/// Returns warnings for a demand that fits.
pub fn warnings(demand: &Demand, choice: &Choice, forecast: &Forecast) -> Vec<String> {
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
        warnings.push("the disks were not measured: run `seiner lab disk DIR` and use --measured to check that they are fast enough".to_string());
    }
    if forecast.registry.names == Names::Dormant {
        warnings.push(
            "the names of all sensors do not fit into memory, so the store reads the name of a sensor from the disk when \
             it sends again. More memory in the machine saves these reads"
                .to_string(),
        );
    }
    match forecast.bound {
        Bound::Memory => warnings.push(
            "memory ends the filling of buffers before they reach B, although the store has its maximum: \
             more memory in the machine would save disk space"
                .to_string(),
        ),
        Bound::Journal => warnings.push(
            "the journal ends the filling of buffers before they reach B: a larger journal would save disk space, but take \
             longer to read back at a start after a crash"
                .to_string(),
        ),
        Bound::Block => {}
    }
    if forecast.start_s > LONG_START_S {
        warnings.push(format!(
            "a start reads the index of all {} blocks, which takes {}: larger blocks have a smaller index",
            count(forecast.blocks),
            duration(forecast.start_s)
        ));
    }
    if forecast.rows < 16.0 {
        warnings.push(format!(
            "blocks contain only {} rows, so each sample takes {} on disk",
            plain(forecast.rows),
            bytes(forecast.disk_row / demand.samples_per_row())
        ));
    }
    if let Some(raid) = demand.raid
        && !(choice.segment_bytes as u64).is_multiple_of(raid.stripe())
    {
        warnings.push("the segment size is not a multiple of the stripe".to_string());
    }
    warnings
}
