//! Rows of the benchmarks: gauges with one or two decimals, every 10 seconds, with three tags.
//!
//! A fixed seed determines all rows, so every store and every run gets the same bytes. A sensor's
//! value is a slowly changing level plus noise. The noise is chosen so that VictoriaMetrics 1.79.5
//! stores workload (a) in about 0.9 bytes per sample, like dashboard data from real machines and
//! sensors.

use std::io::{self, Write};

/// Number of sensors of one host. An agent scrapes all sensors of a host at once.
pub const SENSORS_PER_HOST: u32 = 100;
/// Time between two samples of a series, ns.
pub const PERIOD: i64 = 10_000_000_000;
/// Time of the first sample, ns: 2023-11-14, midnight UTC. A workload of one day therefore contains
/// no change of day, which costs some stores time.
pub const START: i64 = 1_699_920_000_000_000_000;
const REGIONS: [&str; 4] = ["eu-west", "eu-north", "us-east", "ap-south"];
const SENSORS: [&str; 5] = ["temp", "load", "volt", "flow", "humidity"];

/// Set of series over an interval of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Letter of the workload in the tables.
    pub name: &'static str,
    /// Number of sources: measurements with their tags.
    pub sources: u32,
    /// Number of fields per line.
    pub fields: u32,
    /// Number of samples of each source.
    pub ticks: u32,
    /// Number of ticks before the first tick of this workload: the length of the preceding load.
    pub first_tick: u32,
    /// True for counters, which only rise. Otherwise the values are gauges.
    pub counters: bool,
}

impl Workload {
    /// Returns the workload (a) to (e) of the comparison with this letter.
    pub fn named(letter: char) -> Option<Workload> {
        let (name, sources, fields, ticks, first_tick) = match letter {
            'a' => ("a", 4_000, 1, 2_500, 0),
            'b' => ("b", 100_000, 1, 100, 0),
            'c' => ("c", 1_000_000, 1, 10, 0),
            'd' => ("d", 10_000, 10, 1_000, 0),
            'e' => ("e", 1_000_000, 1, 10, 10),
            _ => return None,
        };
        Some(Workload {
            name,
            sources,
            fields,
            ticks,
            first_tick,
            counters: false,
        })
    }

    /// Returns the counters of as many hosts, each with one field.
    pub fn counters(sources: u32, ticks: u32) -> Workload {
        Workload {
            name: "counters",
            sources,
            fields: 1,
            ticks,
            first_tick: 0,
            counters: true,
        }
    }

    /// Returns the name of the measurement.
    pub fn measurement(&self) -> &'static str {
        if self.counters { "requests" } else { "gauge" }
    }

    /// Returns the same workload with fewer ticks, and with fewer sources once two ticks are left.
    pub fn scaled(mut self, scale: f64) -> Workload {
        let ticks = (f64::from(self.ticks) * scale).round().max(2.0);
        let left = (scale * f64::from(self.ticks) / ticks).min(1.0);
        let hosts = (f64::from(self.sources / SENSORS_PER_HOST) * left)
            .round()
            .max(2.0);
        if self.first_tick > 0 {
            self.first_tick = ticks as u32;
        }
        self.ticks = ticks as u32;
        self.sources = hosts as u32 * SENSORS_PER_HOST;
        self
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> u32 {
        self.sources / SENSORS_PER_HOST
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> u64 {
        u64::from(self.sources) * u64::from(self.ticks)
    }

    /// Returns the number of samples. A line with ten fields has ten samples.
    pub fn samples(&self) -> u64 {
        self.lines() * u64::from(self.fields)
    }

    /// Returns a short description.
    pub fn describe(&self) -> String {
        let fields = if self.fields == 1 {
            String::new()
        } else {
            format!(" x {} fields", self.fields)
        };
        format!(
            "({}) {} sources{fields} x {} ticks",
            self.name, self.sources, self.ticks
        )
    }

    /// Returns the first and the last nanosecond of the samples.
    pub fn interval(&self) -> (i64, i64) {
        let tick = |tick: u32| START + i64::from(tick) * PERIOD;
        (
            tick(self.first_tick),
            tick(self.first_tick + self.ticks) - 1,
        )
    }

    /// Returns the name that other servers give to the metric of the first field.
    pub fn metric(&self) -> String {
        format!("{}_{}", self.measurement(), self.field(0))
    }

    /// Returns the name of a field. The only field of a line is named `value`, and that of a counter `total`.
    pub fn field(&self, field: u32) -> String {
        if self.counters {
            "total".to_string()
        } else if self.fields == 1 {
            "value".to_string()
        } else {
            format!("f{field}")
        }
    }
}

/// Returns the tags of a host's sensor, in their order in the line.
pub fn tags(host: u32, sensor: u32) -> [(&'static str, String); 3] {
    [
        ("host", format!("host_{host:05}")),
        ("region", REGIONS[host as usize % REGIONS.len()].to_string()),
        (
            "sensor",
            format!("{}_{sensor}", SENSORS[sensor as usize % SENSORS.len()]),
        ),
    ]
}

/// Returns the time of a host's first sample, ns. Agents start at different moments, in whole
/// milliseconds.
fn phase(host: u32) -> i64 {
    i64::from(mix(host ^ 0x5eed) % 10_000) * 1_000_000
}

/// Returns the time of a tick at a host, ns.
pub fn time(host: u32, tick: u32) -> i64 {
    START + i64::from(tick) * PERIOD + phase(host)
}

/// Scatters neighbouring numbers by a bijection (the finaliser of MurmurHash3).
fn mix(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Values of one series, in order.
#[derive(Clone, Debug)]
pub struct Gauge {
    random: u32,
    level: i32,
    decimals: u8,
    rises: bool,
}

impl Gauge {
    /// Creates the gauge of a series, by its number.
    pub fn new(series: u32) -> Gauge {
        let random = mix(series.wrapping_mul(2).wrapping_add(1)) | 1;
        let decimals = 1 + (series % 2) as u8;
        let level = 200 + (mix(random) % 800) as i32;
        Gauge {
            random,
            level: if decimals == 2 { level * 10 } else { level },
            decimals,
            rises: false,
        }
    }

    /// Creates the counter of a series, by its number. It rises by 0 to 3.2 per step.
    pub fn counter(series: u32) -> Gauge {
        Gauge {
            level: 0,
            decimals: 1,
            rises: true,
            ..Gauge::new(series)
        }
    }

    fn random(&mut self) -> u32 {
        // xorshift32 needs four bytes of state per series; there may be a million series.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }

    /// Returns the number of decimals of the values, 1 or 2.
    pub fn decimals(&self) -> u8 {
        self.decimals
    }

    /// Returns the next value, in units of the last decimal.
    pub fn step(&mut self) -> i32 {
        let (wander, noise) = (self.random(), self.random());
        if self.rises {
            self.level += noise.count_ones() as i32;
            return self.level;
        }
        let spread = if self.decimals == 2 {
            NOISE_TWO_DECIMALS
        } else {
            NOISE_ONE_DECIMAL
        };
        if wander & 0xf == 0 {
            self.level += (wander >> 4).count_ones() as i32 - 14;
        }
        // The number of set bits among 32 has a bell curve with a standard deviation of 2.8.
        let bell = noise.count_ones() as i32 - 16;
        self.level + bell * spread / 4 + (noise >> 8) as i32 % (1 + spread / 4)
    }

    /// Returns the next value.
    pub fn value(&mut self) -> f64 {
        let scale = if self.decimals == 2 { 100.0 } else { 10.0 };
        f64::from(self.step()) / scale
    }
}

/// Four times the step of the noise's bell curve, in units of the last decimal.
const NOISE_ONE_DECIMAL: i32 = 10;
const NOISE_TWO_DECIMALS: i32 = 32;

/// Writer of line protocol, tick by tick, for the hosts of one agent.
///
/// An agent scrapes its own hosts and sends over its own connection. So the samples of a series
/// arrive in order, independent of the connections.
pub struct Lines {
    workload: Workload,
    hosts: Vec<u32>,
    names: Vec<Vec<u8>>,
    gauges: Vec<Gauge>,
    tick: u32,
    place: usize,
}

impl Lines {
    /// Creates the writer of agent `agent` out of `agents`.
    pub fn new(workload: &Workload, agent: u32, agents: u32) -> Lines {
        let hosts: Vec<u32> = (0..workload.hosts())
            .filter(|host| host % agents == agent)
            .collect();
        let sensors = || {
            hosts
                .iter()
                .flat_map(|&host| (0..SENSORS_PER_HOST).map(move |sensor| (host, sensor)))
        };
        let names = sensors()
            .map(|(host, sensor)| name(workload.measurement(), host, sensor))
            .collect();
        let create = if workload.counters {
            Gauge::counter
        } else {
            Gauge::new
        };
        let mut gauges: Vec<Gauge> = sensors()
            .flat_map(|(host, sensor)| {
                let source = host * SENSORS_PER_HOST + sensor;
                (0..workload.fields).map(move |field| create(source * workload.fields + field))
            })
            .collect();
        for _ in 0..workload.first_tick {
            gauges.iter_mut().for_each(|gauge| {
                gauge.step();
            });
        }
        Lines {
            workload: workload.clone(),
            hosts,
            names,
            gauges,
            tick: 0,
            place: 0,
        }
    }

    /// Returns the number of lines per tick.
    #[cfg(test)]
    fn lines_per_tick(&self) -> usize {
        self.names.len()
    }

    /// Returns the number of the source of line `place` of a tick.
    #[cfg(test)]
    fn source(&self, place: usize) -> u32 {
        self.hosts[place / SENSORS_PER_HOST as usize] * SENSORS_PER_HOST
            + place as u32 % SENSORS_PER_HOST
    }

    /// Appends up to `count` lines to `text`. Returns the number of lines; 0 at the end.
    pub fn write(&mut self, count: usize, text: &mut Vec<u8>) -> io::Result<usize> {
        let mut written = 0;
        while written < count && self.tick < self.workload.ticks && !self.names.is_empty() {
            self.write_line(text)?;
            written += 1;
            self.place += 1;
            if self.place == self.names.len() {
                (self.place, self.tick) = (0, self.tick + 1);
            }
        }
        Ok(written)
    }

    fn write_line(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        text.extend_from_slice(&self.names[self.place]);
        let fields = self.workload.fields as usize;
        for field in 0..fields {
            text.push(if field == 0 { b' ' } else { b',' });
            if fields == 1 {
                write!(text, "{}=", self.workload.field(0))?;
            } else {
                write!(text, "f{field}=")?;
            }
            let gauge = &mut self.gauges[self.place * fields + field];
            let decimals = gauge.decimals();
            push_decimal(text, gauge.step(), decimals);
        }
        let host = self.hosts[self.place / SENSORS_PER_HOST as usize];
        let time = time(host, self.workload.first_tick + self.tick);
        text.push(b' ');
        text.extend_from_slice(itoa::Buffer::new().format(time).as_bytes());
        text.push(b'\n');
        Ok(())
    }
}

fn name(measurement: &str, host: u32, sensor: u32) -> Vec<u8> {
    let mut name = measurement.as_bytes().to_vec();
    for (tag, value) in tags(host, sensor) {
        name.push(b',');
        name.extend_from_slice(tag.as_bytes());
        name.push(b'=');
        name.extend_from_slice(value.as_bytes());
    }
    name
}

/// Appends a number given in units of its last decimal.
fn push_decimal(text: &mut Vec<u8>, number: i32, decimals: u8) {
    if number < 0 {
        text.push(b'-');
    }
    let scale = if decimals == 2 { 100 } else { 10 };
    let (whole, rest) = (number.unsigned_abs() / scale, number.unsigned_abs() % scale);
    text.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    text.push(b'.');
    if decimals == 2 {
        text.push(b'0' + (rest / 10) as u8);
    }
    text.push(b'0' + (rest % 10) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(workload: &Workload, agent: u32, agents: u32) -> String {
        let mut text = Vec::new();
        let mut lines = Lines::new(workload, agent, agents);
        while lines.write(7, &mut text).unwrap() > 0 {}
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn lines_contain_the_values_of_their_gauges() {
        let workload = Workload::named('a').unwrap().scaled(0.001);
        let text = text(&workload, 1, 2);
        let lines = Lines::new(&workload, 1, 2);
        let mut gauges: Vec<Gauge> = (0..lines.lines_per_tick())
            .map(|place| Gauge::new(lines.source(place)))
            .collect();
        for (number, line) in text.lines().enumerate() {
            let place = number % gauges.len();
            let (host, sensor) = (
                lines.source(place) / SENSORS_PER_HOST,
                lines.source(place) % SENSORS_PER_HOST,
            );
            let tick = (number / gauges.len()) as u32;
            let (name_and_field, stamp) = line.rsplit_once(' ').unwrap();
            let (key, value) = name_and_field.split_once(" value=").unwrap();
            assert_eq!(key.as_bytes(), name("gauge", host, sensor));
            assert_eq!(
                value.parse::<f64>().unwrap().to_bits(),
                gauges[place].value().to_bits(),
                "{line}"
            );
            assert_eq!(stamp.parse::<i64>().unwrap(), time(host, tick));
        }
    }

    #[test]
    fn the_agents_together_send_every_line_once() {
        let workload = Workload::named('d').unwrap().scaled(0.002);
        let mut shared: Vec<String> = Vec::new();
        for agent in 0..2 {
            shared.extend(text(&workload, agent, 2).lines().map(String::from));
        }
        let mut alone: Vec<String> = text(&workload, 0, 1).lines().map(String::from).collect();
        assert_eq!(alone.len() as u64, workload.lines());
        alone.sort();
        shared.sort();
        assert_eq!(alone, shared);
    }

    #[test]
    fn the_second_load_continues_where_the_first_ended() {
        let first = Workload::named('c').unwrap().scaled(0.001);
        let second = Workload::named('e').unwrap().scaled(0.001);
        assert_eq!(first.sources, second.sources);
        assert_eq!(first.interval().1 + 1, second.interval().0);
        let both = Workload {
            ticks: first.ticks + second.ticks,
            ..first.clone()
        };
        assert_eq!(text(&first, 0, 1) + &text(&second, 0, 1), text(&both, 0, 1));
    }

    #[test]
    fn small_decimals_keep_their_sign() {
        for (number, decimals, text) in [
            (-5, 1, "-0.5"),
            (-5, 2, "-0.05"),
            (1234, 2, "12.34"),
            (120, 1, "12.0"),
            (0, 2, "0.00"),
        ] {
            let mut out = Vec::new();
            push_decimal(&mut out, number, decimals);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
