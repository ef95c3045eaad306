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

/// One volume of several devices (RAID 0, 1, 5, 6), which merges small writes into whole stripes when that pays.
///
/// `create` makes an array of files or block devices, `serve` runs it and exports it as a network block device; the other
/// commands talk to the serving process by its control socket, or look at devices that nobody serves. docs/raid.md.
#[derive(Args)]
#[command(subcommand_value_name = "WHAT", subcommand_help_heading = "What")]
pub struct Raid {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Make a new array of devices.
    Create(create::Create),
    /// Put an array in order without serving it.
    Assemble(assemble::Assemble),
    /// Run an array, and export it as a network block device.
    Serve(serve::Serve),
    /// Measure small writes under every strategy: modelled, in memory, or on devices.
    Bench(bench::Bench),
    /// Tell how an array is, running or not.
    Status(show::Show),
    /// Use a member no longer, although it works.
    Fail(orders::Fail),
    /// Put a device in the place of a lost member, and fill it.
    Replace(orders::Replace),
    /// Keep a device ready for the next member that is lost.
    Spare(orders::Spare),
    /// Read everything, compare data and syndromes, repair what can be.
    Scrub(orders::Scrub),
    /// Make the volume of an array blank: what it held is lost.
    Clear(clear::Clear),
    /// Make all durable and end the serving process.
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
