//! Measurement of one case: all sources are encoded and decoded again.

use super::shapes::Sources;
use anyhow::{Context, Result, ensure};
use seiner_bundle::{Bundle, BundleWriter, Directory, Options};
use seiner_model::Columns;
use serde::Serialize;

/// Measurements of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Name of the case.
    pub case: String,
    /// Rows per source.
    pub rows: usize,
    /// Bytes per value, or per row if there are no fields.
    pub bytes: f64,
    /// Bytes of the directories, the same way.
    pub directory_bytes: f64,
    /// Processor time of encoding per value or row, ns.
    pub encode_ns: f64,
    /// Processor time of decoding per value or row, ns.
    pub decode_ns: f64,
    /// Bytes of the directory and of the chunk of one source.
    pub one_bytes: usize,
    /// Processor time of decoding this chunk, µs.
    pub one_us: f64,
    /// The same with parsing the directory and computing its tables, µs.
    pub one_cold_us: f64,
}

/// Runs of reading one source, of which the mean counts.
const READS: u32 = 100;

/// Returns the processor time of this thread, ns.
fn processor_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Encodes and decodes the sources `runs` times, in bundles of about `bundle_bytes`.
pub fn measure(sources: &Sources, bundle_bytes: usize, runs: usize) -> Result<Measured> {
    let units = sources.units() as f64;
    let mut writer = BundleWriter::new(Options::default());
    let (mut bundles, mut encode_ns, mut decode_ns) = (Vec::new(), f64::MAX, f64::MAX);
    for run in 0..runs.max(1) {
        let begin = processor_ns();
        bundles = encode(sources, &mut writer, bundle_bytes)?;
        encode_ns = encode_ns.min(processor_ns() - begin);
        let begin = processor_ns();
        let rows = decode(&bundles)?;
        decode_ns = decode_ns.min(processor_ns() - begin);
        ensure!(rows == sources.rows(), "{rows} rows of {}", sources.rows());
        if run == 0 {
            compare(sources, &bundles)?;
        }
    }
    let directories: usize = bundles.iter().map(|bundle| bundle.directory.len()).sum();
    let data: usize = bundles.iter().map(|bundle| bundle.data.len()).sum();
    let (one_bytes, one_us, one_cold_us) = read_one(&bundles[0])?;
    Ok(Measured {
        case: sources.shape.name().to_string(),
        rows: sources.rows_per_source,
        bytes: (directories + data) as f64 / units,
        directory_bytes: directories as f64 / units,
        encode_ns: encode_ns / units,
        decode_ns: decode_ns / units,
        one_bytes,
        one_us,
        one_cold_us,
    })
}

fn encode(
    sources: &Sources,
    writer: &mut BundleWriter,
    bundle_bytes: usize,
) -> Result<Vec<Bundle>> {
    let mut bundles = Vec::new();
    let mut rows = Columns::default();
    for source in 0..sources.len() {
        sources.copy(source, &mut rows);
        writer.push(source as u64, &sources.layout, &rows)?;
        if writer.estimated_bytes() >= bundle_bytes {
            bundles.push(writer.finish());
        }
    }
    if !writer.is_empty() {
        bundles.push(writer.finish());
    }
    Ok(bundles)
}

/// Decodes all chunks. Returns the number of rows.
fn decode(bundles: &[Bundle]) -> Result<usize> {
    let mut rows = 0;
    for bundle in bundles {
        let directory = Directory::parse(&bundle.directory)?;
        for chunk in directory.chunks() {
            let bytes = &bundle.data[chunk.start..chunk.end];
            let decoded = directory.decode_chunk(chunk.index, bytes)?;
            rows += (0..decoded.len())
                .map(|source| decoded.times(source).len())
                .sum::<usize>();
        }
    }
    Ok(rows)
}

/// Compares all rows with those of the sources.
fn compare(sources: &Sources, bundles: &[Bundle]) -> Result<()> {
    let (mut next, mut expected) = (0, Columns::default());
    for bundle in bundles {
        let directory = Directory::parse(&bundle.directory)?;
        for chunk in directory.chunks() {
            let bytes = &bundle.data[chunk.start..chunk.end];
            for source in directory.decode_chunk(chunk.index, bytes)?.sources() {
                sources.copy(next, &mut expected);
                ensure!(
                    source.id == next as u64 && source.rows == expected,
                    "source {next} differs"
                );
                next += 1;
            }
        }
    }
    ensure!(next == sources.len(), "{next} of {} sources", sources.len());
    Ok(())
}

/// Reads one source out of the middle of a bundle. Returns its bytes, and µs without and with the directory.
fn read_one(bundle: &Bundle) -> Result<(usize, f64, f64)> {
    let directory = Directory::parse(&bundle.directory)?;
    let middle = directory.chunks().len() / 2;
    let chunk = directory.chunks().nth(middle).context("an empty bundle")?;
    let bytes = &bundle.data[chunk.start..chunk.end];
    let id = chunk.first_id + (chunk.last_id - chunk.first_id) / 2;
    let read = |directory: &Directory| -> Result<()> {
        let source = directory.decode_source(chunk.index, bytes, id)?;
        ensure!(source.is_some(), "source {id} is not in its chunk");
        Ok(())
    };
    let begin = processor_ns();
    for _ in 0..READS {
        read(&directory)?;
    }
    let warm = processor_ns() - begin;
    let begin = processor_ns();
    for _ in 0..READS {
        read(&Directory::parse(&bundle.directory)?)?;
    }
    let cold = processor_ns() - begin;
    let reads = f64::from(READS) * 1e3;
    Ok((
        bundle.directory.len() + bytes.len(),
        warm / reads,
        cold / reads,
    ))
}
