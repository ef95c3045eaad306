//! `raid-matrix`: the paper's matrix of loads on a modelled array under every merging strategy, and
//! the speed of computing syndromes.

use crate::raid::cell::{self, Cell};
use crate::raid::outcome::{self, Outcome};
use crate::raid::{matrix, practice, published};
use crate::report::{Check, OutputPaths, Relation, Report, Table, short};
use anyhow::Result;
use clap::Args;
use seiner_raid::{BLOCK_BYTES, pq};
use serde_json::json;
use std::hint::black_box;
use std::time::Instant;

/// Settings of `raid-matrix`.
#[derive(Args)]
pub struct RaidMatrixSettings {
    /// Only cells whose names contain this text
    #[arg(long, default_value = "")]
    only: String,
}

const PURPOSE: &str = "Writes to RAID 6 over six modelled NVMe members (strip 16 KiB, 64 KiB of data per stripe) in simulated time, so \
    results are exact and equal in every run. Strategies: `never` writes every request by itself; `batch` joins the requests that queue behind a busy \
    stripe; `always` holds writes until the stripe is full or the maximum time is over; `paper` is the published algorithm, which writes \
    unmerged requests one at a time; `paper-batch` is the same on top of `batch`, the proper comparison for ours; `default` is \
    ours. Cells: the paper's matrix, and cells outside it. Merging was tuned on all of them. \
    `raid-heldout` has the cells by which merging is judged.";

/// Runs the benchmark.
pub fn run(settings: &RaidMatrixSettings, places: &OutputPaths) -> Result<()> {
    let mut report = Report::new("raid-matrix", PURPOSE);
    report.notes.push(format!(
        "every strategy holds writes for at most {} µs, unless the name of the group states another time",
        cell::LONGEST_HOLD / 1000
    ));
    report
        .notes
        .push("latency: time of a write from submission to acknowledgement".into());
    let wanted = |cell: &Cell| format!("{} {}", cell.group, cell.name()).contains(&settings.only);
    let cells = matrix::cells().into_iter().filter(wanted).collect();
    let others = practice::cells().into_iter().filter(wanted).collect();
    if !settings.only.is_empty() {
        report.notes.push(format!(
            "only cells with \"{}\" in their name",
            settings.only
        ));
    }
    let outcomes = outcome::measure(cells);
    let others = outcome::measure(others);
    report.tables.push(outcome::groups("by group", &outcomes));
    for group in ["random write 4 KiB", "sequential write 4 KiB"] {
        let of_group = outcomes
            .iter()
            .filter(|outcome| outcome.cell.group == group);
        report.tables.push(outcome::cells(group, of_group));
    }
    report.tables.push(outcome::worst_cells(&outcomes, 8));
    if !others.is_empty() {
        let title = "in cells outside the matrix on which merging was tuned as well";
        report.tables.push(outcome::groups(title, &others));
        report.tables.push(outcome::worst_cells(&others, 8));
    }
    if let Some([never, always]) = published::spread(&outcomes) {
        report.tables.push(published::beside(&outcomes));
        let bounds = |(least, most): (f64, f64)| format!("{least:.2} to {most:.2}");
        report.notes.push(format!(
            "the model reaches {} times the published figures without merging and {} times the figures with static merging",
            bounds(never),
            bounds(always)
        ));
    }
    let parity = parity();
    report.tables.push(parity_table(&parity));
    report.checks = checks(&outcomes, &others, &parity);
    let measured: Vec<_> = outcomes.iter().chain(&others).map(Outcome::json).collect();
    report.measured = json!({ "cells": measured, "syndromes": parity });
    report.finish(places)
}

fn checks(outcomes: &[Outcome], others: &[Outcome], parity: &[(usize, usize, f64)]) -> Vec<Check> {
    let mut checks = outcome::checks("matrix", outcomes, Some(0.97));
    checks.extend(outcome::checks("other cells", others, None));
    checks.push(parity_check(parity));
    checks
}

/// Returns the check that computing syndromes is not a bottleneck.
pub fn parity_check(parity: &[(usize, usize, f64)]) -> Check {
    let in_cache = parity
        .iter()
        .find(|(strips, bytes, _)| (*strips, *bytes) == (4, 16 << 10))
        .map(|(.., rate)| *rate);
    Check::new(
        "both syndromes of 4 strips of 16 KiB, data per second on a core",
        in_cache,
        Relation::AtLeast,
        Some(50.0),
        "GB/s",
    )
}

/// Returns strips, bytes of a strip, and GB of data per second: the best of several rounds.
pub fn parity() -> Vec<(usize, usize, f64)> {
    let mut found = Vec::new();
    for (strips, bytes) in [(4, 4 << 10), (4, 16 << 10), (8, 16 << 10), (4, 4 << 20)] {
        // Aligned like the blocks of the array.
        let mut buffer = vec![0u8; (strips + 2) * bytes + BLOCK_BYTES];
        let first = buffer.as_ptr().align_offset(BLOCK_BYTES);
        let (data, syndromes) = buffer[first..].split_at_mut(strips * bytes);
        for (at, strip) in data.chunks_mut(bytes).enumerate() {
            strip.fill(at as u8 + 1);
        }
        let slices: Vec<&[u8]> = data.chunks(bytes).collect();
        let (p, q) = syndromes[..2 * bytes].split_at_mut(bytes);
        let repeats = (32 << 20) / (strips * bytes);
        let best = (0..200).map(|_| {
            let start = Instant::now();
            for _ in 0..repeats {
                pq(black_box(&slices), black_box(&mut *p), black_box(&mut *q));
            }
            (repeats * strips * bytes) as f64 / start.elapsed().as_secs_f64() / 1e9
        });
        found.push((strips, bytes, best.fold(0.0, f64::max)));
    }
    found
}

/// Returns the syndrome rates as a table.
pub fn parity_table(parity: &[(usize, usize, f64)]) -> Table {
    let mut table = Table::new(
        "Both syndromes, one core",
        &["strips", "KiB a strip", "GB/s of data"],
    );
    for (strips, bytes, rate) in parity {
        table.rows.push(vec![
            strips.to_string(),
            (bytes >> 10).to_string(),
            short(*rate),
        ]);
    }
    table
}
