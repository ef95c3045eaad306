//! `seiner tls`: certificates to start with.

use crate::failure::Failure;
use crate::time::timestamp;
use ::time::OffsetDateTime;
use anyhow::Context;
use clap::{Args, Subcommand};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};
use std::fs::OpenOptions;
use std::io::{Write, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Names of the files.
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// Create certificates for the encrypted ports of a server.
#[derive(Args)]
#[command(subcommand_value_name = "ACTION", subcommand_help_heading = "Actions")]
pub struct Tls {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    SelfSigned(SelfSigned),
}

/// Create a certificate that signs itself, and its key.
///
/// Clients trust the certificate if they get its file, for example by `seiner query --ca` or `curl
/// --cacert`. Nobody else vouches for it: for many clients, use the certificate of an authority. The
/// files certificate.pem and key.pem must not exist yet; only their owner can read the key.
///
/// Examples:
///
///   seiner tls self-signed ./tls --host nas.local,192.168.1.20
///
///   seiner serve --tls-certificate ./tls/certificate.pem --tls-key ./tls/key.pem
#[derive(Args)]
struct SelfSigned {
    /// Directory of the two files. It is created if it is missing.
    directory: PathBuf,
    /// Names and IP addresses by which clients reach the server, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    host: Vec<String>,
    /// Days for which the certificate is valid. Many clients reject more than 825.
    #[arg(long, value_name = "COUNT", default_value_t = 825, value_parser = clap::value_parser!(u32).range(1..=36500))]
    days: u32,
}

impl Tls {
    /// Runs the action.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::SelfSigned(action) => action.run(),
        }
    }
}

impl SelfSigned {
    fn run(self) -> Result<(), Failure> {
        let now = timestamp();
        let (certificate, key) = self.create(now).map_err(|error| {
            Failure::Usage(format!(
                "no certificate for {}: {error}",
                self.host.join(", ")
            ))
        })?;
        let context = || format!("creating {}", self.directory.display());
        std::fs::create_dir_all(&self.directory).with_context(context)?;
        let (certificate_path, key_path) =
            (self.directory.join(CERTIFICATE), self.directory.join(KEY));
        // The key comes first: a certificate without its key is of no use.
        write_new(&key_path, &key, 0o600)?;
        write_new(&certificate_path, &certificate, 0o644)?;
        writeln!(
            stdout(),
            "{}\n{}",
            certificate_path.display(),
            key_path.display()
        )?;
        Ok(())
    }

    /// Returns certificate and key in the format PEM.
    fn create(&self, now: Timestamp) -> Result<(String, String), rcgen::Error> {
        let mut parameters = CertificateParams::new(self.host.clone())?;
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, self.host[0].clone());
        parameters.distinguished_name = name;
        // Clocks of clients may be behind.
        parameters.not_before = day(now, -1);
        parameters.not_after = day(now, i64::from(self.days));
        let key = KeyPair::generate()?;
        Ok((parameters.self_signed(&key)?.pem(), key.serialize_pem()))
    }
}

/// Returns midnight in UTC, some days after a time.
fn day(now: Timestamp, days: i64) -> OffsetDateTime {
    let date = now
        .to_zoned(TimeZone::UTC)
        .date()
        .saturating_add(days.days());
    date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8)
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let context = || {
        format!(
            "writing {}; existing files are not replaced",
            path.display()
        )
    };
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let mut file = opened.with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    file.sync_all().with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(directory: &Path, host: &str) -> SelfSigned {
        SelfSigned {
            directory: directory.to_path_buf(),
            host: vec![host.to_string()],
            days: 10,
        }
    }

    #[test]
    fn existing_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        action(folder.path(), "nas.local").run().unwrap();
        let key = std::fs::read(folder.path().join(KEY)).unwrap();
        assert!(action(folder.path(), "nas.local").run().is_err());
        assert_eq!(std::fs::read(folder.path().join(KEY)).unwrap(), key);
    }

    #[test]
    fn names_that_no_certificate_can_have_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("new");
        match action(&directory, "nås").run() {
            Err(Failure::Usage(text)) => assert!(text.contains("nås"), "{text}"),
            other => panic!("{other:?}"),
        }
        assert!(!directory.exists());
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let now: Timestamp = "2026-12-31T23:59:59Z".parse().unwrap();
        assert_eq!(day(now, 1), date_time_ymd(2027, 1, 1));
        assert_eq!(day(now, -1), date_time_ymd(2026, 12, 30));
    }
}
