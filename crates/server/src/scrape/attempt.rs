//! One scrape of a target.

use super::PROTOCOL;
use super::outside::{Fetched, Outside};
use super::samples::Samples;
use super::state::{Health, Report};
use super::target::Target;
use crate::app_state::AppState;
use crate::known_series::{KnownSeries, STALE_MARKER};
use crate::metric_metadata::MetricMetadata;
use crate::series::{self, Stored};
use seiner_wire::exposition::{BadText, Exposition, Form, Item};
use seiner_wire::remote_write::{METRIC_TYPES, Metadata};
use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

/// Names of the series about a scrape.
const UP: &str = "up";
const DURATION: &str = "scrape_duration_seconds";
const SAMPLES: &str = "scrape_samples_scraped";

/// Scrapes a target, and stores the result with this time in ns. Samples that the store rejects are counted.
pub async fn scrape(
    app: &AppState,
    outside: &impl Outside,
    target: &Target,
    known: &mut KnownSeries,
    time: i64,
) -> Report {
    let started = crate::time::now();
    let limit = target.job.timeout();
    let fetched = tokio::time::timeout(limit, outside.fetch(app, target)).await;
    let seconds = started.elapsed().as_secs_f64();
    let fetched = fetched.unwrap_or_else(|_| {
        Err(format!(
            "the target did not answer within {} s; raise timeout of the job",
            limit.as_secs_f64()
        ))
    });
    let checked = fetched.and_then(|fetched| {
        let samples = check(&fetched, target.job.sample_limit)?;
        Ok((fetched, samples))
    });
    let mut report = Report {
        health: Health::Up,
        error: String::new(),
        time: Some(time),
        seconds,
        samples: 0,
    };
    let fetched = match checked {
        Ok((fetched, samples)) => {
            report.samples = samples;
            Some(fetched)
        }
        Err(error) => {
            (report.health, report.error) = (Health::Down, error);
            None
        }
    };
    let (body, form) = match &fetched {
        Some(fetched) => (&*fetched.body, fetched.form),
        None => (&b""[..], Form::Prometheus),
    };
    let up = f64::from(u8::from(report.health == Health::Up));
    let own = [
        (UP, up),
        (DURATION, seconds),
        (SAMPLES, report.samples as f64),
    ];
    match store(app, target, known, (body, form), time, own).await {
        Ok(None) => {}
        Ok(Some(rejection)) => report.error = rejection,
        Err(error) => (report.health, report.error) = (Health::Down, error),
    }
    if let Some(job) = app.scrape.job_of(target) {
        job.count(report.health == Health::Down);
    }
    report
}

/// Ends all series of a target.
///
/// # Errors
/// If the store accepts no more.
pub async fn end(
    app: &AppState,
    target: &Target,
    known: &mut KnownSeries,
    time: i64,
) -> Result<(), String> {
    let own = [UP, DURATION, SAMPLES].map(|metric| (metric, STALE_MARKER));
    store(app, target, known, (b"", Form::Prometheus), time, own)
        .await
        .map(|_| ())
}

/// Stores a text that was checked. Returns the first reason if samples were rejected.
///
/// # Errors
/// If the store accepts no more.
async fn store(
    app: &AppState,
    target: &Target,
    known: &mut KnownSeries,
    (body, form): (&[u8], Form),
    time: i64,
    own: super::samples::Report,
) -> Result<Option<String>, String> {
    let counters = app.traffic.protocol(PROTOCOL);
    counters.bytes.fetch_add(body.len() as u64, Relaxed);
    let text = Exposition::new(body, form).map_err(|error| error.to_string())?;
    let unknown = note_metadata(&app.metric_metadata, body, form);
    let mut samples = Samples::new(text, &target.labels, known, time, own);
    let mut stored = Stored::default();
    let end = series::store(app, &mut samples, &mut stored).await;
    let ignored = samples.ignored + unknown;
    series::count(&counters, &stored, &mut samples.rejections, ignored);
    end.map_err(|error| error.to_string())?;
    let rejected = samples.rejections.samples;
    let first = series::places(&samples.rejections, "line", "sample").next();
    Ok(first.map(|first| format!("{rejected} samples were rejected: {}", first.text)))
}

/// Checks a text as a whole. Returns the number of its samples.
fn check(fetched: &Fetched, limit: u64) -> Result<u64, String> {
    let mut samples = 0;
    let read = |error: BadText| format!("the answer is not a text of metrics: {error}");
    for item in Exposition::new(&fetched.body, fetched.form).map_err(read)? {
        samples += u64::from(matches!(item.map_err(read)?, Item::Sample(_)));
        if samples > limit {
            return Err(format!(
                "the answer has more than {limit} samples; raise sample_limit of the job"
            ));
        }
    }
    Ok(samples)
}

/// Notes the metadata of a text that was checked. Returns the number of metadata for which there is no space.
fn note_metadata(known: &MetricMetadata, body: &[u8], form: Form) -> u64 {
    struct Family<'t> {
        name: &'t str,
        kind: &'static str,
        help: Cow<'t, str>,
        unit: &'t str,
    }
    let note = |family: Option<Family<'_>>| {
        let metadata = family.as_ref().map(|family| Metadata {
            family: family.name.as_bytes(),
            kind: family.kind,
            help: family.help.as_bytes(),
            unit: family.unit.as_bytes(),
        });
        known.note(metadata.as_slice())
    };
    let (mut ignored, mut family) = (0, None::<Family<'_>>);
    let items = Exposition::new(body, form).into_iter().flatten();
    for item in items.map_while(Result::ok) {
        let (Item::Type(name, _) | Item::Help(name, _) | Item::Unit(name, _)) = &item else {
            continue;
        };
        if family.as_ref().is_none_or(|family| family.name != *name) {
            ignored += note(family.take());
        }
        let family = family.get_or_insert_with(|| Family {
            name,
            kind: METRIC_TYPES[0],
            help: Cow::Borrowed(""),
            unit: "",
        });
        match item {
            Item::Type(_, kind) => family.kind = kind,
            Item::Help(_, help) => family.help = help,
            Item::Unit(_, unit) => family.unit = unit,
            Item::Sample(_) => {}
        }
    }
    ignored + note(family)
}

#[cfg(test)]
mod tests;
