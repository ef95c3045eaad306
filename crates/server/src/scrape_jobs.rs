//! Jobs of scraping as users write them: a table in the file, or `name=node,targets=localhost:9100` as a flag.

use crate::key_texts::{Key, KeyTexts, list, pairs};
use crate::settings::{ScrapeJob, TargetAddress};
use crate::size::parse_size;
use seiner_model::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

/// Key in the file, and flag, once per job: `[[scrape]]`.
pub const KEY: &str = "scrape";
/// Environment variable: jobs in the form of flags, separated by semicolons.
pub const VARIABLE: &str = "SEINER_SCRAPE";

/// Least interval.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum of `body_limit` in bytes.
const MAX_BODY: u64 = 32 << 20;

/// Every key of a job.
pub static KEYS: [Key<ScrapeJob>; 14] = [
    Key {
        name: "name",
        form: "TEXT",
        help: "Value of the label `job`; required.",
        assign: |job, text| {
            job.name = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "targets",
        form: "TARGET ...",
        help: "Targets, with spaces between them: `localhost:9100 https://nas:9100/metrics`.",
        assign: |job, text| {
            let targets = text.split_whitespace().map(TargetAddress::parse);
            job.targets = targets.collect::<Result<_, _>>()?;
            Ok(())
        },
    },
    Key {
        name: "files",
        form: "PATH ...",
        help: "Files with targets in the JSON of Prometheus' `file_sd_configs`, with spaces between them. The name of a \
               file may contain `*`. The server reads them again when they change.",
        assign: |job, text| {
            job.files = text.split_whitespace().map(PathBuf::from).collect();
            Ok(())
        },
    },
    Key {
        name: "path",
        form: "PATH",
        help: "Path of targets that have none, `/metrics` unless given. It may have a query.",
        assign: |job, text| match text.starts_with('/')
            && text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            true => {
                job.path = text.to_string();
                Ok(())
            }
            false => Err(format!("{text:?} is not a path; write /metrics")),
        },
    },
    Key {
        name: "interval",
        form: "DURATION",
        help: "Time from one scrape of a target to the next, `15s` unless given.",
        assign: |job, text| duration(text).map(|time| job.interval = time),
    },
    Key {
        name: "timeout",
        form: "DURATION",
        help: "Maximum time of a scrape, `10s` unless given, and at most the interval.",
        assign: |job, text| duration(text).map(|time| job.timeout = Some(time)),
    },
    Key {
        name: "labels",
        form: "NAME=TEXT ...",
        help: "Labels of all targets, with spaces between them: `site=north rack=2`.",
        assign: |job, text| {
            let pairs = text.split_whitespace().map(label);
            job.labels = pairs.collect::<Result<_, _>>()?;
            Ok(())
        },
    },
    Key {
        name: "honor_labels",
        form: "true|false",
        help: "`true`: a label of a sample replaces the label of the target with the same name, as for a Pushgateway. \
               `false` (the default): the sample's label gets the prefix `exported_`.",
        assign: |job, text| {
            job.honor_labels = match text {
                "true" => true,
                "false" => false,
                _ => return Err(format!("{text:?} is neither true nor false")),
            };
            Ok(())
        },
    },
    Key {
        name: "body_limit",
        form: "SIZE",
        help: "Maximum length of an answer, after decompression, `16 MiB` unless given and at most 32 MiB. The scrape of a \
               longer one fails.",
        assign: |job, text| match parse_size(text)? {
            bytes if (1..=MAX_BODY).contains(&bytes) => {
                job.body_limit = bytes;
                Ok(())
            }
            _ => Err(format!("{text:?} is not a size of 1 B to 32 MiB")),
        },
    },
    Key {
        name: "sample_limit",
        form: "NUMBER",
        help: "Maximum number of samples in an answer, 100000 unless given. The scrape of an answer with more fails.",
        assign: |job, text| match text.parse() {
            Ok(samples) if (1..=1_000_000).contains(&samples) => {
                job.sample_limit = samples;
                Ok(())
            }
            _ => Err(format!(
                "{text:?} is not a number of samples; give a whole number from 1 to 1000000"
            )),
        },
    },
    Key {
        name: "ca_file",
        form: "PATH",
        help: "File (PEM) with the certificates of the authorities that sign the certificates of targets with `https://`. \
               Unless given: the authorities of the system.",
        assign: |job, text| file(text).map(|path| job.ca_file = path),
    },
    Key {
        name: "user",
        form: "TEXT",
        help: "User that requests name, with the password in `password_file` (HTTP basic authentication).",
        assign: |job, text| match text.contains(':') {
            true => Err(format!(
                "{text:?} contains a colon, which a user cannot have"
            )),
            false => {
                job.user = text.to_string();
                Ok(())
            }
        },
    },
    Key {
        name: "password_file",
        form: "PATH",
        help: "File with the password of `user`, read at each scrape. Space at its end does not count.",
        assign: |job, text| file(text).map(|path| job.password_file = path),
    },
    Key {
        name: "token_file",
        form: "PATH",
        help: "File with a token that requests contain (`Authorization: Bearer`), read at each scrape. Space at its end \
               does not count.",
        assign: |job, text| file(text).map(|path| job.token_file = path),
    },
];

fn file(text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "" => Err("it is empty; give a path, or leave it out".to_string()),
        path => Ok(Some(PathBuf::from(path))),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let ns = parse_duration(text).map_err(|error| error.to_string())?;
    let time = Duration::from_nanos(ns.max(0) as u64);
    match time >= LEAST_INTERVAL {
        true => Ok(time),
        false => Err(format!("{text:?} is too short; give at least 100ms")),
    }
}

fn label(pair: &str) -> Result<(String, String), String> {
    match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_string(), value.to_string()))
        }
        _ => Err(format!("{pair:?} is not a label; write site=north rack=2")),
    }
}

/// Job as it was written: texts by key, not parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobText {
    texts: KeyTexts,
}

impl JobText {
    /// Parses the value of a flag: `name=node,targets=localhost:9100`.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn parse(text: &str) -> Result<JobText, String> {
        let mut job = JobText::default();
        for (key, value) in pairs(text, "name=node,targets=localhost:9100")? {
            job.put(key, value.to_string())?;
        }
        Ok(job)
    }

    /// Parses several jobs, separated by semicolons.
    ///
    /// # Errors
    /// The errors of [`JobText::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<JobText>, String> {
        list(text, JobText::parse)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// If there is no such key, or it is present already.
    pub fn put(&mut self, key: &str, text: String) -> Result<(), String> {
        self.texts.put(&KEYS, "a job", key, key, text)
    }

    /// Returns keys and texts, in their order.
    pub fn texts(&self) -> &[(&'static str, String)] {
        self.texts.texts()
    }

    /// Parses the texts into a job.
    ///
    /// # Errors
    /// The first text that cannot be parsed, with its key and the remedy.
    pub fn job(&self) -> Result<ScrapeJob, String> {
        let mut job = ScrapeJob::default();
        self.texts.assign(&KEYS, &mut job)?;
        job.check()?;
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_contains_all_parts_of_a_job() {
        let text = "name=node, targets=a:1 http://b:2/x?y=z, files=/etc/t/*.json, path=/m, interval=5s, timeout=2s, \
                    labels=site=north rack=2, honor_labels=true, body_limit=1 MiB, sample_limit=10, ca_file=/c, user=ann, password_file=/p";
        let jobs = JobText::parse_list(&format!("{text}; name=b,targets=c")).unwrap();
        let job = jobs[0].job().unwrap();
        assert_eq!(job.targets[1].to_string(), "b:2/x?y=z");
        assert_eq!(job.labels[1], ("rack".into(), "2".into()));
        assert_eq!(job.ca_file, Some("/c".into()));
        assert_eq!((&*job.user, &job.token_file), ("ann", &None));
        assert_eq!(
            (job.timeout(), job.body_limit),
            (Duration::from_secs(2), 1 << 20)
        );
        assert_eq!(jobs[1].job().unwrap().timeout(), Duration::from_secs(10));
    }

    #[test]
    fn every_bad_text_is_rejected_with_a_remedy() {
        for (text, words) in [
            ("node", "write name=node"),
            ("nom=a", "there are name, targets"),
            ("targets=a", "give name"),
            ("name=a", "give targets"),
            ("name=a,targets=ftp://b", "write http://"),
            ("name=a,targets=b,user=x:y", "colon"),
            ("name=a,targets=b,token_file=", "leave it out"),
            ("name=a,targets=b,user=x", "give both"),
            ("name=a,targets=b,path=m", "write /metrics"),
            ("name=a,targets=b,interval=1ms", "at least 100ms"),
            ("name=a,targets=b,interval=1s,timeout=2s", "lower it"),
            ("name=a,targets=b,labels=x", "write site=north"),
            ("name=a,targets=b,honor_labels=1", "neither true"),
            ("name=a,targets=b,body_limit=1 GiB", "32 MiB"),
            ("name=a,targets=b,sample_limit=0", "1000000"),
        ] {
            let error = JobText::parse(text)
                .and_then(|job| job.job())
                .expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
