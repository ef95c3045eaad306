//! Keys with texts, as users write items that settings may contain several times: retention classes, rules for topics. An
//! item is a table in the file, or `name=raw,sources=cpu` as a flag.

/// Key of an item. `T` is the item while it is parsed.
pub struct Key<T: 'static> {
    /// Name of the key.
    pub name: &'static str,
    /// Kind of the expected text.
    pub form: &'static str,
    /// Effect of the key.
    pub help: &'static str,
    /// Parses a text into the item. The error contains the remedy.
    pub(crate) assign: fn(&mut T, &str) -> Result<(), String>,
}

/// Texts by key, in their order, not parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyTexts(Vec<(&'static str, String)>);

impl KeyTexts {
    /// Adds the text of a key, which the user wrote as `written`. `item` names the item in errors.
    ///
    /// # Errors
    /// If there is no such key, or it is present already.
    pub fn put<T>(
        &mut self,
        keys: &[Key<T>],
        item: &str,
        name: &str,
        written: &str,
        text: String,
    ) -> Result<(), String> {
        let Some(known) = keys.iter().find(|known| known.name == name) else {
            let names: Vec<&str> = keys.iter().map(|known| known.name).collect();
            return Err(format!(
                "{item} has no {written:?}; there are {}",
                names.join(", ")
            ));
        };
        if self.0.iter().any(|(name, _)| *name == known.name) {
            return Err(format!("{written} is given twice"));
        }
        self.0.push((known.name, text));
        Ok(())
    }

    /// Returns keys and texts.
    pub fn texts(&self) -> &[(&'static str, String)] {
        &self.0
    }

    /// Parses the texts into an item.
    ///
    /// # Errors
    /// The first text that cannot be parsed, with its key and the remedy.
    pub fn assign<T>(&self, keys: &[Key<T>], item: &mut T) -> Result<(), String> {
        for (name, text) in &self.0 {
            let key = keys.iter().find(|key| key.name == *name);
            let key = key.expect("only known keys are put");
            (key.assign)(item, text.trim()).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }
}

/// Returns the keys and values of a text such as `example`.
pub(crate) fn pairs<'a>(text: &'a str, example: &str) -> Result<Vec<(&'a str, &'a str)>, String> {
    let pairs = split(text, ',').into_iter().map(|pair| {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("{pair:?} is not a key with a value; write {example}"))?;
        Ok((key.trim(), value.trim()))
    });
    pairs.collect()
}

/// Parses the texts that semicolons separate.
pub(crate) fn list<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let texts = split(text, ';').into_iter().map(str::trim);
    let texts = texts.filter(|text| !text.is_empty());
    texts.map(parse).collect()
}

/// Returns the parts of a text between separators outside braces and quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    text.split(|letter: char| {
        if std::mem::take(&mut escaped) {
            return false;
        }
        match letter {
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            '{' if !quoted => depth += 1,
            '}' if !quoted => depth = depth.saturating_sub(1),
            _ => return letter == separator && !quoted && depth == 0,
        }
        false
    })
    .collect()
}
