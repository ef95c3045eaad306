//! Parts of the lines of a workload.

use anyhow::{Context, Result};

/// Parts of a line `measurement,tag=value,... field=value time`.
pub struct Line<'l> {
    /// Measurement.
    pub measurement: &'l str,
    /// Tags with their values.
    pub tags: Vec<(&'l str, &'l str)>,
    /// Fields with their values, as numbers and as text.
    pub fields: Vec<(&'l str, f64, &'l str)>,
    /// Time, ns since 1970.
    pub time: i64,
}

impl<'l> Line<'l> {
    fn of(text: &'l str) -> Option<Line<'l>> {
        let mut parts = text.split(' ');
        let mut names = parts.next()?.split(',');
        let measurement = names.next()?;
        let tags = names
            .map(|tag| tag.split_once('='))
            .collect::<Option<_>>()?;
        let fields = parts.next()?.split(',').map(|field| {
            let (name, value) = field.split_once('=')?;
            Some((name, value.parse().ok()?, value))
        });
        Some(Line {
            measurement,
            tags,
            fields: fields.collect::<Option<_>>()?,
            time: parts.next()?.parse().ok()?,
        })
    }
}

/// Returns the lines of a text.
pub fn lines(text: &[u8]) -> Result<impl Iterator<Item = Result<Line<'_>>>> {
    let text = std::str::from_utf8(text)?;
    Ok(text
        .lines()
        .map(|text| Line::of(text).with_context(|| format!("{text:?} is no line of a workload"))))
}
