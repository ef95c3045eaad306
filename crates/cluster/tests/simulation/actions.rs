//! Actions: what happens in a run, and its end.

use crate::oracle::{Answer, Question};
use crate::plan::Canary;
use crate::replicas::UNSYNCED;
use crate::report::Report;
use crate::workload::{FIELDS, Rows, SOURCES, key, source_of, text, time};
use crate::world::{Crash, Operation, PORTS, SECOND, Violation, World};
use seiner_cluster::{ClusterStore, Grid, GridChange, change_grid};
use seiner_model::{Interval, Selector};
use seiner_store::{Query, Store};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Seconds of maintenance after all failures have ended.
const RECOVERY: u64 = 60;
/// Partitions of the journal that a port without rows may have.
const JOURNAL: usize = 12;

/// Runs a seed. A panic counts as a violation.
pub fn run(seed: u64, canary: Option<Canary>, verbose: bool) -> Result<Report, Violation> {
    let world = World::new(seed, canary, verbose);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        world.steps();
        world.end();
    }));
    match ran {
        Ok(()) => world.outcome(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Err(world.violation(format!("panic: {text}")))
        }
    }
}

/// Returns the numbers of the ports.
fn ports() -> std::ops::Range<usize> {
    0..PORTS.len()
}

/// Action at a port.
type Action = fn(&Arc<World>, usize);

impl World {
    fn steps(self: &Arc<World>) {
        for port in ports() {
            self.reopen(port);
        }
        for _ in 0..self.plan.steps {
            if self.has_failed() {
                return;
            }
            self.act();
            let pause = self.rng(|rng| match rng.chance(1, 10) {
                true => rng.below(20 * SECOND),
                false => rng.below(SECOND),
            });
            let until = self.time() + pause;
            while self.time() < until {
                self.advance(SECOND / 2);
                self.maintain_some();
            }
        }
    }

    /// Performs a random action of a random port.
    pub fn act(self: &Arc<World>) {
        self.note_marks();
        let weights = &self.plan.weights;
        let actions: [(u64, Action); 13] = [
            (weights.append, World::append),
            (weights.hand_over, World::hand_over),
            (weights.maintain, World::maintain),
            (weights.query, World::query),
            (weights.delete, World::delete),
            (weights.crash, World::crash_some),
            (weights.open, World::reopen),
            (weights.pause, World::pause_some),
            (weights.node, World::change_node),
            (weights.path, World::change_path),
            (weights.link, World::change_link),
            (weights.grid, World::change_grid),
            (weights.power, World::cut_power),
        ];
        let total = actions.iter().map(|action| action.0).sum();
        let (mut drawn, port) = self.rng(|rng| (rng.below(total), rng.below(3) as usize));
        for (weight, act) in actions {
            if drawn < weight {
                return act(self, port);
            }
            drawn -= weight;
        }
    }

    fn append(self: &Arc<World>, port: usize) {
        if !self.can(port, Operation::Append) {
            return;
        }
        let repeated = self.rng(|rng| rng.chance(1, 8));
        let mut recent = self.recent.lock().unwrap();
        let rows = match repeated && !recent.is_empty() {
            // A client that got no answer repeats its rows, perhaps at another port.
            true => self.rng(|rng| rng.pick(&recent).clone()),
            false => self.rng(|rng| {
                // Numbers follow from the moment, so that values are unique.
                let mut next = self.oracle.lock().unwrap().tick() * 100;
                Rows::new(rng, &mut next)
            }),
        };
        if recent.len() >= 6 {
            recent.remove(0);
        }
        recent.push(rows.clone());
        drop(recent);
        let samples = rows.samples();
        for (series, time, value) in &samples {
            self.oracle
                .lock()
                .unwrap()
                .issue(*series, *time, port, value.clone());
        }
        let waits = self.rng(|rng| rng.chance(5, 6));
        self.note(|| {
            format!(
                "{} appends {} samples of m{}",
                PORTS[port],
                samples.len(),
                rows.source
            )
        });
        let result = self.operate(port, Operation::Append, |store| {
            let source = store
                .register(&key(rows.source))
                .map_err(|error| error.to_string())?;
            let receipt = store.append_columns(source, &rows.names(), &rows.columns(port));
            let receipt = receipt.map_err(|error| error.to_string())?;
            if receipt.rejected_total > 0 {
                self.fail(format!("rows were rejected: {receipt:?}"));
            }
            match waits {
                true => store
                    .wait_durable(receipt.position)
                    .map_err(|error| error.to_string()),
                false => Err("the client does not wait".to_string()),
            }
        });
        match result {
            Some(Ok(())) => {
                let now = self.time();
                self.oracle.lock().unwrap().acknowledge(now, port, &samples);
                self.note(|| format!("{} acknowledges {} samples", PORTS[port], samples.len()));
            }
            Some(Err(error)) => self.note(|| format!("{}: {error}", PORTS[port])),
            None => {}
        }
    }

    fn hand_over(self: &Arc<World>, port: usize) {
        if !self.can(port, Operation::HandOver) {
            return;
        }
        self.note(|| format!("{} hands over", PORTS[port]));
        let done = self.operate(port, Operation::HandOver, |store| store.hand_over());
        self.note(|| format!("{} has handed over: {done:?}", PORTS[port]));
    }

    fn maintain(self: &Arc<World>, port: usize) {
        if self.can(port, Operation::Maintain) {
            self.note(|| format!("{} maintains", PORTS[port]));
            self.operate(port, Operation::Maintain, |store| store.maintain());
        }
    }

    fn query(self: &Arc<World>, port: usize) {
        if self.can(port, Operation::Query) {
            let question = self.rng(|rng| {
                let (one, other) = (time(rng), time(rng));
                Question {
                    source: rng.chance(1, 3).then(|| rng.below(SOURCES as u64) as usize),
                    field: rng.chance(1, 4).then(|| *rng.pick(&FIELDS)),
                    times: match rng.chance(1, 3) {
                        true => (one.min(other), one.max(other)),
                        false => (i64::MIN, i64::MAX),
                    },
                }
            });
            self.ask(port, &question);
        }
    }

    /// Asks a port and checks its answer. Returns whether the answer is complete.
    fn ask(self: &Arc<World>, port: usize, question: &Question) -> bool {
        let began = self.oracle.lock().unwrap().tick();
        self.note(|| format!("{} is asked for {question:?}", PORTS[port]));
        if self.canary == Some(Canary::EarlyDirectories) {
            *self.slots[port].early.lock().unwrap() = Some(self.network().replicas.clone());
        }
        let query = Query {
            selector: selector(question.source),
            fields: question.field.map(|field| vec![field.to_string()]),
            interval: Interval::new(question.times.0, question.times.1),
        };
        let answer = self.operate(port, Operation::Query, |store| answer(store, &query));
        *self.slots[port].early.lock().unwrap() = None;
        let Some(answer) = answer else {
            return false;
        };
        let (answer, error) = match answer {
            Ok(found) => found,
            Err(wrong) => {
                self.fail(wrong);
                return false;
            }
        };
        let is_complete = error.is_none();
        let checked = self
            .oracle
            .lock()
            .unwrap()
            .check(question, began, &answer, is_complete);
        if let Err(wrong) = checked {
            self.fail(format!("asked {}: {wrong}", PORTS[port]));
        }
        self.note(|| {
            format!(
                "{} has answered: {} series, {error:?}",
                PORTS[port],
                answer.len()
            )
        });
        let mut report = self.report.lock().unwrap();
        match is_complete {
            true => report.complete += 1,
            false => report.incomplete += 1,
        }
        is_complete
    }

    /// Stores another grid through the connection of a port, which uses the grid later.
    fn change_grid(self: &Arc<World>, port: usize) {
        if !self.can(port, Operation::Query) {
            return;
        }
        let grid = self.rng(|rng| Grid {
            shelves: rng.between(1, 4) as u32,
            period_ns: rng.between(10, 300) * SECOND,
        });
        let Some(rows) = self.slots[port].process.lock().unwrap().clone() else {
            return;
        };
        let done = self.operate(port, Operation::Query, |_| change_grid(&*rows, grid));
        self.note(|| format!("{} stores {grid:?}: {done:?}", PORTS[port]));
        if let Some(Ok(GridChange::Stored(_))) = done {
            self.report.lock().unwrap().grids += 1;
        }
    }

    fn delete(self: &Arc<World>, port: usize) {
        if !self.can(port, Operation::Delete) {
            return;
        }
        let (source, one, other) = self.rng(|rng| {
            let source = rng.chance(2, 3).then(|| rng.below(SOURCES as u64) as usize);
            (source, time(rng), time(rng))
        });
        let times = (one.min(other), one.max(other));
        let number = self.oracle.lock().unwrap().delete(source, times);
        self.note(|| format!("{} deletes {source:?} {times:?}", PORTS[port]));
        let interval = Interval::new(times.0, times.1);
        let done = self.operate(port, Operation::Delete, |store| {
            store.delete(&selector(source), interval)
        });
        if let Some(Ok(_)) = done {
            self.oracle.lock().unwrap().deleted(number);
            self.report.lock().unwrap().deletes += 1;
            // The name of the latest delete of the port.
            let keys = self.network().durable("deletes", b"deletes").into_iter();
            let mut own = keys.filter(|key| key[8..] == [PORTS[port].as_bytes(), b"\0"].concat());
            let name = own.next_back().expect("the delete is stored");
            self.deletes.lock().unwrap().push((number, name));
        }
        self.note(|| format!("{} has deleted: {done:?}", PORTS[port]));
    }

    /// Notes which ports have applied the deletes.
    fn note_marks(self: &Arc<World>) {
        let mut deletes = self.deletes.lock().unwrap();
        if deletes.is_empty() {
            return;
        }
        let keys = self.network().durable("deletes", b"deletes");
        deletes.retain(|(number, name)| {
            let mut count = 0;
            for (port, text) in PORTS.iter().enumerate() {
                let mark = [&name[..], text.as_bytes(), b"\0"].concat();
                if keys.contains(&mark) {
                    self.oracle.lock().unwrap().applied(*number, port);
                    count += 1;
                }
            }
            count < PORTS.len()
        });
    }

    fn crash_some(self: &Arc<World>, port: usize) {
        self.crash(port);
    }

    /// Cuts the power of all machines.
    fn cut_power(self: &Arc<World>, _: usize) {
        self.note(|| "the power fails everywhere".to_string());
        ports().for_each(|port| self.crash_by(port, Crash::PowerCut));
        self.network().cut_power();
        let unsynced_since = self.time().saturating_sub(UNSYNCED);
        self.oracle.lock().unwrap().cut_power(unsynced_since);
        self.report.lock().unwrap().power_cuts += 1;
    }

    fn reopen(self: &Arc<World>, port: usize) {
        if self.can(port, Operation::Open) {
            let _ = self.open(port);
        }
    }

    fn pause_some(self: &Arc<World>, port: usize) {
        if self.can(port, Operation::Maintain) {
            let ns = self.rng(|rng| rng.between(5, 60)) * SECOND;
            self.pause(port, ns);
        }
    }

    fn change_node(self: &Arc<World>, node: usize) {
        let mut network = self.network();
        let was_up = network.up[node];
        let others = (0..3)
            .filter(|&other| other != node && network.up[other])
            .count();
        if was_up && others < 2 && !self.plan.outage {
            return;
        }
        network.up[node] = !was_up;
        drop(network);
        self.note(|| format!("node {node} runs: {}", !was_up));
    }

    fn change_path(self: &Arc<World>, port: usize) {
        let paths = self.rng(|rng| match rng.chance(1, 3) {
            true => [true; 3],
            false => [0, 1, 2].map(|_| rng.chance(1, 2)),
        });
        self.network().paths[port] = paths;
        self.note(|| format!("{} reaches nodes {paths:?}", PORTS[port]));
    }

    fn change_link(self: &Arc<World>, port: usize) {
        let (other, is_up) = self.rng(|rng| (rng.below(3) as usize, rng.chance(1, 2)));
        let mut links = self.links.lock().unwrap();
        links[port][other] = is_up;
        links[other][port] = is_up;
        drop(links);
        self.note(|| {
            format!(
                "{} and {} are connected: {is_up}",
                PORTS[port], PORTS[other]
            )
        });
    }

    /// Ends all failures, and checks that nothing is missing or left.
    fn end(self: &Arc<World>) {
        if self.has_failed() {
            return;
        }
        self.report.lock().unwrap().seconds = self.time() / SECOND;
        self.heal();
        for port in ports() {
            let mut attempts = 0;
            while self.slots[port].store.lock().unwrap().is_none() {
                attempts += 1;
                if let Err(error) = self.open(port)
                    && attempts > 3
                {
                    return self.fail(format!("{} does not start: {error}", PORTS[port]));
                }
            }
        }
        for _ in 0..RECOVERY {
            self.advance(SECOND);
            for port in ports() {
                self.operate(port, Operation::Maintain, |store| store.maintain());
            }
        }
        self.check_all();
        for port in ports() {
            let done = self.operate(port, Operation::HandOver, |store| store.hand_over());
            if !matches!(done, Some(Ok(()))) {
                self.fail(format!("{} cannot hand over: {done:?}", PORTS[port]));
            }
        }
        self.check_all();
        self.check_journals();
        for slot in &self.slots {
            let store = slot.store.lock().unwrap().take();
            if let Some(store) = store {
                self.count(&store);
                if let Err(error) = store.close() {
                    self.fail(format!("a port does not close: {error}"));
                }
            }
        }
        let oracle = self.oracle.lock().unwrap();
        let mut report = self.report.lock().unwrap();
        (report.acknowledged, report.compared) = (oracle.acknowledged, oracle.compared);
    }

    /// Checks that every port returns everything.
    fn check_all(self: &Arc<World>) {
        let question = Question {
            source: None,
            field: None,
            times: (i64::MIN, i64::MAX),
        };
        for port in ports() {
            if !self.ask(port, &question) {
                self.fail(format!(
                    "the answer of {} is incomplete although all run",
                    PORTS[port]
                ));
            }
            let trouble = self.slots[port]
                .store
                .lock()
                .unwrap()
                .as_ref()
                .and_then(|store| store.trouble());
            if let Some(trouble) = trouble {
                self.fail(format!("{} is in trouble: {trouble}", PORTS[port]));
            }
        }
    }

    /// Checks that each port has one journal, and that no rows of other journals are left.
    fn check_journals(self: &Arc<World>) {
        let mut network = self.network();
        let leases = network.replicas.serial("leases", b"journals").rows.clone();
        // The row of an ended journal is its stamp.
        let open: Vec<Vec<u8>> = leases
            .into_iter()
            .filter(|(_, value)| value.len() > 8)
            .map(|(key, _)| key)
            .collect();
        let partitions = network.partitions(0, "journal").unwrap();
        drop(network);
        if open.len() != PORTS.len() {
            let open = open.iter().map(|key| key.escape_ascii().to_string());
            let open: Vec<String> = open.collect();
            self.fail(format!("{} journals are open: {open:?}", open.len()));
        }
        let ended = partitions
            .iter()
            .filter(|partition| !open.iter().any(|open| partition.starts_with(open)));
        let ended: Vec<String> = ended
            .map(|partition| {
                String::from_utf8_lossy(partition)
                    .escape_debug()
                    .to_string()
            })
            .collect();
        // A removal by a port whose clock is behind may be older than the last rows of the journal.
        let (least, most) = (self.plan.skews.iter().min(), self.plan.skews.iter().max());
        let agree = most
            .zip(least)
            .is_some_and(|(most, least)| most - least < 4 * SECOND as i64);
        // A power cut may cost a removal.
        let is_powered = self.plan.weights.power == 0;
        if agree && is_powered && !ended.is_empty() {
            self.fail(format!("partitions of ended journals are left: {ended:?}"));
        }
        if partitions.len() > PORTS.len() * JOURNAL {
            self.fail(format!(
                "the journals of idle ports have {} partitions",
                partitions.len()
            ));
        }
    }
}

fn selector(source: Option<usize>) -> Selector {
    source.map_or_else(Selector::all, |source| {
        Selector::parse(&format!("m{source}")).unwrap()
    })
}

/// Returns the samples that a port returns, and the first error among them. Fails if the answer is malformed.
fn answer(store: &ClusterStore, query: &Query) -> Result<(Answer, Option<String>), String> {
    let mut answer = Answer::new();
    let results = match store.select(query, None) {
        Ok(results) => results,
        Err(error) => return Ok((answer, Some(error.to_string()))),
    };
    let mut first = None;
    for series in results {
        let series = match series {
            Ok(series) => series,
            Err(error) => {
                first.get_or_insert(error.to_string());
                continue;
            }
        };
        let source =
            source_of(&series.key).ok_or_else(|| format!("an unknown source {}", series.key))?;
        let field = FIELDS.into_iter().find(|field| **field == *series.field);
        let field = field.ok_or_else(|| format!("an unknown field {}", series.field))?;
        if !series.times.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("times of m{source} {field} do not ascend"));
        }
        let outside = series
            .times
            .iter()
            .find(|&&time| !query.interval.contains(time));
        if let Some(time) = outside {
            return Err(format!("m{source} {field} at {time} was not asked for"));
        }
        let values = (0..series.values.len()).map(|nth| text(series.values.get(nth)));
        let samples = series.times.iter().copied().zip(values).collect();
        if answer.insert((source, field), samples).is_some() {
            return Err(format!("m{source} {field} is returned twice"));
        }
    }
    Ok((answer, first))
}
