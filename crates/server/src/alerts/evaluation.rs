//! Tasks of the groups: evaluation of their rules, and delivery of their alerts.

use super::state::{AlertState, GroupState, Groups, RunningRule};
use super::{command, manager, storage};
use crate::app_state::AppState;
use crate::ingest::now;
use crate::prometheus::{limits, stopper};
use crate::shutdown::Stop;
use seiner_alert::{Alert, AlertRule, Phase, Rule, message};
use seiner_promql::{Data, Labels, Options};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Maximum time of the evaluation of a rule.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of alerts of a message.
const BATCH: usize = 500;

/// Messages that are due after an evaluation.
#[derive(Default)]
struct Due {
    /// Alerts for Alertmanagers.
    all: Vec<Value>,
    /// Alerts for the command: those that began to fire or were resolved.
    changed: Vec<Value>,
}

/// Evaluates the rules of all groups until the stop. New groups replace the previous ones.
pub async fn serve(app: Arc<AppState>, mut stop: Stop) {
    let mut before = Groups::default();
    loop {
        let present = app.alerts().groups();
        end_removed(&app, &before, &present).await;
        before = present.clone();
        let mut groups = JoinSet::new();
        for group in &*present {
            groups.spawn(serve_group(app.clone(), group.clone()));
        }
        let ended = async {
            while groups.join_next().await.is_some() {
                tracing::error!("the evaluation of a group of rules ended");
            }
            std::future::pending::<()>().await;
        };
        let is_over = tokio::select! {
            () = stop.wanted() => true,
            () = app.alerts().changed.notified() => false,
            () = ended => false,
        };
        groups.shutdown().await;
        if is_over {
            return;
        }
    }
}

/// Ends the series of rules that are no longer there.
async fn end_removed(app: &Arc<AppState>, before: &Groups, after: &Groups) {
    let (app, before, after) = (app.clone(), before.clone(), after.clone());
    let ended = tokio::task::spawn_blocking(move || {
        let kept: Vec<&RunningRule> = after.iter().flat_map(|group| &group.rules).collect();
        for rule in before.iter().flat_map(|group| &group.rules) {
            if kept.iter().any(|kept| kept.is(rule)) {
                continue;
            }
            if let Err(error) = storage::store(&app, &mut rule.known(), &[], now()) {
                let name = rule.rule.name();
                tracing::warn!(
                    "the series of rule {name:?}, which was removed, do not end: {error}"
                );
            }
        }
    });
    if let Err(error) = ended.await {
        tracing::error!("the series of removed rules do not end: {error}");
    }
}

async fn serve_group(app: Arc<AppState>, group: Arc<GroupState>) {
    let mut ticks = tokio::time::interval(group.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let evaluated = {
            let (app, group) = (app.clone(), group.clone());
            tokio::task::spawn_blocking(move || {
                let time = now();
                (time, evaluate(&app, &group, time))
            })
        };
        let (time, due) = match evaluated.await {
            Ok(evaluated) => evaluated,
            Err(error) => {
                tracing::error!("the rules of a group were not evaluated: {error}");
                continue;
            }
        };
        if !due.all.is_empty() && deliver(&app, &due).await {
            for rule in &group.rules {
                rule.run().state.note_sent(time);
            }
        }
    }
}

/// Evaluates the rules of a group, one after the other. Returns the messages that are due.
fn evaluate(app: &AppState, group: &GroupState, time: i64) -> Due {
    let mut due = Due::default();
    for rule in &group.rules {
        let alerts = app.alerts();
        alerts.evaluations.fetch_add(1, Relaxed);
        if let Err(error) = evaluate_rule(app, group, rule, time) {
            alerts.failures.fetch_add(1, Relaxed);
            let mut run = rule.run();
            if run.error != error {
                tracing::warn!("rule {:?} failed: {error}", rule.rule.name());
            }
            run.error = error;
        }
        let run = rule.run();
        let source = source(app, rule.rule.expression());
        let texts = |alerts: Vec<&Alert>| {
            let texts = alerts.into_iter().map(|alert| message(alert, &source));
            texts.collect::<Vec<_>>()
        };
        for alert in run.state.changed() {
            let word = match alert.phase {
                Phase::Resolved(_) => "resolved",
                _ => "firing",
            };
            tracing::info!("alert {:?} is {word}", rule.rule.name());
        }
        due.all.extend(texts(run.state.due(time)));
        due.changed.extend(texts(run.state.changed()));
    }
    due
}

fn evaluate_rule(
    app: &AppState,
    group: &GroupState,
    rule: &RunningRule,
    time: i64,
) -> Result<(), String> {
    let started = crate::time::now();
    let result = result(app, rule.rule.expression(), time);
    {
        let mut run = rule.run();
        run.time = Some(time);
        run.seconds = started.elapsed().as_secs_f64();
    }
    let series = match &rule.rule {
        Rule::Alert(terms) => update(app, group, (rule, terms), time, &result?)?,
        Rule::Recording(terms) => terms.series(result?)?,
    };
    storage::store(app, &mut rule.known(), &series, time)?;
    rule.run().error.clear();
    Ok(())
}

/// Updates the alerts of a rule. Returns the series that describe them.
fn update(
    app: &AppState,
    group: &GroupState,
    (rule, terms): (&RunningRule, &AlertRule),
    time: i64,
    result: &[(Labels, f64)],
) -> Result<Vec<(Labels, f64)>, String> {
    let is_resumed = rule.run().is_resumed;
    if !is_resumed {
        let stored = storage::resume(app, &mut rule.known(), terms, time)?;
        let mut run = rule.run();
        run.state.remember(terms, time, group.interval, stored);
        run.is_resumed = true;
    }
    let mut run = rule.run();
    run.state.update(terms, time, group.interval, result)?;
    Ok(run.state.series())
}

/// Returns the series in the result of an expression at a time.
fn result(app: &AppState, expression: &str, time: i64) -> Result<Vec<(Labels, f64)>, String> {
    let options = Options {
        limits: limits(app),
        ..Options::default()
    };
    let stopper = stopper(Arc::new(|| false), PATIENCE);
    let answer = seiner_promql::instant(&*app.store, expression, time, &options, Some(stopper));
    match answer.map_err(|error| error.to_string())?.data {
        Data::Vector(_, series) => Ok(series),
        Data::Scalar(_, value) => Ok(vec![(Labels::new(), value)]),
        _ => Err("the expression has no number at a time, but a text or a range".to_string()),
    }
}

/// Returns the address of the expression's present result.
fn source(app: &AppState, expression: &str) -> String {
    let query: String = form_urlencoded::byte_serialize(expression.as_bytes()).collect();
    let scheme = if app.tls.is_some() { "https" } else { "http" };
    let address = app.settings.listen;
    format!("{scheme}://{address}/prometheus/api/v1/query?query={query}")
}

/// Sends messages to all receivers. Returns true if one of them took all of its messages.
async fn deliver(app: &AppState, due: &Due) -> bool {
    let settings = &app.settings.alert;
    let mut is_taken = settings.alertmanagers.is_empty() && settings.command.is_none();
    for address in &settings.alertmanagers {
        let mut all_taken = true;
        for batch in due.all.chunks(BATCH) {
            let sent = manager::post(address, batch).await;
            all_taken &= note(app.alerts(), batch, &address.authority(), sent);
        }
        is_taken |= all_taken;
    }
    if let Some(program) = &settings.command {
        // Alerts that only fire on are no news for the command.
        let ran = match due.changed.is_empty() {
            true => true,
            false => {
                let ran = command::run(program, &due.changed).await;
                note(
                    app.alerts(),
                    &due.changed,
                    &program.display().to_string(),
                    ran,
                )
            }
        };
        is_taken |= ran;
    }
    is_taken
}

/// Counts messages. Returns true if the receiver took them.
fn note(alerts: &AlertState, batch: &[Value], receiver: &str, sent: Result<(), String>) -> bool {
    let count = batch.len() as u64;
    match sent {
        Ok(()) => {
            alerts.sent.fetch_add(count, Relaxed);
            true
        }
        Err(error) => {
            alerts.unsent.fetch_add(count, Relaxed);
            tracing::warn!("{count} alerts were not sent to {receiver}: {error}");
            false
        }
    }
}
