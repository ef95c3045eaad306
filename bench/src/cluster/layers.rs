//! Processor time and bytes of a cluster, by layer.
//!
//! The driver runs in threads of its own within a port, which have the name `cassandra`. The rest of the process is the
//! port itself. The third layer is the nodes of Cassandra.

use crate::process::{Server, Usage};
use anyhow::Result;
use procfs::process::Process;
use seiner_cassandra::local::LocalCluster;
use serde::Serialize;
use std::ops::Sub;

/// Name of the driver's threads.
const DRIVER: &str = "cassandra";

/// Processor time and bytes of all layers up to one moment, or between two.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Layers {
    /// Processor time of the ports without the driver, in seconds.
    pub port_cpu_s: f64,
    /// Processor time of the driver's threads, in seconds.
    pub driver_cpu_s: f64,
    /// Processor time of all nodes, in seconds.
    pub nodes_cpu_s: f64,
    /// Bytes that the ports wrote to the device.
    pub port_bytes: u64,
    /// Bytes that the nodes wrote to the device.
    pub nodes_bytes: u64,
}

impl Layers {
    /// Reads the counters of ports and nodes.
    pub fn read<'a>(
        ports: impl IntoIterator<Item = &'a Server>,
        nodes: &LocalCluster,
        node_count: usize,
    ) -> Result<Layers> {
        let mut sum = Layers::default();
        for port in ports {
            let (usage, driver) = (port.usage()?, driver_cpu(port)?);
            sum.driver_cpu_s += driver;
            sum.port_cpu_s += usage.cpu_s - driver;
            sum.port_bytes += usage.written;
        }
        for node in (1..=node_count).filter_map(|node| nodes.process(node)) {
            let usage = Usage::of(node as i32)?;
            sum.nodes_cpu_s += usage.cpu_s;
            sum.nodes_bytes += usage.written;
        }
        Ok(sum)
    }

    /// Returns the processor time of all layers, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.port_cpu_s + self.driver_cpu_s + self.nodes_cpu_s
    }

    /// Returns the bytes of all layers.
    pub fn bytes(&self) -> u64 {
        self.port_bytes + self.nodes_bytes
    }
}

impl Sub for Layers {
    type Output = Layers;

    fn sub(self, before: Layers) -> Layers {
        Layers {
            port_cpu_s: self.port_cpu_s - before.port_cpu_s,
            driver_cpu_s: self.driver_cpu_s - before.driver_cpu_s,
            nodes_cpu_s: self.nodes_cpu_s - before.nodes_cpu_s,
            port_bytes: self.port_bytes - before.port_bytes,
            nodes_bytes: self.nodes_bytes - before.nodes_bytes,
        }
    }
}

/// Returns the processor time of the driver's threads, in seconds.
fn driver_cpu(port: &Server) -> Result<f64> {
    let mut ticks = 0;
    for task in Process::new(port.process())?.tasks()?.flatten() {
        // A thread may end during the scan.
        if let Ok(stat) = task.stat()
            && stat.comm == DRIVER
        {
            ticks += stat.utime + stat.stime;
        }
    }
    Ok(ticks as f64 / procfs::ticks_per_second() as f64)
}
