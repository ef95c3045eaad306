//! Escaping of texts.

/// Escapes a text for HTML and SVG, attributes included.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Returns a text as a field of a CSV row.
pub(crate) fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped_in_html_and_csv() {
        assert_eq!(
            escape("<a b=\"c\">&\n"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#10;"
        );
        assert_eq!(csv_field("R, MB"), "\"R, MB\"");
        assert_eq!(csv_field("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(csv_field("MB/s"), "MB/s");
    }
}
