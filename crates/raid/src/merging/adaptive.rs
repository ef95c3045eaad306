use super::{Arrival, Look, Mark, Strategy, Verdict};
use crate::request::Nanos;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptiveSettings {
    pub streams: usize,
    pub least_run: u32,
}

impl Default for AdaptiveSettings {
    fn default() -> AdaptiveSettings {
        AdaptiveSettings { streams: 128, least_run: 3 }
    }
}

struct Stream {
    generation: u32,
    front: u64,
    run: u32,
    outstanding: u32,
    waiting: u32,
    peaks: [u32; 2],
    arrivals: u32,
    last: Nanos,
    gap: f64,
    fills: f64,
    used: u64,
    held: Vec<u64>,
    touched: Vec<Touched>,
}

struct Touched {
    stripe: u64,
    bitmap: Vec<u64>,
    set: u32,
}

pub struct Adaptive {
    settings: AdaptiveSettings,
    stripe_blocks: u32,
    streams: Vec<Stream>,
    places: BTreeMap<u64, usize>,
    clock: u64,
    stirred: Vec<u64>,
}

impl Adaptive {
    pub fn new(settings: AdaptiveSettings, stripe_blocks: u32) -> Adaptive {
        Adaptive { settings, stripe_blocks, streams: Vec::new(), places: BTreeMap::new(), clock: 0, stirred: Vec::new() }
    }

    fn find(&self, arrival: &Arrival) -> Option<usize> {
        let reach = 2 * u64::from(self.stripe_blocks);
        for stripe in [arrival.stripe, arrival.stripe.wrapping_sub(1), arrival.stripe + 1] {
            if let Some(&at) = self.places.get(&stripe) {
                if self.streams[at].front.abs_diff(arrival.start) <= reach {
                    return Some(at);
                }
            }
        }
        None
    }

    fn open(&mut self, arrival: &Arrival) -> usize {
        let fresh = |generation| Stream {
            generation,
            front: arrival.start,
            run: 0,
            outstanding: 0,
            waiting: 0,
            peaks: [0; 2],
            arrivals: 0,
            last: arrival.now,
            gap: 2000.0,
            fills: 1.0,
            used: 0,
            held: Vec::new(),
            touched: Vec::new(),
        };
        if self.streams.len() < self.settings.streams {
            self.streams.push(fresh(0));
            return self.streams.len() - 1;
        }
        let at = (0..self.streams.len()).min_by_key(|&at| self.streams[at].used).unwrap_or(0);
        for touched in std::mem::take(&mut self.streams[at].touched) {
            if self.places.get(&touched.stripe) == Some(&at) {
                self.places.remove(&touched.stripe);
            }
        }
        let held = std::mem::take(&mut self.streams[at].held);
        self.stirred.extend(held);
        self.streams[at] = fresh(self.streams[at].generation.wrapping_add(1) & 0xff_ffff);
        at
    }

    fn of(&mut self, mark: Mark) -> Option<&mut Stream> {
        let at = (mark & 0xff) as usize;
        self.streams.get_mut(at).filter(|stream| stream.generation == mark >> 8)
    }
}

impl Stream {
    fn window(&self) -> u32 {
        self.peaks[0].max(self.peaks[1])
    }
    fn touch(&mut self, arrival: &Arrival, stripe_blocks: u32) -> Option<u64> {
        let first = (arrival.start % u64::from(stripe_blocks)) as u32;
        let at = match self.touched.iter().position(|touched| touched.stripe == arrival.stripe) {
            Some(at) => at,
            None => {
                let bitmap = vec![0; stripe_blocks.div_ceil(64) as usize];
                self.touched.push(Touched { stripe: arrival.stripe, bitmap, set: 0 });
                self.touched.len() - 1
            }
        };
        let touched = &mut self.touched[at];
        for block in first..first + arrival.blocks {
            let (word, bit) = ((block / 64) as usize, 1u64 << (block % 64));
            if touched.bitmap[word] & bit == 0 {
                touched.set += 1;
                touched.bitmap[word] |= bit;
            }
        }
        if self.touched.len() > 4 {
            let old = (0..self.touched.len()).min_by_key(|&at| self.touched[at].stripe).unwrap_or(0);
            let old = self.touched.swap_remove(old);
            let full = if old.set == stripe_blocks { 1.0 } else { 0.0 };
            self.fills += 0.25 * (full - self.fills);
            return Some(old.stripe);
        }
        None
    }
}

impl Strategy for Adaptive {
    fn arrived(&mut self, arrival: &Arrival) -> Mark {
        self.clock += 1;
        let at = self.find(arrival).unwrap_or_else(|| self.open(arrival));
        self.places.insert(arrival.stripe, at);
        let clock = self.clock;
        let size = self.stripe_blocks;
        let stream = &mut self.streams[at];
        stream.used = clock;
        if arrival.start == stream.front {
            stream.run = (stream.run + 1).min(8);
        }
        stream.front = stream.front.max(arrival.start + u64::from(arrival.blocks));
        let owed = stream.window().saturating_sub(stream.outstanding);
        if owed > 0 {
            let gap = (arrival.now - stream.last) as f64;
            stream.gap += 0.1 * (gap.min(50_000.0) - stream.gap);
        }
        stream.last = arrival.now;
        stream.outstanding += arrival.blocks;
        stream.waiting += arrival.blocks;
        stream.peaks[0] = stream.peaks[0].max(stream.outstanding);
        stream.arrivals += arrival.blocks;
        if stream.arrivals > 4 * stream.window() {
            stream.arrivals = 0;
            stream.peaks = [stream.outstanding, stream.peaks[0]];
        }
        let held = std::mem::take(&mut stream.held);
        let mark = stream.generation << 8 | at as u32;
        if let Some(gone) = stream.touch(arrival, size) {
            if self.places.get(&gone) == Some(&at) {
                self.places.remove(&gone);
            }
        }
        self.stirred.extend(held.into_iter().filter(|&stripe| stripe != arrival.stripe));
        mark
    }

    fn judge(&mut self, look: &Look) -> Verdict {
        if look.missing == 0 {
            return Verdict::Together;
        }
        let Some(&at) = self.places.get(&look.stripe) else { return Verdict::Together };
        let least_run = self.settings.least_run;
        let size = self.stripe_blocks;
        let stream = &mut self.streams[at];
        if stream.run < least_run {
            return Verdict::Together;
        }
        let fresh = stream.touched.iter().find(|touched| touched.stripe == look.stripe).map_or(0, |touched| size - touched.set);
        if fresh == 0 {
            return Verdict::Together;
        }
        let executing = stream.outstanding - stream.waiting.min(stream.outstanding);
        let window = stream.window();
        let owed = window.saturating_sub(stream.outstanding);
        let patience = (4.0 * stream.gap).max(2000.0) as u64;
        let until = if window >= size && stream.fills > 0.5 {
            if executing > 0 { look.deadline } else if owed > 0 { stream.last + patience } else { 0 }
        } else if owed > 0 {
            stream.last + patience
        } else {
            0
        };
        if until > look.now {
            if !stream.held.contains(&look.stripe) {
                stream.held.push(look.stripe);
            }
            Verdict::Hold(until)
        } else {
            Verdict::Together
        }
    }

    fn started(&mut self, _now: Nanos, stripe: u64, mark: Mark, blocks: u32) {
        if let Some(stream) = self.of(mark) {
            stream.waiting -= blocks;
            stream.held.retain(|&held| held != stripe);
        }
    }

    fn ended(&mut self, now: Nanos, mark: Mark, blocks: u32) {
        if let Some(stream) = self.of(mark) {
            stream.outstanding -= blocks;
            stream.last = now;
            let held = std::mem::take(&mut stream.held);
            self.stirred.extend(held);
        }
    }

    fn stirred(&mut self) -> Option<u64> {
        self.stirred.pop()
    }
}
