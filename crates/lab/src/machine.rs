//! The machine of a run, as far as it explains figures. Nothing that names its owner.

use serde::{Deserialize, Serialize};
use std::fs;

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// What its processors call themselves.
    pub processor: String,
    /// How many this process may use.
    pub processors: u64,
    /// Memory, bytes.
    pub memory: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The system's own name.
    pub system: String,
    /// Whether it runs in a virtual machine: its disk is then a file or a share of something.
    pub is_virtual: bool,
    /// Whether the run had the administrator's rights.
    pub is_root: bool,
}

impl Machine {
    /// This one.
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

/// The mean number of processes that wanted to run in the last minute.
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
