//! Report: figures of a run.

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub acknowledged: u64,
    pub compared: u64,
    pub takeovers: u64,
    pub handovers: u64,
    pub crashes: u64,
    pub power_cuts: u64,
    pub complete: u64,
    pub incomplete: u64,
    pub deletes: u64,
    pub grids: u64,
    /// Simulated time with failures, s.
    pub seconds: u64,
    /// Digest of all events.
    pub digest: u64,
}

impl Report {
    /// Adds the figures of another run.
    pub fn add(&mut self, other: &Report) {
        self.acknowledged += other.acknowledged;
        self.compared += other.compared;
        self.takeovers += other.takeovers;
        self.handovers += other.handovers;
        self.crashes += other.crashes;
        self.power_cuts += other.power_cuts;
        self.complete += other.complete;
        self.incomplete += other.incomplete;
        self.deletes += other.deletes;
        self.grids += other.grids;
        self.seconds += other.seconds;
    }
}
