//! Shelves and periods of a cluster: from sources, rates and age to F and T.
//!
//! A port hands its rows over at intervals. The rows of one shelf, period and handover become a bundle, and the bundles
//! of one shelf and period have their directories in one partition of Cassandra. Four costs depend on F and T:
//!
//! - **Size of a bundle**: `rate · interval ÷ (ports · F)`. A value of 64 KiB to 1 MiB costs Cassandra a fifth of the
//!   processor time per byte that a value of 4 KiB costs. A larger bundle is divided at 1 MiB, and each part has a
//!   directory. The aim is 256 KiB, so that the load may change by a factor of four in both directions.
//! - **Rows of a partition**: `ports · (T ÷ interval + 1)` directories, times the parts of a bundle. A read of one
//!   source lists all of them, and reads those that its port has not read before. A list is one page of at most 1,000
//!   rows, and the directories have at most as many bytes as one bundle of 1 MiB.
//! - **Requests of a read**: two for each period of the interval. Longer periods need fewer.
//! - **Space**: a bundle expires as a whole, up to T after its first rows. The windows of Cassandra are a 25th of the
//!   age. A period that divides the window costs at most 4 % of space, and the files of a window die whole.
//!
//! The rate of a source decides the number of data requests: a source has one part of a bundle per handover. Neither F
//! nor T changes that number; the interval between handovers does.

use crate::words::{bytes, count, duration, plain};
use serde::Serialize;

/// Bytes of a value that cost least.
const VALUE: (f64, f64) = (65_536.0, 1_048_576.0);
/// Bytes of a bundle to aim at: the geometric mean of [`VALUE`].
const AIM: f64 = 262_144.0;
/// Bytes of a port's local log at which a handover begins early: the default of a port.
const LOCAL_LOG: f64 = 268_435_456.0;
/// Maximum number of directories of a partition: a page of keys.
const DIRECTORIES: f64 = 1000.0;
/// Maximum bytes of the directories of a partition.
const DIRECTORY_BYTES: f64 = 1_048_576.0;
/// Bytes of a directory: its key and tables, and its share of the bundle.
const DIRECTORY: (f64, f64) = (512.0, 0.003);
/// Sources with consecutive numbers share a shelf in runs of so many.
const RUN: f64 = 256.0;
/// Maximum number of shelves.
const MOST_SHELVES: f64 = 65_536.0;
/// Windows per age, and the window without an age.
const WINDOWS: f64 = 25.0;
const WINDOW_MIN: f64 = 43_200.0;
/// Bytes per sample of bundles with so many rows per source: decimals at equal times.
const PER_SAMPLE: [(f64, f64); 7] = [
    (1.0, 1.60),
    (2.0, 1.16),
    (3.0, 1.01),
    (5.0, 0.89),
    (10.0, 0.80),
    (30.0, 0.75),
    (100.0, 0.72),
];
/// Bytes per row for the numbers of sources, if this part of a shelf's sources is in a bundle.
const GAPS: [(f64, f64); 6] = [
    (0.001, 1.44),
    (0.01, 1.01),
    (0.1, 0.59),
    (0.5, 0.26),
    (0.9, 0.08),
    (1.0, 0.0),
];

/// Load of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClusterDemand {
    /// S, the number of sources.
    pub sources: f64,
    /// Rows of all sources per second.
    pub rows_per_s: f64,
    /// Samples (fields) of a row.
    pub samples_per_row: f64,
    /// Bytes of a sample in a bundle. `None`: those of decimals at equal times.
    pub bytes_per_sample: Option<f64>,
    /// Shortest age of the retention classes, in seconds. `None`: samples are kept for ever.
    pub age_s: Option<f64>,
    /// Number of ports.
    pub ports: f64,
    /// Longest interval between handovers of a port, in seconds.
    pub handover_s: f64,
}

/// Shelves and period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shelving {
    /// F, the number of shelves.
    pub shelves: u32,
    /// T, the length of a period in seconds.
    pub period_s: u64,
}

/// Figures of a load with shelves and a period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShelvingFigures {
    /// Bytes of a sample in a bundle.
    pub bytes_per_sample: f64,
    /// Interval between handovers of a port in seconds: shorter than demanded if the local log fills earlier.
    pub handover_s: f64,
    /// Bytes of one shelf, period and handover of a port.
    pub bundle_bytes: f64,
    /// Bundles into which they are divided.
    pub parts: f64,
    /// Directories of one partition.
    pub directories: f64,
    /// Bytes of these directories.
    pub directory_bytes: f64,
    /// Length of Cassandra's windows in seconds.
    pub window_s: f64,
    /// Cold requests for directories of a read of one source over a day.
    pub directory_requests: f64,
    /// Requests for data of the same read.
    pub data_requests: f64,
}

impl ClusterDemand {
    /// Checks the load.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        let positive = [
            ("the number of sources", self.sources),
            ("the rows per second", self.rows_per_s),
            ("the samples per row", self.samples_per_row),
            ("the bytes per sample", self.bytes_per_sample.unwrap_or(1.0)),
            ("the age", self.age_s.unwrap_or(1.0)),
            ("the number of ports", self.ports),
            ("the interval between handovers", self.handover_s),
        ];
        let invalid = |value: f64| !(value > 0.0 && value.is_finite());
        match positive.into_iter().find(|(_, value)| invalid(*value)) {
            Some((what, value)) => Err(format!("{what} is {value}; give more than 0")),
            None => Ok(()),
        }
    }

    /// Returns the bytes of a row in bundles of an interval.
    fn row_bytes(&self, interval_s: f64) -> f64 {
        let rows = self.rows_per_s * interval_s / self.sources;
        let sample = self.bytes_per_sample;
        let sample = sample.unwrap_or_else(|| between(&PER_SAMPLE, rows));
        self.samples_per_row * sample + between(&GAPS, rows)
    }

    /// Returns the interval between handovers of a port: a full local log is handed over early.
    fn interval(&self) -> f64 {
        let port = self.rows_per_s * self.row_bytes(self.handover_s) / self.ports;
        self.handover_s.min(LOCAL_LOG / port)
    }

    /// Returns the bytes that a port hands over at once.
    fn handed_over(&self) -> f64 {
        let interval = self.interval();
        self.rows_per_s * interval * self.row_bytes(interval) / self.ports
    }

    /// Returns the length of Cassandra's windows, in minutes.
    fn window_min(&self) -> f64 {
        self.age_s
            .map_or(WINDOW_MIN, |age| (age / WINDOWS / 60.0).ceil().max(1.0))
    }

    fn most_shelves(&self) -> f64 {
        (self.sources / RUN).ceil().clamp(1.0, MOST_SHELVES)
    }

    /// Chooses shelves and period.
    pub fn choose(&self) -> Shelving {
        let wanted = (self.handed_over() / AIM).log2().round().exp2();
        let shelves = wanted.clamp(1.0, self.most_shelves()) as u32;
        let (window, interval) = (self.window_min(), self.interval() / 60.0);
        let with = |minutes: f64| Shelving {
            shelves,
            period_s: (minutes * 60.0) as u64,
        };
        if window < interval {
            // Shorter periods would divide each handover.
            return with(window * (interval / window).ceil());
        }
        let divisors = (1..=window as u64).filter(|k| (window as u64).is_multiple_of(*k));
        let lengths = divisors.map(|k| window / k as f64);
        let mut lengths = lengths.take_while(|length| *length >= interval).peekable();
        let mut found = window;
        while let Some(length) = lengths.next() {
            found = length;
            if self.figures(with(length)).is_bounded() || lengths.peek().is_none() {
                break;
            }
        }
        with(found)
    }

    /// Returns the figures of shelves and a period.
    pub fn figures(&self, of: Shelving) -> ShelvingFigures {
        const DAY_S: f64 = 86_400.0;
        let (shelves, period) = (f64::from(of.shelves), of.period_s as f64);
        let interval = self.interval();
        let row_bytes = self.row_bytes(interval);
        // Rows of a port and shelf at a handover.
        let rows = self.rows_per_s * interval / (self.ports * shelves);
        let share = (period / interval).min(1.0);
        // A bundle has at least one row.
        let bundle_bytes = (rows * share).max(1.0) * row_bytes;
        let parts = (bundle_bytes / VALUE.1).max(1.0);
        let handovers = period / interval + 1.0;
        let written = (rows * share).min(1.0);
        let directories = self.ports * handovers * written * parts;
        let source_rows = self.rows_per_s * DAY_S / self.sources;
        ShelvingFigures {
            bytes_per_sample: row_bytes / self.samples_per_row,
            handover_s: interval,
            bundle_bytes,
            parts,
            directories,
            directory_bytes: directories * (DIRECTORY.0 + DIRECTORY.1 * bundle_bytes / parts),
            window_s: self.window_min() * 60.0,
            directory_requests: 2.0 * (DAY_S / period + 1.0),
            data_requests: source_rows.min(DAY_S / interval),
        }
    }

    /// Returns what is outside the bounds, as sentences, and could be better with other shelves or periods.
    pub fn faults(&self, of: Shelving) -> Vec<String> {
        let (figures, best) = (self.figures(of), self.choose());
        let mut faults = Vec::new();
        let size = bytes(figures.bundle_bytes);
        if figures.bundle_bytes < VALUE.0 && of.shelves > best.shelves {
            faults.push(format!(
                "bundles of {size} are smaller than 64 KiB; fewer shelves make them larger"
            ));
        }
        if figures.bundle_bytes > VALUE.1 && of.shelves < best.shelves {
            faults.push(format!(
                "{size} of a shelf and handover become {} bundles; more shelves make fewer",
                plain(figures.parts)
            ));
        }
        if !figures.is_bounded() && of.period_s > best.period_s {
            faults.push(format!(
                "{} directories of {} in a partition are more than a read of one source should list; shorter periods \
                 have fewer",
                count(figures.directories.round()),
                bytes(figures.directory_bytes)
            ));
        }
        if of.period_s as f64 > figures.window_s.max(best.period_s as f64) {
            faults.push(format!(
                "a period is longer than a window of {}, so rows occupy space for up to {} beyond their age",
                duration(figures.window_s),
                duration(of.period_s as f64)
            ));
        }
        if of.period_s * 4 <= best.period_s {
            faults.push(format!(
                "a read of one source over a day takes {} requests for directories; periods of {} take {}",
                count(figures.directory_requests.round()),
                duration(best.period_s as f64),
                count(self.figures(best).directory_requests.round())
            ));
        }
        faults
    }

    /// Returns settings other than shelves and periods that would help, as sentences.
    pub fn advice(&self, of: Shelving) -> Vec<String> {
        let figures = self.figures(of);
        let mut advice = Vec::new();
        let sufficient = VALUE.0 / (figures.bundle_bytes / figures.handover_s);
        let window = figures.window_s;
        if figures.bundle_bytes < VALUE.0 && of.shelves == 1 && self.rows_per_s > 0.0 {
            advice.push(match sufficient <= window {
                true => format!(
                    "one shelf fills only {} per handover; handover={} or fewer ports would make bundles of 64 KiB, and \
                     leave rows in the replicated journal for longer",
                    bytes(figures.bundle_bytes),
                    duration(sufficient)
                ),
                false => "the load is too small for bundles of 64 KiB; a single server may suffice".to_string(),
            });
        }
        if figures.handover_s < self.handover_s {
            advice.push(format!(
                "the local log of a port (256 MiB) fills every {}, before the handover that is due",
                duration(figures.handover_s)
            ));
        }
        if figures.handover_s > window {
            advice.push(format!(
                "handovers are rarer than windows of {}; handover={} lets the files of a window die whole",
                duration(window),
                duration(window)
            ));
        }
        advice
    }
}

impl ShelvingFigures {
    /// Returns whether the directories of a partition are within their bounds.
    fn is_bounded(&self) -> bool {
        self.directories <= DIRECTORIES && self.directory_bytes <= DIRECTORY_BYTES
    }

    /// Returns the figures with their reasons, as lines of text.
    pub fn reasons(&self, of: Shelving) -> Vec<String> {
        let whole = (self.window_s as u64).is_multiple_of(of.period_s.max(1));
        let holds = match whole {
            true => "holds whole periods, so files die whole",
            false => "does not hold whole periods, so some files die later",
        };
        vec![
            format!(
                "bundle: {} of one shelf and handover, every {} ({} B per sample); 64 KiB to 1 MiB cost least",
                bytes(self.bundle_bytes),
                duration(self.handover_s),
                plain(self.bytes_per_sample)
            ),
            format!(
                "partition: {} directories of {} together; at most 1000 and 1 MiB, because a read lists them",
                count(self.directories.round()),
                bytes(self.directory_bytes)
            ),
            format!(
                "window: {} {holds}; rows occupy space for up to {} beyond their age",
                duration(self.window_s),
                duration(of.period_s as f64)
            ),
            format!(
                "read of one source over a day, cold: {} requests for directories, {} for data",
                count(self.directory_requests.ceil()),
                count(self.data_requests.ceil())
            ),
        ]
    }
}

/// Returns the value at a place, between the points of a line that ascends in its first numbers. The scale of the
/// places is logarithmic.
fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let after = points.partition_point(|(place, _)| *place < at);
    let (Some(before), Some(next)) = (
        after.checked_sub(1).and_then(|at| points.get(at)),
        points.get(after),
    ) else {
        // Outside, the nearest point counts.
        return points[after.min(points.len() - 1)].1;
    };
    let share = (at / before.0).ln() / (next.0 / before.0).ln();
    before.1 + share * (next.1 - before.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86_400.0;

    fn demand(sources: f64, rows_per_s: f64) -> ClusterDemand {
        ClusterDemand {
            sources,
            rows_per_s,
            samples_per_row: 1.0,
            bytes_per_sample: None,
            age_s: Some(30.0 * DAY),
            ports: 3.0,
            handover_s: 600.0,
        }
    }

    /// Checks the bounds of a choice as far as the load permits them, and returns the choice with its figures.
    fn chosen(demand: &ClusterDemand) -> (Shelving, ShelvingFigures) {
        demand.check().unwrap();
        let choice = demand.choose();
        let figures = demand.figures(choice);
        assert!(choice.shelves >= 1 && choice.period_s >= 60, "{choice:?}");
        assert_eq!(demand.faults(choice), [""; 0], "{choice:?} {figures:?}");
        let period = choice.period_s as f64;
        assert!(period + 1.0 >= figures.handover_s, "{choice:?} {figures:?}");
        if figures.window_s >= figures.handover_s {
            assert_eq!(figures.window_s % period, 0.0, "{choice:?} {figures:?}");
        }
        (choice, figures)
    }

    #[test]
    fn a_usual_load_has_bundles_of_the_cheapest_size() {
        let usual = demand(100_000.0, 10_000.0);
        let (choice, figures) = chosen(&usual);
        assert_eq!(choice.shelves, 4, "{figures:?}");
        assert!((VALUE.0..VALUE.1).contains(&figures.bundle_bytes));
        assert!(figures.is_bounded(), "{figures:?}");
        // 30 days ÷ 25 is 28.8 h.
        assert_eq!(figures.window_s, 28.8 * 3600.0);
        assert!((0.7..0.9).contains(&figures.bytes_per_sample));
        assert_eq!(usual.advice(choice), [""; 0]);
    }

    #[test]
    fn one_source_has_one_shelf_and_is_told_so() {
        let one = demand(1.0, 0.1);
        let (choice, figures) = chosen(&one);
        assert_eq!(choice.shelves, 1);
        assert!(figures.bundle_bytes < 100.0 && figures.is_bounded());
        assert!(one.advice(choice)[0].contains("too small"));
    }

    #[test]
    fn ten_million_sources_fit_with_a_row_a_minute_and_a_row_a_day() {
        let (choice, figures) = chosen(&demand(1e7, 1e7 / 60.0));
        assert!((32..=512).contains(&choice.shelves), "{choice:?}");
        assert!((VALUE.0..VALUE.1).contains(&figures.bundle_bytes) && figures.is_bounded());
        let (choice, figures) = chosen(&demand(1e7, 1e7 / DAY));
        assert_eq!(choice.shelves, 1);
        // A row and the number of its source.
        assert!(
            (2.0..3.0).contains(&figures.bytes_per_sample),
            "{figures:?}"
        );
        assert_eq!(figures.data_requests, 1.0);
    }

    #[test]
    fn a_row_a_day_writes_one_directory_a_day() {
        let (choice, figures) = chosen(&demand(1.0, 1.0 / DAY));
        assert_eq!(choice.shelves, 1);
        assert!(figures.directories < 3.0, "{figures:?}");
        assert_eq!(choice.period_s as f64, figures.window_s, "the longest");
    }

    #[test]
    fn a_million_rows_a_second_fill_the_local_log_early() {
        let fast = ClusterDemand {
            samples_per_row: 10.0,
            ..demand(1e6, 1e6)
        };
        let (choice, figures) = chosen(&fast);
        assert!(figures.handover_s < 600.0);
        assert!((512..=2048).contains(&choice.shelves), "{choice:?}");
        assert!((VALUE.0..VALUE.1).contains(&figures.bundle_bytes));
        assert!(fast.advice(choice)[0].contains("fills every"));
        let (choice, figures) = chosen(&demand(1e6, 1e6));
        assert!(figures.is_bounded(), "{choice:?} {figures:?}");
    }

    #[test]
    fn few_fast_sources_have_no_more_shelves_than_runs() {
        let (choice, figures) = chosen(&demand(300.0, 1e6));
        assert_eq!(choice.shelves, 2);
        assert!(figures.parts > 1.0);
        assert!(choice.period_s < 7200, "short periods bound the partitions");
    }

    #[test]
    fn more_ports_make_more_directories_and_shorter_periods() {
        let few = chosen(&demand(1e6, 1e5)).0;
        let many = ClusterDemand {
            ports: 30.0,
            ..demand(1e6, 1e5)
        };
        let (choice, figures) = chosen(&many);
        assert!(choice.shelves < few.shelves && choice.period_s < few.period_s);
        assert!(figures.is_bounded());
    }

    #[test]
    fn short_ages_have_periods_no_shorter_than_a_handover() {
        let short = ClusterDemand {
            age_s: Some(3600.0),
            ..demand(1e5, 1e4)
        };
        let (choice, figures) = chosen(&short);
        // An hour ÷ 25, in the whole minutes of Cassandra.
        assert_eq!(figures.window_s, 180.0);
        assert_eq!(choice.period_s, 720);
        assert!(
            short.advice(choice)[0].contains("handover=180 s")
                || short.advice(choice)[0].contains("handover=3 min")
        );
    }

    #[test]
    fn samples_for_ever_have_periods_that_divide_thirty_days() {
        let lasting = ClusterDemand {
            age_s: None,
            ..demand(1e5, 1e4)
        };
        let (choice, figures) = chosen(&lasting);
        assert_eq!(30 * 86_400 % choice.period_s, 0);
        assert!(
            figures.is_bounded() && choice.period_s >= 86_400,
            "{choice:?}"
        );
    }

    #[test]
    fn a_grid_outside_the_bounds_has_faults() {
        let usual = demand(1e6, 1e5);
        let best = usual.choose();
        let fault = |of: Shelving| usual.faults(of).join("; ");
        let many = Shelving {
            shelves: 4096,
            ..best
        };
        assert!(fault(many).contains("fewer shelves"), "{}", fault(many));
        let one = Shelving { shelves: 1, ..best };
        assert!(fault(one).contains("more shelves"), "{}", fault(one));
        let long = Shelving {
            period_s: 30 * 86_400,
            ..best
        };
        assert!(fault(long).contains("shorter periods"), "{}", fault(long));
        assert!(fault(long).contains("longer than a window"));
        let short = Shelving {
            period_s: 600,
            ..best
        };
        assert!(fault(short).contains("requests"), "{}", fault(short));
        // Half and twice as many shelves are as good.
        for shelves in [best.shelves / 2, best.shelves * 2] {
            assert_eq!(fault(Shelving { shelves, ..best }), "");
        }
    }

    #[test]
    fn invalid_loads_are_rejected() {
        assert!(demand(0.0, 1.0).check().is_err());
        assert!(demand(1.0, f64::NAN).check().is_err());
        let error = ClusterDemand {
            age_s: Some(0.0),
            ..demand(1.0, 1.0)
        };
        assert!(error.check().unwrap_err().contains("the age is 0"));
    }

    #[test]
    fn any_load_has_a_choice_without_faults() {
        for sources in [1.0, 255.0, 257.0, 1e4, 1e6, 1e7, 1e9] {
            for rate in [1e-5, 1e-2, 1.0, 1e3, 1e6, 1e8] {
                for age_s in [Some(60.0), Some(3600.0), Some(10.0 * 365.0 * DAY), None] {
                    for ports in [1.0, 100.0] {
                        for handover_s in [1.0, 600.0, DAY] {
                            let load = ClusterDemand {
                                age_s,
                                ports,
                                handover_s,
                                ..demand(sources, rate)
                            };
                            chosen(&load);
                        }
                    }
                }
            }
        }
    }
}
