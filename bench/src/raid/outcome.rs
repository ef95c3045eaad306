//! Results of cells under every strategy, as tables and checks.

use super::cell::Cell;
use crate::report::{Check, Relation, Table, short};
use seiner_raid::Merging;
use seiner_raid::simulate::Measured;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cell with its results under every strategy, in the order of [`Merging::ALL`].
pub struct Outcome {
    /// Cell that was run.
    pub cell: Cell,
    /// Results by strategy.
    pub measured: Vec<Measured>,
}

/// Runs all cells on all cores. Runs are independent of each other, so the order has no effect.
pub fn measure(cells: Vec<Cell>) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<Vec<Measured>>>> = Mutex::new(vec![None; cells.len()]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(at) else { return };
                    let measured = Merging::ALL
                        .into_iter()
                        .map(|merging| cell.measure(merging))
                        .collect();
                    found.lock().expect("no thread panics with the lock")[at] = Some(measured);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics with the lock");
    let pairs = cells.into_iter().zip(found);
    pairs
        .map(|(cell, measured)| Outcome {
            cell,
            measured: measured.expect("every cell was run"),
        })
        .collect()
}

impl Outcome {
    /// Returns the result of a strategy.
    pub fn of(&self, merging: Merging) -> &Measured {
        let at = Merging::ALL
            .iter()
            .position(|&one| one == merging)
            .expect("all strategies are run");
        &self.measured[at]
    }

    /// Returns the rate of a strategy, relative to the best of never, batch and always.
    pub fn of_best(&self, merging: Merging) -> f64 {
        let fixed = [Merging::Never, Merging::Batch, Merging::Always];
        let best = fixed
            .into_iter()
            .map(|merging| self.of(merging).rate())
            .fold(0.0, f64::max);
        self.of(merging).rate() / best
    }

    /// Returns all results as JSON.
    pub fn json(&self) -> Value {
        let arms = Merging::ALL.into_iter().map(|merging| {
            let one = self.of(merging);
            let value = json!({
                "bytes_per_s": one.rate(),
                "member_operations_per_block": operations(one),
                "member_bytes_per_byte": bytes(one),
                "p50_ns": one.p50,
                "p99_ns": one.p99,
                "longest_ns": one.longest,
                "requests": one.requests,
                "simulated_ns": one.time,
                "full": one.counters.full,
                "partial": one.counters.partial,
                "expired": one.counters.expired,
            });
            (merging.name().to_string(), value)
        });
        json!({
            "group": self.cell.group,
            "threads_x_depth": self.cell.name(),
            "default_over_best_static": self.of_best(Merging::Adaptive),
            "paper_batch_over_best_static": self.of_best(Merging::PaperBatch),
            "strategies": arms.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Returns the member operations per block that clients read or wrote.
fn operations(one: &Measured) -> f64 {
    (one.counters.reads + one.counters.writes) as f64
        / (one.blocks_read + one.blocks_written).max(1) as f64
}

/// Returns the bytes that members read or wrote per byte of clients.
fn bytes(one: &Measured) -> f64 {
    let members = one.counters.blocks_read + one.counters.blocks_written;
    members as f64 / (one.blocks_read + one.blocks_written).max(1) as f64
}

/// Returns the geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| {
        (sum + value.ln(), count + 1)
    });
    (sum / f64::from(count.max(1))).exp()
}

/// Returns the smallest value.
fn worst(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

/// Returns a table with a row per group of cells.
pub fn groups(title: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        format!(
            "Rate relative to the best of never, batch and always, {title}: worst cell and geometric mean"
        ),
        &[
            "group",
            "cells",
            "default, worst",
            "default, mean",
            "paper-batch, worst",
            "paper-batch, mean",
            "paper, worst",
            "paper, mean",
        ],
    );
    let mut names: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !names.contains(&outcome.cell.group.as_str()) {
            names.push(&outcome.cell.group);
        }
    }
    for name in names {
        let of_group: Vec<&Outcome> = outcomes
            .iter()
            .filter(|outcome| outcome.cell.group == name)
            .collect();
        let ratios =
            |merging: Merging| of_group.iter().map(move |outcome| outcome.of_best(merging));
        table.rows.push(vec![
            name.to_string(),
            of_group.len().to_string(),
            format!("{:.3}", worst(ratios(Merging::Adaptive))),
            format!("{:.3}", mean(ratios(Merging::Adaptive))),
            format!("{:.3}", worst(ratios(Merging::PaperBatch))),
            format!("{:.3}", mean(ratios(Merging::PaperBatch))),
            format!("{:.3}", worst(ratios(Merging::Paper))),
            format!("{:.3}", mean(ratios(Merging::Paper))),
        ]);
    }
    table
}

/// Returns a table with a row per cell.
pub fn cells<'a>(title: &str, outcomes: impl Iterator<Item = &'a Outcome>) -> Table {
    let mut table = Table::new(
        title,
        &[
            "threads x depth",
            "never MB/s",
            "batch",
            "always",
            "paper",
            "paper-batch",
            "default",
            "default/best",
            "ops a block, batch",
            "ops a block, default",
            "bytes a byte, default",
            "p50 µs, batch",
            "p50 µs, default",
            "p99 µs, batch",
            "p99 µs, default",
        ],
    );
    for outcome in outcomes {
        let (batch, ours) = (outcome.of(Merging::Batch), outcome.of(Merging::Adaptive));
        let mut row = vec![outcome.cell.name()];
        row.extend(outcome.measured.iter().map(|one| short(one.rate() / 1e6)));
        row.push(format!("{:.3}", outcome.of_best(Merging::Adaptive)));
        row.extend([operations(batch), operations(ours), bytes(ours)].map(short));
        row.extend(
            [batch.p50, ours.p50, batch.p99, ours.p99].map(|time| short(time as f64 / 1000.0)),
        );
        table.rows.push(row);
    }
    table
}

/// Returns the cells in which the default is worst.
pub fn worst_cells(outcomes: &[Outcome], count: usize) -> Table {
    let mut sorted: Vec<&Outcome> = outcomes.iter().collect();
    sorted.sort_by(|one, other| {
        one.of_best(Merging::Adaptive)
            .total_cmp(&other.of_best(Merging::Adaptive))
    });
    let mut table = cells(
        "The cells with the worst results of the default",
        sorted.iter().take(count).copied(),
    );
    for (row, outcome) in table.rows.iter_mut().zip(&sorted) {
        row[0] = format!("{}, {}", outcome.cell.group, row[0]);
    }
    table
}

/// Returns the checks of the default strategy in the cells of this name, if there are any. `least`
/// is the bound for the worst cell. It is `None` if merging was tuned on these cells: then single
/// cells have no bound.
pub fn checks(cells: &str, outcomes: &[Outcome], least: Option<f64>) -> Vec<Check> {
    let ratios = || {
        outcomes
            .iter()
            .map(|outcome| outcome.of_best(Merging::Adaptive))
    };
    if outcomes.is_empty() {
        return Vec::new();
    }
    let at_least = |what: &str, value, bound| {
        let name = format!("{cells}: default over the best static strategy, {what}");
        Check::new(name, Some(value), Relation::AtLeast, Some(bound), "")
    };
    let over = |merging: Merging| {
        let ratio =
            |outcome: &Outcome| outcome.of(Merging::Adaptive).rate() / outcome.of(merging).rate();
        mean(outcomes.iter().map(ratio))
    };
    let published = [
        (Merging::PaperBatch, "the published algorithm on batching"),
        (
            Merging::Paper,
            "the published algorithm as it was published",
        ),
    ];
    let published = published.map(|(merging, what)| {
        let name = format!("{cells}: default over {what}, geometric mean");
        Check::new(name, Some(over(merging)), Relation::AtLeast, Some(1.0), "")
    });
    let single = least.map(|least| at_least("worst cell", worst(ratios()), least));
    let all = at_least("geometric mean", mean(ratios()), 1.0);
    single.into_iter().chain([all]).chain(published).collect()
}
