//! Queries: the parts that need neither a lock nor a disk.

pub(crate) mod spans;
