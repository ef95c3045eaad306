//! Properties of the machine that help to explain figures. Nothing here identifies the owner.

use serde::{Deserialize, Serialize};
use std::fs;

/// Properties of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the processor, from `/proc/cpuinfo`.
    pub processor: String,
    /// Number of processors that this process may use.
    pub processors: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub system: String,
    /// True in a virtual machine. Its disk is then a file or a share of another device.
    pub is_virtual: bool,
    /// True if the run had root's rights.
    pub is_root: bool,
}

impl Machine {
    /// Reads the properties of this machine. A property that cannot be read is empty or 0.
    pub fn this() -> Machine {
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let value = |text: &str, name: &str| -> Option<String> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(
                line.split_once([':', '='])?
                    .1
                    .trim()
                    .trim_matches('"')
                    .to_string(),
            )
        };
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let kibibytes = value(&memory, "MemTotal").unwrap_or_default();
        Machine {
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            memory: kibibytes
                .trim_end_matches(" kB")
                .parse::<u64>()
                .unwrap_or(0)
                << 10,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_string(),
            system: value(&system, "PRETTY_NAME").unwrap_or_default(),
            is_virtual: value(&processor, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            processor: value(&processor, "model name").unwrap_or_default(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }
}

/// Load average of the last minute; 0 if it cannot be read.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let machine = Machine::this();
        assert!(machine.memory > 1 << 20);
        assert!(machine.processors >= 1);
        assert!(machine.kernel.contains('.'));
        assert!(load() >= 0.0);
    }
}
