//! Plan of a run: settings and kind of faults, drawn from the seed.

use seiner_engine::{
    Bundling, Class, Classes, Durability, Filing, Given, Keep, MergePolicy, Options, WhenFull,
    parse_levels,
};
use seiner_platform::sim::Rng;
use std::time::Duration;

/// Kind of faults in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No faults: the program is only closed and opened.
    None,
    /// Crashes: the program is killed or the power fails, at any operation, including those of a start.
    Crashes,
    /// Failing reads, writes and syncs, plus crashes.
    Errors,
    /// A full disk, plus crashes.
    Full,
    /// Bit flips at rest.
    Damage,
}

/// Settings of one run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Kind of faults.
    pub fault_kind: FaultKind,
    /// Settings of the store.
    pub options: Options,
    /// Number of sources.
    pub sources: u64,
    /// Number of steps.
    pub steps: u64,
    /// Maximum number of rows in a batch.
    pub batch_rows: u64,
    /// True if some rows are invalid and must be rejected.
    pub with_defects: bool,
    /// True if the store expires data.
    pub expiring: bool,
    /// True if the store rolls up old samples.
    pub rolls_up: bool,
    /// True if sources come and go, and most of their data dies.
    pub churns: bool,
}

impl RunPlan {
    /// Draws the plan of a run.
    pub fn draw(rng: &mut Rng) -> RunPlan {
        let fault_kind = match rng.below(20) {
            0 => FaultKind::None,
            1..=11 => FaultKind::Crashes,
            12..=14 => FaultKind::Errors,
            15 | 16 => FaultKind::Full,
            _ => FaultKind::Damage,
        };
        let durability = match rng.below(10) {
            0..3 => Durability::Sync,
            3..8 => Durability::Interval(Duration::from_millis(100)),
            _ => Durability::Memory,
        };
        let options = Options {
            durability,
            memory: *rng.pick(&[1 << 20, 4 << 20, 64 << 20]),
            block_bytes: *rng.pick(&[256, 512, 1024, 4096]),
            segment_bytes: *rng.pick(&[64 << 10, 64 << 10, 256 << 10]),
            journal_bytes: *rng.pick(&[64 << 10, 64 << 10, 1 << 20]),
            idle_seal: Duration::from_secs(*rng.pick(&[1, 60, 600])),
            // The simulation acts as the operator, so all of its rules are intended.
            given: Given::All,
            apply_retention: true,
            bundles: *rng.pick(&[
                Bundling::Always,
                Bundling::Always,
                Bundling::Smaller,
                Bundling::Never,
            ]),
            small_blocks: rng.chance(1, 2),
            filing: *rng.pick(&[Filing::Always, Filing::Oldest]),
            ..Options::default()
        };
        RunPlan {
            fault_kind,
            options,
            sources: *rng.pick(&[1, 2, 5, 20, 100]),
            steps: if rng.chance(1, 20) {
                500
            } else {
                rng.between(20, 160)
            },
            batch_rows: *rng.pick(&[1, 4, 30, 30, 150, 150, 400]),
            with_defects: rng.chance(1, 2),
            expiring: false,
            rolls_up: false,
            churns: false,
        }
    }

    /// Draws the plan of a run in which the store expires data.
    pub fn draw_expiring(rng: &mut Rng) -> RunPlan {
        let mut plan = RunPlan::draw(rng);
        if plan.fault_kind == FaultKind::Damage {
            plan.fault_kind = FaultKind::Crashes;
        }
        plan.expiring = true;
        plan.with_defects = false;
        plan.sources = *rng.pick(&[1, 4, 8, 20]);
        plan.batch_rows = *rng.pick(&[4, 30, 100, 100]);
        let options = &mut plan.options;
        options.block_bytes = *rng.pick(&[256, 256, 1024, 4096]);
        options.segment_bytes = 64 << 10;
        options.journal_bytes = 64 << 10;
        draw_log(rng, options);
        options.classes = draw_classes(rng);
        plan
    }

    /// Draws the plan of a run in which sources come and go, so that many get the numbers of forgotten ones.
    pub fn draw_churning(rng: &mut Rng) -> RunPlan {
        let mut plan = RunPlan::draw_expiring(rng);
        plan.churns = true;
        plan.sources = *rng.pick(&[12, 40]);
        plan.batch_rows = *rng.pick(&[4, 30]);
        plan.options.memory = 1 << 20;
        draw_space(rng, &mut plan.options);
        plan
    }

    /// Draws the plan of a run in which the store rolls up old samples.
    pub fn draw_rolling_up(rng: &mut Rng) -> RunPlan {
        let mut plan = RunPlan::draw_expiring(rng);
        (plan.expiring, plan.rolls_up) = (false, true);
        plan.sources = *rng.pick(&[1, 3, 6]);
        plan.redraw(rng);
        plan.options.classes = draw_levels(rng);
        draw_space(rng, &mut plan.options);
        plan
    }

    /// Returns true if accepted rows survive a crash in the order of acceptance.
    pub fn journals(&self) -> bool {
        self.options.durability != Durability::Memory
    }

    /// Draws other rules and settings for the next start.
    pub(crate) fn redraw(&mut self, rng: &mut Rng) {
        let disk = self.options.disk;
        draw_log(rng, &mut self.options);
        if self.rolls_up {
            self.options.disk = disk;
            if rng.chance(2, 3) {
                self.options.classes = draw_levels(rng);
            }
            let least = self.options.least_disk();
            self.options.disk = disk.map(|disk| disk.max(least));
            return;
        }
        // The existing data must fit.
        self.options.disk = disk.map(|disk| disk.max(self.options.least_disk()));
        if rng.chance(3, 4) {
            self.options.classes = draw_classes(rng);
        }
    }

    /// Returns true if the program is killed and the power fails in this run.
    pub(crate) fn crashes(&self) -> bool {
        !matches!(self.fault_kind, FaultKind::None | FaultKind::Damage)
    }
}

/// Draws lanes, policy and budget.
fn draw_log(rng: &mut Rng, options: &mut Options) {
    options.lanes = *rng.pick(&[2, 4, 8, 32]);
    options.policy = *rng.pick(&MergePolicy::ALL);
    options.merge_from = *rng.pick(&[0.3, 0.8, 0.95]);
    options.disk = None;
    if rng.chance(4, 5) {
        let least = options.least_disk();
        options.disk = Some(least + least * rng.below(50) / 100);
    }
}

/// Draws a disk budget that is sometimes exhausted, or no budget.
fn draw_space(rng: &mut Rng, options: &mut Options) {
    options.disk = None;
    if rng.chance(1, 2) {
        let least = options.least_disk();
        options.disk = Some(least * rng.between(12, 40) / 10);
    }
}

/// Draws rules with levels for the measurements of numbered rows. All steps divide each other and
/// [`crate::rollup_model::WINDOW`].
fn draw_levels(rng: &mut Rng) -> Classes {
    const RULES: [(u64, &[&str]); 4] = [
        (
            5,
            &["1s for 1m", "2s for 30s then 10s for 10m", "2s for ever"],
        ),
        (
            20,
            &[
                "10s for 2m then 1m for 30m",
                "10s for ever",
                "1s for 1m then 20s for 5m then 1m for ever",
            ],
        ),
        (120, &["10s for 10m then 2m for ever", "2m for 1h"]),
        (
            600,
            &["1m for 1h", "10s for 20m then 20s for 40m then 2m for 2h"],
        ),
    ];
    let mut list = Vec::new();
    for measurement in 0..4 {
        let (age, levels) = *rng.pick(&RULES);
        let rollup = match rng.below(10) {
            0 => continue,
            1 => Vec::new(),
            _ => parse_levels(rng.pick::<&str>(levels)).expect("the texts of the rules are valid"),
        };
        list.push(Class {
            name: format!("c{measurement}"),
            sources: format!("m{measurement}"),
            keep: Keep {
                age: Some(Duration::from_secs(age)),
                ..Keep::default()
            },
            rollup,
            ..Class::forever()
        });
    }
    Classes::new(list).expect("the simulation's rules are good")
}

/// Draws rules for the measurements of numbered rows.
fn draw_classes(rng: &mut Rng) -> Classes {
    let mut list = Vec::new();
    for measurement in 0..4 {
        if rng.chance(1, 5) {
            continue;
        }
        let mut some = |values: &[u64], chance: u64| {
            let value = *rng.pick(values);
            rng.chance(1, chance).then_some(value)
        };
        let keep = Keep {
            age: some(&[5, 60, 600, 3600], 3).map(Duration::from_secs),
            rows: some(&[1, 20, 200, 1000], 2),
            bytes: some(&[8 << 10, 64 << 10, 200 << 10], 4),
        };
        list.push(Class {
            name: format!("c{measurement}"),
            sources: format!("m{measurement}"),
            keep,
            priority: rng.below(3) as u8,
            when_full: *rng.pick(&[WhenFull::Refuse, WhenFull::Shed, WhenFull::Shed]),
            ..Class::forever()
        });
    }
    if rng.chance(1, 2) {
        list.push(Class {
            when_full: WhenFull::Shed,
            ..Class::forever()
        });
    }
    Classes::new(list).expect("the simulation's rules are good")
}
