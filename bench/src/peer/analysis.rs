//! Questions over many series, for `bench-queries`.

use super::host_and_sensor;
use crate::client::encoded;
use crate::workload::{SENSORS_PER_HOST, Workload};

/// Question over many series. Each step is a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analysis {
    /// All samples of one series, of another sensor in each run.
    Series,
    /// The mean of each minute of the 100 series of a host, of another host in each run.
    HostMeans,
    /// The mean of each minute of all series.
    Means,
    /// The sum of the latest values of all series, by region, at each minute.
    Sum,
    /// The sum of the rates over five minutes of all counters, by region, at each minute.
    Rate,
    /// The 99th percentile of the latest values of all series, at each minute.
    Percentile,
    /// The ten series with the highest means of five minutes, at each minute.
    Top,
    /// The latest value of each series.
    Latest,
}

impl Analysis {
    /// All questions except [`Analysis::Latest`], which is asked of more series.
    pub const STEPPED: [Analysis; 7] = [
        Analysis::Series,
        Analysis::HostMeans,
        Analysis::Means,
        Analysis::Sum,
        Analysis::Rate,
        Analysis::Percentile,
        Analysis::Top,
    ];

    /// Returns a short description for the tables.
    pub fn describe(self) -> &'static str {
        match self {
            Analysis::Series => "one series, all samples",
            Analysis::HostMeans => "minute means of 100 series",
            Analysis::Means => "minute means of all series",
            Analysis::Sum => "sum by region of all series",
            Analysis::Rate => "sum by region of the rates of all counters",
            Analysis::Percentile => "99th percentile of all series",
            Analysis::Top => "top ten of the 5-minute means of all series",
            Analysis::Latest => "latest value of all series",
        }
    }

    /// Returns true for the question about counters.
    pub fn is_of_counters(self) -> bool {
        self == Analysis::Rate
    }

    /// Returns the minimum and maximum number of values in a correct answer. The numbers differ because servers name a
    /// minute by its start or by its end, and because a minute at an edge may be empty.
    pub fn expected(self, workload: &Workload) -> (usize, usize) {
        let minutes = workload.ticks as usize / 6;
        let per_minute =
            |series: usize| (series * minutes.saturating_sub(6), series * (minutes + 3));
        let sources = workload.sources as usize;
        match self {
            Analysis::Series => (workload.ticks as usize, workload.ticks as usize),
            Analysis::HostMeans => per_minute(SENSORS_PER_HOST as usize),
            Analysis::Means => per_minute(sources),
            Analysis::Sum | Analysis::Rate => per_minute(4.min(workload.hosts() as usize)),
            Analysis::Percentile => per_minute(1),
            Analysis::Top => per_minute(10),
            Analysis::Latest => (sources, sources),
        }
    }

    /// Returns the host and the sensor of a run.
    pub fn series(run: usize, workload: &Workload) -> (u32, u32) {
        let run = run as u32;
        (run * 7 % workload.hosts(), run * 13 % SENSORS_PER_HOST)
    }

    /// Returns the request to the API of Prometheus below `root`, for a metric. `no_cache` is a parameter for servers
    /// that would answer from a cache.
    pub fn promql(
        self,
        run: usize,
        workload: &Workload,
        metric: &str,
        (root, no_cache): (&str, &str),
    ) -> String {
        let (host, sensor) = Analysis::series(run, workload);
        let (host, sensor) = host_and_sensor(host, sensor);
        let (start, end) = workload.interval();
        let (start, end) = (start / 1_000_000_000, end / 1_000_000_000 + 1);
        let at = |expression: String| {
            let query = encoded(&expression);
            format!("{root}/api/v1/query?time={end}{no_cache}&query={query}")
        };
        let steps = |expression: String| {
            let query = encoded(&expression);
            format!(
                "{root}/api/v1/query_range?start={}&end={end}&step=60{no_cache}&query={query}",
                start + 60
            )
        };
        match self {
            Analysis::Series => at(format!(
                "{metric}{{host=\"{host}\",sensor=\"{sensor}\"}}[{}s]",
                end - start + 1
            )),
            Analysis::HostMeans => steps(format!("avg_over_time({metric}{{host=\"{host}\"}}[1m])")),
            Analysis::Means => steps(format!("avg_over_time({metric}[1m])")),
            Analysis::Sum => steps(format!("sum by (region) ({metric})")),
            Analysis::Rate => steps(format!("sum by (region) (rate({metric}[5m]))")),
            Analysis::Percentile => steps(format!("quantile(0.99, {metric})")),
            Analysis::Top => steps(format!("topk(10, avg_over_time({metric}[5m]))")),
            Analysis::Latest => at(metric.to_string()),
        }
    }
}

/// Returns the number of values in an answer of the API of Prometheus.
pub fn promql_values(answer: &serde_json::Value) -> Option<usize> {
    let result = answer["data"]["result"].as_array()?;
    let values = result
        .iter()
        .map(|series| match series["values"].as_array() {
            Some(values) => values.len(),
            None => usize::from(!series["value"].is_null()),
        });
    Some(values.sum())
}
