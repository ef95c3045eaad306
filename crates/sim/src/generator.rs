//! Generator of sources with their fields, and of the rows that they send.

use crate::datum::Datum;
use crate::names::Lines;
use crate::samples::Samples;
use seiner_model::{Batch, Cell, FieldType, Selector, SourceKey};
use seiner_platform::sim::Rng;

/// Names of all fields. The type of a field differs from source to source.
const FIELDS: [&str; 16] = [
    "value",
    "temp",
    "state",
    "up",
    "errors",
    "bytes",
    "f",
    "g",
    "h",
    "a b",
    "Ünï",
    "x",
    "y\"=,",
    "long_name_of_a_field",
    "number",
    "payload",
];
/// Number of fields that the generator draws at random. Fields with this or a higher index occur
/// only in numbered rows.
pub(crate) const DRAWN: usize = 14;
/// Field with the number of a row.
pub(crate) const NUMBER: u32 = 14;
const PAYLOAD: u32 = 15;
/// Field with the number of a row as a float. Such a row has no other field.
pub(crate) const VALUE: u32 = 0;

/// Defect of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The name is not the name of a source.
    Name,
    /// A field occurs twice.
    Twice,
    /// A field has another type than before in this source.
    Type,
    /// A text is too long.
    Text,
    /// The row has no fields.
    Empty,
}

/// A generated row.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) source: u32,
    pub(crate) name: Vec<u8>,
    pub(crate) time: i64,
    pub(crate) cells: Vec<(u32, Datum)>,
    pub(crate) defect: Option<Defect>,
}

/// Pattern of the values of a field.
#[derive(Clone, Copy, Debug)]
enum Style {
    Gauge,
    Steady,
    Counter,
    Anything,
}

#[derive(Clone, Debug)]
struct Field {
    name: u32,
    field_type: FieldType,
    style: Style,
    last: i64,
}

/// A source.
#[derive(Clone, Debug)]
pub(crate) struct SourceGenerator {
    pub(crate) key: SourceKey,
    fields: Vec<Field>,
    /// Percentage of the rows in which a field is present.
    density: u64,
    /// Number of fields that the source has begun to send.
    known: usize,
    clock: i64,
    period: i64,
    jitter: u64,
    /// Times of recent rows. Some of these rows are sent again.
    sent: Vec<i64>,
    /// Maximum length of the text in a numbered row, bytes; 0 for rows with a float.
    payload: u64,
}

/// State of numbered rows. Each row contains a unique number, so the model can identify the rows that
/// are present.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    next: i64,
    /// Wall time, ns. Most rows have about this time.
    now: i64,
    /// True if no source may send two rows with the same time.
    unique: bool,
    /// Percentage of late rows, and their maximum lateness, ns.
    late: (u64, u64),
}

impl Numbered {
    /// Maximum lateness of a row without [`Generator::with_lateness`], ns.
    const LATE: u64 = 900_000_000_000;
}

/// All sources.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    pub(crate) sources: Vec<SourceGenerator>,
    extremes: bool,
    numbered: Option<Numbered>,
    /// Number of sources that send at the same time, if sources come and go.
    passing: Option<u64>,
    /// Number of calls of [`Generator::entries`].
    calls: u64,
}

/// Number of batches after which the next source comes and the first goes.
const BATCHES_A_SOURCE: u64 = 4;

impl Generator {
    pub(crate) fn draw(rng: &mut Rng, sources: u64) -> Generator {
        let wide = rng.chance(1, 4);
        let sources = (0..sources)
            .map(|index| SourceGenerator::draw(rng, index, wide))
            .collect();
        Generator {
            sources,
            extremes: rng.chance(1, 3),
            numbered: None,
            passing: None,
            calls: 0,
        }
    }

    /// Draws sources with numbered rows.
    pub(crate) fn numbered(rng: &mut Rng, count: u64, unique: bool) -> Generator {
        let sources = (0..count)
            .map(|index| {
                let mut member = SourceGenerator::draw(rng, index, false);
                let measurement = format!("m{}", index % 4);
                let tags = [("host", format!("h{index}")), ("rack", "r1".to_string())];
                member.key = SourceKey::new(&measurement, tags).expect("a good name");
                member.payload = *rng.pick(&[0, 40, 300, 300, 600]);
                member
            })
            .collect();
        let passing = rng.chance(1, 2).then(|| rng.between(1, count.div_ceil(2)));
        Generator {
            sources,
            extremes: false,
            numbered: Some(Numbered {
                next: 1,
                now: 0,
                unique,
                late: (5, Numbered::LATE),
            }),
            passing,
            calls: 0,
        }
    }

    /// Lets one or two sources send at the same time, each for a short time.
    pub(crate) fn with_churn(mut self, rng: &mut Rng) -> Generator {
        self.passing = Some(rng.between(1, 2));
        self
    }

    /// Sets the share of late rows to 12 % and their maximum lateness to `most` ns.
    pub(crate) fn with_lateness(mut self, most: u64) -> Generator {
        if let Some(numbered) = &mut self.numbered {
            numbered.late = (12, most);
        }
        self
    }

    /// Sets the wall time, ns.
    pub(crate) fn set_now(&mut self, now: i64) {
        if let Some(numbered) = &mut self.numbered {
            numbered.now = now;
        }
    }

    pub(crate) fn field_name(field: u32) -> &'static str {
        FIELDS[field as usize]
    }

    /// Index of a field name.
    pub(crate) fn field(name: &str) -> Option<u32> {
        FIELDS
            .iter()
            .position(|&field| field == name)
            .map(|index| index as u32)
    }

    /// Draws rows of one source or of several sources. If `known` is given, about one row in 40 gets
    /// a defect. `known` contains the series that have a sample, because the store detects a wrong
    /// type only in such series.
    pub(crate) fn entries(
        &mut self,
        rng: &mut Rng,
        rows: u64,
        known: Option<&Samples>,
    ) -> Vec<Entry> {
        self.calls += 1;
        let sources = self.sources.len() as u64;
        let first = match self.passing {
            Some(_) => self.calls / BATCHES_A_SOURCE,
            None => 0,
        };
        let together = self.passing.unwrap_or(sources);
        let draw = |rng: &mut Rng| (first + rng.below(together)) % sources;
        let focus = rng.chance(1, 3).then(|| draw(rng));
        let mut entries = Vec::with_capacity(rows as usize);
        for _ in 0..rows {
            let source = focus.unwrap_or_else(|| draw(rng)) as u32;
            let mut entry = self.entry(rng, source);
            if let Some(known) = known
                && rng.chance(1, 40)
            {
                self.add_defect(rng, &mut entry, known);
            }
            entries.push(entry);
        }
        entries
    }

    /// Draws a row without a defect.
    pub(crate) fn entry(&mut self, rng: &mut Rng, source: u32) -> Entry {
        let extremes = self.extremes;
        let member = &mut self.sources[source as usize];
        if let Some(numbered) = &mut self.numbered {
            return member.numbered(rng, source, numbered);
        }
        let time = member.time(rng, extremes);
        Entry {
            source,
            name: member.name(rng),
            time,
            cells: member.cells(rng),
            defect: None,
        }
    }

    /// Adds a random defect to a row, if that defect is possible in it.
    fn add_defect(&self, rng: &mut Rng, entry: &mut Entry, known: &Samples) {
        let defect = *rng.pick(&[
            Defect::Name,
            Defect::Twice,
            Defect::Type,
            Defect::Text,
            Defect::Empty,
        ]);
        match defect {
            Defect::Name => entry.name = b"\ntag".to_vec(),
            Defect::Twice => entry.cells.push(entry.cells[0].clone()),
            Defect::Empty => entry.cells.clear(),
            Defect::Type => {
                let (field, datum) = &entry.cells[0];
                if !known.contains_key(&(entry.source, *field)) {
                    return;
                }
                let wrong = match datum.field_type() {
                    FieldType::I64 => Datum::Bool(true),
                    // A field of unsigned integers takes signed ones that are not negative.
                    _ => Datum::I64(-1),
                };
                entry.cells[0] = (*field, wrong);
            }
            Defect::Text => {
                let member = &self.sources[entry.source as usize];
                let Some(field) = member
                    .fields
                    .iter()
                    .find(|field| field.field_type == FieldType::Str)
                else {
                    return;
                };
                entry.cells = vec![(field.name, Datum::Str("x".repeat(65_536)))];
            }
        }
        entry.defect = Some(defect);
    }

    /// Draws a float field and returns the field with the sources that have it. Returns `None` if
    /// no source has the drawn field.
    pub(crate) fn float_field(&self, rng: &mut Rng) -> Option<(u32, Vec<u32>)> {
        if self.numbered.is_some() {
            let floats = |source: &u32| self.sources[*source as usize].payload == 0;
            let sources: Vec<u32> = (0..self.sources.len() as u32).filter(floats).collect();
            return (!sources.is_empty()).then_some((VALUE, sources));
        }
        let field = rng.below(DRAWN as u64) as u32;
        let has = |member: &SourceGenerator| {
            member
                .fields
                .iter()
                .any(|own| own.name == field && own.field_type == FieldType::F64)
        };
        let sources: Vec<u32> = (0..self.sources.len() as u32)
            .filter(|&at| has(&self.sources[at as usize]))
            .collect();
        (!sources.is_empty()).then_some((field, sources))
    }

    /// Draws a selector that matches all sources, several, one or none.
    pub(crate) fn selector(&self, rng: &mut Rng) -> Selector {
        let key = &rng.pick(&self.sources).key;
        let host = key.tag("host");
        let text = match rng.below(9) {
            0 => format!("{:?}", key.measurement()),
            1 => format!("{{host={host:?}}}"),
            2 => format!("{{host!={host:?}}}"),
            3 => format!("{{host^={:?}}}", host.chars().take(2).collect::<String>()),
            4 => r#"{host=~"h\d"}"#.to_string(),
            5 => r#"{rack!~"r[01]"}"#.to_string(),
            6 => r#"{rack=""}"#.to_string(),
            7 => format!("{:?}{{rack={:?}}}", key.measurement(), key.tag("rack")),
            _ => String::new(),
        };
        Selector::parse(&text).expect("the simulation's selectors are well-formed")
    }
}

impl SourceGenerator {
    fn draw(rng: &mut Rng, index: u64, wide: bool) -> SourceGenerator {
        let measurement = *rng.pick(&["cpu", "mem", "a b", "Ünï=x"]);
        let rack = match rng.below(4) {
            3 => String::new(),
            rack => format!("r{rack}"),
        };
        let tags = [
            ("host", format!("h{index}")),
            ("rack", rack),
            ("\"q\"", rng.pick(&["", "é\\", "1,2"]).to_string()),
        ];
        let mut names: Vec<u32> = (0..DRAWN as u32).collect();
        let count = if wide {
            rng.between(1, names.len() as u64)
        } else {
            rng.between(1, 3)
        };
        let fields: Vec<Field> = (0..count)
            .map(|_| Field {
                name: names.swap_remove(rng.below(names.len() as u64) as usize),
                field_type: *rng.pick(&FieldType::ALL),
                style: *rng.pick(&[
                    Style::Gauge,
                    Style::Gauge,
                    Style::Steady,
                    Style::Counter,
                    Style::Anything,
                ]),
                last: 0,
            })
            .collect();
        SourceGenerator {
            key: SourceKey::new(measurement, tags).expect("the generator's keys are well-formed"),
            known: rng.between(1, count) as usize,
            fields,
            density: *rng.pick(&[100, 100, 90, 30]),
            clock: *rng.pick(&[
                1_700_000_000_000_000_000,
                0,
                -3_000_000_000_000,
                -8_000_000_000_000_000_000,
            ]),
            period: *rng.pick(&[1, 1_000_000_000, 10_000_000_000, 3_600_000_000_000]),
            jitter: *rng.pick(&[0, 0, 5_000_000]),
            sent: Vec::new(),
            payload: 0,
        }
    }

    /// Draws the next numbered row: with the present time, late, or with the time of an earlier
    /// row.
    fn numbered(&mut self, rng: &mut Rng, source: u32, all: &mut Numbered) -> Entry {
        let number = all.next;
        all.next += 1;
        let (late, most) = all.late;
        // Adds the number to the time, so that times differ.
        let time = match rng.below(100) {
            0..4 if !all.unique && !self.sent.is_empty() => *rng.pick(&self.sent),
            chance if (4..4 + late).contains(&chance) => {
                all.now - (rng.below(most) / 1_000_000 * 1_000_000) as i64 + number
            }
            _ => all.now + number,
        };
        // With a small maximum lateness, only the latest times are sent again.
        let remembered = if most < Numbered::LATE { 5 } else { 50 };
        if self.sent.len() < remembered {
            self.sent.push(time);
        } else {
            self.sent[rng.below(remembered as u64) as usize] = time;
        }
        let mut cells = Vec::new();
        if self.payload == 0 {
            cells.push((VALUE, Datum::F64((number as f64).to_bits())));
        } else {
            cells.push((NUMBER, Datum::I64(number)));
            if rng.chance(9, 10) {
                cells.push((PAYLOAD, Datum::Str(noise(rng, self.payload))));
            }
        }
        Entry {
            source,
            name: self.name(rng),
            time,
            cells,
            defect: None,
        }
    }

    /// Name of the source. Sometimes the tags are in reverse order, which names the same source.
    fn name(&self, rng: &mut Rng) -> Vec<u8> {
        let mut tags: Vec<(&str, &str)> = self.key.tags().collect();
        if rng.chance(1, 10) {
            tags.reverse();
        }
        Lines::write(self.key.measurement(), &tags)
    }

    /// Draws the next time: regular, late, repeated or extreme.
    fn time(&mut self, rng: &mut Rng, extremes: bool) -> i64 {
        let time = match rng.below(100) {
            0..5 if !self.sent.is_empty() => *rng.pick(&self.sent),
            5..8 => self.clock - rng.below(100 * self.period as u64 + 1) as i64,
            8 if extremes => *rng.pick(&[i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0, -1]),
            _ => {
                self.clock += self.period + rng.below(self.jitter + 1) as i64;
                self.clock
            }
        };
        if self.sent.len() < 50 {
            self.sent.push(time);
        } else {
            self.sent[rng.below(50) as usize] = time;
        }
        time
    }

    /// Draws values for some of the fields, at least one. Sometimes a field is sent for the first
    /// time.
    fn cells(&mut self, rng: &mut Rng) -> Vec<(u32, Datum)> {
        if self.known < self.fields.len() && rng.chance(1, 20) {
            self.known += 1;
        }
        let (density, known) = (self.density, self.known);
        let first = rng.below(known as u64) as usize;
        let mut cells = Vec::new();
        for step in 0..known {
            let field = &mut self.fields[(first + step) % known];
            if step == 0 || rng.chance(density, 100) {
                cells.push((field.name, field.datum(rng)));
            }
        }
        // Most rows list their fields in the same order.
        if !rng.chance(1, 5) {
            cells.sort_by_key(|cell| cell.0);
        }
        cells
    }
}

impl Field {
    fn datum(&mut self, rng: &mut Rng) -> Datum {
        match self.style {
            Style::Gauge => self.last += rng.below(201) as i64 - 100,
            Style::Steady if rng.chance(1, 20) => self.last = rng.below(1000) as i64,
            Style::Steady => {}
            Style::Counter => self.last += rng.below(1000) as i64,
            Style::Anything => return anything(self.field_type, rng),
        }
        match self.field_type {
            FieldType::F64 => Datum::F64((self.last as f64 / 10.0).to_bits()),
            FieldType::F32 => Datum::F32((self.last as f32 / 10.0).to_bits()),
            FieldType::I64 => Datum::I64(self.last),
            FieldType::U64 => Datum::U64(self.last.unsigned_abs()),
            FieldType::Bool => Datum::Bool(self.last % 2 == 0),
            FieldType::Str => Datum::Str(
                ["idle", "running", "", "größer"][(self.last.unsigned_abs() % 4) as usize].into(),
            ),
        }
    }
}

/// Draws random bits, often values that are difficult to store.
fn anything(field_type: FieldType, rng: &mut Rng) -> Datum {
    let bits = rng.next_u64();
    let odd = rng.chance(1, 2);
    match field_type {
        FieldType::F64 if odd => Datum::F64(*rng.pick(&[
            0,
            1 << 63,
            f64::INFINITY.to_bits(),
            f64::NEG_INFINITY.to_bits(),
            f64::NAN.to_bits(),
            0x7ff0_0000_0000_0001,
            0xfff8_0000_dead_beef,
            1,
            f64::MAX.to_bits(),
        ])),
        FieldType::F64 => Datum::F64(bits),
        FieldType::F32 if odd => {
            Datum::F32(*rng.pick(&[0, 1 << 31, 0x7f80_0000, 0x7f80_0001, 0xffc0_beef, 1]))
        }
        FieldType::F32 => Datum::F32(bits as u32),
        FieldType::I64 if odd => Datum::I64(*rng.pick(&[i64::MIN, i64::MAX, 0, -1])),
        FieldType::I64 => Datum::I64(bits as i64),
        FieldType::U64 if odd => Datum::U64(*rng.pick(&[u64::MAX, 0, 1 << 63])),
        FieldType::U64 => Datum::U64(bits),
        FieldType::Bool => Datum::Bool(odd),
        FieldType::Str if rng.chance(1, 30) => Datum::Str("long ".repeat(rng.below(1200) as usize)),
        FieldType::Str => Datum::Str(format!("{:x}", bits >> rng.below(64))),
    }
}

/// Draws a text that does not compress well, at most `most` bytes.
fn noise(rng: &mut Rng, most: u64) -> String {
    let words = rng.between(1, most / 10);
    let mut text = String::with_capacity(words as usize * 10);
    for _ in 0..words {
        let mut bits = rng.next_u64();
        for _ in 0..10 {
            text.push(char::from(b'0' + (bits & 63) as u8));
            bits >>= 6;
        }
    }
    text
}

/// Returns a batch that borrows the rows.
pub(crate) fn batch(entries: &[Entry]) -> Batch<'_> {
    let mut batch = Batch::new();
    for entry in entries {
        let cells = entry.cells.iter().map(|(field, datum)| Cell {
            field: Generator::field_name(*field).as_bytes(),
            value: datum.value(),
        });
        batch.push(&entry.name, entry.time, cells);
    }
    batch
}
