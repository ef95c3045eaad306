//! Rules, as files of Prometheus describe them.

use seiner_model::parse_duration;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};

/// Maximum length of a file in bytes.
const MOST_BYTES: usize = 1 << 20;
/// Maximum number of rules of a file.
const MOST_RULES: usize = 1000;

/// Error in a file of rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

/// Group of rules that are evaluated one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name, different from those of the other groups.
    pub name: String,
    /// Time between two evaluations in ns; `None` for the time of the caller.
    pub interval_ns: Option<i64>,
    /// Time in ns by which the data of an evaluation are older than the evaluation.
    pub offset_ns: i64,
    /// Maximum number of results of a rule; `None` for no limit.
    pub limit: Option<u64>,
    /// Rules.
    pub rules: Vec<Rule>,
}

/// Rule of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Rule of an alert.
    Alert(AlertRule),
    /// Rule that stores its result.
    Recording(RecordingRule),
}

/// Rule that stores the result of its expression as series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingRule {
    /// Name of the metric of the stored series.
    pub name: String,
    /// Expression in PromQL.
    pub expression: String,
    /// Labels that are added to those of the result, or replace them. An empty value removes a label.
    pub labels: BTreeMap<String, String>,
}

/// Rule of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertRule {
    /// Name: the label `alertname` of its alerts.
    pub name: String,
    /// Expression in PromQL. Each series of its result is an alert.
    pub expression: String,
    /// Time in ns for which the expression must have a result before an alert fires.
    pub for_ns: i64,
    /// Time in ns for which an alert goes on firing after its result ended.
    pub keep_ns: i64,
    /// Labels of the alerts. Their values may contain templates: `{{ $value | humanize }}`, `{{ $labels.NAME }}`.
    pub labels: BTreeMap<String, String>,
    /// Texts for people, with the same templates.
    pub annotations: BTreeMap<String, String>,
}

impl Rule {
    /// Returns the name of the alert or of the recorded metric.
    pub fn name(&self) -> &str {
        match self {
            Rule::Alert(rule) => &rule.name,
            Rule::Recording(rule) => &rule.name,
        }
    }

    /// Returns the expression in PromQL.
    pub fn expression(&self) -> &str {
        match self {
            Rule::Alert(rule) => &rule.expression,
            Rule::Recording(rule) => &rule.expression,
        }
    }
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    groups: Vec<GroupText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupText {
    name: String,
    interval: Option<String>,
    query_offset: Option<String>,
    #[serde(default)]
    limit: u64,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    rules: Vec<RuleText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    alert: Option<String>,
    record: Option<String>,
    expr: String,
    #[serde(rename = "for")]
    for_time: Option<String>,
    keep_firing_for: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// Reads the YAML of a file of rules.
///
/// # Errors
/// If the text is not a file of rules, with the group, the rule and the remedy.
pub fn read(text: &str) -> Result<Vec<Group>, RuleError> {
    if text.len() > MOST_BYTES {
        let length = text.len();
        return Err(RuleError(format!(
            "the file has {length} bytes; the maximum is {MOST_BYTES}; divide it"
        )));
    }
    let file: FileText =
        serde_saphyr::from_str(text).map_err(|error| RuleError(error.to_string()))?;
    let rules: usize = file.groups.iter().map(|group| group.rules.len()).sum();
    if rules > MOST_RULES {
        return Err(RuleError(format!(
            "the file has {rules} rules; the maximum is {MOST_RULES}"
        )));
    }
    let mut names = HashSet::new();
    let mut groups = Vec::new();
    for group in file.groups {
        if !names.insert(group.name.clone()) {
            let name = group.name;
            return Err(RuleError(format!(
                "two groups are called {name:?}; rename one"
            )));
        }
        groups.push(group.check()?);
    }
    Ok(groups)
}

impl GroupText {
    fn check(self) -> Result<Group, RuleError> {
        let name = self.name;
        let place = |error: String| RuleError(format!("group {name:?}: {error}"));
        let interval_ns = time(self.interval.as_deref(), "interval").map_err(place)?;
        if interval_ns == Some(0) {
            return Err(place("interval: give more than 0".to_string()));
        }
        let offset_ns = time(self.query_offset.as_deref(), "query_offset").map_err(place)?;
        let mut rules = Vec::new();
        for (number, rule) in self.rules.into_iter().enumerate() {
            let called = rule.alert.as_ref().or(rule.record.as_ref());
            let called = called.cloned().unwrap_or_default();
            let place = |error: String| place(format!("rule {} {called:?}: {error}", number + 1));
            rules.push(rule.check(&self.labels).map_err(place)?);
        }
        Ok(Group {
            name,
            interval_ns,
            offset_ns: offset_ns.unwrap_or(0),
            limit: (self.limit > 0).then_some(self.limit),
            rules,
        })
    }
}

impl RuleText {
    fn check(mut self, of_group: &BTreeMap<String, String>) -> Result<Rule, String> {
        seiner_promql::format(&self.expr).map_err(|error| format!("expr: {error}"))?;
        let mut labels = of_group.clone();
        labels.append(&mut self.labels);
        for label in labels.keys() {
            if !seiner_promql::is_plain_name(label) || label == seiner_promql::METRIC_NAME {
                return Err(format!("{label:?} is not a name of a label"));
            }
        }
        match (&self.alert, &self.record) {
            (Some(_), None) => self.alert(labels).map(Rule::Alert),
            (None, Some(_)) => self.recording(labels).map(Rule::Recording),
            (None, None) => Err(
                "`alert` is missing, the name of an alert, or `record`, the name of a metric"
                    .to_string(),
            ),
            (Some(_), Some(_)) => {
                Err("it has `alert` and `record`; divide it into two rules".to_string())
            }
        }
    }

    fn alert(self, labels: BTreeMap<String, String>) -> Result<AlertRule, String> {
        let name = self.alert.unwrap_or_default();
        if name.is_empty() {
            return Err("`alert` is empty; give a name".to_string());
        }
        Ok(AlertRule {
            name,
            expression: self.expr,
            for_ns: time(self.for_time.as_deref(), "for")?.unwrap_or(0),
            keep_ns: time(self.keep_firing_for.as_deref(), "keep_firing_for")?.unwrap_or(0),
            labels,
            annotations: self.annotations,
        })
    }

    fn recording(self, labels: BTreeMap<String, String>) -> Result<RecordingRule, String> {
        let name = self.record.unwrap_or_default();
        if !is_metric_name(&name) {
            return Err("`record` takes a name of letters, digits, `_` and `:`".to_string());
        }
        let of_alerts = [
            ("for", self.for_time.is_some()),
            ("keep_firing_for", self.keep_firing_for.is_some()),
            ("annotations", !self.annotations.is_empty()),
        ];
        if let Some((key, _)) = of_alerts.iter().find(|(_, given)| *given) {
            return Err(format!(
                "{key:?} belongs to alerts, and the rule records; remove it"
            ));
        }
        Ok(RecordingRule {
            name,
            expression: self.expr,
            labels,
        })
    }
}

/// Returns true if a text is a name of a metric.
fn is_metric_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn time(text: Option<&str>, key: &str) -> Result<Option<i64>, String> {
    let parsed = text.map(|text| match text {
        "0" => Ok(0),
        text => parse_duration(text).map_err(|error| format!("{key}: {error}")),
    });
    parsed.transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
groups:
  - name: hosts
    interval: 30s
    query_offset: 1m
    limit: 50
    labels: { team: operations }
    rules:
      - alert: HostIsSilent
        expr: absent_over_time(host_cpu_usage[5m])
        for: 1m30s
        keep_firing_for: 5m
        labels:
          severity: page
        annotations:
          summary: "no samples of {{ $labels.host }}"
      - alert: DiskIsFull
        expr: seiner_disk_used_bytes / seiner_disk_budget_bytes > 0.9
      - record: team:cpu:sum
        expr: sum by (room) (host_cpu_usage)
        labels: { team: "" }
"#;

    #[test]
    fn rules_are_read_from_the_yaml_of_prometheus() {
        let groups = read(FILE).unwrap();
        assert_eq!((groups.len(), groups[0].rules.len()), (1, 3));
        assert_eq!(groups[0].interval_ns, Some(30_000_000_000));
        assert_eq!(
            (groups[0].offset_ns, groups[0].limit),
            (60_000_000_000, Some(50))
        );
        let plain = read("groups: [{name: g, limit: 0, rules: []}]").unwrap();
        assert_eq!((plain[0].offset_ns, plain[0].limit), (0, None));
        let [Rule::Alert(silent), Rule::Alert(full), Rule::Recording(sum)] = &groups[0].rules[..]
        else {
            panic!("two alerts and a recording");
        };
        assert_eq!(
            (silent.for_ns, silent.keep_ns),
            (90_000_000_000, 300_000_000_000)
        );
        let labels: Vec<_> = silent.labels.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(labels, [("severity", "page"), ("team", "operations")]);
        assert_eq!((full.for_ns, full.annotations.len()), (0, 0));
        assert_eq!((&*sum.name, &*sum.labels["team"]), ("team:cpu:sum", ""));
    }

    #[test]
    fn every_bad_file_is_rejected_with_its_place() {
        let rule = |rule: &str| format!("groups: [{{name: g, rules: [{{{rule}}}]}}]");
        for (text, words) in [
            ("groups: 5".to_string(), "sequence"),
            ("groups: []\nrules: []".to_string(), "rules"),
            (
                "groups: [{name: a, rules: []}, {name: a, rules: []}]".to_string(),
                "two groups",
            ),
            (
                "groups: [{name: a, interval: soon, rules: []}]".to_string(),
                "interval",
            ),
            (
                "groups: [{name: a, query_offset: soon, rules: []}]".to_string(),
                "query_offset",
            ),
            (
                "groups: [{name: a, limit: -1, rules: []}]".to_string(),
                "limit",
            ),
            (rule("record: a, alert: b, expr: c"), "divide it into two"),
            (rule("record: a b, expr: c"), "takes a name of letters"),
            (rule("record: '', expr: c"), "takes a name of letters"),
            (rule("record: 1a, expr: c"), "rule 1 \"1a\": `record`"),
            (rule("record: a, expr: c, for: 1m"), "\"for\" belongs"),
            (
                rule("record: a, expr: c, annotations: {b: c}"),
                "\"annotations\" belongs",
            ),
            (rule("expr: b"), "`alert` is missing"),
            (rule("alert: '', expr: b"), "`alert` is empty"),
            (rule("alert: a, expr: 'sum('"), "rule 1 \"a\": expr"),
            (rule("alert: a, expr: b, for: soon"), "for:"),
            (rule("alert: a, expr: b, fore: 1m"), "fore"),
            (
                rule("alert: a, expr: b, labels: {'a b': c}"),
                "not a name of a label",
            ),
            (format!("#{}", " ".repeat(MOST_BYTES)), "divide it"),
        ] {
            let error = read(&text).expect_err(&text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_expands_without_end_is_rejected() {
        let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_string();
        for letter in 'b'..='j' {
            let before = (letter as u8 - 1) as char;
            let list = vec![format!("*{before}"); 9].join(", ");
            text.push_str(&format!("{letter}: &{letter} [{list}]\n"));
        }
        text.push_str("groups: *j\n");
        assert!(read(&text).is_err());
    }
}
