//! Labels that a resource gives to the series of its metrics.

use super::attributes::Attributes;
use super::messages::RESOURCE;
use super::names::put_label_name;
use crate::protobuf::{Content, Fault, Fields, Malformed};
use std::ops::Range;

const SERVICE: &str = "service.name";
const NAMESPACE: &str = "service.namespace";
const INSTANCE: &str = "service.instance.id";
/// Attributes that are in the labels `job` and `instance`, and not in `target_info`.
pub(super) const IDENTIFYING: [&str; 3] = [SERVICE, NAMESPACE, INSTANCE];

/// Label of a resource.
#[derive(Clone, Debug)]
struct Label {
    name: Range<usize>,
    value: Range<usize>,
    /// True if the label replaces an attribute of a point with the same name.
    replaces: bool,
}

/// Resource: its attributes, and the labels from them.
#[derive(Debug, Default)]
pub(super) struct Resource<'a> {
    pub attributes: Attributes<'a>,
    /// True if the resource has a service or an instance.
    pub is_identified: bool,
    labels: Vec<Label>,
    text: Vec<u8>,
}

impl<'a> Resource<'a> {
    /// Removes everything. Keeps the memory.
    pub fn clear(&mut self) {
        self.attributes.clear();
        self.is_identified = false;
        self.labels.clear();
        self.text.clear();
    }

    /// Reads a `Resource`. The attributes named in `promoted` become labels.
    pub fn read(&mut self, mut fields: Fields<'a>, promoted: &[String]) -> Result<(), Malformed> {
        self.clear();
        while let Some(field) = fields.next()? {
            match field {
                (RESOURCE::ATTRIBUTES, Content::Bytes(bytes)) => {
                    self.attributes.push(fields.inner(bytes))?;
                }
                (RESOURCE::ATTRIBUTES, _) => return Err(fields.error(Fault::FieldType)),
                _ => {}
            }
        }
        let (attributes, text) = (&self.attributes, &mut self.text);
        let mut label = |name: &[u8], value: &[&[u8]], replaces| {
            let begin = text.len();
            if !put_label_name(name, text) {
                return;
            }
            let name = begin..text.len();
            value.iter().for_each(|part| text.extend_from_slice(part));
            self.labels.push(Label {
                value: name.end..text.len(),
                name,
                replaces,
            });
        };
        let service = attributes.get(SERVICE);
        if let Some(service) = service {
            match attributes.get(NAMESPACE) {
                Some(namespace) => label(b"job", &[namespace, b"/", service], true),
                None => label(b"job", &[service], true),
            }
        }
        let instance = attributes.get(INSTANCE);
        if let Some(instance) = instance {
            label(b"instance", &[instance], true);
        }
        self.is_identified = service.is_some() || instance.is_some();
        for name in promoted {
            if let Some(value) = attributes.get(name) {
                label(name.as_bytes(), &[value], false);
            }
        }
        Ok(())
    }

    /// Returns the names of the labels, each with true if the label replaces an attribute of a point.
    pub fn names(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let labels = self.labels.iter();
        labels.map(|label| (&self.text[label.name.clone()], label.replaces))
    }

    /// Returns the value of a label by its index.
    #[inline]
    pub fn value(&self, index: usize) -> &[u8] {
        &self.text[self.labels[index].value.clone()]
    }

    /// Returns whether there is an attribute that `job` and `instance` do not contain.
    pub fn has_more(&self) -> bool {
        let mut keys = self.attributes.keys().iter();
        keys.any(|key| !is_identifying(key))
    }
}

/// Returns whether an attribute is in the labels `job` and `instance`.
pub(super) fn is_identifying(key: &[u8]) -> bool {
    IDENTIFYING.iter().any(|one| one.as_bytes() == key)
}
