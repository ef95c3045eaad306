//! Benchmarks, one per file.

pub mod amplification;
pub mod bundles;
pub mod cluster_balance;
pub mod cluster_compaction;
pub mod cluster_cost;
pub mod cluster_faults;
pub mod cluster_scale;
pub mod core;
pub mod core_lock;
pub mod embedded;
pub mod merge_figures;
pub mod merge_latency;
pub mod merge_rate;
pub mod merge_sim;
pub mod merge_writes;
pub mod peers;
pub mod protocols;
pub mod queries;
pub mod raid_faults;
pub mod raid_heldout;
pub mod raid_matrix;
pub mod raid_phases;
pub mod raid_real;
pub mod restart;
pub mod simulate;
pub mod soak;
