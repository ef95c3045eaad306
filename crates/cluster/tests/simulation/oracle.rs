//! Model of a cluster's answers.
//!
//! The model has one order of events: the issue and the return of appends, deletes and queries. A sample may be
//! returned from the issue of its append on. A sample must be returned after its acknowledgement, until a delete is
//! issued. A delete may delete the samples that a port accepts until the port has applied the delete. A sample is
//! replaced by a later sample that the same port has acknowledged. The order of samples of
//! different ports is that of their handovers, which the model does not know, so that each of them may be returned.
//! A power cut of all replicas may cost the copies of the latest samples. They are on the disks of their ports, and need
//! not be returned until these run again.

use std::collections::BTreeMap;

/// Series: number of the source, name of the field.
pub type SeriesId = (usize, &'static str);
/// Moment in the order of events.
pub type Moment = u64;

/// Samples that a query returned: values by series and time.
pub type Answer = BTreeMap<SeriesId, BTreeMap<i64, String>>;

/// Appended sample.
#[derive(Clone, Debug)]
struct Sample {
    port: usize,
    issued: Moment,
    acknowledged: Option<Moment>,
    /// Time of the acknowledgement, ns.
    acknowledged_at: u64,
    /// True if a power cut may have left the sample on the disk of its port only.
    is_local: bool,
    value: String,
}

/// Delete.
#[derive(Clone, Debug)]
struct Delete {
    source: Option<usize>,
    times: (i64, i64),
    issued: Moment,
    /// Moment of its return without an error.
    returned: Option<Moment>,
    /// Moments since which ports have applied the delete.
    applied: BTreeMap<usize, Moment>,
}

/// Question to the model.
#[derive(Clone, Debug)]
pub struct Question {
    /// Source; `None` for all.
    pub source: Option<usize>,
    /// Field; `None` for all.
    pub field: Option<&'static str>,
    /// First and last time.
    pub times: (i64, i64),
}

/// Appends, deletes and their acknowledgements.
#[derive(Default)]
pub struct Oracle {
    now: Moment,
    samples: BTreeMap<SeriesId, BTreeMap<i64, Vec<Sample>>>,
    deletes: Vec<Delete>,
    /// Number of acknowledged samples.
    pub acknowledged: u64,
    /// Number of compared samples.
    pub compared: u64,
}

impl Delete {
    fn covers(&self, (source, _): SeriesId, time: i64) -> bool {
        self.source.is_none_or(|own| own == source) && (self.times.0..=self.times.1).contains(&time)
    }

    /// Returns whether the delete may delete a sample: the delete had not returned when the sample was issued, or the
    /// sample's port had not applied the delete.
    fn may_reach(&self, sample: &Sample) -> bool {
        let is_over = |end: Option<&Moment>| end.is_some_and(|end| *end < sample.issued);
        !is_over(self.returned.as_ref()) || !is_over(self.applied.get(&sample.port))
    }
}

impl Oracle {
    /// Returns the next moment.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// Notes that an append begins.
    pub fn issue(&mut self, series: SeriesId, time: i64, port: usize, value: String) {
        let issued = self.tick();
        let samples = self
            .samples
            .entry(series)
            .or_default()
            .entry(time)
            .or_default();
        samples.push(Sample {
            port,
            issued,
            acknowledged: None,
            acknowledged_at: 0,
            is_local: false,
            value,
        });
    }

    /// Notes the acknowledgement of samples at a time, by their series, times and values.
    pub fn acknowledge(&mut self, at: u64, port: usize, samples: &[(SeriesId, i64, String)]) {
        let now = self.tick();
        for (series, time, value) in samples {
            let found = self
                .samples
                .get_mut(series)
                .and_then(|times| times.get_mut(time));
            let found = found.into_iter().flatten();
            let mut own = found.filter(|sample| sample.port == port && sample.value == *value);
            let sample = own.next_back().expect("the sample was issued");
            if sample.acknowledged.is_none() {
                (sample.acknowledged, sample.acknowledged_at) = (Some(now), at);
            }
            self.acknowledged += 1;
        }
    }

    /// Notes that the power of all replicas failed, which had not synced the changes since a time.
    pub fn cut_power(&mut self, unsynced_since: u64) {
        for sample in self.all_samples() {
            let is_unsynced = sample.acknowledged_at >= unsynced_since;
            if sample.acknowledged.is_some() && is_unsynced {
                (sample.acknowledged, sample.is_local) = (None, true);
            }
        }
    }

    /// Notes that a port runs again, with the samples on its disk.
    pub fn runs(&mut self, port: usize) {
        let now = self.tick();
        for sample in self.all_samples() {
            if sample.is_local && sample.port == port {
                (sample.acknowledged, sample.is_local) = (Some(now), false);
            }
        }
    }

    fn all_samples(&mut self) -> impl Iterator<Item = &mut Sample> {
        self.samples
            .values_mut()
            .flat_map(BTreeMap::values_mut)
            .flatten()
    }

    /// Notes that a delete begins. Returns its number.
    pub fn delete(&mut self, source: Option<usize>, times: (i64, i64)) -> usize {
        let issued = self.tick();
        self.deletes.push(Delete {
            source,
            times,
            issued,
            returned: None,
            applied: BTreeMap::new(),
        });
        self.deletes.len() - 1
    }

    /// Notes that a port has applied a delete.
    pub fn applied(&mut self, number: usize, port: usize) {
        let now = self.tick();
        self.deletes[number].applied.entry(port).or_insert(now);
    }

    /// Notes that a delete has succeeded.
    pub fn deleted(&mut self, number: usize) {
        self.deletes[number].returned = Some(self.tick());
    }

    /// Checks an answer to a query that began at a moment and ends now. An incomplete answer may lack samples.
    pub fn check(
        &mut self,
        question: &Question,
        began: Moment,
        answer: &Answer,
        is_complete: bool,
    ) -> Result<(), String> {
        let now = self.tick();
        for (series, times) in answer {
            for (time, value) in times {
                self.compared += 1;
                let samples = self.samples.get(series).and_then(|times| times.get(time));
                let samples = samples.map_or(&[][..], Vec::as_slice);
                if !samples.iter().any(|sample| sample.value == *value) {
                    return Err(format!("{series:?} at {time}: {value} was never written"));
                }
                let may = |sample: &Sample| {
                    sample.value == *value
                        && self.may_return(*series, *time, samples, sample, began)
                };
                if is_complete && !samples.iter().any(may) {
                    let history = self.history(*series, *time);
                    return Err(format!(
                        "{series:?} at {time}: {value} was replaced or deleted; {history}"
                    ));
                }
            }
        }
        if !is_complete {
            return Ok(());
        }
        for (&series, times) in &self.samples {
            let is_asked = question.source.is_none_or(|source| source == series.0)
                && question.field.is_none_or(|field| field == series.1);
            if !is_asked {
                continue;
            }
            for (&time, samples) in times.range(question.times.0..=question.times.1) {
                let must = samples
                    .iter()
                    .any(|sample| self.must_return(series, time, sample, began, now));
                let found = answer.get(&series).and_then(|times| times.get(&time));
                if must && found.is_none() {
                    let history = self.history(series, time);
                    return Err(format!(
                        "{series:?} at {time}: an acknowledged sample is missing; {history}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a query that began at a moment may return a sample.
    fn may_return(
        &self,
        series: SeriesId,
        time: i64,
        samples: &[Sample],
        sample: &Sample,
        began: Moment,
    ) -> bool {
        let covering = || {
            self.deletes
                .iter()
                .filter(|delete| delete.covers(series, time))
        };
        let is_deleted = covering().any(|delete| {
            let is_done = delete.returned.is_some_and(|returned| returned < began);
            is_done && sample.acknowledged.is_some_and(|at| at < delete.issued)
        });
        let is_replaced = samples.iter().any(|later| {
            // A delete that failed, or has not returned, may have deleted the later sample alone.
            let may_be_deleted = covering().any(|delete| delete.may_reach(later));
            later.port == sample.port
                && later.issued > sample.issued
                && later.acknowledged.is_some_and(|at| at < began)
                && !may_be_deleted
        });
        !is_deleted && !is_replaced
    }

    /// Returns whether a query from `began` to `now` must return a sample, or one that replaces it.
    fn must_return(
        &self,
        series: SeriesId,
        time: i64,
        sample: &Sample,
        began: Moment,
        now: Moment,
    ) -> bool {
        let may_be_deleted = self.deletes.iter().any(|delete| {
            delete.covers(series, time) && delete.issued < now && delete.may_reach(sample)
        });
        sample.acknowledged.is_some_and(|at| at < began) && !may_be_deleted
    }

    fn history(&self, series: SeriesId, time: i64) -> String {
        let mut events: Vec<(Moment, String)> = Vec::new();
        for sample in self
            .samples
            .get(&series)
            .and_then(|times| times.get(&time))
            .into_iter()
            .flatten()
        {
            let at = sample
                .acknowledged
                .map_or("never".to_string(), |at| at.to_string());
            let text = format!("port {} {} acknowledged {at}", sample.port, sample.value);
            events.push((sample.issued, text));
        }
        for delete in self
            .deletes
            .iter()
            .filter(|delete| delete.covers(series, time))
        {
            let text = format!(
                "delete returned {:?} applied {:?}",
                delete.returned, delete.applied
            );
            events.push((delete.issued, text));
        }
        events.sort();
        let events = events
            .into_iter()
            .map(|(at, text)| format!("[{at}] {text}"));
        events.collect::<Vec<_>>().join(", ")
    }
}
