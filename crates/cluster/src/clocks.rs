//! Comparison of the wall clocks of ports.
//!
//! Leases do not depend on wall clocks. But lives of rows, the ages of retention classes and the order of two samples at
//! the same time do, so clocks that disagree are an error of the installation.

use crate::ports::{LIFE, PortInfo};
use seiner_model::duration_text;
use seiner_store::Error;

/// Largest difference between two clocks that needs no remedy, in ns.
const TOLERANCE: i64 = 10_000_000_000;

/// Compares this machine's clock with the entries of other ports. An entry is at most as old as its life.
///
/// # Errors
/// If a clock differs by more than 10 s, with the remedy.
pub(crate) fn check(now: i64, own: &str, ports: &[PortInfo]) -> Result<(), Error> {
    let life = LIFE.as_nanos() as i64;
    let others = ports.iter().filter(|port| port.name != own);
    for port in others {
        let behind = port.time.saturating_sub(now);
        let ahead = now.saturating_sub(port.time) - life;
        let differs = behind.max(ahead);
        if differs > TOLERANCE {
            return Err(Error::Options(format!(
                "the clock of this machine is {} {} that of port {:?} or more; synchronise the clocks of all machines \
                 (NTP), and start again",
                duration_text(differs as u64),
                if behind > ahead { "behind" } else { "ahead of" },
                port.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn port(seconds: i64) -> PortInfo {
        PortInfo {
            name: "b".to_string(),
            time: seconds * SECOND,
            ..PortInfo::default()
        }
    }

    #[test]
    fn clocks_may_differ_by_some_seconds_only() {
        let now = 1000 * SECOND;
        for seconds in [995, 1009, 965] {
            assert!(check(now, "a", &[port(seconds)]).is_ok(), "{seconds}");
        }
        let text = |seconds| check(now, "a", &[port(seconds)]).unwrap_err().to_string();
        assert!(
            text(1300).contains("behind that of port \"b\""),
            "{}",
            text(1300)
        );
        assert!(text(100).contains("ahead of that of port"), "{}", text(100));
        assert!(
            check(now, "b", &[port(5000)]).is_ok(),
            "an entry of this port"
        );
    }
}
