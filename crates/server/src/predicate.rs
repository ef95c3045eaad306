//! Predicates of InfluxDB's deletes, such as `_measurement="cpu" AND host="a"`, as selectors.

use seiner_model::{Condition, Matcher, Selector};

/// Parses a predicate. An empty one matches every source.
///
/// # Errors
/// The part that a selector cannot express, and the remedy.
pub fn parse(text: &str) -> Result<Selector, String> {
    let mut rest = text.trim();
    let mut selector = Selector::all();
    while !rest.is_empty() {
        let key;
        (key, rest) = word(rest)?;
        rest = equals(rest)?;
        let value;
        (value, rest) = word(rest)?;
        add(&mut selector, key, value)?;
        if rest.is_empty() {
            break;
        }
        rest = and(rest)?;
    }
    Ok(selector)
}

fn add(selector: &mut Selector, key: String, value: String) -> Result<(), String> {
    match key.as_str() {
        "_measurement" if selector.measurement.is_some() => {
            Err("no source has two measurements".to_string())
        }
        "_measurement" => {
            selector.measurement = Some(value);
            Ok(())
        }
        "_field" | "_value" | "_time" => Err(format!(
            "{key} cannot be in a predicate: all fields of a source are deleted together; \
             name the times by start and stop"
        )),
        _ => {
            selector.matchers.push(Matcher {
                tag: key,
                condition: Condition::Is(value),
            });
            Ok(())
        }
    }
}

/// Returns a name or value, quoted or not, and the rest of the text.
fn word(text: &str) -> Result<(String, &str), String> {
    let quote = text
        .chars()
        .next()
        .filter(|first| matches!(first, '"' | '\''));
    let Some(quote) = quote else {
        let end = text.find(|letter: char| letter.is_whitespace() || "=!<>()\"'".contains(letter));
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        return match word.is_empty() {
            true => Err(unread(text, "a tag's name or a value in quotes")),
            false => Ok((word.to_string(), rest.trim_start())),
        };
    };
    let mut word = String::new();
    let mut letters = text[1..].char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => word.extend(letters.next().map(|(_, letter)| letter)),
            letter if letter == quote => return Ok((word, text[at + 2..].trim_start())),
            letter => word.push(letter),
        }
    }
    Err(unread(text, "the closing quote"))
}

fn equals(text: &str) -> Result<&str, String> {
    let rest = text.strip_prefix("==").or_else(|| text.strip_prefix('='));
    rest.map(str::trim_start)
        .ok_or_else(|| unread(text, "`=`; a delete supports no other comparisons"))
}

fn and(text: &str) -> Result<&str, String> {
    let word = text
        .get(..3)
        .filter(|word| word.eq_ignore_ascii_case("and"));
    let rest = word.and_then(|_| text[3..].strip_prefix(char::is_whitespace));
    rest.map(str::trim_start)
        .ok_or_else(|| unread(text, "AND; send a delete of its own for each alternative"))
}

fn unread(found: &str, expected: &str) -> String {
    let found: String = found.chars().take(20).collect();
    format!("the predicate has {found:?} where there should be {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_model::SourceKey;

    #[test]
    fn conditions_on_measurement_and_tags() {
        let selector =
            parse(r#" _measurement = "cpu" AND host='a b' and "rack no"="\"1\"" "#).unwrap();
        let key = |rack: &str| SourceKey::new("cpu", [("host", "a b"), ("rack no", rack)]).unwrap();
        assert!(selector.holds(&key("\"1\"")));
        assert!(!selector.holds(&key("1")));
        let all = parse("").unwrap();
        assert!(all.measurement.is_none() && all.matchers.is_empty());
    }

    #[test]
    fn an_unsupported_predicate_is_rejected_with_a_reason() {
        for (text, words) in [
            ("_field=\"usage\"", "all fields of a source"),
            ("host=\"a\" OR host=\"b\"", "a delete of its own"),
            ("host!=\"a\"", "other comparisons"),
            ("host=\"a", "closing quote"),
            ("(host=\"a\")", "a tag's name"),
            ("_measurement=a AND _measurement=b", "no source"),
            ("host=", "a tag's name"),
            ("host=ä AND€", "AND"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
