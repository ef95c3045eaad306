//! `seiner raid bench`: measures small writes under every strategy of merging.

mod cell;
mod client;
mod modelled;
mod picture;
mod report;
mod target;

use super::create::LevelArgument;
use super::running::merging;
use crate::failure::Failure;
use crate::output::{Form, Output};
use crate::progress;
use crate::stray;
use cell::{Cell, Pattern};
use clap::{Args, ValueEnum};
use report::Line;
use seiner_model::parse_bytes as bytes;
use seiner_raid::{BLOCK_BYTES, Geometry, Merging};
use std::io::stdout;
use std::path::PathBuf;
use std::time::Duration;
use target::{ArrayShape, BenchTarget};

/// Measure small writes under every merging strategy.
///
/// Without devices, members are models: NVMe disks with known latencies, on simulated time. The
/// figures are exact and the same on every machine. With --memory or devices, a real array runs.
/// Members in memory show the cost of the array itself; devices show the cost of their writes. The
/// contents of devices are lost, so devices that contain data are rejected. Missing files are
/// created with --size and removed afterwards.
///
/// A user operation is an answered write of a client. A member operation is a read or write of a
/// device.
#[derive(Args)]
pub struct Bench {
    /// RAID level of the array.
    #[arg(long, value_name = "LEVEL", default_value = "6")]
    level: LevelArgument,
    /// Number of members, if no devices are given.
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    members: usize,
    /// Bytes of a stripe on one member.
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = bytes)]
    strip: u64,
    /// Bytes per write: a multiple of 4 KiB.
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = bytes)]
    block: u64,
    /// Numbers of outstanding writes, separated by commas.
    #[arg(long, value_name = "DEPTHS", value_delimiter = ',', default_values_t = [1, 4, 16, 64])]
    depth: Vec<usize>,
    /// Address patterns of writes, separated by commas.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', default_values_t = Pattern::ALL)]
    pattern: Vec<Pattern>,
    /// Strategies to compare, separated by commas.
    #[arg(long, value_name = "STRATEGIES", value_delimiter = ',', value_parser = merging, default_value = "never,batch,always,paper,paper-batch,default")]
    merging: Vec<Merging>,
    /// Maximum time in microseconds for which a write is held.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000)]
    longest_hold_us: u64,
    /// Milliseconds to measure each combination, after a warm-up of a fifth of that time.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    time_ms: u64,
    /// Give every block of the members a checksum, to measure its cost. Not with modelled members.
    #[arg(long)]
    checksums: bool,
    /// Run a real array with members in memory.
    #[arg(long, conflicts_with = "devices")]
    memory: bool,
    /// Bytes per member in memory, and per missing file.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    size: u64,
    /// Allow the loss of data on devices. Requires --yes as well.
    #[arg(long)]
    overwrite: bool,
    /// Confirm --overwrite.
    #[arg(long, requires = "overwrite")]
    yes: bool,
    #[command(flatten)]
    output: Output,
    /// Members: files or block devices. Their contents are lost.
    #[arg(value_name = "DEVICE")]
    devices: Vec<PathBuf>,
}

impl Bench {
    /// Measures all combinations and prints the results.
    pub fn run(self) -> Result<(), Failure> {
        self.validate()?;
        let cells = self.cells();
        let bar = progress::over(cells.len() as u64, "{bar:30} {pos}/{len} {eta} left  {msg}");
        let mut lines = Vec::new();
        let mut target = self.target()?;
        for cell in cells {
            bar.set_message(format!(
                "{} depth {} {}",
                cell.pattern,
                cell.depth,
                cell.merging.name()
            ));
            let outcome = target.measure(&cell)?;
            lines.push(Line::new(cell, outcome));
            bar.inc(1);
        }
        bar.finish_and_clear();
        let name = target.name();
        target.clear()?;
        self.output.draw(|| picture::page(&name, &lines))?;
        let mut out = stdout().lock();
        match self.output.form() {
            Form::Json => report::json(&name, &lines, &mut out)?,
            Form::Csv => report::csv(&lines, &mut out)?,
            Form::Table => report::table(&name, &lines, &mut out)?,
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), Failure> {
        let usage = |text: String| Err(Failure::Usage(text));
        stray::reject(&self.devices, "--depth, --pattern and --merging")?;
        if self.block == 0 || !self.block.is_multiple_of(BLOCK_BYTES as u64) {
            return usage(format!(
                "--block {}: use a multiple of {BLOCK_BYTES}",
                self.block
            ));
        }
        if self.depth.contains(&0) {
            return usage("--depth 0: use 1 or more".to_string());
        }
        if self.checksums && !self.memory && self.devices.is_empty() {
            return usage(
                "--checksums: modelled members have none; use --memory or devices".to_string(),
            );
        }
        if self.time_ms == 0 {
            return usage("--time-ms 0: use 1 or more".to_string());
        }
        if self.overwrite && !self.yes {
            return usage("what devices hold will be lost: say --yes as well".to_string());
        }
        let members = match self.devices.len() {
            0 => self.members,
            given => given,
        };
        Geometry::new(self.level.level(), members, self.strip, u64::MAX)
            .map(drop)
            .map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Returns the combinations to measure, in the order of the table.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &pattern in &self.pattern {
            for &depth in &self.depth {
                for &merging in &self.merging {
                    cells.push(Cell {
                        pattern,
                        depth,
                        merging,
                        blocks: self.block / BLOCK_BYTES as u64,
                        longest_hold: self.longest_hold_us.saturating_mul(1000),
                        time: Duration::from_millis(self.time_ms),
                    });
                }
            }
        }
        cells
    }

    fn target(&self) -> Result<BenchTarget, Failure> {
        let shape = ArrayShape {
            level: self.level.level(),
            strip: self.strip,
            checksums: self.checksums,
        };
        if !self.devices.is_empty() {
            let over = self.overwrite && self.yes;
            return BenchTarget::on_devices(&self.devices, self.size, shape, over);
        }
        match self.memory {
            true => BenchTarget::in_memory(self.members, self.size, shape),
            false => BenchTarget::modelled(self.members, shape),
        }
    }
}

impl ValueEnum for Pattern {
    fn value_variants<'a>() -> &'a [Pattern] {
        &Pattern::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()))
    }
}
