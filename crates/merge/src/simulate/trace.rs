//! Recorded workloads: the blocks that a store wrote, as text. `docs/format/merge-trace.md` has
//! the format.

use super::workload::{Arrival, Keep};
use std::collections::HashMap;
use std::fmt;

/// The first line.
pub const HEAD: &str = "time,source,bytes,keep";

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which one, from 1.
    pub line: usize,
    /// What is wrong, and what is expected.
    pub reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the trace: {}", self.line, self.reason)
    }
}

impl std::error::Error for BadLine {}

/// A block as a line of a trace, without the end of the line.
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

/// Reads a trace. Sources are given numbers in the order in which they occur; times must not go
/// back.
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
    let number = |name: &str, text: &str| format!("{name} '{text}' is no whole number");
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
    fn what_is_written_is_read() {
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
        let lines: Vec<String> = arrivals.iter().map(line).collect();
        let text = format!("{HEAD}\n{}\n", lines.join("\n"));
        assert_eq!(parse(&text), Ok(arrivals));
    }

    #[test]
    fn sources_may_have_names() {
        let trace =
            parse("time,source,bytes,keep\n1,cpu a,10,forever\n1,b,10,ring:2\n2,cpu a,9,age:5\n");
        let sources: Vec<u32> = trace.unwrap().iter().map(|one| one.source).collect();
        assert_eq!(sources, [0, 1, 0]);
    }

    #[test]
    fn bad_lines_say_where_and_why() {
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
