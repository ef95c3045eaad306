//! Topics and payloads of MQTT, and patterns of topics. The mapping never panics. A message that is rejected as a whole
//! leaves no row behind, and a second message does not change the rows of the first one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use seiner_model::{Batch, Notation};
use seiner_wire::line::{Arena, LineNotation};
use seiner_wire::mqtt::{Mapping, Message, Part, Pattern, PayloadKind, Rule, RuleDraft};

fn rule(topic: &str, payload: PayloadKind, time: &str) -> Option<Rule> {
    let draft = RuleDraft {
        topic: topic.to_string(),
        measurement: if topic.contains("{measurement}") { "" } else { "m" }.to_string(),
        payload,
        time: time.to_string(),
        ..RuleDraft::default()
    };
    Rule::new(draft).ok()
}

fuzz_target!(|input: (&str, &str, &[u8])| {
    let (pattern, topic, payload) = input;
    let own = match Pattern::parse(pattern) {
        Ok(parsed) => {
            assert!(!parsed.filter().contains(['{', '}']));
            rule(pattern, PayloadKind::Auto, "t")
        }
        Err(_) => None,
    };
    let rules = [
        own,
        rule("json/{id}/{field}", PayloadKind::Json, "a.t"),
        rule("number/{measurement}", PayloadKind::Number, ""),
        rule("line/#", PayloadKind::Line, ""),
        rule("{measurement}/{field}/#", PayloadKind::Auto, "t"),
    ];
    let mapping = Mapping::new(rules.into_iter().flatten().collect(), true);
    let arena = Arena::new();
    let mut batch = Batch::new();
    for topic in [topic, "json/a/b", "number/a", "line", "a/b"] {
        let (rows, cells) = (batch.rows.len(), batch.cells.len());
        let message = Message { topic, payload, received: 1 };
        let decoded = mapping.decode(message, &arena, &mut batch);
        match decoded {
            Ok(()) => assert!(batch.rows.len() > rows),
            Err(rejection) if rejection.part == Part::Topic => assert_eq!(batch.rows.len(), rows),
            Err(rejection) => assert!(rejection.rows > 0 && !rejection.reason.is_empty()),
        }
        let added: usize = batch.rows[rows..].iter().map(|row| row.cells as usize).sum();
        assert_eq!(batch.cells.len() - cells, added);
        for row in &batch.rows[rows..] {
            assert!(row.cells > 0);
            let _ = LineNotation.source_key(row.name);
        }
    }
});
