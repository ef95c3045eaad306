//! `seiner import victoria`: imports the export of VictoriaMetrics.
//!
//! A line contains a part of a series: its labels, its values, and its times in ms. Every sample becomes what remote
//! write makes of it: the measurement is the name of the metric, the labels are tags, and the field is `value`.

use super::fault::Fault;
use super::flags::pair;
use super::json_lines::{Line, Lines, too_long};
use super::outcome::{conclude, each_file, summary};
use super::rejects::{Rejects, RejectsFlag, Reporter};
use super::series::{Labels, Series};
use super::table::sink::TableSink;
use crate::failure::Failure;
use crate::source::{self, Source};
use crate::target::{Archive, Target};
use anyhow::{Context, Result};
use clap::Args;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use std::path::{Path, PathBuf};

/// Maximum bytes of a line. A line may contain all samples of a series.
const LINE_BYTES: usize = 256 << 20;

/// Number of samples that are written together.
const BATCH_SAMPLES: usize = 1 << 17;

/// Value of a null: the stale marker of Prometheus. VictoriaMetrics stores no other NaN.
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// Words for values that JSON has no numbers for.
const WORDS: [&str; 4] = ["NaN", "+Inf", "-Inf", "Inf"];

/// Import the export of VictoriaMetrics: JSON lines of `/api/v1/export`.
///
/// A metric becomes a measurement with the field `value`, and its labels become tags, as with
/// remote write. Stale markers are kept. Lines that cannot be read are rejected; the rest is
/// stored.
///
/// Examples:
///
///   curl http://victoria:8428/api/v1/export -d 'match[]={__name__!=""}' -o export.jsonl
///
///   seiner import victoria --data ./seiner-data export.jsonl
#[derive(Args)]
pub struct Victoria {
    #[command(flatten)]
    target: Target,
    /// Tag to add to all rows, as TAG=VALUE. May be given several times.
    #[arg(long, value_name = "TAG=VALUE", value_parser = pair)]
    tag: Vec<(String, String)>,
    #[command(flatten)]
    rejects: RejectsFlag,
    #[command(flatten)]
    archive: Archive,
    /// Files to import, plain or compressed by gzip. `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

impl Victoria {
    /// Imports all files.
    pub fn run(self) -> Result<(), Failure> {
        let mut rejects = self.rejects.create()?;
        let mut sink = TableSink::new(self.target.open_archive(self.archive.block_bytes)?);
        let failed = each_file(
            &self.files,
            PathBuf::as_path,
            &mut rejects,
            |path, rejects| self.import(path, &mut sink, rejects),
        );
        let counts = sink.finish()?;
        let summary = summary(&counts, failed, self.files.len());
        conclude(&summary, &counts, failed, rejects)
    }

    fn import(&self, path: &Path, sink: &mut TableSink, rejects: &mut Rejects) -> Result<()> {
        let Source {
            name, reader, bar, ..
        } = source::open(path)?;
        let mut reporter = Reporter {
            rejects,
            bar: &bar,
            name: &name,
            noun: "",
        };
        let mut lines = Lines::with_limit(reader, LINE_BYTES);
        let mut series = Series::new(&self.tag);
        loop {
            let read = lines.next().context("the file cannot be read");
            let fault = match read {
                Ok(Line::Text) => match parse(lines.bytes.trim_ascii(), lines.number) {
                    Ok(line) => {
                        let faults = series.add(line.metric, line.times, line.values, lines.number);
                        faults.into_iter().for_each(|fault| {
                            sink.reject(&fault, &mut reporter);
                        });
                        if series.samples() >= BATCH_SAMPLES {
                            series.write(sink, &mut reporter)?;
                        }
                        continue;
                    }
                    Err(fault) => fault,
                },
                Ok(Line::TooLong) => Fault {
                    reason: format!(
                        "the line has more than {} MiB; export it with max_rows_per_line=100000",
                        LINE_BYTES >> 20
                    ),
                    ..too_long(lines.number)
                },
                Ok(Line::End) => break,
                Err(error) => {
                    series.write(sink, &mut reporter)?;
                    return Err(error);
                }
            };
            sink.reject(&fault, &mut reporter);
        }
        series.write(sink, &mut reporter)?;
        bar.finish_and_clear();
        Ok(())
    }
}

/// A line of the export.
struct ExportLine {
    metric: Labels,
    values: Vec<f64>,
    /// Times in ns since 1970; `None` if the time does not fit.
    times: Vec<Option<i64>>,
}

#[derive(serde::Deserialize)]
struct ParsedLine {
    metric: Labels,
    values: Vec<Number>,
    timestamps: Vec<i64>,
}

fn parse(text: &[u8], line: u64) -> Result<ExportLine, Fault> {
    let fault = |reason: String| Fault {
        line,
        reason,
        text: String::from_utf8_lossy(text).chars().take(1000).collect(),
        ..Fault::default()
    };
    // Only a line that is not JSON is read a second time.
    let parsed = serde_json::from_slice::<ParsedLine>(text).or_else(|error| match quoted(text) {
        Some(quoted) => serde_json::from_slice(&quoted),
        None => Err(error),
    });
    let parsed = parsed.map_err(|error| {
        fault(format!(
            "the line is not an export of VictoriaMetrics with metric, values and timestamps: {error}"
        ))
    })?;
    let (values, times) = (parsed.values.len(), parsed.timestamps.len());
    if values != times {
        return Err(fault(format!(
            "the line has {values} values and {times} times"
        )));
    }
    if parsed.metric.get("__name__").is_none_or(String::is_empty) {
        return Err(fault("the metric has no __name__".to_string()));
    }
    let times = parsed.timestamps.iter();
    Ok(ExportLine {
        metric: parsed.metric,
        values: parsed.values.iter().map(|value| value.0).collect(),
        times: times.map(|ms| ms.checked_mul(1_000_000)).collect(),
    })
}

/// Returns a line with quotes around the words for NaN and infinities, which old versions write as they are.
/// Returns `None` if there are no such words.
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    let (mut is_text, mut is_changed) = (false, false);
    while let Some(&byte) = rest.first() {
        if is_text || byte == b'"' {
            // A backslash and the byte after it are a part of the text.
            let length = if is_text && byte == b'\\' {
                2.min(rest.len())
            } else {
                1
            };
            is_text ^= byte == b'"';
            out.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        let word = WORDS.iter().find(|word| rest.starts_with(word.as_bytes()));
        if let Some(word) = word {
            out.push(b'"');
            out.extend_from_slice(word.as_bytes());
            out.push(b'"');
        } else {
            out.push(byte);
        }
        is_changed |= word.is_some();
        rest = &rest[word.map_or(1, |word| word.len())..];
    }
    is_changed.then_some(out)
}

/// A value: a number, null for a stale marker, or the text of an infinity.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a number, null or Infinity")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_unit<E: Error>(self) -> Result<Number, E> {
                Ok(Number(f64::from_bits(STALE)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                match text {
                    "Infinity" | "+Inf" | "Inf" => Ok(Number(f64::INFINITY)),
                    "-Infinity" | "-Inf" => Ok(Number(f64::NEG_INFINITY)),
                    "NaN" => Ok(Number(f64::from_bits(STALE))),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(NumberVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_an_export_are_read_bit_by_bit() {
        let text = br#"{"metric":{"__name__":"m","a":"b"},"values":[1,0.1,null,"-Infinity",1.7e308,-0.0],"timestamps":[1,2,3,4,5,-6]}"#;
        let line = parse(text, 1).unwrap();
        let bits: Vec<u64> = line.values.iter().map(|value| value.to_bits()).collect();
        let expected = [
            1.0,
            0.1,
            f64::from_bits(STALE),
            f64::NEG_INFINITY,
            1.7e308,
            -0.0,
        ];
        assert_eq!(bits, expected.map(f64::to_bits));
        assert_eq!(line.times[0], Some(1_000_000));
        assert_eq!(line.times[5], Some(-6_000_000));
    }

    #[test]
    fn words_of_old_versions_are_values() {
        let text = br#"{"metric":{"__name__":"m","a":"NaN,+Inf \\\",-Inf"},"values":[+Inf,-Inf,NaN,1.5],"timestamps":[1,2,3,4]}"#;
        let line = parse(text, 1).unwrap();
        let bits: Vec<u64> = line.values.iter().map(|value| value.to_bits()).collect();
        let infinities = [f64::INFINITY, f64::NEG_INFINITY, f64::from_bits(STALE), 1.5];
        assert_eq!(bits, infinities.map(f64::to_bits));
        assert_eq!(line.metric["a"], "NaN,+Inf \\\",-Inf");
    }

    #[test]
    fn other_lines_are_rejected_with_a_reason() {
        for (text, words) in [
            ("{}", "missing field `metric`"),
            ("[1]", "not an export"),
            (
                r#"{"metric":{"a":"b"},"values":[],"timestamps":[]}"#,
                "no __name__",
            ),
            (
                r#"{"metric":{"__name__":"m"},"values":[1],"timestamps":[]}"#,
                "1 values and 0 times",
            ),
            (
                r#"{"metric":{"__name__":"m"},"values":["x"],"timestamps":[1]}"#,
                "Infinity",
            ),
            (
                r#"{"metric":{"__name__":"m"},"values":[1],"timestamps":[1e300]}"#,
                "not an export",
            ),
        ] {
            let fault = parse(text.as_bytes(), 7).err().unwrap();
            assert!(
                fault.reason.contains(words) && fault.line == 7,
                "{}",
                fault.reason
            );
        }
    }
}
