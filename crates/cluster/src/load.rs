//! Load of a port.

/// Rate of accepted samples or rows over the last seconds.
#[derive(Default)]
pub(crate) struct Rate {
    /// Monotonic time in ns and count of the last note.
    last: Option<(u64, u64)>,
    per_second: f64,
}

impl Rate {
    /// Notes a count, and returns the rate: an average that forgets half of its past within a second.
    pub fn note(&mut self, now: u64, count: u64) -> f64 {
        let (then, before) = self.last.unwrap_or((now, count));
        let seconds = now.saturating_sub(then) as f64 / 1e9;
        if seconds > 0.1 {
            let rate = count.saturating_sub(before) as f64 / seconds;
            let kept = 0.5_f64.powf(seconds);
            self.per_second = kept * self.per_second + (1.0 - kept) * rate;
        }
        if self.last.is_none() || seconds > 0.1 {
            self.last = Some((now, count));
        }
        self.per_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_count() {
        let mut rate = Rate::default();
        let second = 1_000_000_000;
        let rates: Vec<f64> = (0..30).map(|at| rate.note(at * second, at * 100)).collect();
        assert_eq!(rates[0], 0.0);
        assert!((rates[29] - 100.0).abs() < 1.0, "{rates:?}");
        for at in 30..60 {
            rate.note(at * second, 2900);
        }
        assert!(rate.note(60 * second, 2900) < 1.0);
    }
}
