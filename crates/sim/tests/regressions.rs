//! Runs that once found a defect, named after the defect. A seed stands for a run of this version
//! of the simulation: after a change of the simulation, other seeds show the defect.

use seiner_sim::World;

fn hold(seeds: &[u64]) {
    for &seed in seeds {
        if let Err(violation) = World::new(seed, World::plain, false).run() {
            panic!("{violation}");
        }
    }
}

/// A killed program leaves journal bytes that are readable and not synced. After a restart the
/// engine took them for durable.
#[test]
fn rows_replayed_after_a_kill_survive_the_power_cut_that_follows() {
    hold(&[6, 16]);
}

/// The same defect in the catalog: names and layouts of sealed segments were lost.
#[test]
fn a_catalog_read_after_a_kill_survives_the_power_cut_that_follows() {
    hold(&[1195, 1787]);
}

/// A journal file that was begun on a full disk had a name that was not synced. The gap that it
/// left made the start remove the files before it.
#[test]
fn journal_files_begun_on_a_full_disk_leave_no_gap() {
    hold(&[2, 276, 311]);
}

/// A removed journal file came back alone after a crash and restored old layouts of sources.
#[test]
fn journal_files_that_come_back_do_not_hide_fields() {
    hold(&[114, 151, 155]);
}

/// An open buffer was taken to begin after all blocks because it began after the youngest block.
#[test]
fn aggregates_hold_when_blocks_and_the_open_buffer_overlap() {
    hold(&[15, 29, 77]);
}

/// An unreadable catalog frame shifted the numbers of the layouts after it, so blocks were decoded
/// with the columns of other layouts.
#[test]
fn a_lost_frame_of_the_catalog_does_not_shift_layouts() {
    hold(&[470, 580, 789]);
}

#[test]
fn a_block_that_a_cut_between_pieces_divides_is_read_whole() {
    hold(&[5]);
}

#[test]
fn rows_of_a_lost_layout_do_not_take_later_rows_with_them() {
    hold(&[844]);
}
