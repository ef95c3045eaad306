//! Samples of the tests of ports.

use seiner_cluster::ClusterStore;
use seiner_model::{Column, Columns, FieldColumn, SourceKey};
use seiner_store::Store;
use std::ops::Range;

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;
/// Time of the first rows of the tests, ns.
pub const START: i64 = 1_700_000_000 * SECOND;

/// Appends rows of one field, durably: the value is the time plus `offset`.
#[allow(dead_code, reason = "each test uses a part")]
pub fn put(port: &ClusterStore, name: &str, times: Range<i64>, offset: i64) {
    let key = SourceKey::new(name, [("a", "b")]).unwrap();
    let source = port.register(&key).unwrap();
    let columns = Columns {
        times: times.clone().map(|time| START + time * SECOND).collect(),
        fields: vec![FieldColumn {
            present: None,
            values: Column::I64(times.map(|time| time + offset).collect()),
        }],
    };
    let receipt = port.append_columns(source, &["v"], &columns).unwrap();
    assert_eq!(receipt.rejected_total, 0);
    port.wait_durable(receipt.position).unwrap();
}
