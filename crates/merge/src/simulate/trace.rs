//! Recorded workloads: the blocks that a store wrote, as text. Format:
//! `docs/format/merge-trace.md`.

use super::workload::{Arrival, Keep};
use std::collections::HashMap;
use std::fmt;

/// First line of a trace.
pub const HEAD: &str = "time,source,bytes,keep";

/// Error: a line that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: usize,
    /// Reason, and the expected form.
    pub reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the trace: {}", self.line, self.reason)
    }
}

impl std::error::Error for BadLine {}

/// Returns a block as a line of a trace, without the line end.
pub fn line(arrival: &Arrival) -> String {
    let Arrival {
        at,
        source,
        bytes,
        keep,
    } = arrival;
    let keep = match keep {
        Keep::Ring(blocks) => format!("ring:{blocks}"),
        Keep::Age(age) => format!("age:{age}"),
        Keep::Forever => "forever".to_string(),
    };
    format!("{at},{source},{bytes},{keep}")
}

/// Returns a whole trace as text.
pub fn text(arrivals: &[Arrival]) -> String {
    let mut text = format!("{HEAD}\n");
    for arrival in arrivals {
        text.push_str(&line(arrival));
        text.push('\n');
    }
    text
}

/// Returns `arrivals` repeated, `times` times in all. With more than one repetition, the first lies
/// before time 0: it fills the store and is not measured. With `times ≤ 1`, returns the arrivals
/// unchanged.
pub fn repeat(arrivals: &[Arrival], times: u32) -> Vec<Arrival> {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return Vec::new();
    };
    if times <= 1 {
        return arrivals.to_vec();
    }
    // The distance between two repetitions is the mean distance between two blocks.
    let span = last.at - first.at;
    let lap = span + (span / arrivals.len() as i64).max(1);
    let laps = -1..i64::from(times) - 1;
    let shifted = laps.flat_map(|number| {
        arrivals.iter().map(move |arrival| Arrival {
            at: arrival.at - first.at + number * lap,
            ..*arrival
        })
    });
    shifted.collect()
}

/// Parses a trace. Sources are numbered in the order of their first line. Fails if times go back.
pub fn parse(text: &str) -> Result<Vec<Arrival>, BadLine> {
    let mut sources: HashMap<&str, u32> = HashMap::new();
    let mut arrivals: Vec<Arrival> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let bad = |reason: String| BadLine {
            line: index + 1,
            reason,
        };
        if index == 0 {
            if line.trim_end() != HEAD {
                return Err(bad(format!("it must be '{HEAD}', but is '{line}'")));
            }
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let numbered = sources.len() as u32;
        let (name, mut arrival) = fields(line).map_err(bad)?;
        arrival.source = *sources.entry(name).or_insert(numbered);
        if arrivals.last().is_some_and(|last| last.at > arrival.at) {
            return Err(bad(format!(
                "time {} is before that of the line above: sort the trace by time",
                arrival.at
            )));
        }
        arrivals.push(arrival);
    }
    Ok(arrivals)
}

fn fields(line: &str) -> Result<(&str, Arrival), String> {
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    let [time, source, bytes, keep] = fields[..] else {
        return Err(format!("{} fields instead of 4: {HEAD}", fields.len()));
    };
    let number = |name: &str, text: &str| format!("{name} '{text}' is not a whole number");
    let at = time.parse().map_err(|_| number("time", time))?;
    let bytes: u32 = bytes.parse().map_err(|_| number("bytes", bytes))?;
    if bytes == 0 {
        return Err("a block of 0 bytes".to_string());
    }
    let arrival = Arrival {
        at,
        source: 0,
        bytes,
        keep: self::keep(keep)?,
    };
    Ok((source, arrival))
}

fn keep(text: &str) -> Result<Keep, String> {
    let bad = || format!("keep '{text}' is none of ring:BLOCKS, age:NANOSECONDS, forever");
    let above_0 = |ring: &u32| *ring > 0;
    match text.split_once(':') {
        Some(("ring", blocks)) => {
            let blocks = blocks.parse().ok().filter(above_0);
            blocks.map(Keep::Ring).ok_or_else(bad)
        }
        Some(("age", age)) => {
            let age = age.parse().ok().filter(|age: &i64| *age > 0);
            age.map(Keep::Age).ok_or_else(bad)
        }
        None if text == "forever" => Ok(Keep::Forever),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_trace_is_read() {
        let keeps = [Keep::Ring(50), Keep::Age(3_600_000_000_000), Keep::Forever];
        let arrivals: Vec<Arrival> = (0..)
            .zip(keeps)
            .map(|(source, keep)| Arrival {
                at: i64::from(source) - 1,
                source,
                bytes: 4096,
                keep,
            })
            .collect();
        assert_eq!(parse(&text(&arrivals)), Ok(arrivals));
    }

    #[test]
    fn the_first_of_several_times_fills_the_store() {
        let at = |time| Arrival {
            at: time,
            source: 0,
            bytes: 1,
            keep: Keep::Forever,
        };
        let times = |arrivals: Vec<Arrival>| -> Vec<i64> {
            arrivals.iter().map(|arrival| arrival.at).collect()
        };
        let recorded = [at(100), at(110), at(130)];
        assert_eq!(times(repeat(&recorded, 1)), [100, 110, 130]);
        let all = [-40, -30, -10, 0, 10, 30, 40, 50, 70];
        assert_eq!(times(repeat(&recorded, 3)), all);
        assert_eq!(repeat(&[], 3), []);
    }

    #[test]
    fn sources_may_have_names() {
        let trace =
            parse("time,source,bytes,keep\n1,cpu a,10,forever\n1,b,10,ring:2\n2,cpu a,9,age:5\n");
        let sources: Vec<u32> = trace.unwrap().iter().map(|one| one.source).collect();
        assert_eq!(sources, [0, 1, 0]);
    }

    #[test]
    fn errors_of_bad_lines_state_line_and_reason() {
        let reason = |line: &str| {
            let bad = parse(&format!("{HEAD}\n5,a,10,forever\n{line}")).unwrap_err();
            assert_eq!(bad.line, 3);
            bad.reason
        };
        assert!(reason("6,a,10").contains("3 fields"));
        assert!(reason("x,a,10,forever").contains("time 'x'"));
        assert!(reason("6,a,-1,forever").contains("bytes '-1'"));
        assert!(reason("6,a,0,forever").contains("0 bytes"));
        assert!(reason("6,a,10,ring:0").contains("ring:BLOCKS"));
        assert!(reason("6,a,10,age:soon").contains("age:NANOSECONDS"));
        assert!(reason("4,a,10,forever").contains("sort"));
        assert_eq!(parse("1,a,10,forever").unwrap_err().line, 1);
    }
}
