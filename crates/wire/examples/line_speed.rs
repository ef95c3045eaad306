//! Measures the time to parse a line into a row. Prints the mean CPU time per line, and the least time per line of
//! many runs. Other work on the machine affects the least time least.

use seiner_model::Batch;
use seiner_wire::line::{Arena, LineParser, Precision};
use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

const LINES: usize = 4_000;
const ROUNDS: usize = 3_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut random = 0x2545_F491_4F6C_DD1Du64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut hundredths = || format!("value={:.2}", (next() % 100_000) as f64 / 100.0);
    measure("one float, 2 decimals", Precision::Ns, &mut hundredths)?;
    measure("the same, times in ms", Precision::Ms, &mut hundredths)?;
    measure("the same, times in s", Precision::S, &mut hundredths)?;
    let mut seed = 7u64;
    let mut uniform = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut draw = uniform;
    measure("one float, all digits", Precision::Ns, &mut || {
        format!("value={}", draw())
    })?;
    let mut draw = uniform;
    measure("ten floats, 6 decimals", Precision::Ns, &mut || {
        (0..10)
            .map(|field| format!("usage_{field}={:.6}", draw() * 100.0))
            .collect::<Vec<_>>()
            .join(",")
    })?;
    measure("int, bool and text", Precision::Ns, &mut || {
        let draw = uniform();
        format!(
            "count={}i,on={},state=\"valve {:.0} open\"",
            (draw * 1e6) as i64,
            draw > 0.5,
            draw * 10.0
        )
    })?;
    Ok(())
}

fn measure(
    name: &str,
    precision: Precision,
    fields: &mut dyn FnMut() -> String,
) -> Result<(), Box<dyn Error>> {
    let unit = match precision {
        Precision::Ms => 1_000_000,
        Precision::S => 1_000_000_000,
        _ => 1,
    };
    let mut text = String::new();
    for line in 0..LINES {
        let (host, time) = (
            line % 1000,
            (1_700_000_000_000_000_000u64 + line as u64 * 1_000_003) / unit,
        );
        writeln!(
            text,
            "gauge,host=host_{host:05},region=eu-west,sensor=temp {} {time}",
            fields()
        )?;
    }
    let arena = Arena::new();
    let mut batch = Batch::new();
    let mut quickest = Duration::MAX;
    let start = cpu_ns()?;
    for _ in 0..ROUNDS {
        let round = Instant::now();
        let mut parser = LineParser::new(precision).refuse_1970(true);
        let mut errors = Vec::new();
        batch.clear();
        let done = parser.parse(
            black_box(text.as_bytes()),
            true,
            0,
            usize::MAX,
            &arena,
            &mut batch,
            &mut errors,
        );
        quickest = quickest.min(round.elapsed());
        assert!(
            done == text.len() && batch.rows.len() == LINES && errors.is_empty(),
            "{errors:?}"
        );
        black_box(&batch);
    }
    let cpu = (cpu_ns()? - start) as f64 / (LINES * ROUNDS) as f64;
    let bytes = text.len() as f64 / LINES as f64;
    let quickest = quickest.as_nanos() as f64 / LINES as f64;
    println!("{name:24} {bytes:6.1} bytes  {cpu:6.1} ns CPU a line, quickest {quickest:6.1} ns");
    Ok(())
}

/// Returns the CPU time of this process in ns, as the scheduler accounts it.
fn cpu_ns() -> Result<u64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(stat
        .split(' ')
        .next()
        .ok_or("schedstat is empty")?
        .parse()?)
}
