//! Measurement of the load of a running cluster, from the status of its ports.

use crate::failure::Failure;
use seiner_plan::shelving::ClusterDemand;
use seiner_platform::{Clock, SystemClock};
use serde_json::Value;
use std::time::Duration;

/// Samples that were handed over, from which on their bytes are an estimate.
const ENOUGH_SAMPLES: f64 = 100_000.0;

/// Counts of all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    sources: f64,
    rows: f64,
    samples: f64,
    handed_over: f64,
    bundle_bytes: f64,
}

/// Measures the load of a cluster for some seconds. `stated` has the parts that are not measured.
///
/// # Errors
/// If a port does not answer, or no rows arrive.
pub fn load(url: &str, seconds: f64, stated: ClusterDemand) -> Result<ClusterDemand, Failure> {
    if !(0.1..=86_400.0).contains(&seconds) {
        return Err(Failure::Usage("--for: give 100ms to 1d".to_string()));
    }
    let addresses = ports(url)?;
    let before = counts(&addresses)?;
    SystemClock::new().sleep(Duration::from_secs_f64(seconds));
    let after = counts(&addresses)?;
    let measured = demand(before, after, seconds, addresses.len(), stated);
    measured.map_err(|what| Failure::Usage(format!("--from: {what}")))
}

/// Returns the load between two readings of the counts.
fn demand(
    before: Counts,
    after: Counts,
    seconds: f64,
    ports: usize,
    stated: ClusterDemand,
) -> Result<ClusterDemand, String> {
    let (rows, samples) = (after.rows - before.rows, after.samples - before.samples);
    if rows <= 0.0 || samples <= 0.0 || after.sources < 1.0 {
        let text = "the ports receive no rows at present; state the load with --sensors and --every, or measure for \
                    longer with --for";
        return Err(text.to_string());
    }
    let handed_over = after.bundle_bytes / after.handed_over;
    let measured = (after.handed_over >= ENOUGH_SAMPLES).then_some(handed_over);
    Ok(ClusterDemand {
        sources: after.sources,
        rows_per_s: rows / seconds,
        samples_per_row: samples / rows,
        bytes_per_sample: stated.bytes_per_sample.or(measured),
        ports: ports as f64,
        ..stated
    })
}

/// Returns the addresses of all ports of a cluster.
fn ports(url: &str) -> Result<Vec<String>, Failure> {
    let answer = get(&format!("{}/ports", url.trim_end_matches('/')))?;
    let ports = answer["ports"].as_array().map_or(&[][..], |ports| ports);
    let addresses = ports.iter().filter_map(|port| port["address"].as_str());
    let addresses: Vec<String> = addresses.map(|at| format!("http://{at}")).collect();
    match addresses.is_empty() {
        true => Err(Failure::Failed(anyhow::anyhow!(
            "{url} lists no ports; name a port of a cluster"
        ))),
        false => Ok(addresses),
    }
}

/// Returns the sums of the counts of ports. Each port knows the sources of all.
fn counts(addresses: &[String]) -> Result<Counts, Failure> {
    let mut sum = Counts::default();
    for address in addresses {
        let address = format!("{address}/status");
        let status = get(&address)?;
        let number = |pointer: &str| {
            let found = status.pointer(pointer).and_then(Value::as_f64);
            found.ok_or_else(|| {
                Failure::Failed(anyhow::anyhow!(
                    "{address}: {pointer} is missing; use the same version of Seiner"
                ))
            })
        };
        sum.sources = sum.sources.max(number("/engine/sources")?);
        sum.rows += number("/ingest/rows")?;
        sum.samples += number("/ingest/samples")?;
        sum.handed_over += number("/cluster/samples_handed_over")?;
        sum.bundle_bytes += number("/cluster/bundle_bytes")?;
    }
    Ok(sum)
}

fn get(address: &str) -> Result<Value, Failure> {
    let failed = |what: String| Failure::Failed(anyhow::anyhow!("{address}: {what}"));
    let text = ureq::get(address)
        .call()
        .and_then(|mut answer| answer.body_mut().read_to_string())
        .map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATED: ClusterDemand = ClusterDemand {
        sources: 1.0,
        rows_per_s: 1.0,
        samples_per_row: 1.0,
        bytes_per_sample: None,
        age_s: Some(3600.0),
        ports: 9.0,
        handover_s: 60.0,
    };

    #[test]
    fn the_load_follows_from_two_readings() {
        let before = Counts {
            sources: 100.0,
            rows: 1000.0,
            samples: 2000.0,
            handed_over: 2e5,
            bundle_bytes: 3e5,
        };
        let after = Counts {
            rows: 1500.0,
            samples: 3000.0,
            ..before
        };
        let load = demand(before, after, 5.0, 3, STATED).unwrap();
        assert_eq!(
            (load.sources, load.rows_per_s, load.ports),
            (100.0, 100.0, 3.0)
        );
        assert_eq!(
            (load.samples_per_row, load.bytes_per_sample),
            (2.0, Some(1.5))
        );
        assert_eq!((load.age_s, load.handover_s), (Some(3600.0), 60.0));
        let few = Counts {
            handed_over: 10.0,
            ..after
        };
        let load = demand(before, few, 5.0, 3, STATED).unwrap();
        assert_eq!(load.bytes_per_sample, None);
        let error = demand(before, before, 5.0, 3, STATED).unwrap_err();
        assert!(error.contains("no rows"), "{error}");
    }
}
