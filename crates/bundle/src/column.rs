//! Plan of a column: the numbers of its values, the class of each source, and the tables of both.

use std::ops::Range;
use std::sync::Arc;

use seiner_codec::varint::zigzag;

use crate::ans::NumberWriter;
use crate::classes::{Classes, Movement};
use crate::histogram::{Histogram, entropy};
use crate::kinds::Integers;
use crate::model::{ColumnModel, ColumnTables, KindModel, Order};
use crate::states::Cursor;

/// Largest number of classes of a column for which the class of the source before can be the context.
const MAX_CONTEXTS: usize = 16;

/// Chunks by which the form of first values is chosen.
const SAMPLE_CHUNKS: usize = 8;

/// Numbers of a column, source by source.
pub(crate) struct ColumnPlan {
    integers: Integers,
    kinds: Vec<KindModel>,
    /// Class of each source.
    classes: Vec<u16>,
    /// Numbers of first values and of second values, for each kind.
    leads: Vec<[Histogram; 2]>,
    /// Numbers of further values, for each class.
    rest: Vec<Histogram>,
    has_context: bool,
}

/// Place of a visitor of a plan.
#[derive(Default)]
pub(crate) struct PlanCursor {
    states: Cursor,
    class_before: usize,
}

impl PlanCursor {
    /// Forgets the sources before, at the start of a chunk.
    pub(crate) fn start_chunk(&mut self) {
        self.states.start_chunk();
        self.class_before = 0;
    }
}

impl ColumnPlan {
    /// Plans a column. `chunks` are the sources of each chunk.
    pub(crate) fn new(integers: Integers, chunks: &[Range<usize>]) -> ColumnPlan {
        let mut plan = ColumnPlan {
            classes: vec![0; integers.ends.len()],
            leads: Vec::new(),
            rest: Vec::new(),
            kinds: Vec::new(),
            has_context: false,
            integers,
        };
        plan.choose_orders();
        let bases: Vec<i64> = plan.kinds.iter().map(|kind| kind.base).collect();
        plan.leads = vec![Default::default(); plan.kinds.len()];
        // Differences need the first values, which are therefore replaced last.
        let classes = plan.replace_rest();
        plan.replace_firsts(chunks, &bases);
        plan.assign_classes(&classes);
        plan.has_context = plan.context_pays(chunks);
        plan
    }

    /// Returns the model for the directory.
    pub(crate) fn model(&self) -> ColumnModel {
        ColumnModel::Numbers {
            kinds: self.kinds.clone(),
            has_context: self.has_context,
            texts: Arc::new(self.integers.texts.clone()),
        }
    }

    /// Returns the approximate bits of values and classes, with their tables.
    pub(crate) fn bits(&self) -> f32 {
        let of = |histogram: &Histogram| histogram.bits() + histogram.table_bits();
        let leads: f32 = self.leads.iter().flatten().map(of).sum();
        let mut counts = vec![0u32; self.rest.len()];
        for (source, &class) in self.classes.iter().enumerate() {
            if !self.integers.states.is_absent(source) {
                counts[usize::from(class)] += 1;
            }
        }
        let texts = self.integers.texts.bytes.len() as f32 * 8.0;
        let strays = self.integers.states.stray_bits();
        leads + self.rest.iter().map(of).sum::<f32>() + entropy(counts.into_iter()) + texts + strays
    }

    /// Chooses the order of each kind, and finds its smallest value.
    fn choose_orders(&mut self) {
        let integers = &self.integers;
        let mut sources: Vec<Vec<&[i64]>> = vec![Vec::new(); integers.kinds.len()];
        let mut bases = vec![i64::MAX; integers.kinds.len()];
        for (source, &kind) in integers.kind_of.iter().enumerate() {
            let values = &integers.values[integers.range(source)];
            let Some(base) = bases.get_mut(usize::from(kind)) else {
                continue;
            };
            *base = values.iter().copied().fold(*base, i64::min);
            if values.len() > 1 {
                sources[usize::from(kind)].push(values);
            }
        }
        let kinds = integers.kinds.iter().zip(&sources).zip(bases);
        self.kinds = kinds
            .map(|((&kind, sources), base)| KindModel {
                kind,
                order: Order::choose(sources, base),
                is_relative: false,
                base: if base == i64::MAX { 0 } else { base },
                classes: 1,
            })
            .collect();
    }

    /// Replaces the first values by their numbers, plain or relative.
    fn replace_firsts(&mut self, chunks: &[Range<usize>], bases: &[i64]) {
        let is_relative = self.relative_firsts(chunks, bases);
        let mut leads = std::mem::take(&mut self.leads);
        self.each_first(chunks, bases, |kind, first, before| {
            let number = if is_relative[kind] {
                zigzag(first.wrapping_sub(before))
            } else {
                first.wrapping_sub(bases[kind]) as u64
            };
            leads[kind][0].add(number);
            number as i64
        });
        self.leads = leads;
        for (model, is_relative) in self.kinds.iter_mut().zip(is_relative) {
            model.is_relative = is_relative;
        }
    }

    /// Returns, for each kind, whether differences of the first values take fewer bits in some chunks.
    fn relative_firsts(&mut self, chunks: &[Range<usize>], bases: &[i64]) -> Vec<bool> {
        let stride = chunks.len() / SAMPLE_CHUNKS + 1;
        let sample: Vec<Range<usize>> = chunks.iter().step_by(stride).cloned().collect();
        let mut plain = vec![Histogram::default(); bases.len()];
        let mut relative = plain.clone();
        self.each_first(&sample, bases, |kind, first, before| {
            plain[kind].add(first.wrapping_sub(bases[kind]) as u64);
            relative[kind].add(zigzag(first.wrapping_sub(before)));
            first
        });
        let bits = |histogram: &Histogram| histogram.bits() + histogram.table_bits();
        let both = plain.iter().zip(&relative);
        both.map(|(plain, relative)| bits(relative) < bits(plain))
            .collect()
    }

    /// Replaces each first value by the result of `replace`, which gets kind, value and the first value of
    /// this kind before in the chunk.
    fn each_first(
        &mut self,
        chunks: &[Range<usize>],
        bases: &[i64],
        mut replace: impl FnMut(usize, i64, i64) -> i64,
    ) {
        let integers = &mut self.integers;
        let mut before = bases.to_vec();
        for chunk in chunks {
            before.copy_from_slice(bases);
            for source in chunk.clone() {
                let range = integers.range(source);
                if range.is_empty() {
                    continue;
                }
                let kind = usize::from(integers.kind_of[source]);
                let first = integers.values[range.start];
                integers.values[range.start] = replace(kind, first, before[kind]);
                before[kind] = first;
            }
        }
    }

    /// Replaces the other values by their numbers. Returns the classes of each kind. Leaves the octave of
    /// each source in its place for the class.
    fn replace_rest(&mut self) -> Vec<Classes> {
        let mut movements: Vec<Movement> = Vec::new();
        movements.resize_with(self.kinds.len(), Movement::default);
        for source in 0..self.classes.len() {
            let range = self.integers.range(source);
            if range.len() < 2 {
                self.classes[source] = u16::MAX;
                continue;
            }
            let kind = usize::from(self.integers.kind_of[source]);
            let KindModel { order, base, .. } = self.kinds[kind];
            let numbers = &mut self.integers.values[range];
            order.replace(numbers, base);
            if order.lead() > 1 {
                self.leads[kind][1].add(numbers[1] as u64);
            }
            self.classes[source] = match order.octave(numbers) {
                Some(octave) => {
                    movements[kind].add(octave, &numbers[order.lead()..]);
                    octave as u16
                }
                None => u16::MAX,
            };
        }
        movements.into_iter().map(Movement::classes).collect()
    }

    /// Replaces the octaves of the sources by their classes. Sources without movement get the class of the
    /// source of their kind before.
    fn assign_classes(&mut self, classes: &[Classes]) {
        let mut starts = Vec::new();
        for (model, classes) in self.kinds.iter_mut().zip(classes) {
            starts.push(self.rest.len() as u16);
            model.classes = classes.numbers.len();
            self.rest.extend(classes.numbers.iter().cloned());
        }
        let mut last = starts.clone();
        for (class, &kind) in self.classes.iter_mut().zip(&self.integers.kind_of) {
            let kind = usize::from(kind);
            let Some(last) = last.get_mut(kind) else {
                continue;
            };
            if *class != u16::MAX {
                *last = starts[kind] + u16::from(classes[kind].of_octave[usize::from(*class)]);
            }
            *class = *last;
        }
    }

    /// Returns whether the class of the source before makes classes cheaper.
    fn context_pays(&self, chunks: &[Range<usize>]) -> bool {
        let count = self.rest.len();
        if !(2..=MAX_CONTEXTS).contains(&count) {
            return false;
        }
        let mut pairs = vec![0u32; count * count];
        self.each_class(chunks, |before, class| pairs[before * count + class] += 1);
        let alone =
            (0..count).map(|class| (0..count).map(|before| pairs[before * count + class]).sum());
        let rows = pairs.chunks(count);
        let used = pairs.iter().filter(|pair| **pair > 0).count();
        let with_context: f32 = rows.map(|row| entropy(row.iter().copied())).sum();
        with_context + 12.0 * used as f32 + 16.0 < entropy(alone)
    }

    /// Calls `each` with the class of the source before and the class of each source.
    fn each_class(&self, chunks: &[Range<usize>], mut each: impl FnMut(usize, usize)) {
        for chunk in chunks {
            let mut before = 0;
            for source in chunk.clone() {
                if self.integers.states.is_absent(source) {
                    continue;
                }
                let class = usize::from(self.classes[source]);
                each(before, class);
                before = class;
            }
        }
    }

    /// Counts the numbers of the values in the histograms of their tables.
    pub(crate) fn count(&self, tables: &ColumnTables, histograms: &mut [Histogram]) {
        for (kind, leads) in self.leads.iter().enumerate() {
            histograms[tables.kinds + 2 * kind].merge(&leads[0]);
            histograms[tables.kinds + 2 * kind + 1].merge(&leads[1]);
        }
        for (class, rest) in self.rest.iter().enumerate() {
            histograms[tables.rest + class].merge(rest);
        }
    }

    /// Passes state and class of a source to `put`, with their tables, and then the states of its rows.
    pub(crate) fn visit(
        &self,
        cursor: &mut PlanCursor,
        tables: &ColumnTables,
        (source, rows): (usize, usize),
        mut put: impl FnMut(usize, u64),
    ) {
        let states = &self.integers.states;
        put(tables.state, u64::from(states.sources[source]));
        if states.is_absent(source) {
            return;
        }
        let class = usize::from(self.classes[source]);
        put(tables.class_after(cursor.class_before), class as u64);
        cursor.class_before = class;
        states.visit(&mut cursor.states, source, rows, put);
    }

    /// Writes the numbers of the values of a source.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        tables: &ColumnTables,
        source: usize,
        writer: &mut NumberWriter<'_>,
    ) {
        let numbers = &self.integers.values[self.integers.range(source)];
        let Some((&first, rest)) = numbers.split_first() else {
            return;
        };
        let class = usize::from(self.classes[source]);
        let kind = tables.kind_of[class];
        writer.put(tables.kinds + 2 * kind, first as u64);
        let lead = (self.kinds[kind].order.lead() - 1).min(rest.len());
        writer.put_all(tables.kinds + 2 * kind + 1, &rest[..lead]);
        writer.put_all(tables.rest + class, &rest[lead..]);
    }
}
