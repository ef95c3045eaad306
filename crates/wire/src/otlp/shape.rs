//! Order of the labels of a series, which the points of a metric have in common.

use super::TEMPORALITY;
use super::attributes::Attributes;
use super::names::put_label_name;
use super::resource::{Resource, is_identifying};
use crate::remote_write::METRIC_NAME;
use crate::remote_write::notation::put_label;

/// Separator of the values of attributes with the same label.
const SEPARATOR: &[u8] = b";";

/// Origin of the value of a label.
#[derive(Clone, Debug)]
enum Origin {
    /// Name of the metric, which depends on the row.
    Metric,
    /// Bound or quantile, which depends on the row.
    Bound,
    /// Mark of samples whose temporality is delta.
    Temporality,
    /// Label of the resource, by its index.
    Resource(usize),
    /// Attribute of the point, by its index.
    Attribute(usize),
    /// Attributes with the same name of a label, in the order of their keys.
    Joined(Vec<usize>),
}

/// Labels of a point, encoded in their order, without those that depend on the row.
#[derive(Debug, Default)]
pub(super) struct PointLabels {
    bytes: Vec<u8>,
    at_metric: usize,
    at_bound: usize,
}

impl PointLabels {
    /// Returns the labels before the name of the metric, those between the name and the bound, and those after it.
    #[inline]
    pub fn parts(&self) -> [&[u8]; 3] {
        let (before, rest) = self.bytes.split_at(self.at_metric);
        let (between, after) = rest.split_at(self.at_bound - self.at_metric);
        [before, between, after]
    }

    /// Returns the number of bytes of all labels.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Properties of a metric that the order of the labels depends on, besides the keys of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// True if the label of delta temporality is added.
    pub is_delta: bool,
    /// Name of the label of a bound or a quantile.
    pub bound: Option<&'static str>,
}

/// Order of labels. It is computed again only if the keys of a point differ from those of the point before.
#[derive(Debug, Default)]
pub(super) struct Shape<'a> {
    /// Form and keys to which the order belongs; `None` if there is none.
    form: Option<Form>,
    keys: Vec<&'a [u8]>,
    labels: Vec<(Vec<u8>, Origin)>,
}

impl<'a> Shape<'a> {
    /// Discards the order, because the names of the resource's labels may differ.
    pub fn discard(&mut self) {
        self.form = None;
    }

    /// Encodes the labels of a point. Returns false if an attribute has no name that a label can have.
    #[inline]
    pub fn encode(
        &mut self,
        form: Form,
        attributes: &Attributes<'a>,
        resource: &Resource<'a>,
        labels: &mut PointLabels,
    ) -> bool {
        if (self.form != Some(form) || self.keys != attributes.keys())
            && !self.arrange(form, attributes.keys(), resource, |_| true)
        {
            return false;
        }
        self.put(attributes, resource, labels);
        true
    }

    /// Encodes the labels of `target_info`: the attributes of the resource.
    pub fn encode_resource(&mut self, resource: &Resource<'a>, labels: &mut PointLabels) -> bool {
        let form = Form {
            is_delta: false,
            bound: None,
        };
        let keys = resource.attributes.keys();
        if !self.arrange(form, keys, resource, |key| !is_identifying(key)) {
            return false;
        }
        self.put(&resource.attributes, resource, labels);
        true
    }

    fn put(&self, attributes: &Attributes<'a>, resource: &Resource<'a>, labels: &mut PointLabels) {
        let out = &mut labels.bytes;
        out.clear();
        let mut at_bound = None;
        for (name, origin) in &self.labels {
            let joined;
            let value = match origin {
                Origin::Metric => {
                    labels.at_metric = out.len();
                    continue;
                }
                Origin::Bound => {
                    at_bound = Some(out.len());
                    continue;
                }
                Origin::Temporality => TEMPORALITY.1.as_bytes(),
                Origin::Resource(index) => resource.value(*index),
                Origin::Attribute(index) => attributes.value(*index),
                Origin::Joined(indices) => {
                    let values: Vec<&[u8]> = indices
                        .iter()
                        .map(|index| attributes.value(*index))
                        .collect();
                    joined = values.join(SEPARATOR);
                    &joined
                }
            };
            // A label without a value is no label.
            if !value.is_empty() {
                put_label(name, value, out);
            }
        }
        labels.at_bound = at_bound.unwrap_or(out.len());
    }

    /// Computes the order. Returns false if an attribute has no name that a label can have.
    #[cold]
    fn arrange(
        &mut self,
        form: Form,
        keys: &[&'a [u8]],
        resource: &Resource<'a>,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> bool {
        self.form = None;
        self.labels.clear();
        let mut sorted: Vec<usize> = (0..keys.len()).collect();
        sorted.sort_by_key(|index| keys[*index]);
        for index in sorted {
            let mut name = Vec::new();
            if !is_wanted(keys[index]) {
                continue;
            }
            if !put_label_name(keys[index], &mut name) {
                return false;
            }
            match self.find(&name) {
                None => self.labels.push((name, Origin::Attribute(index))),
                Some(Origin::Joined(indices)) => indices.push(index),
                Some(Origin::Attribute(first)) => {
                    let first = *first;
                    self.set(name, Origin::Joined(vec![first, index]));
                }
                Some(_) => {}
            }
        }
        for (index, (name, replaces)) in resource.names().enumerate() {
            if replaces || self.find(name).is_none() {
                self.set(name.to_vec(), Origin::Resource(index));
            }
        }
        if form.is_delta {
            self.set(TEMPORALITY.0.as_bytes().to_vec(), Origin::Temporality);
        }
        if let Some(bound) = form.bound {
            self.set(bound.as_bytes().to_vec(), Origin::Bound);
        }
        self.set(METRIC_NAME.as_bytes().to_vec(), Origin::Metric);
        self.labels.sort_by(|one, other| one.0.cmp(&other.0));
        self.form = Some(form);
        self.keys.clear();
        self.keys.extend_from_slice(keys);
        true
    }

    fn find(&mut self, name: &[u8]) -> Option<&mut Origin> {
        let mut labels = self.labels.iter_mut();
        let found = labels.find(|(known, _)| known == name);
        found.map(|(_, origin)| origin)
    }

    /// Sets the origin of a label, instead of an earlier one.
    fn set(&mut self, name: Vec<u8>, origin: Origin) {
        match self.find(&name) {
            Some(earlier) => *earlier = origin,
            None => self.labels.push((name, origin)),
        }
    }
}
