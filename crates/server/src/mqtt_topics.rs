//! Rules for topics of MQTT as users write them: a table in the file, or `topic=home/{room},measurement=climate` as a
//! flag. Both are keys with texts, parsed by one table, so that a value has the same meaning and the same error messages
//! in both.

use crate::key_texts::{Key, KeyTexts, list, pairs};
use seiner_wire::mqtt::{Rule, RuleDraft};

/// Key in the file: `[[mqtt_topic]]`.
pub const KEY: &str = "mqtt_topic";
/// Flag, once per rule, without the dashes.
pub const FLAG: &str = "mqtt-topic";
/// Environment variable: rules in the form of flags, separated by semicolons.
pub const VARIABLE: &str = "SEINER_MQTT_TOPIC";

/// Every key of a rule.
pub static KEYS: [Key<RuleDraft>; 8] = [
    Key {
        name: "topic",
        form: "PATTERN",
        help: "Pattern of topics, level by level; required. `{measurement}` and `{field}` name the measurement and the \
               field, any other name in braces a tag: `home/{room}/{field}`. A level may have text around the braces. `+` \
               matches any level, and `#` at the end any further levels. A message belongs to the first rule whose \
               pattern matches its topic.",
        assign: |rule, text| {
            rule.topic = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "filter",
        form: "FILTER",
        help: "Topic filter of the subscription, if it is not the one that follows from `topic` (`home/+/+`), such as \
               `$share/seiner/home/#`.",
        assign: |rule, text| {
            rule.filter = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "measurement",
        form: "TEXT",
        help: "Measurement of the rows; required unless the topic has `{measurement}` or the payload is `line`.",
        assign: |rule, text| {
            rule.measurement = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "tags",
        form: "NAME=TEXT ...",
        help: "Further tags of all rows, with spaces between them: `site=north floor=2`.",
        assign: |rule, text| {
            let pairs = text
                .split_whitespace()
                .map(|pair| match pair.split_once('=') {
                    Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                        Ok((name.to_string(), value.to_string()))
                    }
                    _ => Err(format!("{pair:?} is not a tag; write site=north floor=2")),
                });
            rule.tags = pairs.collect::<Result<_, _>>()?;
            Ok(())
        },
    },
    Key {
        name: "field",
        form: "TEXT",
        help: "Field of a number, `value` unless given. For JSON objects, the begin of the names of all fields.",
        assign: |rule, text| {
            rule.field = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "payload",
        form: "auto|number|json|line",
        help: "Form of the payload. `auto` (the default): JSON if it begins like an object, an array or a text, otherwise \
               a number if it is one, otherwise line protocol.",
        assign: |rule, text| {
            rule.payload = text.parse()?;
            Ok(())
        },
    },
    Key {
        name: "time",
        form: "NAME[.NAME...]",
        help: "Place of the time in JSON, such as `time` or `meta.sent`. Without one, the time of reception counts.",
        assign: |rule, text| {
            rule.time = text.to_string();
            Ok(())
        },
    },
    Key {
        name: "time_unit",
        form: "auto|s|ms|us|ns",
        help: "Unit of times in JSON and in lines. `auto` (the default): in JSON, the unit that places the time between \
               1990 and 2100; in lines, ns.",
        assign: |rule, text| {
            rule.unit = match text {
                "auto" => None,
                text => Some(text.parse().map_err(|error| format!("{error}"))?),
            };
            Ok(())
        },
    },
];

/// Rule as it was written: texts by key, not parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicText {
    texts: KeyTexts,
}

impl TopicText {
    /// Parses the value of a flag: `topic=home/{room}/{field},measurement=climate`.
    ///
    /// # Errors
    /// A sentence with the remedy.
    pub fn parse(text: &str) -> Result<TopicText, String> {
        let mut topic = TopicText::default();
        for (key, value) in pairs(text, "topic=home/{room}/{field},measurement=climate")? {
            topic.put(key, value.to_string())?;
        }
        Ok(topic)
    }

    /// Parses several rules, separated by semicolons.
    ///
    /// # Errors
    /// The errors of [`TopicText::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<TopicText>, String> {
        list(text, TopicText::parse)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// If there is no such key, or it is present already.
    pub fn put(&mut self, key: &str, text: String) -> Result<(), String> {
        self.texts.put(&KEYS, "a topic", key, key, text)
    }

    /// Returns keys and texts, in their order.
    pub fn texts(&self) -> &[(&'static str, String)] {
        self.texts.texts()
    }

    /// Parses the texts into a rule.
    ///
    /// # Errors
    /// The first text that cannot be parsed, with its key and the remedy.
    pub fn rule(&self) -> Result<Rule, String> {
        let mut draft = RuleDraft::default();
        self.texts.assign(&KEYS, &mut draft)?;
        Rule::new(draft).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_contains_all_parts_of_a_rule() {
        let text = "topic=home/{room}/x{field}/#, measurement=climate, tags=site=north floor=2, payload=json, \
                    time=meta.sent, time_unit=ms";
        let rules = TopicText::parse_list(&format!("{text}; topic=a,payload=line")).unwrap();
        assert_eq!(rules[0].rule().unwrap().filter(), "home/+/+/#");
        assert_eq!(rules[1].rule().unwrap().filter(), "a");
        let shared = "topic=a/{b},measurement=m,filter=$share/g/a/+,field=f";
        assert_eq!(
            TopicText::parse(shared).unwrap().rule().unwrap().filter(),
            "$share/g/a/+"
        );
    }

    #[test]
    fn every_bad_text_is_rejected_with_a_remedy() {
        for (text, words) in [
            ("home", "write topic=home"),
            ("topik=a", "there are topic, filter"),
            ("topic=a,topic=b", "twice"),
            ("topic=a", "give measurement"),
            ("topic=a#,measurement=m", "home/{room}/{field}"),
            ("topic={measurement},measurement=m", "leave out one"),
            ("topic={field},measurement=m,field=f", "leave out one"),
            ("topic={a},measurement=m,tags=a=b", "twice"),
            ("topic=a,measurement=m,tags=ab", "write site=north"),
            ("topic=a,measurement=m\\", "backslash"),
            ("topic=a,measurement=m,filter=a+", "not a topic filter"),
            ("topic=a,measurement=m,payload=xml", "neither auto"),
            ("topic=a,measurement=m,time_unit=years", "there are ns"),
        ] {
            let error = TopicText::parse(text)
                .and_then(|topic| topic.rule())
                .expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
