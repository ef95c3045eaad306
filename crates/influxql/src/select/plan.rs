//! Plan of a query for one measurement: fields and tags that are read, and the computation.

use super::compile::{is_math, math, node};
use super::condition::{Condition, condition_node};
use super::function::{Aggregate, Function, Transform, function, takes_any_type};
use super::names;
use crate::cell::{Cell, is_true};
use crate::error::Error;
use crate::evaluate::Node;
use crate::schema::Schema;
use crate::text::statement::{Expression, Kind, Select};
use seiner_model::Selector;

/// Field or tag that is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: Kind,
    /// True if no source has another type than a number for this field.
    pub is_numeric: bool,
}

/// Plan of a query.
pub struct Plan {
    /// Fields and tags that are read of each row.
    pub variables: Vec<Variable>,
    /// Sources.
    pub selector: Selector,
    /// Times.
    pub condition: Condition,
    /// Conditions on the tags of a source.
    pub source_filter: Vec<Node>,
    /// Conditions on a row.
    pub row_filter: Vec<Node>,
    /// Tags by which rows are grouped, sorted.
    pub dimensions: Vec<String>,
    /// Names of the columns, without the time.
    pub columns: Vec<String>,
    /// Computation.
    pub shape: Shape,
}

/// Computation of a query.
pub enum Shape {
    /// Values of each row.
    Raw(Raw),
    /// Values of many rows.
    Grouped(Grouped),
}

/// Values of each row.
pub struct Raw {
    /// Columns.
    pub nodes: Vec<Node>,
    /// Places of the fields among the variables. A row without any of them is left out.
    pub fields: Vec<usize>,
}

/// Functions over rows. The places in expressions are those of slots; the values of the row that the only slot selects
/// follow.
pub struct Grouped {
    /// Functions. Each reads only slots before it.
    pub slots: Vec<Slot>,
    /// Columns.
    pub outputs: Vec<Node>,
    /// Variables that are returned with a selected sample.
    pub extras: Vec<usize>,
}

/// Series that a function computes for each group.
#[derive(Clone, Debug)]
pub enum Slot {
    /// One value, or a few, for each bucket.
    Aggregate {
        /// Function.
        aggregate: Aggregate,
        /// Variable of the argument.
        variable: usize,
        /// Variables of tags: at most one result for each combination of values.
        distinct: Vec<usize>,
        /// True if the result is transformed: buckets before the interval are needed, too.
        widened: bool,
    },
    /// Samples of a variable.
    Points(usize),
    /// Transformation of a series.
    Transform(Transform, Node),
}

impl Slot {
    /// Returns whether two slots have the same series. Transformations are not compared.
    fn is(&self, other: &Slot) -> bool {
        match (self, other) {
            (Slot::Points(a), Slot::Points(b)) => a == b,
            (
                Slot::Aggregate {
                    aggregate: a,
                    variable: b,
                    distinct: c,
                    widened: d,
                },
                Slot::Aggregate {
                    aggregate,
                    variable,
                    distinct,
                    widened,
                },
            ) => (a, b, c, d) == (aggregate, variable, distinct, widened),
            _ => false,
        }
    }
}

impl Plan {
    /// Creates the plan of a query for the sources of a selector.
    ///
    /// # Errors
    /// If the query has no meaning for the fields and tags.
    pub fn new(
        query: &Select,
        mut selector: Selector,
        schema: &Schema,
        condition: Condition,
    ) -> Result<Plan, Error> {
        selector.matchers.extend(condition.matchers.iter().cloned());
        let dimensions = names::dimensions(&query.dimensions, schema);
        let columns = names::columns(&query.fields, schema, &dimensions)?;
        let mut variables = Variables {
            schema,
            list: Vec::new(),
        };
        let mut source_filter = Vec::new();
        for one in &condition.of_tags {
            source_filter.push(condition_node(one, &mut |name, kind| {
                variables.place(name, kind)
            })?);
        }
        let mut row_filter = Vec::new();
        for one in &condition.of_rows {
            row_filter.push(condition_node(one, &mut |name, kind| {
                variables.place(name, kind)
            })?);
        }
        let over_rows = columns.iter().any(|(_, one)| names::has_function(one));
        let shape = match over_rows {
            true => Shape::Grouped(grouped(query, &columns, &mut variables)?),
            false => {
                if query.every.is_some() {
                    return Err(Error::invalid(
                        "GROUP BY time() requires at least one aggregate function",
                    ));
                }
                Shape::Raw(raw(&columns, &mut variables)?)
            }
        };
        Ok(Plan {
            variables: variables.list,
            selector,
            condition,
            source_filter,
            row_filter,
            dimensions,
            columns: columns.into_iter().map(|(name, _)| name).collect(),
            shape,
        })
    }

    /// Returns whether no field is read. Such a query has an empty answer.
    pub fn reads_nothing(&self) -> bool {
        matches!(&self.shape, Shape::Raw(raw) if raw.fields.is_empty())
    }

    /// Returns whether the conditions on tags hold for a source.
    pub fn wants(&self, tags: &[(&str, &str)]) -> bool {
        let value = |variable: &Variable| {
            let found = tags.iter().find(|(tag, _)| *tag == variable.name);
            found
                .filter(|_| variable.kind == Kind::Tag)
                .map(|(_, value)| Cell::text(value))
        };
        let row: Vec<Option<Cell>> = self.variables.iter().map(value).collect();
        let mut conditions = self.source_filter.iter();
        conditions.all(|condition| is_true(&condition.value(&row)))
    }

    /// Returns whether the conditions with fields hold for a row.
    pub fn holds(&self, row: &[Option<Cell>]) -> bool {
        let mut conditions = self.row_filter.iter();
        conditions.all(|condition| is_true(&condition.value(row)))
    }

    /// Returns the group of a source with these tags: one value for each dimension.
    pub fn group(&self, tags: &[(&str, &str)]) -> Vec<String> {
        let value = |name: &String| {
            let found = tags.iter().find(|(tag, _)| tag == name);
            found.map_or_else(String::new, |(_, value)| value.to_string())
        };
        self.dimensions.iter().map(value).collect()
    }
}

/// Variables that expressions name.
struct Variables<'s> {
    schema: &'s Schema,
    list: Vec<Variable>,
}

impl Variables<'_> {
    fn place(&mut self, name: &str, kind: Option<Kind>) -> usize {
        let variable = Variable {
            name: name.to_string(),
            kind: self.schema.kind(name, kind),
            is_numeric: !self.schema.fields.contains_key(name) || self.schema.is_numeric(name),
        };
        let known = self.list.iter().position(|known| *known == variable);
        known.unwrap_or_else(|| {
            self.list.push(variable);
            self.list.len() - 1
        })
    }
}

fn raw(columns: &[(String, Expression)], variables: &mut Variables<'_>) -> Result<Raw, Error> {
    let mut nodes = Vec::new();
    for (_, expression) in columns {
        let place = &mut |name: &str, kind| variables.place(name, kind);
        nodes.push(node(expression, &Node::Place, place)?);
    }
    let mut fields = Vec::new();
    for node in &nodes {
        node.places(&mut |place| {
            if variables.list[place].kind == Kind::Field {
                fields.push(place);
            }
        });
    }
    Ok(Raw { nodes, fields })
}

fn grouped(
    query: &Select,
    columns: &[(String, Expression)],
    variables: &mut Variables<'_>,
) -> Result<Grouped, Error> {
    let mut builder = Builder {
        variables,
        every: query.every.map(|(every, _)| every),
        is_inner: false,
        slots: Vec::new(),
        extras: Vec::new(),
    };
    let mut outputs = Vec::new();
    for (_, expression) in columns {
        outputs.push(builder.node(expression)?);
    }
    let (slots, extras) = (builder.slots, builder.extras);
    let selects = match slots.as_slice() {
        [Slot::Aggregate { aggregate, .. }] => aggregate.selects(),
        _ => false,
    };
    if !extras.is_empty() && !selects {
        return Err(Error::invalid(
            "mixing aggregate and non-aggregate queries is not supported; only one of first, last, max, min, percentile, \
             top and bottom can stand beside fields and tags",
        ));
    }
    let has_many =
        |slot: &Slot| matches!(slot, Slot::Aggregate { aggregate, .. } if aggregate.has_many());
    if slots.len() > 1 && slots.iter().any(has_many) {
        return Err(Error::invalid(
            "top, bottom and distinct cannot be combined with other functions",
        ));
    }
    Ok(Grouped {
        slots,
        outputs,
        extras,
    })
}

/// Builder of the slots of a query.
struct Builder<'b, 's> {
    variables: &'b mut Variables<'s>,
    every: Option<i64>,
    /// True within the argument of a transformation.
    is_inner: bool,
    slots: Vec<Slot>,
    extras: Vec<usize>,
}

impl Builder<'_, '_> {
    /// Compiles an expression over slots.
    fn node(&mut self, expression: &Expression) -> Result<Node, Error> {
        match expression {
            Expression::Call(name, arguments) if is_math(name) => {
                let nodes: Result<Vec<Node>, Error> = arguments
                    .iter()
                    .map(|argument| self.node(argument))
                    .collect();
                math(name, nodes?)
            }
            Expression::Call(name, arguments) => self.call(name, arguments).map(Node::Place),
            Expression::Binary(operator, left, right) => Ok(Node::Binary(
                *operator,
                Box::new(self.node(left)?),
                Box::new(self.node(right)?),
            )),
            Expression::Matches(left, regex, negated) => Ok(Node::Matches(
                Box::new(self.node(left)?),
                regex.clone(),
                *negated,
            )),
            Expression::Name(name, kind) => {
                let variable = self.variables.place(name, *kind);
                let known = self.extras.iter().position(|known| *known == variable);
                let at = known.unwrap_or_else(|| {
                    self.extras.push(variable);
                    self.extras.len() - 1
                });
                // The values of a row follow the only slot.
                Ok(Node::Place(1 + at))
            }
            other => node(other, &Node::Place, &mut |_, _| 0),
        }
    }

    /// Returns the slot of a function.
    fn call(&mut self, name: &str, arguments: &[Expression]) -> Result<usize, Error> {
        let argument = arguments
            .first()
            .ok_or_else(|| Error::invalid(format!("{name}() needs the name of a field")));
        let inner = match &arguments.first() {
            Some(first) => names::has_function(first),
            None => false,
        };
        let default_unit = self.every.filter(|_| inner);
        let slot = match function(name, arguments, default_unit)? {
            Function::Transform(transform) if inner => {
                if self.every.is_none() {
                    return Err(Error::invalid(format!(
                        "{name} of an aggregate requires GROUP BY time()"
                    )));
                }
                let outer = std::mem::replace(&mut self.is_inner, true);
                let node = self.node(argument?)?;
                self.is_inner = outer;
                Slot::Transform(transform, node)
            }
            Function::Transform(transform) => {
                if self.every.is_some() {
                    return Err(Error::invalid(format!(
                        "aggregate function required inside the call to {name}"
                    )));
                }
                let variable = self.field(name, argument?)?;
                let points = self.slot(Slot::Points(variable));
                Slot::Transform(transform, Node::Place(points))
            }
            Function::Aggregate(aggregate) => {
                let field = match (aggregate, argument?) {
                    (Aggregate::CountDistinct, Expression::Call(_, inner)) => inner.first(),
                    (_, field) => Some(field),
                };
                let field = field.ok_or_else(|| Error::invalid("distinct() needs a field"))?;
                Slot::Aggregate {
                    aggregate,
                    variable: self.field(name, field)?,
                    distinct: self.tags(aggregate, arguments)?,
                    widened: self.is_inner,
                }
            }
        };
        Ok(self.slot(slot))
    }

    /// Returns the place of a slot, which is added if it is new.
    fn slot(&mut self, slot: Slot) -> usize {
        let known = self.slots.iter().position(|known| known.is(&slot));
        known.unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }

    /// Returns the variable of a field that is the argument of a function.
    fn field(&mut self, function: &str, argument: &Expression) -> Result<usize, Error> {
        let Expression::Name(name, _) = argument else {
            return Err(Error::invalid(format!(
                "expected a field as the argument of {function}()"
            )));
        };
        let schema = self.variables.schema;
        let is_known = schema.fields.contains_key(name);
        if is_known && !takes_any_type(function) && !schema.has_numbers(name) {
            return Err(Error::invalid(format!(
                "{function}() needs numbers, and field {name:?} has none"
            )));
        }
        Ok(self.variables.place(name, Some(Kind::Field)))
    }

    /// Returns the variables of the tags of `top` and `bottom`.
    fn tags(
        &mut self,
        aggregate: Aggregate,
        arguments: &[Expression],
    ) -> Result<Vec<usize>, Error> {
        if !matches!(aggregate, Aggregate::Top(_) | Aggregate::Bottom(_)) {
            return Ok(Vec::new());
        }
        let between = arguments.get(1..arguments.len().saturating_sub(1));
        let mut tags = Vec::new();
        for argument in between.unwrap_or_default() {
            match argument {
                Expression::Name(name, _) => {
                    let place = self.variables.place(name, None);
                    tags.push(place);
                }
                _ => {
                    return Err(Error::invalid(
                        "top and bottom take a field, tags and a number",
                    ));
                }
            }
        }
        Ok(tags)
    }
}
