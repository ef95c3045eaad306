//! Default strategy of write merging: holds writes of a stream where estimates show that holding makes writes
//! faster.
//!
//! A write is acknowledged only when its data are written. A client that waits for acknowledgements can therefore
//! fill a stripe only with the blocks that it keeps outstanding. The strategy groups writes into *streams*: each
//! write continues where the last one ended, give or take two stripes. For every stream it counts the outstanding
//! blocks, and how many of these wait or are being written. Writes of no stream start at once. Writes that queue
//! behind a busy stripe start together, which costs nothing.
//!
//! - **Gathering.** The writes that follow an acknowledgement arrive one shortly after the other. The first of them
//!   waits for the others for a few mean gaps between such writes, as long as more blocks are *due*: acknowledged
//!   blocks, times the share of them that was followed promptly so far, less the blocks that have arrived.
//! - **Filling.** Writes wait until their stripe is full, if that makes a write faster. Let F be the time in which
//!   the stream passes a stripe. With filling, a write waits F/2 in the mean, and then for the write of a full
//!   stripe. Without filling, it waits for half of the partial write before its own, and for its own. Filling pays
//!   if `F/2 + T_full < 1.5 · T_partial`. All three times are measured, F again when filling begins. Filling ends if
//!   it does not pay after all, or if a single stripe takes twice as long as it may. It is tried again after a
//!   pause that doubles each time. A stream fills only if its outstanding blocks and the reads in flight amount to
//!   a stripe. If all of its blocks wait, nothing is due and no read is in flight, no further write can come, and
//!   the waiting writes start.
//!
//! Clients may pause. A stripe with a pause is not measured: its writes ended without others that could have filled
//! it. A stream that begins at the start of a stripe waits for each of its stripes until the first acknowledgement.
//! Otherwise it would get out of step with its stripes, and could not get back into step where holds are short.
//!
//! A stripe is not waited for if each of its blocks was written once already, or if its stream leaves holes.

mod stream;

use super::view::{Area, LISTED_FOR, View, ViewRequest, micros};
use super::{Arrival, Strategy, Verdict, WaitingWrites, WriteTag};
use crate::request::Nanos;
use std::collections::BTreeMap;
use stream::{Stream, StreamMode};

/// Parameters of the default strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveSettings {
    /// Maximum number of streams, at most 256. A new stream replaces the stream that wrote least recently.
    pub streams: usize,
    /// Number of writes that must have continued a stream before its writes are held.
    pub least_run: u32,
    /// Maximum time between a write of a stream and the write or acknowledgement that it follows, ns. A later write
    /// follows neither.
    pub longest_gap: Nanos,
    /// Number of mean gaps for which a write waits for the next write.
    pub patience_gaps: f64,
    /// Shortest and longest pause after filling did not pay, ns.
    pub pauses: (Nanos, Nanos),
}

impl Default for AdaptiveSettings {
    fn default() -> AdaptiveSettings {
        AdaptiveSettings {
            streams: 256,
            least_run: 3,
            longest_gap: 25_000,
            patience_gaps: 3.0,
            pauses: (2_000_000, 40_000_000),
        }
    }
}

/// Least number of blocks that must be due for a write to wait for them.
const LEAST_DUE: f64 = 0.2;
/// Share of acknowledged blocks that must have been followed promptly for a write to wait for more.
const LEAST_FOLLOWED: f64 = 0.5;
/// Weight of a new value in a mean of times and shares.
const WEIGHT: f64 = 0.2;
/// Factor by which the least time to write a part grows with each write: a tenth in a hundred writes.
const FORGETTING: f64 = 1.001;
/// Share of openings that must have been continued for the next opening to wait. Regardless of the share, one of
/// [`EVERY_OPENING`] openings waits.
const LEAST_CONTINUED: f64 = 0.5;
const EVERY_OPENING: u32 = 64;
/// Number of stripes that are filled before the strategy judges whether filling pays.
const TEST_STRIPES: u32 = 3;
/// Factor on the time that filling may take. A stripe that takes longer ends filling at once.
const LATENESS: f64 = 2.0;

/// Default strategy: estimates for each stream of writes.
pub struct Adaptive {
    settings: AdaptiveSettings,
    stripe_blocks: u32,
    streams: Vec<Stream>,
    /// Index of the stream that wrote a stripe last, by stripe.
    places: BTreeMap<u64, usize>,
    arrivals: u64,
    stirred: Vec<u64>,
    /// True if the verdicts of this strategy are carried out, so that the measured times are due to them.
    followed: bool,
    /// Mean times to write a part of a stripe, and a whole stripe, ns.
    partial: Option<f64>,
    full: Option<f64>,
    /// Recent minimum of the mean time to write a part, ns: the time of a part without other load.
    least_partial: f64,
    /// Number of streams that began at the start of a stripe, and the share of them that the next write continued
    /// at once.
    openings: u32,
    continued: f64,
    /// Number of reads in flight, and time of the last arrival or end of a read, ns.
    reads: u32,
    last_read: Nanos,
    /// Number of writes in flight, time of the last event of any request, and number of times that all clients
    /// paused.
    writes: u32,
    last_event: Nanos,
    pauses: u64,
}

impl Adaptive {
    /// Creates the strategy for stripes of `stripe_blocks` blocks of data.
    pub fn new(settings: AdaptiveSettings, stripe_blocks: u32) -> Adaptive {
        assert!(
            (1..=256).contains(&settings.streams),
            "a tag has eight bits for the stream"
        );
        Adaptive {
            settings,
            stripe_blocks,
            streams: Vec::new(),
            places: BTreeMap::new(),
            arrivals: 0,
            stirred: Vec::new(),
            followed: true,
            partial: None,
            full: None,
            least_partial: f64::INFINITY,
            openings: 0,
            continued: 1.0,
            reads: 0,
            last_read: 0,
            writes: 0,
            last_event: 0,
            pauses: 0,
        }
    }

    /// Returns the stream that a write continues.
    fn find(&self, arrival: &Arrival) -> Option<usize> {
        let reach = 2 * u64::from(self.stripe_blocks);
        let near = [
            arrival.stripe,
            arrival.stripe.wrapping_sub(1),
            arrival.stripe + 1,
        ];
        let mut places = near
            .into_iter()
            .filter_map(|stripe| self.places.get(&stripe).copied());
        places.find(|&at| self.streams[at].front.abs_diff(arrival.start) <= reach)
    }

    /// Opens a stream. If there are too many, it replaces the least recently used one.
    fn open(&mut self, arrival: &Arrival) -> usize {
        if self.streams.len() < self.settings.streams {
            self.streams.push(Stream::new(0, arrival, self.settings));
            return self.streams.len() - 1;
        }
        let at = (0..self.streams.len())
            .min_by_key(|&at| self.streams[at].used)
            .expect("there is at least one stream");
        let stream = &mut self.streams[at];
        self.stirred.append(&mut stream.held);
        for written in std::mem::take(&mut stream.written) {
            if self.places.get(&written.stripe) == Some(&at) {
                self.places.remove(&written.stripe);
            }
        }
        let generation = stream.generation.wrapping_add(1) & 0xff_ffff;
        *stream = Stream::new(generation, arrival, self.settings);
        at
    }

    /// Returns whether a write that just arrived continues a stream.
    pub fn continues(&mut self, tag: WriteTag) -> bool {
        let least = self.settings.least_run;
        self.tagged(tag).is_some_and(|stream| stream.run >= least)
    }

    /// Returns whether each block of a stripe was written once already. Such a stripe will not become whole again.
    pub fn is_complete(&self, stripe: u64) -> bool {
        let stream = self.places.get(&stripe).map(|&at| &self.streams[at]);
        stream.is_some_and(|stream| stream.to_come(stripe, self.stripe_blocks) == 0)
    }

    /// Sets whether the verdicts of this strategy are carried out from now on. Times are measured only while they
    /// are.
    pub fn follow(&mut self, followed: bool) {
        self.followed = followed;
        self.streams
            .iter_mut()
            .for_each(|stream| stream.begun = None);
    }

    /// Returns the mean time to write a part of a stripe, ns, if it was measured.
    pub fn partial(&self) -> Option<f64> {
        self.partial
    }

    /// Notes the arrival of a request. If no request was in flight for some time, all clients have paused.
    fn begin_request(&mut self, now: Nanos) {
        let idle = now.saturating_sub(self.last_event);
        if self.reads == 0 && self.writes == 0 && idle > self.settings.longest_gap {
            self.pauses += 1;
        }
        self.last_event = now;
    }

    fn tagged(&mut self, tag: WriteTag) -> Option<&mut Stream> {
        let stream = self.streams.get_mut((tag & 0xff) as usize)?;
        (stream.generation == tag >> 8).then_some(stream)
    }

    /// Handles the opening of a stream at the start of a stripe: its first writes wait for one another, as long as
    /// most of such openings are continued.
    fn begin_opening(&mut self, at: usize, arrival: &Arrival) {
        if !arrival.start.is_multiple_of(u64::from(self.stripe_blocks)) {
            return;
        }
        self.openings = self.openings.wrapping_add(1);
        if self.continued >= LEAST_CONTINUED || self.openings.is_multiple_of(EVERY_OPENING) {
            self.streams[at].opening = Some(arrival.stripe);
            self.streams[at].fresh = true;
        }
    }

    /// Notes whether the first write of a stream was continued while it waited.
    fn note_opening(&mut self, at: usize, continued: bool) {
        let stream = &mut self.streams[at];
        if stream.opening.is_some() && stream.run == 0 {
            self.continued += WEIGHT * (f64::from(u8::from(continued)) - self.continued);
        }
        if !continued {
            stream.opening = None;
        }
    }

    /// Returns whether it pays to fill stripes that take `period` each.
    fn filling_pays(&self, period: f64) -> bool {
        let Some(partial) = self.partial else {
            return false;
        };
        // A whole stripe takes no reads. Until one was written, half of a partial write is a fair estimate.
        let full = self.full.unwrap_or(partial / 2.0);
        // Ratio 1 / (1 - load) of the members, and the member time that a whole stripe saves at the price of the
        // load.
        let stretched = partial / self.least_partial;
        let saved = (stretched - 1.0) * self.least_partial;
        period / 2.0 + full < 1.5 * partial + saved
    }

    /// Begins or ends filling for a stream.
    fn choose_mode(&mut self, at: usize, now: Nanos, others: u32) {
        let stream = &self.streams[at];
        let supply = stream.window() + others;
        let pays = stream
            .period
            .is_some_and(|period| self.filling_pays(period));
        let pays = pays && supply >= self.stripe_blocks && stream.whole > 0.5;
        // A stripe that takes too long already ends the test: the mean time could only confirm the result. Time
        // without arrivals and ends does not count, because clients may pause.
        let begun = stream.begun.filter(|_| !stream.interrupted);
        let is_late = begun.is_some_and(|begun| {
            let taken = stream.last_event.saturating_sub(begun);
            !self.filling_pays(taken as f64 / LATENESS)
        });
        let (shortest, longest) = self.settings.pauses;
        let stream = &mut self.streams[at];
        match stream.mode {
            StreamMode::Gather if pays && now >= stream.not_before => {
                stream.mode = StreamMode::Fill(0);
                stream.period = None;
            }
            StreamMode::Fill(stripes) if is_late || (stripes >= TEST_STRIPES && !pays) => {
                stream.mode = StreamMode::Gather;
                stream.period = None;
                stream.not_before = now + stream.pause;
                stream.pause = (2 * stream.pause).min(longest);
            }
            StreamMode::Fill(stripes) if stripes > 8 * TEST_STRIPES => stream.pause = shortest,
            _ => {}
        }
    }
}

impl Adaptive {
    /// Returns whether writes of a stream are held, and why.
    fn explain(&self, stream: &Stream) -> (bool, String) {
        let times = || {
            let time = |value: Option<f64>| value.map_or("not measured".to_string(), micros);
            format!(
                "a stripe passes in {}, a part is written in {}, a whole one in {}",
                time(stream.period),
                time(self.partial),
                time(self.full)
            )
        };
        let (window, stripe) = (stream.window(), self.stripe_blocks);
        if stream.run < self.settings.least_run {
            return (false, "writes do not continue one another".to_string());
        }
        if matches!(stream.mode, StreamMode::Fill(_)) {
            return (
                true,
                format!("fills stripes, because that pays: {}", times()),
            );
        }
        let not_filled = if window < stripe {
            format!("{window} blocks are outstanding, and a stripe has {stripe}")
        } else if stream.whole <= 0.5 {
            "its stripes do not become whole".to_string()
        } else {
            format!("filling stripes does not pay: {}", times())
        };
        if stream.promptness() < LEAST_FOLLOWED {
            let text = format!("writes arrive spread over time, and {not_filled}");
            return (false, text);
        }
        let patience = micros(self.settings.patience_gaps * stream.gap);
        let text = format!("gathers writes that follow within {patience}; {not_filled}");
        (true, text)
    }
}

impl Strategy for Adaptive {
    fn arrived(&mut self, arrival: &Arrival) -> WriteTag {
        self.arrivals += 1;
        self.begin_request(arrival.now);
        self.writes += 1;
        let at = match self.find(arrival) {
            Some(at) => {
                self.note_opening(at, true);
                at
            }
            None => {
                let at = self.open(arrival);
                self.begin_opening(at, arrival);
                at
            }
        };
        self.places.insert(arrival.stripe, at);
        let stream = &mut self.streams[at];
        stream.used = self.arrivals;
        let begins = arrival.start.is_multiple_of(u64::from(self.stripe_blocks));
        if stream.fresh && begins {
            stream.opening = Some(arrival.stripe);
        }
        let busy_until = match self.reads {
            0 => self.last_read,
            _ => arrival.now,
        };
        stream.arrive(arrival, busy_until, self.pauses, &self.settings);
        let forgotten = stream.note(arrival, self.stripe_blocks, self.followed);
        let others = stream
            .held
            .iter()
            .copied()
            .filter(|&stripe| stripe != arrival.stripe);
        self.stirred.extend(others);
        stream.held.clear();
        let tag = stream.generation << 8 | at as u32;
        if let Some(stripe) = forgotten.filter(|stripe| self.places.get(stripe) == Some(&at)) {
            self.places.remove(&stripe);
        }
        tag
    }

    fn judge(&mut self, waiting: &WaitingWrites) -> Verdict {
        let Some(&at) = self
            .places
            .get(&waiting.stripe)
            .filter(|_| waiting.missing > 0)
        else {
            return Verdict::Together;
        };
        self.choose_mode(at, waiting.now, waiting.reads);
        let settings = self.settings;
        let stream = &mut self.streams[at];
        let opens = stream.opening == Some(waiting.stripe);
        if (stream.run < settings.least_run && !opens)
            || stream.to_come(waiting.stripe, self.stripe_blocks) == 0
        {
            return Verdict::Together;
        }
        let patience = (settings.patience_gaps * stream.gap).max(1000.0) as Nanos;
        let fills = matches!(stream.mode, StreamMode::Fill(_));
        let prompt = stream.promptness() >= LEAST_FOLLOWED;
        let gathers_until = if opens || (stream.due >= LEAST_DUE && prompt) {
            stream.last_event + patience
        } else {
            0
        };
        // A stream that fills may have fewer blocks outstanding than before. Its next writes are waited for as long
        // as a partial write takes. At worst, that doubles the cost of ending the wait at once.
        let returns_until = if fills && stream.outstanding < stream.window() {
            stream.last_event + self.partial.map_or(0, |partial| partial as Nanos)
        } else {
            0
        };
        let more_can_come = stream.outstanding > stream.waiting || waiting.reads > 0;
        let fills_until = if fills && more_can_come {
            waiting.deadline
        } else {
            0
        };
        let until = gathers_until.max(returns_until).max(fills_until);
        if until <= waiting.now {
            if opens && stream.run == 0 {
                self.note_opening(at, false);
            }
            return Verdict::Together;
        }
        if !stream.held.contains(&waiting.stripe) {
            stream.held.push(waiting.stripe);
        }
        Verdict::Hold(until)
    }

    fn started(&mut self, stripe: u64, tag: WriteTag, blocks: u32) {
        if let Some(stream) = self.tagged(tag) {
            stream.waiting -= blocks;
            stream.opening = stream.opening.filter(|&opening| opening != stripe);
            stream.held.retain(|&held| held != stripe);
        }
    }

    fn ended(&mut self, now: Nanos, tag: WriteTag, blocks: u32) {
        self.writes -= 1;
        self.last_event = now;
        if let Some(stream) = self.tagged(tag) {
            stream.acknowledge(now, blocks);
            let held = std::mem::take(&mut stream.held);
            self.stirred.extend(held);
        }
    }

    fn read_began(&mut self, now: Nanos) {
        self.begin_request(now);
        self.reads += 1;
        self.last_read = now;
    }

    fn read_ended(&mut self, now: Nanos, _blocks: u32) {
        self.reads = self.reads.saturating_sub(1);
        self.last_read = now;
        self.last_event = now;
    }

    fn written(&mut self, now: Nanos, started: Nanos, full: bool) {
        if !self.followed {
            return;
        }
        let time = (now - started) as f64;
        let mean = if full {
            &mut self.full
        } else {
            &mut self.partial
        };
        let value = mean.map_or(time, |mean| mean + WEIGHT * (time - mean));
        *mean = Some(value);
        if !full {
            self.least_partial = (self.least_partial * FORGETTING).min(value);
        }
    }

    fn stirred(&mut self) -> Option<u64> {
        self.stirred.pop()
    }

    fn view(&self, request: &ViewRequest) -> View {
        let area = |stream: &Stream| {
            let (holds, why) = self.explain(stream);
            let stripe = stream.front.saturating_sub(1) / u64::from(self.stripe_blocks);
            Area {
                first_stripe: stripe - stripe % request.area_stripes,
                holds,
                why,
                idle: request.now.saturating_sub(stream.last_event),
            }
        };
        let areas = self.streams.iter().map(area);
        View::with(
            "streams are held where that is estimated to make writes faster".to_string(),
            areas.filter(|area| area.idle < LISTED_FOR).collect(),
        )
    }
}
