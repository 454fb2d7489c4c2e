//! From a tree and a value to text.

use crate::TemplateError;
use crate::datum::{Budget, Datum, Spent, Unset};
use crate::function::Function;
use crate::syntax::{Branch, Command, Node, Operand, Pipeline, Term};
use serde_json::Value;
use std::rc::Rc;

/// Renders a template. `fields` are those that may lack a value.
pub(crate) fn render(
    nodes: &[Node],
    value: &Value,
    methods: &Value,
    fields: &[(&str, Unset)],
) -> Result<String, TemplateError> {
    let dot = Datum::of(value);
    let mut render = Render {
        variables: vec![("$".to_owned(), dot.clone())],
        methods,
        fields,
        budget: Budget::new(),
        text: String::new(),
    };
    render.nodes(nodes, &dot)?;
    Ok(render.text)
}

impl From<Spent> for TemplateError {
    fn from(_: Spent) -> Self {
        Self::Endlessly
    }
}

/// Way in which a block ended.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Through,
    Break,
    Continue,
}

struct Render<'a> {
    /// Variables, the innermost last.
    variables: Vec<(String, Datum<'a>)>,
    methods: &'a Value,
    fields: &'a [(&'a str, Unset)],
    budget: Budget,
    text: String,
}

impl<'a> Render<'a> {
    fn nodes(&mut self, nodes: &[Node], dot: &Datum<'a>) -> Result<Flow, TemplateError> {
        let outer = self.variables.len();
        let mut flow = Flow::Through;
        for node in nodes {
            self.budget.spend(1)?;
            flow = match node {
                Node::Text(text) => {
                    self.budget.push(&mut self.text, text)?;
                    Flow::Through
                }
                Node::Print(pipeline) => self.print(pipeline, dot)?,
                Node::If(branch) => {
                    if self.pipeline(&branch.on, dot)?.is_true() {
                        self.nodes(&branch.then, dot)?
                    } else {
                        self.nodes(&branch.otherwise, dot)?
                    }
                }
                Node::With(branch) => {
                    let value = self.pipeline(&branch.on, dot)?;
                    if value.is_true() {
                        self.nodes(&branch.then, &value)?
                    } else {
                        self.nodes(&branch.otherwise, dot)?
                    }
                }
                Node::Range(branch) => self.range(branch, dot)?,
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            // A variable set in a condition lives as long as the block around it, which does no harm.
            if flow != Flow::Through {
                break;
            }
        }
        self.variables.truncate(outer);
        Ok(flow)
    }

    fn print(&mut self, pipeline: &Pipeline, dot: &Datum<'a>) -> Result<Flow, TemplateError> {
        let value = self.pipeline(pipeline, dot)?;
        if !pipeline.names.is_empty() {
            return Ok(Flow::Through);
        }
        if let Datum::Missing(key) = &value {
            let key = key.to_string();
            return Err(TemplateError::NoField { key });
        }
        self.budget.print(&mut self.text, &value)?;
        Ok(Flow::Through)
    }

    fn range(&mut self, branch: &Branch, dot: &Datum<'a>) -> Result<Flow, TemplateError> {
        let outer = self.variables.len();
        let over = self.value(&branch.on, dot)?;
        let count = match &over {
            Datum::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
            Datum::Nil | Datum::Missing(_) | Datum::NoValue | Datum::Unset(Unset::Pointer) => Some(0),
            other if other.as_text().is_some() => None,
            other => other.len(),
        };
        let count = count.ok_or_else(|| TemplateError::Call {
            function: "range",
            reason: format!("can't iterate over {}", over.kind()),
        })?;
        if count == 0 {
            return self.nodes(&branch.otherwise, dot);
        }
        let mut members = match &over {
            Datum::Json(Value::Object(members)) => Some(members.iter()),
            _ => None,
        };
        for index in 0..count {
            self.budget.spend(1)?;
            let (key, item) = match members.as_mut().and_then(Iterator::next) {
                Some((name, member)) => (Datum::text(name), Datum::of(member)),
                None => {
                    let key = Datum::whole(index);
                    let item = over.item(index).unwrap_or_else(|| key.clone());
                    (key, item)
                }
            };
            let set: &[Datum] = &match branch.on.names.len() {
                2 => vec![key, item.clone()],
                _ => vec![item.clone()],
            };
            for (name, value) in branch.on.names.iter().zip(set) {
                self.set(name, value.clone(), branch.on.declares);
            }
            let flow = self.nodes(&branch.then, &item)?;
            if branch.on.declares {
                self.variables.truncate(outer);
            }
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::Through)
    }

    fn set(&mut self, name: &str, value: Datum<'a>, declares: bool) {
        let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
        match known {
            Some((_, place)) if !declares => *place = value,
            _ => self.variables.push((name.to_owned(), value)),
        }
    }

    /// Returns the value of a pipeline, and assigns it to its variables.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Datum<'a>) -> Result<Datum<'a>, TemplateError> {
        let value = self.value(pipeline, dot)?;
        for name in &pipeline.names {
            self.set(name, value.clone(), pipeline.declares);
        }
        Ok(value)
    }

    fn value(&mut self, pipeline: &Pipeline, dot: &Datum<'a>) -> Result<Datum<'a>, TemplateError> {
        let mut piped = None;
        for command in &pipeline.commands {
            piped = Some(self.command(command, dot, piped)?);
        }
        Ok(piped.unwrap_or(Datum::Nil))
    }

    fn command(
        &mut self,
        command: &Command,
        dot: &Datum<'a>,
        piped: Option<Datum<'a>>,
    ) -> Result<Datum<'a>, TemplateError> {
        self.budget.spend(1)?;
        let Some((first, rest)) = command.operands.split_first() else {
            return Ok(Datum::Nil);
        };
        if let Term::Function(function) = first.term {
            return self.call(function, rest, dot, piped);
        }
        if rest.is_empty() && piped.is_none() {
            return self.operand(first, dot);
        }
        let [method] = first.fields.as_slice() else {
            return Err(TemplateError::Unexpected {
                at: first.at,
                found: "a value with arguments".to_owned(),
            });
        };
        let mut arguments = Vec::new();
        for operand in rest {
            arguments.push(self.operand(operand, dot)?);
        }
        arguments.extend(piped);
        let of = self.methods.get(method);
        let of = of.ok_or_else(|| TemplateError::NoField { key: method.clone() })?;
        match arguments.as_slice() {
            [key] => {
                let found = key.as_text().and_then(|key| of.get(key));
                Ok(found.map_or_else(|| Datum::text(""), Datum::of))
            }
            _ => Err(TemplateError::Unexpected {
                at: first.at,
                found: format!(".{method} with {} arguments", arguments.len()),
            }),
        }
    }

    /// Calls a function. Arguments are evaluated from left to right, those of `and` and `or` only as far as needed.
    fn call(
        &mut self,
        function: Function,
        operands: &[Operand],
        dot: &Datum<'a>,
        piped: Option<Datum<'a>>,
    ) -> Result<Datum<'a>, TemplateError> {
        let mut arguments = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            let value = self.operand(operand, dot)?;
            let decided = match function {
                Function::And => !value.is_true(),
                Function::Or => value.is_true(),
                _ => false,
            };
            if decided {
                return Ok(value);
            }
            arguments.push(value);
        }
        arguments.extend(piped);
        function.call(&arguments, &mut self.budget)
    }

    fn operand(&mut self, operand: &Operand, dot: &Datum<'a>) -> Result<Datum<'a>, TemplateError> {
        self.budget.spend(1)?;
        let mut value = match &operand.term {
            Term::Dot => dot.clone(),
            Term::Nil => Datum::Nil,
            Term::Bool(value) => Datum::Bool(*value),
            Term::Number(number) => Datum::Number(number.clone()),
            Term::Text(text) => {
                self.budget.spend(text.len())?;
                Datum::text(text)
            }
            Term::Variable(name) => {
                let mut variables = self.variables.iter().rev();
                let found = variables.find(|(known, _)| known == name);
                let found = found.ok_or_else(|| TemplateError::NoVariable {
                    at: operand.at,
                    name: name.clone(),
                })?;
                found.1.clone()
            }
            Term::Function(function) => return self.call(*function, &[], dot, None),
            Term::Pipeline(pipeline) => self.pipeline(pipeline, dot)?,
        };
        let mut of = None;
        for field in &operand.fields {
            self.budget.spend(1)?;
            value = match member(&value, field) {
                Ok(Datum::Missing(_)) if of == Some(Unset::Map) => Datum::NoValue,
                Ok(Datum::Missing(key)) => self.unset(field).map_or(Datum::Missing(key), Datum::unset),
                Ok(Datum::Nil) => self.unset(field).map_or(Datum::Nil, Datum::unset),
                other => other?,
            };
            of = self.unset(field);
        }
        Ok(value)
    }

    /// Returns the type of a field without a value, if it is known.
    fn unset(&self, field: &str) -> Option<Unset> {
        let known = self.fields.iter().find(|(name, _)| *name == field);
        known.map(|(_, unset)| *unset)
    }
}

/// Returns a member of an object; [`Datum::Missing`] if it does not have that name.
fn member<'a>(of: &Datum<'a>, key: &str) -> Result<Datum<'a>, TemplateError> {
    match of {
        Datum::Json(Value::Object(members)) => {
            // docker's types call the field `ID` where the JSON has `Id`, and its users write either.
            let found = members
                .get(key)
                .or_else(|| members.get("Id").filter(|_| key == "ID"));
            Ok(found.map_or_else(|| Datum::Missing(Rc::from(key)), Datum::of))
        }
        Datum::Missing(key) => Err(TemplateError::NoField { key: key.to_string() }),
        Datum::NoValue | Datum::Unset(Unset::Map) => Ok(Datum::NoValue),
        other => Err(TemplateError::NotAnObject {
            key: key.to_owned(),
            kind: other.kind(),
        }),
    }
}
