//! Samples of a request that were not accepted.

use super::notation::shown;

/// Maximum number of listed rejections.
pub const MAX_LISTED: usize = 100;

/// Rejected samples of one series, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Number of the series in the request, from 1.
    pub series: u64,
    /// Name of the series, as PromQL writes it.
    pub name: String,
    /// Number of rejected samples.
    pub samples: u64,
    /// Reason, and the remedy.
    pub reason: String,
}

/// All rejections of a request: their number, and the first ones with their reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejections {
    /// Number of rejected samples, native histograms included.
    pub samples: u64,
    /// Number of native histograms, which are always rejected.
    pub histograms: u64,
    /// First rejections, in the order in which they were found; at most [`MAX_LISTED`].
    pub listed: Vec<Rejection>,
    /// Number of rejected samples that `listed` contains.
    pub listed_samples: u64,
}

impl Rejections {
    /// Adds rejected samples of a series. Samples of one series with the same reason are listed once.
    ///
    /// `name` is the name of the series in [`LabelNotation`](super::LabelNotation).
    pub fn add(&mut self, series: u64, name: &[u8], samples: u64, reason: impl ToString) {
        self.samples += samples;
        let is_full = self.listed.len() >= MAX_LISTED;
        // The last of a full list may still get more samples.
        if is_full && self.listed.last().is_none_or(|last| last.series != series) {
            return;
        }
        let reason = reason.to_string();
        match self.listed.last_mut() {
            Some(last) if last.series == series && last.reason == reason => last.samples += samples,
            _ if is_full => return,
            _ => self.listed.push(Rejection {
                series,
                name: shown(name),
                samples,
                reason,
            }),
        }
        self.listed_samples += samples;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_of_a_series_are_listed_once() {
        let mut rejections = Rejections::default();
        rejections.add(1, b"", 1, "old");
        rejections.add(1, b"", 2, "old");
        rejections.add(1, b"", 1, "new");
        rejections.add(2, b"", 1, "new");
        let listed: Vec<(u64, u64)> = rejections
            .listed
            .iter()
            .map(|rejection| (rejection.series, rejection.samples))
            .collect();
        assert_eq!(listed, [(1, 3), (1, 1), (2, 1)]);
        for series in 3..1000 {
            rejections.add(series, b"", 1, "old");
        }
        assert_eq!(rejections.listed.len(), MAX_LISTED);
        assert_eq!(rejections.samples, 5 + 997);
        assert_eq!(rejections.listed_samples, 5 + 97);
    }
}
