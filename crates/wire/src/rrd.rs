//! RRD: dumps in XML, which `rrdtool dump` writes, of files with the samples of some data sources.
//!
//! A file has archives of several resolutions and consolidation functions. The reader accepts the elements of such a
//! dump only: no attributes, no entities. Times follow from the time of the last update, as for `rrdtool restore`.

use std::collections::BTreeMap;

/// Maximum depth of elements. A dump has 5.
const MAX_DEPTH: usize = 16;

/// Maximum seconds of a time or step: the year 2255.
const MAX_SECONDS: i64 = 9_000_000_000;

/// Samples of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RrdFile {
    /// Names of the data sources.
    pub names: Vec<String>,
    /// Times in seconds since 1970, strictly ascending, with a value for each data source. No value is NaN.
    pub rows: Vec<(i64, Vec<Option<f64>>)>,
    /// Number of values of coarser archives.
    pub coarse: u64,
    /// Number of unknown values in the archives that were read.
    pub unknown: u64,
}

/// Error for a text that is no dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RrdError {
    /// The text is not of the form of a dump.
    #[error("line {line} is not a dump of rrdtool: {what}")]
    Form {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        what: &'static str,
    },
    /// The dump ends too early, or an element is missing.
    #[error("the dump of rrdtool is not complete: {0}")]
    Missing(&'static str),
    /// No archive has the consolidation function.
    #[error("no archive has the consolidation {wanted}; the file has {found}")]
    Consolidation {
        /// Consolidation that was asked for.
        wanted: String,
        /// Consolidations of the file.
        found: String,
    },
}

/// Decodes a dump. Of the archives with a consolidation function, each time has the value of the finest that has one.
///
/// # Errors
/// If the text is no dump, or no archive has the consolidation.
pub fn decode(text: &str, consolidation: &str) -> Result<RrdFile, RrdError> {
    let dump = parse(text)?;
    let mut archives: Vec<&Archive> = dump.archives.iter().collect();
    archives.retain(|archive| archive.consolidation == consolidation);
    if archives.is_empty() {
        let mut found: Vec<&str> = dump
            .archives
            .iter()
            .map(|one| one.consolidation.as_str())
            .collect();
        found.sort_unstable();
        found.dedup();
        return Err(RrdError::Consolidation {
            wanted: consolidation.to_string(),
            found: found.join(", "),
        });
    }
    archives.sort_by_key(|archive| archive.per_row);
    let columns = dump.names.len();
    let mut file = RrdFile::default();
    let mut rows: BTreeMap<i64, Vec<Option<f64>>> = BTreeMap::new();
    for (number, archive) in archives.into_iter().enumerate() {
        // Small enough not to overflow, by the checks of the parser.
        let step = dump.step * archive.per_row;
        let last = dump.last - dump.last % step;
        let count = (archive.values.len() / columns) as i64;
        let mut new = Vec::new();
        for (row, values) in archive.values.chunks_exact(columns).enumerate() {
            let back = (count - 1 - row as i64).checked_mul(step);
            let time = back
                .and_then(|back| last.checked_sub(back))
                .filter(|time| time.abs() <= MAX_SECONDS);
            let time = time.ok_or(RrdError::Missing("an archive begins before all time"))?;
            for (column, &value) in values.iter().enumerate() {
                if value.is_nan() {
                    file.unknown += 1;
                    continue;
                }
                // A row covers the seconds after the row before it, up to its own time.
                let mut finer = rows.range(time - step + 1..=time);
                if finer.all(|(_, finer)| finer[column].is_none()) {
                    new.push((time, column, value));
                }
            }
        }
        if number > 0 {
            file.coarse += new.len() as u64;
        }
        for (time, column, value) in new {
            rows.entry(time).or_insert_with(|| vec![None; columns])[column] = Some(value);
        }
    }
    file.names = dump.names;
    file.rows = rows.into_iter().collect();
    Ok(file)
}

#[derive(Default)]
struct Dump {
    step: i64,
    last: i64,
    names: Vec<String>,
    archives: Vec<Archive>,
}

#[derive(Default)]
struct Archive {
    consolidation: String,
    per_row: i64,
    /// Values by row, then by data source.
    values: Vec<f64>,
}

fn parse(text: &str) -> Result<Dump, RrdError> {
    let mut dump = Dump::default();
    let mut path: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let line = || text[..text.len() - rest.len()].matches('\n').count() + 1;
        let form = |what| RrdError::Form { line: line(), what };
        let tag = &rest[at..];
        let end = match tag {
            tag if tag.starts_with("<!--") => tag.find("-->").map(|end| end + 3),
            tag => tag.find('>').map(|end| end + 1),
        };
        let end = end.ok_or_else(|| form("a tag does not end"))?;
        let name = &tag[1..end - 1];
        if name.starts_with(['!', '?']) {
            rest = &tag[end..];
            continue;
        }
        if let Some(name) = name.strip_prefix('/') {
            if path.last() != Some(&name) {
                return Err(form("an element ends that did not begin"));
            }
            take(&path, rest[..at].trim(), &mut dump).map_err(form)?;
            path.pop();
        } else {
            if path.len() == MAX_DEPTH {
                return Err(form("the elements are too deep"));
            }
            path.push(name);
            if path == ["rrd", "rra"] {
                dump.archives.push(Archive::default());
            }
        }
        rest = &tag[end..];
    }
    check(path.is_empty(), "it ends too early")?;
    check(dump.step > 0, "step is missing")?;
    check(dump.last > 0, "lastupdate is missing")?;
    check(!dump.names.is_empty(), "there is no data source")?;
    check(!dump.archives.is_empty(), "there is no archive")?;
    for archive in &dump.archives {
        check(archive.per_row > 0, "pdp_per_row is missing")?;
        let seconds = dump.step.checked_mul(archive.per_row);
        check(
            seconds.is_some_and(|seconds| seconds <= MAX_SECONDS),
            "a step is too long",
        )?;
    }
    Ok(dump)
}

fn check(is_right: bool, what: &'static str) -> Result<(), RrdError> {
    match is_right {
        true => Ok(()),
        false => Err(RrdError::Missing(what)),
    }
}

/// Takes the content of the element that ends. Elements without a meaning for samples are skipped.
fn take(path: &[&str], content: &str, dump: &mut Dump) -> Result<(), &'static str> {
    let number = || match content.parse::<i64>() {
        Ok(number @ 1..=MAX_SECONDS) => Ok(number),
        _ => Err("a number is not between 1 and 9000000000"),
    };
    let columns = dump.names.len();
    match (path, dump.archives.last_mut()) {
        (["rrd", "step"], _) => dump.step = number()?,
        (["rrd", "lastupdate"], _) => dump.last = number()?,
        (["rrd", "ds", "name"], None) if !content.is_empty() => {
            dump.names.push(content.to_string())
        }
        (["rrd", "ds", "name"], _) => {
            return Err("a data source has no name, or follows an archive");
        }
        (["rrd", "rra", "cf"], Some(archive)) => archive.consolidation = content.to_string(),
        (["rrd", "rra", "pdp_per_row"], Some(archive)) => archive.per_row = number()?,
        (["rrd", "rra", "database", "row", "v"], Some(archive)) => {
            let value = content.parse().map_err(|_| "a value is not a number")?;
            archive.values.push(value);
        }
        (["rrd", "rra", "database", "row"], Some(archive))
            if columns == 0 || !archive.values.len().is_multiple_of(columns) =>
        {
            return Err("a row has another number of values than there are data sources");
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DUMP: &str = "<?xml version=\"1.0\"?>\n<!DOCTYPE rrd SYSTEM \"x\">\n<!-- < -->\n<rrd>\n\
        <version>0003</version><step>10</step> <!-- Seconds -->\n<lastupdate>125</lastupdate>\n\
        <ds><name> a </name><type> GAUGE </type></ds><ds><name> b-c </name></ds>\n\
        <rra><cf>MAX</cf><pdp_per_row>1</pdp_per_row><database><row><v>9</v><v>9</v></row></database></rra>\n\
        <rra><cf>AVERAGE</cf><pdp_per_row>3</pdp_per_row><database>\n\
        <!-- 60 --> <row><v>6.0e+00</v><v>-6.5</v></row>\n<row><v>NaN</v><v>9</v></row>\n\
        <row><v>12</v><v>12</v></row></database></rra>\n\
        <rra><cf> AVERAGE </cf><pdp_per_row>1</pdp_per_row><cdp_prep><ds><value>1</value></ds></cdp_prep>\n\
        <database><row><v>1.1</v><v>-nan</v></row><row><v>1.2e+01</v><v>NaN</v></row></database></rra>\n</rrd>\n";

    #[test]
    fn each_time_has_its_finest_value() {
        let file = decode(DUMP, "AVERAGE").unwrap();
        assert_eq!(file.names, ["a", "b-c"]);
        let expected = [
            (60, vec![Some(6.0), Some(-6.5)]),
            (90, vec![None, Some(9.0)]),
            (110, vec![Some(1.1), None]),
            (120, vec![Some(12.0), Some(12.0)]),
        ];
        assert_eq!(file.rows, expected);
        assert_eq!((file.coarse, file.unknown), (4, 3));
        assert_eq!(
            decode(DUMP, "MAX").unwrap().rows,
            [(120, vec![Some(9.0), Some(9.0)])]
        );
    }

    #[test]
    fn other_texts_are_errors() {
        for (from, to, words) in [
            ("<step>10</step>", "", "step is missing"),
            ("<step>10</step>", "<step>0</step>", "line 5 is not a dump"),
            ("<lastupdate>125</lastupdate>", "", "lastupdate is missing"),
            (
                "<v>12</v><v>12</v>",
                "<v>12</v>",
                "another number of values",
            ),
            ("<v>12</v><v>12</v>", "<v>12</v><v>x</v>", "not a number"),
            ("</rra>\n</rrd>", "</rra>\n", "ends too early"),
            ("</rra>\n</rrd>", "</rrd>", "did not begin"),
            (
                "<pdp_per_row>3<",
                "<pdp_per_row>8999999999<",
                "step is too long",
            ),
            ("<!-- < -->", "<!-- <", "a tag does not end"),
        ] {
            let text = DUMP.replacen(from, to, 1);
            assert_ne!(text, DUMP);
            let text = match words {
                "a tag does not end" => text.replace("-->", ""),
                _ => text,
            };
            let error = decode(&text, "AVERAGE").unwrap_err().to_string();
            assert!(error.contains(words), "{from}: {error}");
        }
        let error = decode(DUMP, "LAST").unwrap_err().to_string();
        assert!(error.ends_with("the file has AVERAGE, MAX"), "{error}");
        assert!(decode("", "AVERAGE").is_err());
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "\\PC{0,100}", at in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
            let _ = decode(&text, "AVERAGE");
            let at = at.index(DUMP.len());
            let cut = at + cut.index(DUMP.len() - at);
            let changed = format!("{}{text}{}", &DUMP[..at], &DUMP[cut..]);
            if let Ok(file) = decode(&changed, "AVERAGE") {
                prop_assert!(file.rows.is_sorted_by(|one, next| one.0 < next.0));
            }
        }
    }
}
