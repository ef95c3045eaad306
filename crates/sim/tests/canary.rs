//! Proof that the simulation can fail: it must detect the fault of each faulty disk.

use seiner_platform::Disk;
use seiner_platform::sim::SimDisk;
use seiner_sim::{Campaign, DiskFault, FaultyDisk, Work, World, Wrap};
use std::sync::Arc;

fn detects(wrap: Wrap) {
    const WITHIN: u64 = 100;
    let outcome = Campaign {
        seeds: 0..WITHIN,
        wrap,
        verbose: false,
        threads: 1,
        violations: 1,
    }
    .run(|_, _| {});
    println!("detected after {} runs", outcome.runs);
    let violation = outcome.violations.first();
    let violation =
        violation.unwrap_or_else(|| panic!("{WITHIN} runs and the fault was not detected"));
    assert!(
        violation.to_string().contains("SEINER_SIM_SEED="),
        "{violation}"
    );
    // Without the fault the run passes, so the violation is due to the fault.
    if let Err(other) = World::new(violation.seed, World::plain, false).run() {
        panic!("without the fault: {other}");
    }
}

fn forgets_syncs(disk: SimDisk) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk::new(disk, DiskFault::Sync))
}

fn forgets_names(disk: SimDisk) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk::new(disk, DiskFault::SyncNames))
}

fn drops_pages(disk: SimDisk) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk::new(disk, DiskFault::LastPage))
}

#[test]
fn a_sync_that_does_nothing_is_detected() {
    detects(forgets_syncs);
}

#[test]
fn unsynced_names_are_detected() {
    detects(forgets_names);
}

#[test]
fn writes_without_their_last_page_are_detected() {
    detects(drops_pages);
}

/// Finds a seed whose run shows the fault, and checks that the run passes without it.
fn detects_in(world: fn(u64, Wrap, bool) -> World, fault: &str, wrap: Wrap) {
    const WITHIN: u64 = 500;
    let found = (0..WITHIN).find_map(|seed| world(seed, wrap, false).run().err());
    let violation = found.unwrap_or_else(|| panic!("{WITHIN} runs and {fault} was not detected"));
    println!("{fault}: {violation}");
    if let Err(other) = world(violation.seed, World::plain, false).run() {
        panic!("without {fault}: {other}");
    }
}

fn detects_while_expiring(fault: &str, wrap: Wrap) {
    detects_in(World::expiring, fault, wrap);
}

fn removes_nothing(disk: SimDisk) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk::new(disk, DiskFault::Removal))
}

fn leaves_out_syncs_in<const WORK: usize>(disk: SimDisk) -> Arc<dyn Disk> {
    Arc::new(FaultyDisk::new(disk, DiskFault::SyncIn(Work::ALL[WORK])))
}

#[test]
fn files_that_are_not_removed_are_detected() {
    detects_while_expiring("a removal that does nothing", removes_nothing);
}

/// Two works are exempt. Merge: if the victim's new name is lost, its blocks are only counted
/// twice. Drop: the missing sync has an effect only after a power cut that loses the record in the
/// catalog and keeps the removal.
#[test]
fn missing_syncs_of_one_kind_of_work_are_detected() {
    let faults: [Wrap; Work::ALL.len()] = [
        leaves_out_syncs_in::<0>,
        leaves_out_syncs_in::<1>,
        leaves_out_syncs_in::<2>,
        leaves_out_syncs_in::<3>,
        leaves_out_syncs_in::<4>,
        leaves_out_syncs_in::<5>,
        leaves_out_syncs_in::<6>,
        leaves_out_syncs_in::<7>,
        leaves_out_syncs_in::<8>,
        leaves_out_syncs_in::<9>,
        leaves_out_syncs_in::<10>,
    ];
    for (work, wrap) in Work::ALL.into_iter().zip(faults) {
        let fault = format!("no sync in {work:?}");
        match work {
            Work::Merge | Work::Drop => {}
            Work::RollUp => detects_in(World::rolling_up, &fault, wrap),
            Work::Forget => detects_in(World::churning, &fault, wrap),
            _ => detects_while_expiring(&fault, wrap),
        }
    }
}
