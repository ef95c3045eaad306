//! Measurement `host_cpu`: use of the processors in a period, in percent; tag `core`, `all` for the sum.

use super::{Readings, rounded};
use procfs::{CpuTime, CurrentSI, KernelStats};

#[derive(Default)]
pub struct Cpu {
    before: Vec<Ticks>,
}

/// Ticks since the start of the host.
#[derive(Clone, Copy, Default)]
struct Ticks {
    user: u64,
    system: u64,
    iowait: u64,
    steal: u64,
    idle: u64,
}

impl Ticks {
    fn of(time: &CpuTime) -> Ticks {
        let interrupts = time.irq.unwrap_or(0) + time.softirq.unwrap_or(0);
        Ticks {
            user: time.user + time.nice,
            system: time.system + interrupts,
            iowait: time.iowait.unwrap_or(0),
            steal: time.steal.unwrap_or(0),
            idle: time.idle,
        }
    }

    fn since(self, before: Ticks) -> Ticks {
        Ticks {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            iowait: self.iowait.saturating_sub(before.iowait),
            steal: self.steal.saturating_sub(before.steal),
            idle: self.idle.saturating_sub(before.idle),
        }
    }

    fn total(self) -> u64 {
        self.user + self.system + self.iowait + self.steal + self.idle
    }
}

impl Cpu {
    pub fn read(&mut self, readings: &mut Readings) {
        let Ok(stats) = KernelStats::current() else {
            return;
        };
        let now: Vec<Ticks> = std::iter::once(&stats.total)
            .chain(&stats.cpu_time)
            .map(Ticks::of)
            .collect();
        // When cores were added or removed, there is nothing to compare.
        if now.len() == self.before.len() {
            for (index, (now, before)) in now.iter().zip(&self.before).enumerate() {
                let core = if index == 0 {
                    "all".to_string()
                } else {
                    (index - 1).to_string()
                };
                add(readings, &core, now.since(*before));
            }
        }
        self.before = now;
    }
}

fn add(readings: &mut Readings, core: &str, spent: Ticks) {
    let total = spent.total();
    if total == 0 {
        return;
    }
    let percent = |ticks: u64| rounded(100.0 * ticks as f64 / total as f64);
    let fields = vec![
        ("usage", percent(total - spent.idle - spent.iowait)),
        ("user", percent(spent.user)),
        ("system", percent(spent.system)),
        ("iowait", percent(spent.iowait)),
        ("steal", percent(spent.steal)),
        ("idle", percent(spent.idle)),
    ];
    readings.add("host_cpu", &[("core", core)], fields);
}
