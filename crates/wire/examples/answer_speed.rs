//! Measures the time to write an answer of 40,000 samples in each format.

use seiner_model::{Column, SourceKey};
use seiner_wire::answer::{Answer, AnswerShape, Cells, Format, Head, Series, TimeUnit};
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SAMPLES: usize = 40_000;
const ROUNDS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    for series in [1, 1_000] {
        let keys: Vec<SourceKey> = (0..series)
            .map(|host| {
                SourceKey::new(
                    "cpu",
                    [
                        ("host", format!("host_{host}")),
                        ("region", "eu".to_string()),
                    ],
                )
            })
            .collect::<Result<_, _>>()?;
        let len = SAMPLES / series;
        let times: Vec<i64> = (0..len as i64)
            .map(|row| 1_700_000_000_000_000_000 + row * 10_000_000_000)
            .collect();
        let decimals = Column::F64(
            (0..len)
                .map(|row| (row * 7919 % 10_000) as f64 / 100.0)
                .collect(),
        );
        let digits = Column::F64((0..len).map(|row| (row as f64).sin()).collect());
        for (name, column) in [("2 decimals", &decimals), ("all digits", &digits)] {
            for format in [Format::Json, Format::Csv, Format::Arrow] {
                let (quickest, bytes) = measure(format, &keys, &times, column)?;
                println!("{series:5} series, {name}, {format:?}: {quickest:?} for {bytes} bytes");
            }
        }
    }
    Ok(())
}

fn measure(
    format: Format,
    keys: &[SourceKey],
    times: &[i64],
    column: &Column,
) -> Result<(Duration, usize), Box<dyn Error>> {
    let head = Head {
        from: 0,
        to: i64::MAX,
        shape: AnswerShape::Samples,
        time_unit: TimeUnit::Ns,
        levels: Vec::new(),
    };
    let (mut quickest, mut out) = (Duration::MAX, Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        out.clear();
        let mut answer = Answer::begin(format, &mut out, &head);
        for key in keys {
            answer.series(&Series {
                key,
                field: "usage",
                times,
                columns: &[Cells::Values(column)],
            })?;
        }
        answer.end(false, &[])?;
        quickest = quickest.min(start.elapsed());
        black_box(&out);
    }
    Ok((quickest, out.len()))
}
