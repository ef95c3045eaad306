//! Placeholders in labels and annotations: `{{ $value }}` and `{{ $labels.NAME }}`.

use seiner_promql::{Labels, number_text};

/// Replaces the placeholders of a text. Other text in double braces stays as it is.
pub fn fill(text: &str, labels: &Labels, value: f64) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inside, end)) = after.split_once("}}") else {
            break;
        };
        filled.push_str(before);
        match replacement(inside.trim(), labels, value) {
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

fn replacement(name: &str, labels: &Labels, value: f64) -> Option<String> {
    match name {
        "$value" | ".Value" => Some(number_text(value)),
        name => {
            let label = name
                .strip_prefix("$labels.")
                .or_else(|| name.strip_prefix(".Labels."))?;
            Some(labels.get(label).to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_and_other_braces_stay() {
        let mut labels = Labels::new();
        labels.set("host", "a{{b");
        for (text, filled) in [
            ("{{ $labels.host }} has {{$value}}", "a{{b has 1.5"),
            ("{{ .Labels.host }}{{ .Value }}", "a{{b1.5"),
            ("{{ $labels.none }}.", "."),
            ("{{ $value | humanize }}", "{{ $value | humanize }}"),
            ("{{ $value", "{{ $value"),
            ("}} {{", "}} {{"),
            ("", ""),
        ] {
            assert_eq!(fill(text, &labels, 1.5), filled, "{text}");
        }
    }
}
