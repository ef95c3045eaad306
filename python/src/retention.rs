//! Retention classes, and the state of the log.

use crate::failure::{Failure, invalid};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use seiner_engine::merge::Death;
use seiner_engine::{Class, Classes, DecisionRecord, Keep, LogStatus, WhenFull, parse_levels};
use seiner_model::parse_duration;
use std::time::Duration;

/// A duration: in ns, or as a text.
#[derive(FromPyObject)]
pub enum Span {
    Ns(i64),
    Text(String),
}

/// A class from Python: name, sources, age, rows, bytes, priority, behaviour when the store is full, and
/// levels of roll-ups.
pub type Given = (
    String,
    String,
    Option<Span>,
    Option<u64>,
    Option<u64>,
    u8,
    String,
    Option<String>,
);

/// Parses classes.
pub fn classes(given: Vec<Given>) -> Result<Classes, Failure> {
    let list = given.into_iter().map(class).collect::<Result<_, _>>()?;
    Ok(Classes::new(list)?)
}

fn class(given: Given) -> Result<Class, Failure> {
    let (name, sources, age, rows, bytes, priority, when_full, rollup) = given;
    let ns = match age {
        None => None,
        Some(Span::Ns(ns)) => Some(ns),
        Some(Span::Text(text)) => Some(parse_duration(&text)?),
    };
    let age = match ns.map(u64::try_from).transpose() {
        Ok(ns) => ns.map(Duration::from_nanos),
        Err(_) => {
            return invalid(format!(
                "class {name:?}: an age below 0 keeps nothing; give 1 s or more"
            ));
        }
    };
    let when_full = match when_full.as_str() {
        "refuse" => WhenFull::Refuse,
        "shed" => WhenFull::Shed,
        other => {
            return invalid(format!(
                "class {name:?}: when_full = {other:?} is neither \"refuse\" nor \"shed\""
            ));
        }
    };
    let rollup = match rollup.as_deref().map(parse_levels).transpose() {
        Ok(levels) => levels.unwrap_or_default(),
        Err(error) => return invalid(format!("class {name:?}: rollup: {error}")),
    };
    Ok(Class {
        name,
        sources,
        keep: Keep { age, rows, bytes },
        priority,
        when_full,
        rollup,
        ..Class::forever()
    })
}

macro_rules! dict {
    ($py:expr, $($name:literal: $value:expr),* $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item($name, $value)?;)*
        dict
    }};
}

/// Returns the state of the log: space, lanes, segments, classes.
pub fn log_dict<'py>(py: Python<'py>, log: &LogStatus) -> PyResult<Bound<'py, PyDict>> {
    let fill = &log.fill;
    let segments = log.segments.iter().map(|segment| {
        let stat = &segment.stat;
        let dies = match stat.dies {
            Death::At(time) => Some(time),
            Death::Never | Death::Unknown => None,
        };
        Ok(dict!(py,
            "number": stat.number, "lane": stat.lane, "bytes": stat.bytes, "live": stat.live,
            "dead": stat.dead, "open": segment.open, "born": stat.born, "dies": dies,
        ))
    });
    let life = |ns: i64| (ns != i64::MAX).then_some(ns);
    let lanes = log.lanes.iter().map(|lane| {
        Ok(dict!(py,
            "id": lane.id, "from_ns": life(lane.from), "to_ns": life(lane.to),
            "flow_share": lane.flow_share, "segment_bytes": lane.segment_bytes,
        ))
    });
    let classes = log.classes.iter().map(|status| {
        let (class, hidden) = (&status.class, status.hidden_before);
        Ok(dict!(py,
            "name": &class.name, "select": &class.sources,
            "step_ns": status.step_ns, "sources": status.sources, "live": status.live,
            "hidden_before": (hidden != i64::MIN).then_some(hidden),
        ))
    });
    Ok(dict!(py,
        "now": log.now,
        "budget": (fill.budget != u64::MAX).then_some(fill.budget),
        "used": fill.used, "live": fill.live, "reserved": fill.reserved,
        "u": fill.u(), "um": fill.um, "v": fill.v(), "hunger": fill.hunger(),
        "planing": log.is_planing(),
        "segment_bytes": log.segment_bytes,
        "policy": log.policy.name(),
        "written_per_byte": log.write_amplification(),
        "lanes": lanes.collect::<PyResult<Vec<_>>>()?,
        "segments": segments.collect::<PyResult<Vec<_>>>()?,
        "classes": classes.collect::<PyResult<Vec<_>>>()?,
    ))
}

/// Returns a decision of the merge policy and the inputs of the decision.
pub fn decision_dict<'py>(
    py: Python<'py>,
    record: &DecisionRecord,
) -> PyResult<Bound<'py, PyDict>> {
    let (decision, why) = (&record.decision, &record.decision.why);
    let merge = decision.merge.iter().map(|victim| {
        Ok(dict!(py,
            "number": victim.number, "dead_share": victim.dead_share, "live": victim.live,
            "gain": victim.gain, "score": victim.score,
        ))
    });
    Ok(dict!(py,
        "at": record.at, "policy": why.policy.name(), "u": why.u, "um": why.um, "v": why.v,
        "hunger": why.hunger, "candidates": why.candidates, "drop": &decision.drop,
        "merge": merge.collect::<PyResult<Vec<_>>>()?,
    ))
}
