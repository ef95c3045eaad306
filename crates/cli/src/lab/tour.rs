//! `seiner lab tour`.

use super::{Amount, check, failure, measure};
use crate::failure::Failure;
use clap::Args;
use seiner_lab::Interrupt;
use seiner_lab::align::Align;
use seiner_lab::disk::Disk;
use seiner_lab::files::Files;
use seiner_lab::job::{Job, Profile, Work};
use seiner_lab::write::{Kind, Write};
use std::path::PathBuf;

/// Look around in about five minutes: check, disk, write, files; as root align as well.
///
/// As an ordinary user everything happens in one directory. As root the write test gets a fresh ext4
/// and 256 MiB of memory, so that the page cache cannot hide what a store does to the disk, and every
/// file system that can be made here is tried.
#[derive(Args)]
pub struct Tour {
    /// A directory on the disk, with 8 GiB free.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Where the reports go, one directory an experiment.
    #[arg(long, value_name = "DIR", default_value = "lab-tour")]
    out: PathBuf,
    /// How much is run: toy is for trying the tour itself.
    #[arg(long, value_enum, default_value = "safe")]
    profile: Amount,
}

impl Tour {
    /// Walks.
    pub fn run(self) -> Result<(), Failure> {
        let is_root = seiner_lab::machine::Machine::this().is_root;
        let profile = self.profile.profile();
        println!("== check");
        check::Check::of(self.directory.clone()).run()?;
        let interrupt = Interrupt::listen().map_err(failure)?;
        for work in self.works(profile, is_root) {
            println!("== {}", work.name());
            let directory = self.out.join(work.name());
            measure(
                &Job {
                    seed: 1,
                    profile,
                    work,
                },
                &directory,
                &interrupt,
            )?;
        }
        Ok(())
    }

    fn works(&self, profile: Profile, is_root: bool) -> Vec<Work> {
        let directory = || self.directory.clone();
        let mut disk = Disk::new(directory(), profile);
        let mut write = Write::new(directory(), profile);
        let mut files = Files::new(directory(), profile);
        if profile == Profile::Safe {
            disk.seconds = 1.0;
            disk.sustained_seconds = 10.0;
            write.seconds = 4.0;
            write.room_bytes = 4 << 30;
            write.sensors = vec![1, 1000, 100_000];
            write.portions = vec![4 << 10];
            write.stores = vec![Kind::Files, Kind::InPlace, Kind::Akumuli, Kind::Log];
            files.runs = 1;
        }
        if is_root && seiner_lab::fresh_obstacle("ext4").is_none() {
            write.fresh = Some("ext4".to_string());
            if profile != Profile::Toy {
                write.memory_bytes = 256 << 20;
            }
        }
        let mut works = vec![Work::Disk(disk), Work::Write(write), Work::Files(files)];
        if is_root {
            works.push(Work::Align(Align::new(directory(), profile)));
        }
        works
    }
}
