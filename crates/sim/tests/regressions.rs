//! Seeds that found something once. A seed stands for a run of this version of the simulation:
//! where the simulation itself changes, the test beside the mended code is what keeps.

use seiner_sim::World;

fn holds(seed: u64) {
    if let Err(violation) = World::new(seed, World::plain, false).run() {
        panic!("{violation}");
    }
}
