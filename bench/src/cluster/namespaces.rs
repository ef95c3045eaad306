//! Network namespaces with one address each, and partitions between them. Needs root.
//!
//! Every namespace has a cable (veth) to a bridge. A partition plugs some of the cables into a second bridge. This
//! process has an address at both bridges, so its clients reach all namespaces at any time.

use super::{PortPlace, at};
use anyhow::{Context, Result, ensure};
use seiner_cassandra::local::Place;
use std::net::Ipv4Addr;
use std::process::Command;

/// Bridges of the majority and of the minority.
const BRIDGES: [&str; 2] = ["seiner-a", "seiner-b"];
/// First three parts of the addresses.
const NETWORK: [u8; 3] = [10, 231, 7];
/// Last part of this process's address at the first bridge.
const HERE: u8 = 100;
/// Number of the port of HTTP.
const HTTP: u16 = 7670;

/// Namespaces, numbered from 1. Dropping them deletes them.
pub struct Namespaces {
    count: usize,
}

impl Namespaces {
    /// Creates namespaces.
    ///
    /// # Errors
    /// If the user is not root, the program `ip` is missing, or other namespaces have these names.
    pub fn create(count: usize) -> Result<Namespaces> {
        // The drop deletes what was created before an error.
        let namespaces = Namespaces { count };
        namespaces.delete();
        for (bridge, last) in BRIDGES.iter().zip([HERE, HERE + 1]) {
            ip(&format!("link add {bridge} type bridge"))?;
            let length = if last == HERE { 24 } else { 32 };
            ip(&format!("addr add {}/{length} dev {bridge}", address(last)))?;
            ip(&format!("link set {bridge} up"))?;
        }
        for number in 1..=count {
            let (name, cable) = (name(number), cable(number));
            ip(&format!("netns add {name}"))?;
            ip(&format!(
                "link add {cable} type veth peer name eth0 netns {name}"
            ))?;
            ip(&format!("link set {cable} master {} up", BRIDGES[0]))?;
            ip(&format!(
                "-n {name} addr add {}/24 dev eth0",
                address(number as u8)
            ))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(namespaces)
    }

    /// Returns the place of a node of Cassandra.
    pub fn node(&self, number: usize) -> Place {
        Place {
            address: address(number as u8),
            public: None,
            namespace: Some(name(number)),
        }
    }

    /// Returns the place of a port.
    pub fn port(&self, number: usize) -> PortPlace {
        PortPlace {
            address: at(address(number as u8), HTTP),
            namespace: Some(name(number)),
        }
    }

    /// Separates a namespace from the others. This process still reaches it.
    pub fn cut(&self, number: usize) -> Result<()> {
        ip(&format!("link set {} master {}", cable(number), BRIDGES[1]))?;
        ip(&format!(
            "route replace {}/32 dev {}",
            address(number as u8),
            BRIDGES[1]
        ))
    }

    /// Ends the separation.
    pub fn heal(&self, number: usize) -> Result<()> {
        ip(&format!("link set {} master {}", cable(number), BRIDGES[0]))?;
        ip(&format!(
            "route del {}/32 dev {}",
            address(number as u8),
            BRIDGES[1]
        ))
    }

    fn delete(&self) {
        // What does not exist cannot be deleted.
        for number in 1..=self.count {
            let _ = ip(&format!("netns del {}", name(number)));
            let _ = ip(&format!("link del {}", cable(number)));
        }
        for bridge in BRIDGES {
            let _ = ip(&format!("link del {bridge}"));
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.delete();
    }
}

fn name(number: usize) -> String {
    format!("seiner{number}")
}

fn cable(number: usize) -> String {
    format!("seiner-v{number}")
}

fn address(last: u8) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, last)
}

/// Runs the program `ip`.
fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .context("the program ip is missing; on Debian: apt-get install iproute2")?;
    ensure!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
