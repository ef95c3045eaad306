//! `seiner raid`: one volume on several devices.

mod assemble;
mod bench;
mod clear;
mod control;
mod create;
mod devices;
mod orders;
mod report;
mod running;
mod serve;
mod show;
pub mod store;

use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Manage a volume of several devices (RAID 0, 1, 5, 6) that merges small writes into whole stripes
/// when that pays.
///
/// `create` makes an array of files or block devices. `serve` runs the array and exports it as a
/// network block device. The other commands talk to the serving process by its control socket, or
/// read devices that no process serves. See docs/raid.md.
#[derive(Args)]
#[command(subcommand_value_name = "WHAT", subcommand_help_heading = "What")]
pub struct Raid {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Create an array of devices.
    Create(create::Create),
    /// Repair an array without serving it.
    Assemble(assemble::Assemble),
    /// Run an array, and export it as a network block device.
    Serve(serve::Serve),
    /// Measure small writes under every merging strategy: modelled, in memory, or on devices.
    Bench(bench::Bench),
    /// Show the status of an array, running or stopped.
    Status(show::Show),
    /// Take a working member out of use.
    Fail(orders::Fail),
    /// Rebuild a lost member on another device.
    Replace(orders::Replace),
    /// Add a spare device for the next member that is lost.
    Spare(orders::Spare),
    /// Read all blocks, compare data with syndromes, and repair errors.
    Scrub(orders::Scrub),
    /// Clear the volume of an array. Its contents are lost.
    Clear(clear::Clear),
    /// Flush everything and end the serving process.
    Stop(orders::Stop),
}

impl Raid {
    /// Runs the subcommand.
    pub fn run(self) -> Result<(), Failure> {
        match self.what {
            What::Create(create) => create.run(),
            What::Assemble(assemble) => assemble.run(),
            What::Serve(serve) => serve.run(),
            What::Bench(bench) => bench.run(),
            What::Status(show) => show.run(),
            What::Fail(fail) => fail.run(),
            What::Replace(replace) => replace.run(),
            What::Spare(spare) => spare.run(),
            What::Scrub(scrub) => scrub.run(),
            What::Clear(clear) => clear.run(),
            What::Stop(stop) => stop.run(),
        }
    }
}
