//! `seiner raid`: one volume on several devices.

mod assemble;
mod bench;
mod clear;
mod control;
mod create;
mod devices;
mod monitor;
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
/// network block device. The other commands use the control socket of the serving process, or
/// read devices that no process serves. See docs/raid.md.
#[derive(Args)]
#[command(subcommand_value_name = "WHAT", subcommand_help_heading = "What")]
pub struct Raid {
    #[command(subcommand)]
    what: What,
}

// The help of each subcommand is the doc comment of its flags. A comment here would replace it.
#[derive(Subcommand)]
enum What {
    Create(create::Create),
    Assemble(assemble::Assemble),
    Serve(serve::Serve),
    Bench(bench::Bench),
    Status(show::Show),
    Fail(orders::Fail),
    Replace(orders::Replace),
    Spare(orders::Spare),
    Scrub(orders::Scrub),
    Clear(clear::Clear),
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
