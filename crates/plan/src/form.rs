//! Parser of a demand from named texts: flags of the command line or fields of the page's form.

use crate::demand::{Clockwork, Demand, Disk, Lifetime, Raid, Values};
use seiner_model::parse_duration;
pub use seiner_model::{parse_bytes as bytes, parse_count as count};

/// Defaults of a form: the machine and the disk.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Memory in bytes.
    pub ram: f64,
    /// Number of processors.
    pub processors: f64,
    /// Disk of the data.
    pub disk: Disk,
}

/// Parses a demand from texts by name. Missing fields have the default of the command line or the value of the
/// machine.
///
/// # Errors
/// A sentence that names the field and the remedy.
pub fn read<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    around: &Surroundings,
) -> Result<Demand, String> {
    let mut demand = Demand {
        sensors: 0.0,
        every_s: 10.0,
        fields: 1,
        per_host: 1,
        lifetimes: Lifetime::of_all(365.0 * crate::words::DAY_S),
        values: Values::Decimals,
        clockwork: Clockwork::Regular,
        recording: None,
        ram: around.ram,
        processors: around.processors,
        is_synced: false,
        disks: vec![around.disk.clone()],
        budget: None,
        tbw: None,
        raid: None,
    };
    let mut classes = Vec::new();
    for (name, text) in fields {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        put(&mut demand, &mut classes, name, text).map_err(|error| format!("{name}: {error}"))?;
    }
    if !classes.is_empty() {
        demand.lifetimes = classes;
    }
    if demand.sensors == 0.0 {
        return Err("sensors: state their number, such as 1e6".to_string());
    }
    demand.check()?;
    Ok(demand)
}

fn put(
    demand: &mut Demand,
    classes: &mut Vec<Lifetime>,
    name: &str,
    text: &str,
) -> Result<(), String> {
    match name {
        "sensors" => demand.sensors = count(text)? as f64,
        "every" => demand.every_s = seconds(text)?,
        "fields" => demand.fields = count(text)?,
        "per_host" => demand.per_host = count(text)?,
        "keep" => demand.lifetimes = Lifetime::of_all(seconds(text)?),
        "class" => {
            for one in text.split(';').filter(|one| !one.trim().is_empty()) {
                classes.push(class(one.trim())?);
            }
        }
        "values" => demand.values = values(text)?,
        "jittered" => {
            if is_on(text)? {
                demand.clockwork = Clockwork::Jittered;
            }
        }
        "synced" => demand.is_synced = is_on(text)?,
        "ram" => demand.ram = bytes(text)? as f64,
        "processors" => {
            demand.processors = text
                .parse()
                .map_err(|_| format!("{text:?} is not a number of processors"))?;
        }
        "space" | "room" => demand.disks[0].free_bytes = bytes(text)? as f64,
        "budget" => demand.budget = Some(bytes(text)? as f64),
        "tbw" => demand.tbw = Some(bytes(text)? as f64),
        "raid" => demand.raid = Some(raid(text)?),
        _ => {
            return Err(
                "no such field; the fields are sensors, every, fields, per_host, keep, class, values, jittered, \
                 synced, ram, processors, space, budget, tbw and raid"
                    .to_string(),
            );
        }
    }
    Ok(())
}

fn is_on(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

fn values(text: &str) -> Result<Values, String> {
    match text {
        "decimals" => Ok(Values::Decimals),
        "counters" => Ok(Values::Counters),
        "floats" => Ok(Values::Floats),
        _ => Err(format!(
            "{text:?} is not a kind of values; use decimals, counters or floats"
        )),
    }
}

/// Parses a duration and returns seconds; years are permitted: `10s`, `30d`, `5y`.
///
/// # Errors
/// The remedy.
pub fn seconds(text: &str) -> Result<f64, String> {
    parse_duration(text)
        .map(|ns| ns as f64 / 1e9)
        .map_err(|_| "write a duration such as 10s, 30d or 5y".to_string())
}

/// Parses an array: `LEVEL:MEMBERS:STRIP`, such as `6:6:16KiB`.
///
/// # Errors
/// The reason and the remedy.
pub fn raid(text: &str) -> Result<Raid, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [level, members, strip] = parts[..] else {
        return Err("write LEVEL:MEMBERS:STRIP, for example 6:6:16KiB".to_string());
    };
    let raid = Raid {
        level: level
            .parse()
            .map_err(|_| format!("{level:?} is not a level"))?,
        members: members
            .parse()
            .map_err(|_| format!("{members:?} is not a number of members"))?,
        strip: bytes(strip)?,
    };
    raid.check()?;
    Ok(raid)
}

/// Parses a class: `NAME:SHARE:KEEP[:SELECTOR]`, such as `raw:90%:30d:accel`.
///
/// # Errors
/// The reason and the remedy.
pub fn class(text: &str) -> Result<Lifetime, String> {
    let parts: Vec<&str> = text.splitn(4, ':').map(str::trim).collect();
    let (name, share, keep, sources) = match parts[..] {
        [name, share, keep] => (name, share, keep, ""),
        [name, share, keep, sources] => (name, share, keep, sources),
        _ => {
            return Err(
                "write NAME:SHARE:KEEP or NAME:SHARE:KEEP:SELECTOR, for example raw:90%:30d:accel"
                    .to_string(),
            );
        }
    };
    let number = |text: &str| {
        text.parse::<f64>()
            .map_err(|_| format!("{text:?} is not a share; write 90% or 0.9"))
    };
    let share = match share.strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(share)?,
    };
    Ok(Lifetime {
        name: name.to_string(),
        sources: sources.to_string(),
        share,
        keep_s: seconds(keep)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        Surroundings {
            ram: 8e9,
            processors: 4.0,
            disk: Disk {
                free_bytes: 1e12,
                ..Disk::default()
            },
        }
    }

    #[test]
    fn durations_and_arrays_are_parsed() {
        assert_eq!(seconds("10s"), Ok(10.0));
        assert_eq!(seconds("1y"), Ok(365.0 * 86_400.0));
        assert!(seconds("soon").is_err());
        assert_eq!(raid("6:6:16KiB").unwrap().stripe(), 64 << 10);
        assert!(raid("6:3:16KiB").is_err());
        assert!(raid("6").is_err());
    }

    #[test]
    fn a_class_is_a_share_with_a_lifetime() {
        let raw = class(r#"raw:90%:30d:accel{axis="x:y"}"#).unwrap();
        assert_eq!(
            (raw.name.as_str(), raw.sources.as_str()),
            ("raw", r#"accel{axis="x:y"}"#)
        );
        assert!((raw.share - 0.9).abs() < 1e-9);
        assert_eq!(raw.keep_s, 30.0 * 86_400.0);
        for bad in ["raw", "raw:many:30d", "raw:0.5:long"] {
            assert!(class(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_form_makes_a_demand_or_names_the_field() {
        let demand = read(
            [
                ("sensors", "1e6"),
                ("every", "1m"),
                ("per_host", "100"),
                ("class", "raw:90%:30d:accel; rest:10%:1y"),
                ("jittered", "on"),
                ("budget", "500 GB"),
                ("ram", ""),
            ],
            &around(),
        )
        .unwrap();
        assert_eq!(
            (demand.sensors, demand.every_s, demand.ram),
            (1e6, 60.0, 8e9)
        );
        assert_eq!(demand.per_host, 100);
        assert_eq!(demand.lifetimes.len(), 2);
        assert_eq!(demand.budget, Some(5e11));
        for (field, text, words) in [
            ("sensors", "many", "sensors: write a number"),
            ("colour", "red", "no such field"),
            ("class", "a:50%:30d", "50.0 %"),
            ("budget", "5TB", "--budget"),
            ("values", "words", "decimals"),
        ] {
            let error = read([("sensors", "5"), (field, text)], &around()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(read([], &around()).unwrap_err().contains("sensors"));
    }
}
