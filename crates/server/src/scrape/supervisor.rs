//! Tasks of targets: one for each, from its discovery to its end.

use super::attempt;
use super::discovery::{self, Files};
use super::http::Http;
use super::outside::Outside;
use super::state::{Health, TargetState};
use super::target::Target;
use crate::app_state::AppState;
use crate::known_series::KnownSeries;
use crate::port;
use crate::shutdown::{self, Stop};
use seiner_model::rfc3339;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Time after which files with targets are read again.
const REFRESH: Duration = Duration::from_secs(5);
/// Lateness in ns up to which a scrape has the time at which it was due. Regular times compress well.
const LATE: i64 = 10_000_000;
const NS_PER_MS: i64 = 1_000_000;

/// Target with its task.
struct Running {
    state: Arc<TargetState>,
    end: watch::Sender<bool>,
}

/// Scrapes the targets of all jobs until the stop.
pub async fn serve(app: Arc<AppState>, stop: Stop) {
    supervise(Arc::new(Http), app, stop).await;
}

async fn supervise<O: Outside>(outside: Arc<O>, app: Arc<AppState>, mut stop: Stop) {
    let jobs = app.scrape.jobs.iter();
    let mut jobs: Vec<_> = jobs
        .map(|job| (job.job.clone(), Files::default()))
        .collect();
    let has_files = jobs.iter().any(|(job, _)| !job.files.is_empty());
    let mut running: Vec<Running> = Vec::new();
    let mut tasks = JoinSet::new();
    loop {
        let look = tokio::task::spawn_blocking(move || {
            let found = discovery::all(&mut jobs);
            (jobs, found)
        });
        let found = match look.await {
            Ok((kept, found)) => {
                jobs = kept;
                found
            }
            Err(error) => {
                tracing::error!("scraping ends: {error}");
                return;
            }
        };
        let mut wanted = Vec::new();
        for (job, found) in app.scrape.jobs.iter().zip(found) {
            let error = found.error;
            let text = error.clone().unwrap_or_default();
            if job.note_discovery(error) {
                tracing::warn!(
                    "targets of scrape job {:?} are missing: {text}",
                    job.job.name
                );
            }
            wanted.extend(found.targets);
        }
        running.retain(|of| {
            let is_wanted = wanted.contains(&of.state.target);
            if !is_wanted {
                of.end.send_replace(true);
            }
            is_wanted
        });
        wanted.retain(|target| running.iter().all(|of| of.state.target != *target));
        for target in wanted {
            let state = Arc::new(TargetState::new(target));
            let (end, ended) = shutdown::stop();
            let task = attend(
                outside.clone(),
                app.clone(),
                state.clone(),
                ended,
                stop.clone(),
            );
            tasks.spawn(port::polled(task));
            running.push(Running { state, end });
        }
        let states = running.iter().map(|of| of.state.clone());
        app.scrape.set_targets(states.collect());
        while tasks.try_join_next().is_some() {}
        tokio::select! {
            () = tokio::time::sleep(REFRESH), if has_files => {}
            () = stop.wanted() => break,
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Scrapes a target until the stop, or until the target is gone. The series of a target that is gone end; those of a
/// server that stops do not.
async fn attend<O: Outside>(
    outside: Arc<O>,
    app: Arc<AppState>,
    state: Arc<TargetState>,
    mut ended: Stop,
    mut stop: Stop,
) {
    let target = &state.target;
    let mut known = KnownSeries::new(app.scrape.names.clone());
    loop {
        let due = next_due(target, outside.now());
        let wait = due.saturating_sub(outside.now()).max(0) as u64;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_nanos(wait)) => {}
            () = stop.wanted() => return,
            () = ended.wanted() => break,
        }
        let time = scrape_time(due, outside.now());
        tokio::select! {
            report = attempt::scrape(&app, &*outside, target, &mut known, time) => {
                let (url, error) = (target.url(), report.error.clone());
                let has_failed = report.health == Health::Down;
                if state.note(report) {
                    let verb = if has_failed { "failed" } else { "is incomplete" };
                    tracing::warn!("the scrape of {url} {verb}: {error}");
                }
            }
            () = stop.wanted() => return,
        }
    }
    let now = outside.now();
    if let Err(error) = attempt::end(&app, target, &mut known, now).await {
        let (url, now) = (target.url(), rfc3339(now));
        tracing::warn!("the series of {url} have no stale markers at {now}: {error}");
    }
}

/// Returns the time of the next scrape in ns.
fn next_due(target: &Target, now: i64) -> i64 {
    let interval = target.job.interval.as_nanos() as i64;
    let passed = (now - target.offset()).rem_euclid(interval);
    now - passed + interval
}

/// Returns the time of the samples of a scrape in ns, in whole ms.
fn scrape_time(due: i64, now: i64) -> i64 {
    let time = if (0..=LATE).contains(&(now - due)) {
        due
    } else {
        now
    };
    time - time.rem_euclid(NS_PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ScrapeJob, TargetAddress};
    use std::collections::BTreeMap;

    #[test]
    fn scrapes_have_regular_times() {
        let address = TargetAddress::parse("a:1").unwrap();
        let job = Arc::new(ScrapeJob::default());
        let target = Target::new(&job, address, &BTreeMap::new()).unwrap();
        let now = 1_700_000_000_000_000_000;
        let due = next_due(&target, now);
        assert!((now + 1..=now + 15_000_000_000).contains(&due));
        assert_eq!(next_due(&target, due), due + 15_000_000_000);
        let ms = |time: i64| time - time % NS_PER_MS;
        assert_eq!(scrape_time(due, due + 3_000_000), ms(due));
        assert_eq!(scrape_time(due, due + 2 * LATE), ms(due + 2 * LATE));
        // The clock was set back.
        assert_eq!(scrape_time(due, now), now);
    }
}
