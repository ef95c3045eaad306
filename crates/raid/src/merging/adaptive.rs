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

use super::view::{Area, LISTED_FOR, View, ViewRequest, micros};
use super::{Arrival, Strategy, Verdict, WaitingWrites, WriteTag};
use crate::request::Nanos;
use std::collections::BTreeMap;

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
/// Number of stripes of a stream whose bitmaps are kept.
const REMEMBERED: usize = 4;
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

/// Written blocks of a stripe.
struct Written {
    stripe: u64,
    bitmap: Vec<u64>,
    blocks: u32,
}

/// Mode of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Writes wait only while further blocks arrive promptly.
    Gather,
    /// Writes may wait until their stripe is full, up to the deadline. The number counts the stripes passed in this mode.
    Fill(u32),
}

/// Stream: writes each of which continues where the last one ended.
struct Stream {
    generation: u32,
    /// The block after the last.
    front: u64,
    run: u32,
    /// Orders streams by their last write.
    used: u64,
    /// Blocks not acknowledged, and of these, those that wait.
    outstanding: u32,
    waiting: u32,
    /// The most outstanding at once, lately and before.
    peaks: [u32; 2],
    since_peak: u32,
    /// The last arrival or acknowledgement.
    last_event: Nanos,
    gap: f64,
    due: f64,
    /// Sums, older ones fading: acknowledged blocks, and those that followed promptly.
    acknowledged: f64,
    followed: f64,
    /// Acknowledged blocks that may still be followed promptly.
    pending: f64,
    /// The share of stripes that were written whole in the end.
    whole: f64,
    mode: Mode,
    /// When the present stripe was begun, and the mean time for one (F).
    begun: Option<Nanos>,
    period: Option<f64>,
    /// True if clients paused during the present stripe: then its time is none in which writes alone decide.
    interrupted: bool,
    /// Pauses of all clients that the stream has seen ([`Adaptive::pauses`]).
    pauses: u64,
    pause: Nanos,
    not_before: Nanos,
    /// The stripe at whose begin the stream was opened, until its first write has gone; such a write waits for the next one.
    opening: Option<u64>,
    /// True if the stream was opened at the begin of a stripe and nothing of it has been acknowledged yet: then the stripes
    /// that it goes on to are openings as well.
    fresh: bool,
    /// Stripes that wait by our verdict.
    held: Vec<u64>,
    written: Vec<Written>,
}

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
            Mode::Gather if pays && now >= stream.not_before => {
                stream.mode = Mode::Fill(0);
                stream.period = None;
            }
            Mode::Fill(stripes) if is_late || (stripes >= TEST_STRIPES && !pays) => {
                stream.mode = Mode::Gather;
                stream.period = None;
                stream.not_before = now + stream.pause;
                stream.pause = (2 * stream.pause).min(longest);
            }
            Mode::Fill(stripes) if stripes > 8 * TEST_STRIPES => stream.pause = shortest,
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
        if matches!(stream.mode, Mode::Fill(_)) {
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

impl Stream {
    fn new(generation: u32, arrival: &Arrival, settings: AdaptiveSettings) -> Stream {
        Stream {
            generation,
            front: arrival.start,
            run: 0,
            used: 0,
            outstanding: 0,
            waiting: 0,
            peaks: [0; 2],
            since_peak: 0,
            last_event: arrival.now,
            gap: 2000.0,
            due: 0.0,
            acknowledged: 1.0,
            followed: 1.0,
            pending: 0.0,
            whole: 1.0,
            mode: Mode::Gather,
            begun: None,
            period: None,
            interrupted: false,
            pauses: 0,
            pause: settings.pauses.0,
            not_before: 0,
            opening: None,
            fresh: false,
            held: Vec::new(),
            written: Vec::new(),
        }
    }

    /// The most it had outstanding of late (the papers' block times depth).
    fn window(&self) -> u32 {
        self.peaks[0].max(self.peaks[1])
    }

    /// The share of acknowledged blocks that were followed promptly, as far as that is known.
    fn promptness(&self) -> f64 {
        self.followed / (self.acknowledged - self.pending).max(self.followed)
    }

    /// Notes a write. Clients were busy with reads until `busy_until`, and have all paused `pauses` times so far.
    fn arrive(
        &mut self,
        arrival: &Arrival,
        busy_until: Nanos,
        pauses: u64,
        settings: &AdaptiveSettings,
    ) {
        if arrival.start == self.front {
            self.run = (self.run + 1).min(settings.least_run);
        }
        self.front = self.front.max(arrival.start + u64::from(arrival.blocks));
        let gap = arrival.now - self.last_event;
        let idle = arrival.now - self.last_event.max(busy_until);
        let paused = std::mem::replace(&mut self.pauses, pauses) != pauses;
        if self.outstanding == 0 && (paused || idle > settings.longest_gap) {
            self.resume(if paused { gap } else { idle });
        }
        if self.due > 0.0 && gap <= settings.longest_gap {
            self.gap += WEIGHT * (gap as f64 - self.gap);
            self.followed += f64::from(arrival.blocks);
        }
        self.pending = match gap <= settings.longest_gap {
            true => (self.pending - f64::from(arrival.blocks)).max(0.0),
            false => 0.0,
        };
        self.due = (self.due - f64::from(arrival.blocks)).max(0.0);
        self.last_event = arrival.now;
        self.outstanding += arrival.blocks;
        self.waiting += arrival.blocks;
        self.peaks[0] = self.peaks[0].max(self.outstanding);
        self.since_peak += arrival.blocks;
        if self.since_peak > 4 * self.window() {
            self.since_peak = 0;
            self.peaks = [self.outstanding, self.peaks[0]];
        }
    }

    /// A stream goes on that had nothing outstanding for some time. That time is none in which stripes were passed, and says nothing
    /// about how promptly writes follow acknowledgements. As many writes as it had outstanding before are due at once.
    fn resume(&mut self, idle: Nanos) {
        self.begun = self.begun.map(|begun| begun + idle);
        self.interrupted = true;
        self.acknowledged = (self.acknowledged - self.pending).max(self.followed);
        self.pending = 0.0;
        self.due = f64::from(self.window());
    }

    fn acknowledge(&mut self, now: Nanos, blocks: u32) {
        self.outstanding -= blocks;
        self.fresh = false;
        self.due += f64::from(blocks) * self.promptness();
        let fade = 0.5f64.powf(f64::from(blocks) / 64.0);
        self.acknowledged = self.acknowledged * fade + f64::from(blocks);
        self.followed *= fade;
        self.pending = (self.pending + f64::from(blocks)).min(f64::from(self.window()));
        self.due = self
            .due
            .min(f64::from(self.window().saturating_sub(self.outstanding)));
        self.last_event = now;
    }

    /// Notes the blocks of an arrival; gives the stripe that is forgotten for it.
    fn note(&mut self, arrival: &Arrival, stripe_blocks: u32, followed: bool) -> Option<u64> {
        if !self
            .written
            .iter()
            .any(|written| written.stripe == arrival.stripe)
        {
            let bitmap = vec![0; stripe_blocks.div_ceil(64) as usize];
            self.written.push(Written {
                stripe: arrival.stripe,
                bitmap,
                blocks: 0,
            });
            if followed {
                self.pass(arrival.now);
            }
        }
        let found = self
            .written
            .iter_mut()
            .find(|written| written.stripe == arrival.stripe);
        found.expect("it was put there").set(
            (arrival.start % u64::from(stripe_blocks)) as u32,
            arrival.blocks,
        );
        if self.written.len() <= REMEMBERED {
            return None;
        }
        let oldest = (0..self.written.len()).min_by_key(|&at| self.written[at].stripe)?;
        let oldest = self.written.swap_remove(oldest);
        let whole = f64::from(u8::from(oldest.blocks == stripe_blocks));
        self.whole += WEIGHT * (whole - self.whole);
        Some(oldest.stripe)
    }

    /// The stream begins a stripe.
    fn pass(&mut self, now: Nanos) {
        let interrupted = std::mem::take(&mut self.interrupted);
        let Some(begun) = self.begun.replace(now) else {
            return;
        };
        // The end of a burst takes its own time. It counts only where nothing else is known.
        let filling = matches!(self.mode, Mode::Fill(_));
        if interrupted && (filling || self.period.is_some()) {
            return;
        }
        let time = (now - begun) as f64;
        if let Mode::Fill(stripes) = &mut self.mode {
            *stripes += 1;
            // What was begun before filling says nothing about it.
            if *stripes == 1 {
                return;
            }
        }
        self.period = Some(
            self.period
                .map_or(time, |period| period + WEIGHT * (time - period)),
        );
    }

    /// Blocks of a stripe that were not written yet.
    fn to_come(&self, stripe: u64, stripe_blocks: u32) -> u32 {
        let written = self.written.iter().find(|written| written.stripe == stripe);
        stripe_blocks - written.map_or(stripe_blocks, |written| written.blocks)
    }
}

impl Written {
    fn set(&mut self, first: u32, blocks: u32) {
        for block in first..first + blocks {
            let (word, bit) = ((block / 64) as usize, 1u64 << (block % 64));
            self.blocks += u32::from(self.bitmap[word] & bit == 0);
            self.bitmap[word] |= bit;
        }
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
        let fills = matches!(stream.mode, Mode::Fill(_));
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
