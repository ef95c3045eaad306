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
use tokio::task::{JoinHandle, JoinSet};
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
        end_removed(&app, &before, &present);
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

/// Ends the series of rules that are no longer there. Does not wait for the store.
fn end_removed(app: &Arc<AppState>, before: &Groups, after: &Groups) {
    let (app, before, after) = (app.clone(), before.clone(), after.clone());
    tokio::task::spawn_blocking(move || {
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
}

async fn serve_group(app: Arc<AppState>, group: Arc<GroupState>) {
    let mut ticks = tokio::time::interval(group.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut storing: Option<JoinHandle<()>> = None;
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
        // A store that is full may keep its writers waiting. The alerts that say so do not wait for it.
        let is_behind = storing.as_ref().is_some_and(|task| !task.is_finished());
        if !is_behind {
            let (app, group) = (app.clone(), group.clone());
            let store = move || store_states(&app, &group);
            storing = Some(tokio::task::spawn_blocking(store));
        }
        if !due.all.is_empty() && deliver(&app, &due).await {
            for rule in &group.rules {
                rule.run().state.note_sent(time);
            }
        }
    }
}

/// Stores the states of a group's alerts after their last evaluation, unless it failed.
fn store_states(app: &AppState, group: &GroupState) {
    for rule in &group.rules {
        let Some((series, time)) = states(rule) else {
            continue;
        };
        let time = group.time_of_data(time);
        let stored = storage::store(app, &mut rule.known(), &series, time);
        let error = stored.err().unwrap_or_default();
        let mut run = rule.run();
        if run.unstored != error && !error.is_empty() {
            let name = rule.rule.name();
            tracing::warn!("the states of the alerts of rule {name:?} are not stored: {error}");
        }
        run.unstored = error;
    }
}

/// Returns the states of a rule's alerts as series, with the time of its last evaluation. Returns `None` if the
/// evaluation failed, and for a rule that records.
fn states(rule: &RunningRule) -> Option<(Vec<(Labels, f64)>, i64)> {
    let run = rule.run();
    let has_states = matches!(rule.rule, Rule::Alert(_)) && run.error.is_empty();
    let time = run.time.filter(|_| has_states)?;
    Some((run.state.series(), time))
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

/// Evaluates a rule, and stores its result if it records.
fn evaluate_rule(
    app: &AppState,
    group: &GroupState,
    rule: &RunningRule,
    time: i64,
) -> Result<(), String> {
    let started = crate::time::now();
    let time_of_data = group.time_of_data(time);
    let result = result(app, rule.rule.expression(), time_of_data);
    {
        let mut run = rule.run();
        run.time = Some(time);
        run.seconds = started.elapsed().as_secs_f64();
    }
    let result = result?;
    if result.len() as u64 > group.limit {
        let (count, limit) = (result.len(), group.limit);
        return Err(format!(
            "the expression has {count} results, and `limit` of the group is {limit}"
        ));
    }
    match &rule.rule {
        Rule::Alert(terms) => update(app, group, (rule, terms), time, &result)?,
        // The next rule of the group may read the series.
        Rule::Recording(terms) => {
            let series = terms.series(result)?;
            storage::store(app, &mut rule.known(), &series, time_of_data)?;
        }
    }
    rule.run().error.clear();
    Ok(())
}

/// Updates the alerts of a rule.
fn update(
    app: &AppState,
    group: &GroupState,
    (rule, terms): (&RunningRule, &AlertRule),
    time: i64,
    result: &[(Labels, f64)],
) -> Result<(), String> {
    let is_resumed = rule.run().is_resumed;
    if !is_resumed {
        let stored = storage::resume(app, &mut rule.known(), terms, time, group.offset_ns)?;
        let mut run = rule.run();
        run.state.remember(terms, time, group.interval, stored);
        run.is_resumed = true;
    }
    let mut run = rule.run();
    run.state.update(terms, time, group.interval, result)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::app_state::Extensions;
    use crate::settings::Settings;
    use seiner_model::{Batch, Cell, Interval, Selector, Value};
    use seiner_store::{MemoryStore, Query, Store};
    use seiner_wire::line::LineNotation;

    const RULES: &str = "groups: [{name: g, rules: [\
        {alert: Hot, expr: t > 30, for: 10s}, {record: 't:max', expr: max(t)}]}]";
    const SECOND: i64 = 1_000_000_000;

    /// Returns a server with rules, and a sample of each second in a minute.
    fn server(store: Arc<MemoryStore>, rules: &str) -> AppState {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.yaml");
        std::fs::write(&path, rules).unwrap();
        let mut settings = Settings::default();
        settings.alert.rules = Some(path);
        for second in 0..60 {
            let mut batch = Batch::new();
            let cell = Cell {
                field: b"value",
                value: Value::F64(31.5),
            };
            batch.push(b"t,room=attic", second * SECOND, [cell]);
            store.append(&LineNotation, &batch).unwrap();
        }
        let access = Access::open(&settings).unwrap();
        let app = AppState::new(store, Extensions::default(), settings, (access, None));
        let names = app.scrape.names.clone();
        let rules = AlertState::read(&app.settings.alert, names).unwrap();
        app.alerts.get_or_init(|| rules);
        app
    }

    #[test]
    fn alerts_fire_while_the_store_takes_no_samples() {
        // Regression: states were stored before messages were due, so that an alert about a full disk waited for it.
        let store = Arc::new(MemoryStore::new());
        let app = server(store.clone(), RULES);
        let group = app.alerts().groups()[0].clone();
        let due = evaluate(&app, &group, 0);
        assert_eq!(due.all.len(), 0);
        store_states(&app, &group);
        let failures = || group.rules.iter().map(|rule| rule.run().error.clone());
        let unstored = || group.rules[0].run().unstored.clone();
        assert!(failures().all(|error| error.is_empty()) && unstored().is_empty());
        store.close().unwrap();
        let due = evaluate(&app, &group, 10 * SECOND);
        assert_eq!((due.all.len(), due.changed.len()), (1, 1));
        store_states(&app, &group);
        assert!(unstored().contains("closed"), "{}", unstored());
        // A rule that records fails, and the alert does not.
        let failed: Vec<bool> = failures().map(|error| error.is_empty()).collect();
        assert_eq!(failed, [true, false]);
    }

    #[test]
    fn a_group_may_read_older_data_and_limit_its_results() {
        let rules = RULES.replace("rules:", "query_offset: 20s, limit: 1, rules:");
        let store = Arc::new(MemoryStore::new());
        let app = server(store.clone(), &rules);
        let group = app.alerts().groups()[0].clone();
        let errors = || group.rules.iter().map(|rule| rule.run().error.clone());
        evaluate(&app, &group, 70 * SECOND);
        assert!(errors().all(|error| error.is_empty()));
        store_states(&app, &group);
        let times = |metric: &str| {
            let selector = Selector::parse(metric).unwrap();
            let query = Query {
                selector,
                fields: None,
                interval: Interval::new(0, 100 * SECOND),
            };
            let found = store.latest(&query, None).unwrap();
            found
                .map(|latest| latest.unwrap().time / SECOND)
                .collect::<Vec<_>>()
        };
        assert_eq!((times("t:max"), times("ALERTS")), (vec![50], vec![50]));
        let resumed = {
            let rule = &group.rules[0];
            let Rule::Alert(terms) = &rule.rule else {
                panic!("the first rule is an alert");
            };
            let mut known = rule.known();
            storage::resume(&app, &mut known, terms, 71 * SECOND, group.offset_ns).unwrap()
        };
        assert_eq!(resumed[0].last, 70 * SECOND);
        let mut batch = Batch::new();
        let cell = Cell {
            field: b"value",
            value: Value::F64(40.0),
        };
        batch.push(b"t,room=cellar", 60 * SECOND, [cell]);
        store.append(&LineNotation, &batch).unwrap();
        evaluate(&app, &group, 80 * SECOND);
        let errors: Vec<String> = errors().collect();
        assert!(
            errors[0].contains("2 results, and `limit` of the group is 1"),
            "{}",
            errors[0]
        );
        assert_eq!((&*errors[1], times("t:max")), ("", vec![60]));
    }
}
