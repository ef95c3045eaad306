//! Templates of Prometheus in labels and annotations: `{{ $value | humanize }}`, `{{ printf "%.1f" $value }}` and
//! `{{ $labels.NAME }}`. Templates with anything else stay as they are.

use crate::numbers;
use seiner_promql::{Labels, number_text};

/// Maximum length of a text after replacement, in bytes: that of a value of a tag.
const MOST_BYTES: usize = 65_535;

/// Replaces the templates of a text. Templates that are not known, and those that would make the text longer than
/// 65,535 bytes, stay as they are.
pub fn fill(text: &str, labels: &Labels, value: f64) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, end)) = after.split_once("}}") else {
            break;
        };
        filled.push_str(before);
        let found = evaluate(inside, labels, value).map(|item| item.text());
        match found.filter(|found| filled.len() + found.len() + end.len() <= MOST_BYTES) {
            Some(text) => filled.push_str(&text),
            None => {
                filled.push_str("{{");
                filled.push_str(inside);
                filled.push_str("}}");
            }
        }
        rest = end;
    }
    filled.push_str(rest);
    filled
}

/// Value of a part of a template.
#[derive(Clone, Debug)]
enum Item {
    Number(f64),
    Text(String),
}

impl Item {
    fn text(&self) -> String {
        match self {
            Item::Number(number) => number_text(*number),
            Item::Text(text) => text.clone(),
        }
    }

    /// Returns the number. Texts of numbers count as numbers, as in Prometheus.
    fn number(&self) -> Option<f64> {
        match self {
            Item::Number(number) => Some(*number),
            Item::Text(text) => text.parse().ok(),
        }
    }
}

/// Evaluates the inside of a template. Steps have `|` between them. The result of a step is the last argument of the next
/// one.
fn evaluate(inside: &str, labels: &Labels, value: f64) -> Option<Item> {
    let mut result = None;
    for step in steps(inside)? {
        let (first, rest) = step.split_first()?;
        let operand = |word: &Word| operand(word, labels, value);
        result = Some(match operand(first) {
            // A value takes no arguments.
            Some(item) if rest.is_empty() && result.is_none() => item,
            Some(_) => return None,
            None => {
                let arguments = rest.iter().map(operand).chain(result.map(Some));
                call(first.name()?, &arguments.collect::<Option<Vec<Item>>>()?)?
            }
        });
    }
    result
}

/// Word of a template.
#[derive(Debug, PartialEq)]
enum Word {
    Name(String),
    Text(String),
}

impl Word {
    fn name(&self) -> Option<&str> {
        match self {
            Word::Name(name) => Some(name),
            Word::Text(_) => None,
        }
    }
}

/// Divides the inside of a template into steps of words. Texts in quotes may contain `\"` and `\\`.
fn steps(inside: &str) -> Option<Vec<Vec<Word>>> {
    let mut steps = vec![Vec::new()];
    let mut rest = inside.trim_start();
    while let Some(first) = rest.chars().next() {
        let step = steps.last_mut()?;
        if let Some(after) = rest.strip_prefix('|') {
            steps.push(Vec::new());
            rest = after;
        } else if first == '"' || first == '`' {
            let (text, after) = quoted(&rest[1..], first)?;
            step.push(Word::Text(text));
            rest = after;
        } else {
            let ends = |c: char| c.is_whitespace() || matches!(c, '|' | '"' | '`');
            let end = rest.find(ends).unwrap_or(rest.len());
            step.push(Word::Name(rest[..end].to_string()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Some(steps)
}

/// Returns a text up to its closing quote, and what follows.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            c if c == quote => return Some((found, &text[at + 1..])),
            '\\' if quote == '"' => match characters.next()?.1 {
                'n' => found.push('\n'),
                't' => found.push('\t'),
                c @ ('"' | '\\') => found.push(c),
                _ => return None,
            },
            c => found.push(c),
        }
    }
    None
}

/// Returns the value of a word that is a text, a number, or a variable.
fn operand(word: &Word, labels: &Labels, value: f64) -> Option<Item> {
    let name = match word {
        Word::Text(text) => return Some(Item::Text(text.clone())),
        Word::Name(name) => name.as_str(),
    };
    match name {
        "$value" | ".Value" => return Some(Item::Number(value)),
        "$labels" | ".Labels" => return Some(Item::Text(all(labels))),
        _ => {}
    }
    let label = { name.strip_prefix("$labels.") }.or_else(|| name.strip_prefix(".Labels."));
    match label {
        Some(label) => Some(Item::Text(labels.get(label).to_string())),
        None if name.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            name.parse().ok().map(Item::Number)
        }
        None => None,
    }
}

/// Returns all labels as Prometheus writes them.
fn all(labels: &Labels) -> String {
    let labels = labels.iter().map(|(name, value)| format!("{name}:{value}"));
    format!("map[{}]", labels.collect::<Vec<String>>().join(" "))
}

/// Calls a function of the templates of Prometheus.
fn call(name: &str, arguments: &[Item]) -> Option<Item> {
    let text = match (name, arguments) {
        ("printf", [Item::Text(format), arguments @ ..]) => print(format, arguments)?,
        ("print", [item]) => item.text(),
        ("toUpper", [item]) => item.text().to_uppercase(),
        ("toLower", [item]) => item.text().to_lowercase(),
        ("title", [item]) => title(&item.text()),
        ("stripPort", [item]) => strip_port(&item.text()),
        ("humanize", [item]) => numbers::humanize(item.number()?),
        ("humanize1024", [item]) => numbers::humanize_1024(item.number()?),
        ("humanizeDuration", [item]) => numbers::humanize_duration(item.number()?),
        ("humanizePercentage", [item]) => numbers::humanize_percentage(item.number()?),
        ("humanizeTimestamp", [item]) => numbers::humanize_timestamp(item.number()?)?,
        _ => return None,
    };
    Some(Item::Text(text))
}

/// Returns a text whose words begin with capital letters.
fn title(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        match begins {
            true => titled.extend(c.to_uppercase()),
            false => titled.push(c),
        }
        begins = !(c.is_alphanumeric() || c == '_' || c == '\'');
    }
    titled
}

/// Returns the host of an address without its port.
fn strip_port(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let host = { host.strip_prefix('[') }
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host);
            host.to_string()
        }
        _ => address.to_string(),
    }
}

/// Writes arguments by a format with the verbs `%f`, `%e`, `%g`, `%s`, `%v` and `%%`, and precisions (`%.2f`).
fn print(format: &str, arguments: &[Item]) -> Option<String> {
    let mut written = String::new();
    let (mut rest, mut arguments) = (format, arguments.iter());
    while let Some((before, after)) = rest.split_once('%') {
        written.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            written.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = match after.strip_prefix('.') {
            None => (None, after),
            Some(after) => {
                let end = after.find(|c: char| !c.is_ascii_digit())?;
                let precision = after[..end].parse().ok().filter(|digits| *digits <= 100)?;
                (Some(precision), &after[end..])
            }
        };
        let verb = after.chars().next()?;
        let item = arguments.next()?;
        written.push_str(&match (verb, precision) {
            ('f', _) => numbers::plain(item.number()?, precision.unwrap_or(6)),
            ('e', _) => numbers::scientific(item.number()?, precision.unwrap_or(6)),
            ('g', Some(digits)) => numbers::significant(item.number()?, digits),
            ('g' | 's' | 'v', None) => item.text(),
            _ => return None,
        });
        rest = &after[verb.len_utf8()..];
    }
    written.push_str(rest);
    arguments.next().is_none().then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, value: f64) -> String {
        let mut labels = Labels::new();
        labels.set("host", "a{{b");
        labels.set("instance", "nas.example.org:9100");
        labels.set("count", "2500");
        fill(text, &labels, value)
    }

    #[test]
    fn templates_are_replaced_and_other_braces_stay() {
        for (text, expected) in [
            ("{{ $labels.host }} has {{$value}}", "a{{b has 1.5"),
            ("{{ .Labels.host }}{{ .Value }}", "a{{b1.5"),
            ("{{ $labels.none }}.", "."),
            (
                "{{ $labels }}",
                "map[count:2500 host:a{{b instance:nas.example.org:9100]",
            ),
            ("{{ $value", "{{ $value"),
            ("}} {{", "}} {{"),
            ("{{}}{{ }}{{ | }}", "{{}}{{ }}{{ | }}"),
            ("", ""),
        ] {
            assert_eq!(filled(text, 1.5), expected, "{text}");
        }
    }

    #[test]
    fn functions_of_prometheus_are_called() {
        for (text, expected) in [
            ("{{ $value | humanize }}", "1.234k"),
            ("{{humanize $value}}", "1.234k"),
            ("{{ humanize1024 $value }}", "1.206ki"),
            ("{{ $value | humanizeDuration }}", "20m 34s"),
            ("{{ $value | humanizePercentage }}", "1.234e+05%"),
            (
                "{{ $value | humanizeTimestamp }}",
                "1970-01-01 00:20:34.5 +0000 UTC",
            ),
            ("{{ $labels.count | humanize }}", "2.5k"),
            (
                "{{ printf \"%.1f of %s: 5%%\" $value $labels.count }}",
                "1234.5 of 2500: 5%",
            ),
            ("{{ $value | printf \"%.0f\" }}", "1234"),
            ("{{ printf `%.3g` $value }}", "1.23e+03"),
            ("{{ printf \"%e\" 0.5 }}", "5.000000e-01"),
            (
                "{{ $labels.instance | stripPort | toUpper }}",
                "NAS.EXAMPLE.ORG",
            ),
            ("{{ \"two words\" | title }}", "Two Words"),
            ("{{ \"a \\\"b\\\" | c\" }}", "a \"b\" | c"),
        ] {
            assert_eq!(filled(text, 1234.5), expected, "{text}");
        }
    }

    #[test]
    fn other_templates_stay_as_they_are() {
        for text in [
            "{{ if $value }}a{{ end }}",
            "{{ range query \"up\" }}{{ . }}{{ end }}",
            "{{ $value humanize }}",
            "{{ humanize }}",
            "{{ humanize $value $value }}",
            "{{ $labels.host | humanize }}",
            "{{ $value | $value }}",
            "{{ printf \"%d\" $value }}",
            "{{ printf \"%.2\" $value }}",
            "{{ printf \"%.101f\" $value }}",
            "{{ printf \"%.2f\" }}",
            "{{ printf \"a\" $value }}",
            "{{ \"open }}",
            "{{ \"\\x\" }}",
            "{{- $value -}}",
        ] {
            assert_eq!(filled(text, 1.5), text);
        }
    }

    #[test]
    fn a_text_does_not_grow_without_limit() {
        let text = "{{ printf \"%.100f\" $value }}".repeat(2000);
        let found = filled(&text, 1e300);
        assert!(found.len() <= text.len() + MOST_BYTES && found.starts_with("1000000000000000052"));
    }
}
