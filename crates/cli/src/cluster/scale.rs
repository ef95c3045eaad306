//! `seiner cluster scale`: the rate of a cluster against its number of nodes, computed.

use crate::failure::Failure;
use anyhow::Context;
use clap::Args;
use seiner_chart::{Axis, Figure, LineSeries, page};
use seiner_model::parse_bytes as bytes;
use seiner_plan::scaling::{ClusterLoad, ClusterRate, paper_lines};
use std::fs;
use std::path::PathBuf;

/// Largest number of nodes.
const MAX_NODES: u32 = 1000;

/// Compute the rate of a cluster against its number of nodes.
///
/// Shows which resource bounds the rate: disks, network, requests under way, or the buffer of a switch. This is a
/// model; measure each step of a real cluster, as the paper recommends. Measure a disk with `seiner lab disk`. Rates
/// are bytes of bundles, about 1 byte per sample; `seiner plan` computes the bytes per sample of your data.
#[derive(Args)]
pub struct Scale {
    /// Largest number of nodes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_NODES)))]
    nodes: u32,
    /// Rate of a node's disk, in bytes per second.
    #[arg(long, default_value = "200MB", value_parser = bytes)]
    disk: u64,
    /// Rate of a node's network link in each direction, in bytes per second. 1 Gbit/s is 120MB.
    #[arg(long, default_value = "120MB", value_parser = bytes)]
    network: u64,
    /// Copies of each byte. More copies survive more failures, and each costs disk and network.
    #[arg(long, default_value_t = 3)]
    copies: u32,
    /// Bytes that a node writes for each byte of a copy: 2 with compaction=fisherman, about 3 with time windows.
    #[arg(long, default_value_t = 3.0)]
    written: f64,
    /// Bytes that sources send for each byte of bundles over the same network. Line protocol has 50 to 100.
    #[arg(long, default_value_t = 50.0)]
    received: f64,
    /// Requests of a node under way. More hide the time of the network, and take memory.
    #[arg(long, default_value_t = 32)]
    requests: u32,
    /// Bytes of a request.
    #[arg(long, default_value = "1MiB", value_parser = bytes)]
    request_bytes: u64,
    /// Milliseconds of a request for a copy on the same node.
    #[arg(long, default_value_t = 20.0)]
    local_ms: f64,
    /// Additional milliseconds of a request for a copy on another node.
    #[arg(long, default_value_t = 20.0)]
    remote_ms: f64,
    /// Buffer of the switch, in bytes. By default it is sufficient.
    #[arg(long, value_parser = bytes)]
    switch_buffer: Option<u64>,
    /// Compute the lines C to F of figure 13 of the paper "Storage of sensor data in Riak" instead.
    #[arg(long)]
    paper: bool,
    /// Page to write, with the rates as a chart and a table.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Line of the chart: a name and its rates.
type Line = (String, Vec<ClusterRate>);

impl Scale {
    /// Runs the computation.
    pub fn run(self) -> Result<(), Failure> {
        let lines = self.lines()?;
        for (name, rates) in &lines {
            println!("{name}");
            println!(
                "{:>7}  {:>12}  {:>12}  bounded by",
                "nodes", "MB/s", "MB/s a node"
            );
            for rate in rates {
                let all = rate.bytes_per_s / 1e6;
                let each = all / f64::from(rate.nodes);
                let bound = rate.bound.name();
                println!("{:>7}  {all:>12.1}  {each:>12.1}  {bound}", rate.nodes);
            }
        }
        if let Some(path) = &self.html {
            let text = page::of_figures("Rate of a cluster", &[], &[figure(&lines)], |_| None);
            fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
            println!("{}", path.display());
        }
        Ok(())
    }

    fn lines(&self) -> Result<Vec<Line>, Failure> {
        if self.paper {
            let lines = paper_lines().into_iter();
            let lines = lines.map(|line| {
                let name = format!("{}: {}", line.letter, line.what);
                (name, self.rates(&line.load))
            });
            return Ok(lines.collect());
        }
        let load = self.load()?;
        let name = format!("copies: {}", self.copies);
        Ok(vec![(name, self.rates(&load))])
    }

    fn rates(&self, load: &ClusterLoad) -> Vec<ClusterRate> {
        (1..=self.nodes).map(|nodes| load.rate(nodes)).collect()
    }

    fn load(&self) -> Result<ClusterLoad, Failure> {
        let positive = [
            ("--disk", self.disk as f64),
            ("--network", self.network as f64),
            ("--copies", f64::from(self.copies)),
            ("--written", self.written),
            ("--requests", f64::from(self.requests)),
            ("--request-bytes", self.request_bytes as f64),
            ("--local-ms", self.local_ms),
        ];
        let invalid = |value: f64| !(value > 0.0 && value.is_finite());
        if let Some((flag, _)) = positive.into_iter().find(|(_, value)| invalid(*value)) {
            return Err(Failure::Usage(format!("{flag} must be more than 0")));
        }
        let at_least_zero = [
            ("--received", self.received),
            ("--remote-ms", self.remote_ms),
        ];
        let negative = |value: f64| !(value >= 0.0 && value.is_finite());
        if let Some((flag, _)) = at_least_zero
            .into_iter()
            .find(|(_, value)| negative(*value))
        {
            return Err(Failure::Usage(format!("{flag} must be at least 0")));
        }
        Ok(ClusterLoad {
            disk: self.disk as f64,
            network: self.network as f64,
            copies: self.copies,
            written: self.written,
            received: self.received,
            requests: f64::from(self.requests),
            request_bytes: self.request_bytes as f64,
            local_s: self.local_ms / 1e3,
            remote_s: self.remote_ms / 1e3,
            switch_buffer: self.switch_buffer.map(|buffer| buffer as f64),
        })
    }
}

fn figure(lines: &[Line]) -> Figure {
    let series = lines.iter().map(|(name, rates)| {
        let point = |rate: &ClusterRate| (f64::from(rate.nodes), rate.bytes_per_s / 1e6);
        LineSeries::new(name.clone(), rates.iter().map(point).collect())
    });
    Figure::Lines {
        title: "Rate against the number of nodes".to_string(),
        caption: "Bytes of bundles per second, each counted once; computed.".to_string(),
        x: Axis::linear("nodes"),
        y: Axis::linear("MB/s"),
        series: series.collect(),
    }
}
