//! Notation of series in scripts: `name{label="value"} 1 2 _ 0+10x5`.

use seiner_promql::{Labels, METRIC_NAME};

/// Value of a series at one step of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Point {
    /// No sample.
    Gap,
    /// Sample; a stale marker as well.
    Value(f64),
    /// Native histogram.
    Histogram,
}

/// Stale marker.
pub const STALE: u64 = 0x7ff0_0000_0000_0002;

/// Parses labels and points. Points without a step are at multiples of the step of the script.
pub fn series(line: &str) -> Result<(Labels, Vec<Point>), String> {
    let (labels, rest) = labels(line)?;
    Ok((labels, points(rest)?))
}

/// Parses `name{label="value"}`, and returns the rest of the line.
pub fn labels(line: &str) -> Result<(Labels, &str), String> {
    let mut labels = Labels::new();
    let name_end = line
        .find(|c: char| !c.is_ascii_alphanumeric() && !"_:.".contains(c))
        .unwrap_or(line.len());
    let (name, mut rest) = line.split_at(name_end);
    labels.set(METRIC_NAME, name);
    if !rest.starts_with('{') || rest.starts_with("{{") {
        return Ok((labels, rest.trim_start()));
    }
    rest = rest[1..].trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after.trim_start()));
        }
        let (key, after) = match rest.starts_with(['"', '\'', '`']) {
            true => quoted(rest)?,
            false => {
                let end = rest.find(['=', ',', '}', ' ']).ok_or("no end of a label")?;
                (rest[..end].to_string(), &rest[end..])
            }
        };
        rest = after.trim_start();
        match rest.strip_prefix('=') {
            Some(value) => {
                let (value, after) = quoted(value.trim_start())?;
                labels.set(key, value);
                rest = after.trim_start();
            }
            None => labels.set(METRIC_NAME, key),
        }
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
}

/// Parses a text in quotes, and returns the rest.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let quote = text
        .chars()
        .next()
        .filter(|c| "\"'`".contains(*c))
        .ok_or(format!("no quote: {text}"))?;
    let mut result = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote != '`' => match chars.next().ok_or("a lone backslash")?.1 {
                'n' => result.push('\n'),
                't' => result.push('\t'),
                other => result.push(other),
            },
            c if c == quote => return Ok((result, &text[at + 1..])),
            c => result.push(c),
        }
    }
    Err(format!("no end of {text}"))
}

/// Parses points: numbers, gaps (`_`), stale markers, and repetitions such as `0+10x5`.
pub fn points(text: &str) -> Result<Vec<Point>, String> {
    let mut points = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if rest.starts_with("{{") {
            let end = rest.find("}}").ok_or("no end of a histogram")? + 2;
            let after = &rest[end..];
            let tail = after
                .split_whitespace()
                .next()
                .filter(|_| !after.starts_with(' '))
                .unwrap_or("");
            // A histogram may grow: `{{…}}+{{…}}x5`.
            let (tail, used) = match after.starts_with(['+', '-']) {
                true => {
                    let second = after.find("}}").ok_or("no end of a histogram")? + 2;
                    let word = after[second..].split_whitespace().next().unwrap_or("");
                    (word, second + word.len())
                }
                false => (tail, tail.len()),
            };
            let count = tail
                .strip_prefix('x')
                .map_or(Ok(0), str::parse::<usize>)
                .map_err(|e| e.to_string())?;
            points.extend(vec![Point::Histogram; count + 1]);
            rest = after[used..].trim_start();
            continue;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        item(&rest[..end], &mut points)?;
        rest = rest[end..].trim_start();
    }
    Ok(points)
}

fn item(word: &str, points: &mut Vec<Point>) -> Result<(), String> {
    let bad = || format!("not a point: {word:?}");
    // `0x10` is a hexadecimal number only without a repetition.
    let (value, count) = match word.rsplit_once('x') {
        Some((value, count)) if !value.is_empty() => {
            (value, Some(count.parse::<usize>().map_err(|_| bad())?))
        }
        _ => (word, None),
    };
    if value == "_" {
        points.extend(vec![Point::Gap; count.unwrap_or(1)]);
        return Ok(());
    }
    if let Some(number) = number(value) {
        points.extend(vec![
            Point::Value(number);
            count.map_or(1, |count| count + 1)
        ]);
        return Ok(());
    }
    let sign = value[1..].find(['+', '-']).ok_or_else(bad)? + 1;
    // The sign of an exponent belongs to the number.
    let sign = match value[..sign].ends_with('e') {
        true => value[sign + 1..].find(['+', '-']).ok_or_else(bad)? + sign + 1,
        false => sign,
    };
    let first = number(&value[..sign]).ok_or_else(bad)?;
    let increase = number(&value[sign..]).ok_or_else(bad)?;
    let mut next = first;
    for _ in 0..=count.ok_or_else(bad)? {
        points.push(Point::Value(next));
        next += increase;
    }
    Ok(())
}

/// Parses a number, `NaN`, `Inf` or `stale`.
pub fn number(text: &str) -> Option<f64> {
    match text.to_ascii_lowercase().as_str() {
        "stale" => Some(f64::from_bits(STALE)),
        "inf" | "+inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        plain => match plain.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16)
                .ok()
                .map(|whole| whole as f64),
            None => plain.parse().ok().filter(|number: &f64| number.is_finite()),
        },
    }
}
