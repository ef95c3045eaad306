//! The benchmarks, one a file.

pub mod amplification;
pub mod embedded;
pub mod merge_sim;
pub mod peers;
pub mod restart;
