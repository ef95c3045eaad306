//! Holding where it pays, by what a stream is known to have outstanding and by what was measured.
//!
//! A write is acknowledged when it is durable, so whoever waits for acknowledgements can fill a stripe only out of what
//! it keeps outstanding. Writes are followed as *streams*: each continues where the last one ended, give or take two
//! stripes, wherever areas begin and end. Of a stream is known, without any timer, how many blocks it has outstanding,
//! how many of them wait and how many are being written. Writes of no stream go at once, as do all that queue
//! behind a busy stripe, which costs nothing.
//!
//! - **Gathering.** When writes of a stream are acknowledged, those that follow come one shortly after the other. The
//!   first of them waits for the rest, for a few of the gaps that were seen between them, as long as more is *due*:
//!   acknowledged, times the share that was followed up so far, less what came.
//! - **Filling.** Waiting until the stripe is full pays if a write takes less time that way. Let F be the time in which
//!   the stream passes a stripe: a write waits F/2 in the mean, and then for a full stripe to be written; without
//!   holding it waits for half of the partial write before its own, and for its own: `F/2 + T_full < 1.5 · T_partial`.
//!   All three are measured. F is measured anew when filling begins; if it then does not hold, or a stripe alone takes twice as
//!   long as it may, filling ends, and is tried again after a pause that doubles. A stream fills only if it and the reads under way come to a stripe of blocks;
//!   and if all it has is waiting, nothing is due and nothing is read, nobody else can come, and they go.
//!
//! Clients may pause. A stripe during which they did is not measured: its writes ended without others that could have
//! filled it. A stream that begins with a stripe waits for each of its stripes until something is acknowledged, so that it does
//! not get out of step: where holds are short it could not get back.
//!
//! A stripe is not waited for of which every block has come once already, nor by a stream that leaves holes.

mod stream;

use super::view::{Area, LISTED_FOR, View, ViewRequest, micros};
use super::{Arrival, Strategy, Verdict, WaitingWrites, WriteTag};
use crate::request::Nanos;
use std::collections::BTreeMap;
use stream::{Stream, StreamMode};

/// The parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveSettings {
    /// Streams that are followed, at most 256; of more, those are forgotten that wrote least recently.
    pub streams: usize,
    /// Writes that must have continued a stream before its writes are held.
    pub least_run: u32,
    /// A stream's next write comes within this time of the last one, or of an acknowledgement, or it follows neither.
    pub longest_gap: Nanos,
    /// Gaps that are waited for the next write.
    pub patience_gaps: f64,
    /// The shortest and the longest pause after filling did not pay.
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
/// Share of openings that must have been continued for the next one to wait, and the number of openings of which one waits
/// nevertheless.
const LEAST_CONTINUED: f64 = 0.5;
const EVERY_OPENING: u32 = 64;
/// Number of stripes that are filled before the strategy judges whether filling pays.
const TEST_STRIPES: u32 = 3;
/// Factor on the time that filling may take. A stripe that takes longer ends filling at once.
const LATENESS: f64 = 2.0;

/// The default strategy.
pub struct Adaptive {
    settings: AdaptiveSettings,
    stripe_blocks: u32,
    streams: Vec<Stream>,
    /// The stream that wrote a stripe last.
    places: BTreeMap<u64, usize>,
    arrivals: u64,
    stirred: Vec<u64>,
    /// True if its verdicts are followed, so that times tell what they lead to.
    followed: bool,
    /// Mean times to write a part of a stripe, and a whole one.
    partial: Option<f64>,
    full: Option<f64>,
    /// The least mean time to write a part, lately: what it takes when nobody else wants the members.
    least_partial: f64,
    /// Writes that began a stream at the begin of a stripe, and the share of them that the next write continued at once.
    openings: u32,
    continued: f64,
    /// Reads under way, and when the last one arrived or ended.
    reads: u32,
    last_read: Nanos,
    /// Writes under way, the last event of any request, and times in which clients paused.
    writes: u32,
    last_event: Nanos,
    pauses: u64,
}

impl Adaptive {
    /// For stripes of so many blocks.
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

    /// The stream that a write continues.
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

    /// A new stream, in place of the least recently used if there are too many.
    fn open(&mut self, arrival: &Arrival) -> usize {
        if self.streams.len() < self.settings.streams {
            self.streams.push(Stream::new(0, arrival, self.settings));
            return self.streams.len() - 1;
        }
        let at = (0..self.streams.len())
            .min_by_key(|&at| self.streams[at].used)
            .expect("there is one at least");
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

    /// Returns whether every block of a stripe has come once already, so that it will not become whole.
    pub fn is_complete(&self, stripe: u64) -> bool {
        let stream = self.places.get(&stripe).map(|&at| &self.streams[at]);
        stream.is_some_and(|stream| stream.to_come(stripe, self.stripe_blocks) == 0)
    }

    /// Its verdicts are followed from now on, or not: times are measured only while they are.
    pub fn follow(&mut self, followed: bool) {
        self.followed = followed;
        self.streams
            .iter_mut()
            .for_each(|stream| stream.begun = None);
    }

    /// Mean time in which a part of a stripe is written, where that was measured.
    pub fn partial(&self) -> Option<f64> {
        self.partial
    }

    /// Notes a request. If there was none for some time, all clients have paused.
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

    /// A stream was opened: if that is the begin of a stripe, its first writes wait for each other, as long as that turns out well.
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

    /// The first write of a stream was continued while it waited, or was not.
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
        // A whole stripe takes no reads: until one was written, half of a partial write is a fair guess.
        let full = self.full.unwrap_or(partial / 2.0);
        // 1 / (1 - load) of the members, and the member time that a whole stripe saves, at the price of the load.
        let stretched = partial / self.least_partial;
        let saved = (stretched - 1.0) * self.least_partial;
        period / 2.0 + full < 1.5 * partial + saved
    }

    /// Begins to fill, or ends it.
    fn choose_mode(&mut self, at: usize, now: Nanos, others: u32) {
        let stream = &self.streams[at];
        let supply = stream.window() + others;
        let pays = stream
            .period
            .is_some_and(|period| self.filling_pays(period));
        let pays = pays && supply >= self.stripe_blocks && stream.whole > 0.5;
        // A stripe that takes too long already ends the trial: the mean time could only confirm it. Time in
        // which nothing came or went does not count, because clients may pause.
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
            return (false, "writes continue nothing".to_string());
        }
        if matches!(stream.mode, StreamMode::Fill(_)) {
            return (true, format!("fills stripes, which pays: {}", times()));
        }
        let not_filled = if window < stripe {
            format!("{window} blocks are outstanding, and a stripe has {stripe}")
        } else if stream.whole <= 0.5 {
            "its stripes do not become whole".to_string()
        } else {
            format!("filling stripes does not pay: {}", times())
        };
        if stream.promptness() < LEAST_FOLLOWED {
            let text = format!("writes come spread over time, and {not_filled}");
            return (false, text);
        }
        let patience = micros(self.settings.patience_gaps * stream.gap);
        let text = format!("gathers what follows within {patience}; {not_filled}");
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
        // A stream that fills and has less outstanding than it had is waited for as long as a partial write takes: at the
        // worst that doubles what giving up at once would cost.
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
        let told = |stream: &Stream| {
            let (holds, why) = self.explain(stream);
            let stripe = stream.front.saturating_sub(1) / u64::from(self.stripe_blocks);
            Area {
                first_stripe: stripe - stripe % request.area_stripes,
                holds,
                why,
                idle: request.now.saturating_sub(stream.last_event),
            }
        };
        let areas = self.streams.iter().map(told);
        View::with(
            "streams are held where that is estimated to make writes faster".to_string(),
            areas.filter(|area| area.idle < LISTED_FOR).collect(),
        )
    }
}
