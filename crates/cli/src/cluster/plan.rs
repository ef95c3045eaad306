//! `seiner cluster plan`: chooses shelves and periods for a load, and stores them.

use super::connect::Access;
use super::measure;
use crate::failure::Failure;
use clap::Args;
use seiner_cassandra::CassandraRows;
use seiner_cluster::{Grid, GridChange, change_grid, grids, shortest_age};
use seiner_model::{duration_text, parse_count as count};
use seiner_plan::form::seconds;
use seiner_plan::shelving::{ClusterDemand, Shelving};
use serde_json::{Value, json};

/// Choose the number of shelves and the length of periods for a load.
///
/// The samples of a shelf and a period are one partition of the cluster. More shelves spread the load and shorten the
/// lists that a read looks through, but they make smaller bundles, which cost Cassandra more per byte. Longer periods
/// need fewer requests for long intervals, but they make longer lists, and rows occupy space for up to one period
/// beyond their age. State the load, or measure it with --from. With CLUSTER, the present shelves and period are
/// compared. --apply stores the choice: each port uses it from its next handover on, and earlier bundles stay readable.
/// Each change adds a few requests to every read, so --apply keeps a present choice that suffices.
#[derive(Args)]
pub struct Plan {
    /// Cluster whose shelves and period are compared: cassandra://HOST,…/KEYSPACE.
    cluster: Option<String>,
    /// Number of sources (sensors), for example 1e6.
    #[arg(long, value_parser = count, required_unless_present = "from")]
    sensors: Option<u64>,
    /// Interval between two rows of a source.
    #[arg(long, value_parser = seconds, default_value = "10s")]
    every: f64,
    /// Number of values per row.
    #[arg(long, default_value_t = 1)]
    fields: u64,
    /// Bytes of a value in a bundle [default: those of decimals that change a little, by the rows per bundle]
    #[arg(long)]
    bytes_per_value: Option<f64>,
    /// Shortest age of the retention classes [default: that of the classes in CLUSTER, or for ever]
    #[arg(long, value_parser = seconds)]
    keep: Option<f64>,
    /// Number of ports.
    #[arg(long, default_value_t = 3)]
    ports: u32,
    /// Interval between handovers, as in the setting `handover`.
    #[arg(long, value_parser = seconds, default_value = "10m")]
    handover: f64,
    /// Take sources, rate, values and ports from the running cluster with this port, such as http://127.0.0.1:7670.
    #[arg(long, value_name = "URL", conflicts_with_all = ["sensors", "every", "fields", "ports"])]
    from: Option<String>,
    /// Time for which --from measures. A longer time averages over slow sources.
    #[arg(long = "for", value_name = "DURATION", value_parser = seconds, default_value = "10s")]
    duration: f64,
    /// Use this number of shelves in place of the computed one.
    #[arg(long)]
    shelves: Option<u32>,
    /// Use this length of periods in place of the computed one.
    #[arg(long, value_parser = seconds)]
    period: Option<f64>,
    /// Store the choice in CLUSTER, unless the present one suffices. A choice by --shelves or --period is always stored.
    #[arg(long, requires = "cluster")]
    apply: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

/// Choice, with what is stored.
struct Outcome {
    demand: ClusterDemand,
    choice: Shelving,
    /// Present shelves and period of the cluster.
    present: Option<Shelving>,
    /// Outcome of `--apply`.
    applied: Option<GridChange>,
}

impl Plan {
    /// Chooses, compares and stores.
    pub fn run(mut self) -> Result<(), Failure> {
        let access = std::mem::take(&mut self.access).with_environment()?;
        let rows = self.cluster.as_deref().map(|url| access.open(url));
        let rows = rows.transpose()?;
        let present = rows.as_ref().map(present).transpose()?;
        let demand = self.demand(rows.as_ref())?;
        demand.check().map_err(Failure::Usage)?;
        let choice = self.choice(&demand)?;
        let is_given = self.shelves.is_some() || self.period.is_some();
        let suffices = present.is_some_and(|present| demand.faults(present).is_empty());
        let applied = match rows.filter(|_| self.apply && (is_given || !suffices)) {
            Some(rows) => Some(change_grid(&rows, grid(choice))?),
            None => self.apply.then_some(GridChange::Unchanged),
        };
        let outcome = Outcome {
            demand,
            choice,
            present,
            applied,
        };
        match self.json {
            true => println!("{:#}", outcome.to_json()),
            false => print!("{}", outcome.to_text()),
        }
        Ok(())
    }

    /// Returns the load that the flags state, or that is measured.
    fn demand(&self, rows: Option<&CassandraRows>) -> Result<ClusterDemand, Failure> {
        let age_s = match (self.keep, rows) {
            (Some(keep), _) => Some(keep),
            (None, Some(rows)) => shortest_age(rows)?.map(|age| age.as_secs_f64()),
            (None, None) => None,
        };
        let sensors = self.sensors.unwrap_or(1) as f64;
        let stated = ClusterDemand {
            sources: sensors,
            rows_per_s: sensors / self.every,
            samples_per_row: self.fields as f64,
            bytes_per_sample: self.bytes_per_value,
            age_s,
            ports: f64::from(self.ports),
            handover_s: self.handover,
        };
        match &self.from {
            None => Ok(stated),
            Some(url) => measure::load(url, self.duration, stated),
        }
    }

    /// Returns the computed choice, with the parts that are given.
    fn choice(&self, demand: &ClusterDemand) -> Result<Shelving, Failure> {
        let best = demand.choose();
        let choice = Shelving {
            shelves: self.shelves.unwrap_or(best.shelves),
            period_s: self.period.map_or(best.period_s, |period| period as u64),
        };
        grid(choice).check().map_err(Failure::Usage)?;
        Ok(choice)
    }
}

fn grid(of: Shelving) -> Grid {
    Grid {
        shelves: of.shelves,
        period_ns: of.period_s.saturating_mul(1_000_000_000),
    }
}

/// Returns the present shelves and period of a cluster.
fn present(rows: &CassandraRows) -> Result<Shelving, Failure> {
    let grids = grids(rows)?;
    let last = grids.last().expect("a cluster has a grid");
    Ok(Shelving {
        shelves: last.shelves,
        period_s: last.period_ns.div_ceil(1_000_000_000),
    })
}

fn in_words(of: Shelving) -> String {
    let period = duration_text(of.period_s.saturating_mul(1_000_000_000));
    format!("shelves={} period={period}", of.shelves)
}

impl Outcome {
    fn to_text(&self) -> String {
        let Outcome { demand, choice, .. } = self;
        let mut lines = vec![in_words(*choice)];
        let figures = demand.figures(*choice);
        let indented = |text: String| format!("  {text}");
        lines.extend(figures.reasons(*choice).into_iter().map(indented));
        lines.extend(demand.faults(*choice).into_iter().map(indented));
        lines.extend(demand.advice(*choice).into_iter().map(indented));
        if let Some(present) = self.present {
            lines.push(format!("present: {}", in_words(present)));
            let faults = demand.faults(present);
            match faults.is_empty() {
                true => lines.push(indented("suffices".to_string())),
                false => lines.extend(faults.into_iter().map(indented)),
            }
        }
        match self.applied {
            Some(GridChange::Stored(number)) => lines.push(format!(
                "stored as grid {number}; each port uses it from its next handover on"
            )),
            Some(GridChange::Unchanged) => lines.push("nothing was changed".to_string()),
            None => {}
        }
        lines.join("\n") + "\n"
    }

    fn to_json(&self) -> Value {
        let Outcome { demand, choice, .. } = self;
        let present = self.present.map(|present| {
            json!({
                "shelves": present.shelves,
                "period_s": present.period_s,
                "figures": demand.figures(present),
                "faults": demand.faults(present),
            })
        });
        json!({
            "demand": demand,
            "shelves": choice.shelves,
            "period_s": choice.period_s,
            "figures": demand.figures(*choice),
            "faults": demand.faults(*choice),
            "advice": demand.advice(*choice),
            "present": present,
            "stored_as_grid": match self.applied {
                Some(GridChange::Stored(number)) => Some(number),
                _ => None,
            },
        })
    }
}
