//! Packets of collectd. No bytes cause a panic, and every row has a field.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::{Batch, Notation};
use seiner_wire::collectd::{Level, Packets, Security, Types};
use seiner_wire::line::{Arena, LineNotation};

fuzz_target!(|bytes: &[u8]| {
    let mut types = Types::default();
    types
        .add("if_octets rx:DERIVE:0:U, tx:DERIVE:0:U")
        .expect("the line is valid");
    let _ = Types::default().add(&String::from_utf8_lossy(bytes));
    for level in [Level::None, Level::Sign] {
        let security = Security::new(level, "ann: secret").expect("the line is valid");
        let packets = Packets {
            types: types.clone(),
            security,
        };
        let (arena, mut batch) = (Arena::new(), Batch::new());
        let problems = packets.decode(bytes, 1, &arena, &mut batch);
        assert!(batch.rows.len() <= bytes.len());
        assert_eq!(problems.reason.is_some(), problems.rejected > 0);
        for row in &batch.rows {
            assert!(row.cells > 0);
            let _ = LineNotation.source_key(row.name);
        }
    }
});
