//! Texts of scraped targets. No bytes cause a panic, and the name of every sample is readable or rejected.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::Notation;
use seiner_wire::exposition::{Exposition, Form, Item, TargetLabels};
use seiner_wire::remote_write::LabelNotation;

fuzz_target!(|bytes: &[u8]| {
    let target = [("job", "a"), ("instance", "b:1")].map(|(name, value)| (name.into(), value.into()));
    for (form, honor_labels) in [(Form::Prometheus, false), (Form::OpenMetrics, true)] {
        let labels = TargetLabels::new(target.clone(), honor_labels);
        let Ok(text) = Exposition::new(bytes, form) else {
            continue;
        };
        let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let mut name = Vec::new();
        for item in text {
            match item {
                Ok(Item::Sample(sample)) => {
                    name.clear();
                    labels.put_name(&sample, &mut name);
                    assert!(name.len() <= 64 + 32 * bytes.len());
                    let _ = LabelNotation.source_key(&name);
                }
                Ok(_) => {}
                Err(error) => assert!((1..=lines).contains(&error.line)),
            }
        }
    }
});
