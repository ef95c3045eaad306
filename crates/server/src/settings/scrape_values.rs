//! Values of the settings of scraping.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Ports of HTTP, without and with encryption.
const PORT: u16 = 80;
const TLS_PORT: u16 = 443;
/// Maximum time of a scrape unless a job states another one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Job: targets that are scraped with the same settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeJob {
    /// Name, which is the value of the label `job`.
    pub name: String,
    /// Targets.
    pub targets: Vec<TargetAddress>,
    /// Files with further targets. The name of a file may contain `*`.
    pub files: Vec<PathBuf>,
    /// Path of targets that have none.
    pub path: String,
    /// Time from one scrape to the next.
    pub interval: Duration,
    /// Maximum time of a scrape, if one is given.
    pub timeout: Option<Duration>,
    /// Labels of all targets.
    pub labels: Vec<(String, String)>,
    /// True if labels of samples replace those of the target.
    pub honor_labels: bool,
    /// Maximum length of a body in bytes, after decompression.
    pub body_limit: u64,
    /// Maximum number of samples of a scrape.
    pub sample_limit: u64,
    /// File with the authorities of targets with HTTPS; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// Name of the user for requests with a password; empty for none.
    pub user: String,
    /// File with the password of the user.
    pub password_file: Option<PathBuf>,
    /// File with a token that requests show.
    pub token_file: Option<PathBuf>,
}

/// Address of a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetAddress {
    /// Name or address of the host, without brackets.
    pub host: String,
    /// Port, if the address has one.
    pub port: Option<u16>,
    /// True for HTTPS.
    pub is_encrypted: bool,
    /// Path with the query, if the address has one.
    pub path: Option<String>,
}

impl Default for ScrapeJob {
    fn default() -> ScrapeJob {
        ScrapeJob {
            name: String::new(),
            targets: Vec::new(),
            files: Vec::new(),
            path: "/metrics".to_string(),
            interval: Duration::from_secs(15),
            timeout: None,
            labels: Vec::new(),
            honor_labels: false,
            body_limit: 16 << 20,
            sample_limit: 100_000,
            ca_file: None,
            user: String::new(),
            password_file: None,
            token_file: None,
        }
    }
}

impl ScrapeJob {
    /// Returns the maximum time of a scrape.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT.min(self.interval))
    }

    /// Checks the values together.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("the job has no name; give name, such as name = \"node\"".to_string());
        }
        let name = &self.name;
        if self.targets.is_empty() && self.files.is_empty() {
            return Err(format!(
                "job {name:?} has no targets; give targets, such as targets = \"localhost:9100\", or files"
            ));
        }
        if self.user.is_empty() != self.password_file.is_none() {
            return Err(format!(
                "job {name:?} has only one of user and password_file; give both, or none"
            ));
        }
        if self.token_file.is_some() && self.password_file.is_some() {
            return Err(format!(
                "job {name:?} has a token_file and a password_file; give one of them"
            ));
        }
        if self.timeout() > self.interval {
            return Err(format!(
                "job {name:?} has a timeout that is longer than its interval; lower it, or leave it out"
            ));
        }
        Ok(())
    }
}

impl TargetAddress {
    /// Parses `host:port`, `host`, or a URL of HTTP or HTTPS.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn parse(text: &str) -> Result<TargetAddress, String> {
        let (is_encrypted, rest) = match text.split_once("://") {
            None => (false, text),
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => {
                return Err(format!(
                    "{text:?}: {scheme}:// is not supported; write http://host:port/path"
                ));
            }
        };
        let wrong = || {
            format!(
                "{text:?} is not a target; write host:port or http://host:port/path, such as localhost:9100"
            )
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..])),
            None => (rest, None),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                (host, port.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = port.map(|port| port.parse().map_err(|_| wrong()));
        let port = port.transpose()?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-:%".contains(letter);
        let is_path = |path: &str| path.bytes().all(|byte| byte.is_ascii_graphic());
        match host.is_empty() || !host.chars().all(is_plain) || !path.is_none_or(is_path) {
            true => Err(wrong()),
            false => Ok(TargetAddress {
                host: host.to_string(),
                port,
                is_encrypted,
                path: path.filter(|path| *path != "/").map(str::to_string),
            }),
        }
    }

    /// Returns the port: the given one, or that of HTTP or HTTPS.
    pub fn port(&self) -> u16 {
        let usual = if self.is_encrypted { TLS_PORT } else { PORT };
        self.port.unwrap_or(usual)
    }

    /// Returns the scheme of the URL.
    pub fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// Returns host and port, as the header Host has them.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port()),
            false => format!("{}:{}", self.host, self.port()),
        }
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or_default();
        write!(f, "{}{path}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_hosts_ports_and_paths() {
        let of = |text| TargetAddress::parse(text).map(|target| target.to_string());
        for (text, expected) in [
            ("nas:9100", "nas:9100"),
            ("nas", "nas:80"),
            ("http://nas:9100/", "nas:9100"),
            ("https://nas/m", "nas:443/m"),
            (
                "http://[::1]:9/probe?module=a&x=b",
                "[::1]:9/probe?module=a&x=b",
            ),
        ] {
            assert_eq!(of(text), Ok(expected.to_string()));
        }
        for (text, remedy) in [
            ("ftp://nas", "write http://"),
            ("nas:port", "host:port"),
            ("", "host:port"),
            ("ann@nas:1", "host:port"),
            ("nas/a b", "host:port"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn a_job_has_one_kind_of_login() {
        let mut job = ScrapeJob {
            name: "node".into(),
            files: vec!["a.json".into()],
            user: "ann".into(),
            ..ScrapeJob::default()
        };
        assert!(job.check().unwrap_err().contains("give both"));
        job.password_file = Some("password".into());
        assert_eq!(job.check(), Ok(()));
        job.token_file = Some("token".into());
        assert!(job.check().unwrap_err().contains("give one"));
    }

    #[test]
    fn the_timeout_is_not_longer_than_the_interval() {
        let mut job = ScrapeJob {
            name: "node".into(),
            files: vec!["a.json".into()],
            interval: Duration::from_secs(5),
            ..ScrapeJob::default()
        };
        assert_eq!(job.timeout(), Duration::from_secs(5));
        assert_eq!(job.check(), Ok(()));
        job.timeout = Some(Duration::from_secs(6));
        assert!(job.check().unwrap_err().contains("lower it"));
    }
}
