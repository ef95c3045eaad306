//! Runs that found something once, under the name of what they found. A seed stands for a run of
//! this version of the simulation: when the simulation changes, the same mistake shows elsewhere.

use seiner_sim::World;

fn hold(seeds: &[u64]) {
    for &seed in seeds {
        if let Err(violation) = World::new(seed, World::plain, false).run() {
            panic!("{violation}");
        }
    }
}

/// A killed program leaves journal bytes that are seen and not synced; started again, it took
/// them for durable.
#[test]
fn rows_replayed_after_a_kill_survive_the_power_cut_that_follows() {
    hold(&[6, 16]);
}

/// The same with the catalog: names and layouts of sealed segments were lost.
#[test]
fn a_catalog_read_after_a_kill_survives_the_power_cut_that_follows() {
    hold(&[1195, 1787]);
}

/// A journal file that was begun in vain had a name that was not synced; the gap that it left
/// made the start remove the files before it.
#[test]
fn journal_files_begun_on_a_full_disk_leave_no_gap() {
    hold(&[2, 276, 311]);
}

/// A journal file that had been let go came back alone and gave sources the layouts of its time.
#[test]
fn journal_files_that_come_back_do_not_hide_fields() {
    hold(&[114, 151, 155]);
}

/// An open buffer was taken to begin after all blocks because it began after the youngest.
#[test]
fn aggregates_hold_when_blocks_and_the_open_buffer_overlap() {
    hold(&[15, 29, 77]);
}

/// A catalog frame that could not be read shifted the numbers of the layouts after it: blocks
/// were decoded with the columns of others.
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
