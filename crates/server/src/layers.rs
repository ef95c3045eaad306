//! Layers of settings: flags before environment before file before defaults.
//!
//! Every value keeps its origin, so that an error can name the place of the mistake and
//! `seiner config` can show why a value applies.

use crate::classes::{self, ClassText};
use crate::mqtt_topics::{self, TopicText};
use crate::nearest::nearest;
use crate::scrape_jobs::{self, JobText};
use crate::settings::{self, Setting, Settings};
use seiner_engine::{Class, Classes, Given, Rule};
use seiner_store::Copies;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// File that is read if none is named and it exists.
pub const DEFAULT_FILE: &str = "./seiner.toml";

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// A line of a file.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}, line {line}", path.display()),
            Origin::Environment(variable) => write!(f, "variable {variable}"),
            Origin::Flag(flag) => write!(f, "flag --{flag}"),
        }
    }
}

/// Setting with its effective text and the origin of the text.
pub struct Effective {
    /// The setting.
    pub setting: &'static Setting,
    /// Its text.
    pub text: String,
    /// Origin of the text.
    pub origin: Origin,
}

/// Item that settings may contain several times, as it was written, and its origin.
pub struct Written<T> {
    /// Text of the item.
    pub text: T,
    /// Origin of the item.
    pub origin: Origin,
}

/// Retention class as it was written.
pub type GivenClass = Written<ClassText>;
/// Rule for topics of MQTT as it was written.
pub type GivenTopic = Written<TopicText>;
/// Job of scraping as it was written.
pub type GivenJob = Written<JobText>;

/// Flags that may be given several times.
#[derive(Clone, Copy, Default)]
pub struct RepeatedFlags<'a> {
    /// Retention classes.
    pub classes: &'a [String],
    /// Rules for topics of MQTT.
    pub topics: &'a [String],
    /// Jobs of scraping.
    pub jobs: &'a [String],
}

/// Reason why settings cannot be used. The text names the place and the remedy.
#[derive(Debug)]
pub struct SettingsError(String);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

/// Values with their origins. Later values replace earlier ones.
pub struct Layers {
    effective: Vec<Effective>,
    classes: Vec<GivenClass>,
    topics: Vec<GivenTopic>,
    jobs: Vec<GivenJob>,
}

impl Default for Layers {
    fn default() -> Layers {
        let effective = settings::all().map(|setting| Effective {
            setting,
            text: setting.default.to_string(),
            origin: Origin::Default,
        });
        Layers {
            effective: effective.collect(),
            classes: Vec::new(),
            topics: Vec::new(),
            jobs: Vec::new(),
        }
    }
}

impl Layers {
    /// Collects all three layers over the defaults: the file (`config`, or [`DEFAULT_FILE`] if it exists),
    /// the environment, and the flags. `flag` returns the value of a flag that is given once.
    ///
    /// # Errors
    /// If the file cannot be read, contains unknown keys, or values that are not texts,
    /// numbers or truth values.
    pub fn gather(
        config: Option<&Path>,
        flag: impl Fn(&Setting) -> Option<String>,
        repeated: RepeatedFlags<'_>,
    ) -> Result<Layers, SettingsError> {
        let mut layers = Layers::default();
        if let Some(path) = config {
            layers.file(path)?;
        } else if Path::new(DEFAULT_FILE).exists() {
            layers.file(Path::new(DEFAULT_FILE))?;
        }
        layers.environment(|variable| std::env::var(variable).ok())?;
        for setting in settings::all() {
            if let Some(text) = flag(setting) {
                layers.put(setting, text, Origin::Flag(setting.flag()));
            }
        }
        let RepeatedFlags {
            classes,
            topics,
            jobs,
        } = repeated;
        if !classes.is_empty() {
            let texts = classes.iter().map(|text| ClassText::parse(text)).collect();
            layers.classes = written(texts, &Origin::Flag(classes::KEY.to_string()))?;
        }
        if !topics.is_empty() {
            let texts = topics.iter().map(|text| TopicText::parse(text)).collect();
            layers.topics = written(texts, &Origin::Flag(mqtt_topics::FLAG.to_string()))?;
        }
        if !jobs.is_empty() {
            let texts = jobs.iter().map(|text| JobText::parse(text)).collect();
            layers.jobs = written(texts, &Origin::Flag(scrape_jobs::KEY.to_string()))?;
        }
        Ok(layers)
    }

    /// Applies a TOML file over the present values.
    ///
    /// # Errors
    /// The errors of [`Layers::gather`].
    pub fn file(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            SettingsError(format!(
                "{}: {error}; name another file with --config",
                path.display()
            ))
        })?;
        self.toml(&text, path)
    }

    fn toml(&mut self, text: &str, path: &Path) -> Result<(), SettingsError> {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let error = |at: usize, what: String| {
            SettingsError(format!("{}, line {}: {what}", path.display(), line(at)))
        };
        let document = DeTable::parse(text).map_err(|found| {
            error(
                found.span().map_or(0, |span| span.start),
                format!("this is not TOML: {}", found.message()),
            )
        })?;
        for (key, value) in document.into_inner() {
            let at = key.span().start;
            let key = key.get_ref();
            let of_file = |at| Origin::File(path.to_path_buf(), line(at));
            let rejected = |(at, what): (usize, String)| error(at, what);
            if key == classes::KEY {
                let others = (at, "classes are tables, each under [[class]]".to_string());
                let found = tables(value.get_ref(), others, "a class", ClassText::put, of_file);
                self.classes = found.map_err(rejected)?;
                continue;
            }
            if key == mqtt_topics::KEY {
                let text = "topics of MQTT are tables, each under [[mqtt_topic]]";
                let others = (at, text.to_string());
                let found = tables(value.get_ref(), others, "a topic", TopicText::put, of_file);
                self.topics = found.map_err(rejected)?;
                continue;
            }
            if key == scrape_jobs::KEY {
                let text = "jobs of scraping are tables, each under [[scrape]]";
                let others = (at, text.to_string());
                let found = tables(value.get_ref(), others, "a job", JobText::put, of_file);
                self.jobs = found.map_err(rejected)?;
                continue;
            }
            let setting = settings::named(key).ok_or_else(|| error(at, unknown(key)))?;
            let text = plain(value.get_ref()).ok_or_else(|| {
                let form = setting.form;
                error(
                    at,
                    format!("{key} takes {form}; write it as a text in quotes"),
                )
            })?;
            self.put(setting, text, of_file(at));
        }
        Ok(())
    }

    /// Applies environment variables over the present values.
    ///
    /// # Errors
    /// If the classes among them are not keys with values.
    pub fn environment(
        &mut self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), SettingsError> {
        if let Some(text) = variable(classes::VARIABLE) {
            let origin = Origin::Environment(classes::VARIABLE.to_string());
            self.classes = written(ClassText::parse_list(&text), &origin)?;
        }
        if let Some(text) = variable(mqtt_topics::VARIABLE) {
            let origin = Origin::Environment(mqtt_topics::VARIABLE.to_string());
            self.topics = written(TopicText::parse_list(&text), &origin)?;
        }
        if let Some(text) = variable(scrape_jobs::VARIABLE) {
            let origin = Origin::Environment(scrape_jobs::VARIABLE.to_string());
            self.jobs = written(JobText::parse_list(&text), &origin)?;
        }
        for setting in settings::all() {
            let name = setting.variable();
            if let Some(text) = variable(&name) {
                self.put(setting, text, Origin::Environment(name));
            }
        }
        Ok(())
    }

    fn put(&mut self, setting: &'static Setting, text: String, origin: Origin) {
        let place = self
            .effective
            .iter_mut()
            .find(|effective| std::ptr::eq(effective.setting, setting));
        *place.expect("every setting of the table has a place") = Effective {
            setting,
            text,
            origin,
        };
    }

    /// Returns the settings with their origins, in the order of the table.
    pub fn effective(&self) -> &[Effective] {
        &self.effective
    }

    /// Returns the retention classes with their origins, in the order in which selectors are tried.
    pub fn classes(&self) -> &[GivenClass] {
        &self.classes
    }

    /// Returns the rules for topics of MQTT with their origins, in the order in which patterns are tried.
    pub fn topics(&self) -> &[GivenTopic] {
        &self.topics
    }

    /// Returns the jobs of scraping with their origins.
    pub fn jobs(&self) -> &[GivenJob] {
        &self.jobs
    }

    /// Parses the texts.
    ///
    /// # Errors
    /// The first value that cannot be parsed, with its place and the remedy; or the reason why a store cannot
    /// use all values together.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        for Effective {
            setting,
            text,
            origin,
        } in &self.effective
        {
            (setting.assign)(&mut settings, text.trim())
                .map_err(|error| SettingsError(format!("{origin}: {}: {error}", setting.name)))?;
        }
        settings.classes = self.read_classes()?;
        for GivenTopic { text, origin } in &self.topics {
            let rule = text.rule();
            let rule = rule.map_err(|error| SettingsError(format!("{origin}: topic: {error}")))?;
            settings.mqtt.topics.push(rule);
        }
        settings.mqtt.check().map_err(SettingsError)?;
        for GivenJob { text, origin } in &self.jobs {
            let job = text.job();
            let job = job.map_err(|error| SettingsError(format!("{origin}: scrape: {error}")))?;
            if settings.scrape.iter().any(|other| other.name == job.name) {
                let name = job.name;
                return Err(SettingsError(format!(
                    "{origin}: scrape: another job has the name {name:?}; choose another name"
                )));
            }
            settings.scrape.push(job);
        }
        check_copies(&settings)?;
        settings.given = self.given(&settings);
        let options = settings.options();
        options
            .check()
            .map_err(|error| SettingsError(error.to_string()))?;
        Ok(settings)
    }

    /// Returns the rules that were given explicitly. Sizes that follow from the budget are included.
    fn given(&self, settings: &Settings) -> Given {
        let has_origin = |rule: Rule| {
            let named = |effective: &&Effective| effective.setting.name == rule.name();
            let effective = self.effective.iter().find(named);
            effective.is_some_and(|effective| effective.origin != Origin::Default)
        };
        let is_given = |rule: &Rule| match rule {
            Rule::Classes => !self.classes.is_empty(),
            Rule::SegmentBytes => settings.segment_bytes.is_some() || has_origin(Rule::Disk),
            Rule::JournalBytes => settings.journal_bytes.is_some() || has_origin(Rule::Disk),
            rule => has_origin(*rule),
        };
        Given::these(Rule::ALL.into_iter().filter(is_given))
    }

    fn read_classes(&self) -> Result<Classes, SettingsError> {
        let mut classes = Classes::default();
        let mut list: Vec<Class> = Vec::new();
        for GivenClass { text, origin } in &self.classes {
            let rejected = |error: String| SettingsError(format!("{origin}: {error}"));
            list.push(
                text.class()
                    .map_err(|error| rejected(format!("class: {error}")))?,
            );
            // Classes are added one by one, so that an error names the place of the wrong class.
            classes = Classes::new(list.clone()).map_err(|error| rejected(error.to_string()))?;
        }
        Ok(classes)
    }
}

/// Checks that only classes of a cluster have settings of their copies.
fn check_copies(settings: &Settings) -> Result<(), SettingsError> {
    let mut classes = settings.classes.named().iter();
    match classes.find(|class| class.copies != Copies::default()) {
        Some(class) if settings.cluster.is_empty() => Err(SettingsError(format!(
            "class {:?}: replication and consistency are settings of a cluster; remove them, or set cluster",
            class.name
        ))),
        _ => Ok(()),
    }
}

/// Returns a text, number or truth value of a file as it would be written on a command line.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_string()),
        DeValue::Float(number) => Some(number.as_str().to_string()),
        DeValue::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns the items of texts with their origin. Those of a higher layer replace all those of lower layers, because their
/// order counts.
fn written<T>(
    texts: Result<Vec<T>, String>,
    origin: &Origin,
) -> Result<Vec<Written<T>>, SettingsError> {
    let texts = texts.map_err(|error| SettingsError(format!("{origin}: {error}")))?;
    let written = texts.into_iter().map(|text| Written {
        text,
        origin: origin.clone(),
    });
    Ok(written.collect())
}

/// Returns the items of an array of tables. `item` names an item in errors, and `put` adds a key to it. `others` is the
/// error for all other values. Errors have their position.
fn tables<'a, 'd, T: Default>(
    value: &'a DeValue<'d>,
    others: (usize, String),
    item: &str,
    put: fn(&mut T, &str, String) -> Result<(), String>,
    origin: impl Fn(usize) -> Origin,
) -> Result<Vec<Written<T>>, (usize, String)> {
    let DeValue::Array(array) = value else {
        return Err(others);
    };
    let table = |value: &'a toml::Spanned<DeValue<'d>>| match value.get_ref() {
        DeValue::Table(table) => Some((value.span().start, table)),
        _ => None,
    };
    let tables: Option<Vec<(usize, &DeTable<'_>)>> = array.iter().map(table).collect();
    let mut found = Vec::new();
    for (at, table) in tables.ok_or(others)? {
        let mut text = T::default();
        for (key, value) in table.iter() {
            let key = key.get_ref();
            let value = plain(value.get_ref())
                .ok_or_else(|| format!("{key} of {item} is a text, a number or a size in quotes"));
            let added = value.and_then(|value| put(&mut text, key, value));
            added.map_err(|what| (at, what))?;
        }
        let origin = origin(at);
        found.push(Written { text, origin });
    }
    Ok(found)
}

/// Returns the error for an unknown key, with the nearest known key.
fn unknown(key: &str) -> String {
    match nearest(key, settings::all().map(|setting| setting.name)) {
        Some(name) => format!("there is no setting {key:?}; did you mean {name:?}?"),
        None => {
            let names: Vec<&str> = settings::all().map(|setting| setting.name).collect();
            format!(
                "there is no setting {key:?}; there are {}",
                names.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seiner_engine::Durability;

    fn file(text: &str) -> Result<Layers, SettingsError> {
        let mut layers = Layers::default();
        layers.toml(text, Path::new("seiner.toml"))?;
        Ok(layers)
    }

    fn origin<'a>(layers: &'a Layers, name: &str) -> &'a Origin {
        &layers
            .effective()
            .iter()
            .find(|effective| effective.setting.name == name)
            .unwrap()
            .origin
    }

    #[test]
    fn flags_override_variables_and_variables_override_files() {
        let mut layers =
            file("# first\nmemory = \"1 GiB\"\nmax_queries = 3\nallow_remote = true\n").unwrap();
        let environment = layers.environment(|name| match name {
            "SEINER_MAX_QUERIES" => Some("5".into()),
            "SEINER_DURABILITY" => Some("sync".into()),
            _ => None,
        });
        environment.unwrap();
        layers.put(
            settings::named("durability").unwrap(),
            "memory".into(),
            Origin::Flag("durability".into()),
        );
        let settings = layers.settings().unwrap();
        assert_eq!((settings.memory, settings.max_queries), (Some(1 << 30), 5));
        assert_eq!(
            (settings.durability, settings.allow_remote),
            (Durability::Memory, true)
        );
        assert_eq!(origin(&layers, "memory").to_string(), "seiner.toml, line 2");
        assert_eq!(
            origin(&layers, "max_queries").to_string(),
            "variable SEINER_MAX_QUERIES"
        );
        assert_eq!(
            origin(&layers, "durability").to_string(),
            "flag --durability"
        );
        assert_eq!(*origin(&layers, "listen"), Origin::Default);
    }

    #[test]
    fn only_explicit_rules_override_stored_ones() {
        let given = |text| file(text).unwrap().settings().unwrap().given;
        assert_eq!(
            given("memory = \"1 GiB\"\nsegment_bytes = \"auto\"\n"),
            Given::NONE
        );
        assert_eq!(given("lanes = 32\n"), Given::these([Rule::Lanes]));
        // The sizes that follow from the budget are included.
        let sizes = [Rule::Disk, Rule::SegmentBytes, Rule::JournalBytes];
        assert_eq!(given("disk = \"all\"\n"), Given::these(sizes));
        let class = "[[class]]\nname = \"default\"\n";
        assert_eq!(given(class), Given::these([Rule::Classes]));
    }

    #[test]
    fn copies_of_classes_need_a_cluster() {
        let class = "[[class]]\nname = \"raw\"\nreplication = 2\nconsistency = \"all\"\n";
        let error = file(class).unwrap().settings().unwrap_err().to_string();
        assert!(error.contains("or set cluster"), "{error}");
        let text = format!("cluster = \"cassandra://db1/sensors\"\n{class}");
        let settings = file(&text).unwrap().settings().unwrap();
        let copies = settings.classes.list()[0].copies;
        assert_eq!(copies.replication, Some(2));
        assert_eq!(copies.consistency, seiner_store::Consistency::All);
    }

    #[test]
    fn classes_of_a_layer_replace_those_beneath() {
        let mut layers = file(
            "disk = \"1 GiB\"\n[[class]]\nname = \"raw\"\nsources = 'accel{axis=\"x\"}'\nage = \"30d\"\nrows = 7\n\n\
             [[class]]\nname = \"rest\"\nwhen_full = \"shed\"\n",
        )
        .unwrap();
        let names = |layers: &Layers| -> Vec<String> {
            let classes = layers.settings().unwrap().classes;
            classes
                .list()
                .iter()
                .map(|class| class.name.clone())
                .collect()
        };
        assert_eq!(names(&layers), ["raw", "rest"]);
        assert_eq!(
            layers.settings().unwrap().classes.list()[0].keep.rows,
            Some(7)
        );
        assert_eq!(
            layers.classes()[1].origin.to_string(),
            "seiner.toml, line 8"
        );
        let some = |name: &str| (name == classes::VARIABLE).then(|| "name=a,sources=b".to_string());
        layers.environment(some).unwrap();
        assert_eq!(names(&layers), ["a", "default"]);
    }

    #[test]
    fn errors_name_file_line_and_remedy() {
        let error = |text| match file(text) {
            Err(error) => error.to_string(),
            Ok(layers) => layers.settings().unwrap_err().to_string(),
        };
        assert_eq!(
            error("\nmemmory = 1"),
            "seiner.toml, line 2: there is no setting \"memmory\"; did you mean \"memory\"?"
        );
        assert!(error("colour = 1").contains("there are data, "));
        assert!(
            error("data = \"x\"\n\nmemory = \"lots\"")
                .starts_with("seiner.toml, line 3: memory: \"lots\" is not a size; write")
        );
        assert!(
            error("data = [1]").contains("line 1: data takes PATH; write it as a text in quotes")
        );
        assert!(error("data = ").starts_with("seiner.toml, line 1: this is not TOML"));
        assert!(
            error("[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\nsources = \"c\"")
                .starts_with("seiner.toml, line 3: retention class \"b\": ")
        );
        assert!(
            error("[[class]]\nname = \"a\"\nage = \"x\"")
                .starts_with("seiner.toml, line 1: class: age: ")
        );
        assert!(error("[[class]]\nnom = \"a\"").contains("line 1: a class has no \"nom\""));
        assert!(error("class = \"a\"").contains("each under [[class]]"));
        assert!(error("disk = \"1 MiB\"").contains("a store needs"));
        assert!(error("[server]\ndata = 1").contains("line 1: there is no setting \"server\""));
    }
}
