//! Whether a demand fits one machine, what would if it does not, and what deserves attention though it
//! does.

use super::choose::{MEMORY_SHARE, choose};
use crate::calibration::Calibration;
use crate::demand::Demand;
use crate::forecast::{Bound, Choice, Forecast, UM};
use crate::words::{bytes, duration, plain};

/// Rows taken over HTTP cost so many times what appending them costs (benchmarks `peers`, `embedded`).
const PORT_COST: f64 = 3.5;
/// A machine is full at this share of its processors or of its disks' rate.
const HEADROOM: f64 = 0.7;

/// A way to make a demand fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// What is done.
    pub what: String,
    /// What it costs.
    pub gives_up: String,
}

/// Processors that a demand keeps busy.
pub fn processors(demand: &Demand, calibration: &Calibration) -> f64 {
    demand.rows_per_s() / calibration.rows_per_s * PORT_COST
}

/// Why it does not fit.
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
pub fn ways(demand: &Demand, calibration: &Calibration) -> Vec<Way> {
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

/// What deserves attention.
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
