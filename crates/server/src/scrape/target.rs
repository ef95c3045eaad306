//! Targets with their labels.

use crate::settings::{ScrapeJob, TargetAddress};
use seiner_wire::exposition::TargetLabels;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Labels of targets that define how a target is scraped, and their kind. No series has them.
const INTERNAL: &str = "__";
const PATH: &str = "__metrics_path__";
const SCHEME: &str = "__scheme__";

/// Target of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Job.
    pub job: Arc<ScrapeJob>,
    /// Address.
    pub address: TargetAddress,
    /// Labels that the series get.
    pub labels: TargetLabels,
    /// Labels as they were found, those included that the series do not get.
    pub discovered: BTreeMap<String, String>,
}

impl Target {
    /// Creates a target with labels of a file.
    ///
    /// # Errors
    /// If the labels demand another protocol or no path: a sentence with the remedy.
    pub fn new(
        job: &Arc<ScrapeJob>,
        mut address: TargetAddress,
        given: &BTreeMap<String, String>,
    ) -> Result<Target, String> {
        if let Some(path) = given.get(PATH) {
            address.path = TargetAddress::parse(&format!("host{path}"))?.path;
        }
        if let Some(scheme) = given.get(SCHEME) {
            address.is_encrypted = TargetAddress::parse(&format!("{scheme}://host"))?.is_encrypted;
        }
        let mut discovered = BTreeMap::from([
            ("__address__".to_string(), address.authority()),
            (PATH.to_string(), path(job, &address).to_string()),
            (SCHEME.to_string(), address.scheme().to_string()),
            ("job".to_string(), job.name.clone()),
        ]);
        discovered.extend(job.labels.iter().cloned());
        discovered.extend(given.clone());
        let is_outer = |(label, _): &(&String, &String)| !label.starts_with(INTERNAL);
        let outer = discovered.iter().filter(is_outer);
        let mut labels: BTreeMap<String, String> = outer
            .map(|(label, value)| (label.clone(), value.clone()))
            .collect();
        // Prometheus requires that the targets of a host differ in their labels.
        let instance = labels.entry("instance".to_string());
        instance.or_insert_with(|| address.to_string());
        Ok(Target {
            job: job.clone(),
            labels: TargetLabels::new(labels, job.honor_labels),
            address,
            discovered,
        })
    }

    /// Returns the path of the request, with its query.
    pub fn path(&self) -> &str {
        path(&self.job, &self.address)
    }

    /// Returns the URL of the request.
    pub fn url(&self) -> String {
        let scheme = self.address.scheme();
        format!("{scheme}://{}{}", self.address.authority(), self.path())
    }

    /// Returns the offset of the scrapes in the interval of the job, in ns. Targets spread over the interval, and a
    /// target keeps its offset.
    pub fn offset(&self) -> i64 {
        let mut hasher = DefaultHasher::new();
        (self.url(), self.labels.labels()).hash(&mut hasher);
        (hasher.finish() % self.job.interval.as_nanos() as u64) as i64
    }
}

fn path<'a>(job: &'a ScrapeJob, address: &'a TargetAddress) -> &'a str {
    address.path.as_deref().unwrap_or(&job.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: &str, given: &[(&str, &str)]) -> Result<Target, String> {
        let job = ScrapeJob {
            name: "node".into(),
            labels: vec![("site".into(), "north".into())],
            ..ScrapeJob::default()
        };
        let given = given
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let address = TargetAddress::parse(address).unwrap();
        Target::new(&Arc::new(job), address, &given.collect())
    }

    #[test]
    fn labels_of_a_file_replace_those_of_the_job() {
        let found = target(
            "a:1",
            &[("site", "south"), ("__meta_x", "y"), ("rack", "2")],
        )
        .unwrap();
        let labels = [
            ("instance", "a:1"),
            ("job", "node"),
            ("rack", "2"),
            ("site", "south"),
        ];
        let expected = labels.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(found.labels.labels(), expected);
        assert_eq!(found.discovered["__meta_x"], "y");
        assert_eq!(found.url(), "http://a:1/metrics");
        assert!((0..15_000_000_000).contains(&found.offset()));
    }

    #[test]
    fn labels_define_the_path_and_the_scheme() {
        let found = target("a:1", &[("__metrics_path__", "/m")]).unwrap();
        assert_eq!(found.url(), "http://a:1/m");
        let instance = ("instance".to_string(), "a:1/m".to_string());
        assert!(found.labels.labels().contains(&instance));
        let found = target("a", &[("__scheme__", "https")]).unwrap();
        assert_eq!(found.url(), "https://a:443/metrics");
        let error = target("a:1", &[("__scheme__", "ftp")]).unwrap_err();
        assert!(error.contains("write http"), "{error}");
    }
}
