//! `tote events`.

use crate::home::home;
use crate::listing::{BAD_TEMPLATE, refused};
use crate::tell::print;
use crate::words::values;
use std::process::ExitCode;
use tote_engine::container::Event;
use tote_engine::{EngineError, EventSelection};
use tote_options::Parsed;
use tote_template::{Template, TemplateError};
use tote_view::{EVENT_TYPES, event_fields, event_message, event_text};

enum Form {
    Text,
    Json,
    Template(Template),
}

fn tried(template: Template) -> Result<Template, TemplateError> {
    rendered(&template, &Event::default()).map(|_| template)
}

fn rendered(template: &Template, event: &Event) -> Result<String, TemplateError> {
    template.render_typed(&event_fields(event), EVENT_TYPES)
}

pub(crate) fn events(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let format = parsed.value("format").unwrap_or_default().to_string_lossy();
    let form = match format.trim() {
        "" => Form::Text,
        // JSON uses docker's names of fields, which differ from those of templates.
        "json" | "{{json .}}" | "{{ json . }}" => Form::Json,
        // Tried with an empty event: an unknown field is told before anything happens.
        text => match Template::parse(text).and_then(tried) {
            Ok(template) => Form::Template(template),
            Err(error) => return Ok(refused(&error, BAD_TEMPLATE)),
        },
    };
    let time = |option: &str| {
        parsed
            .value(option)
            .map(|time| time.to_string_lossy().into_owned())
    };
    // podman's way to ask for past events alone.
    let ends = parsed.value("stream").is_some() && !parsed.flag("stream");
    let selection = EventSelection {
        since: time("since"),
        until: time("until").or_else(|| ends.then(|| "0s".to_owned())),
        filters: values(parsed, "filter"),
    };
    let mut code = ExitCode::SUCCESS;
    tote_engine::events(&home(parsed)?, &selection, &mut |event| {
        let line = match &form {
            Form::Text => event_text(event),
            Form::Json => event_message(event).to_string(),
            Form::Template(template) => match rendered(template, event) {
                Ok(line) => line,
                Err(error) => {
                    code = refused(&error, 1);
                    return false;
                }
            },
        };
        // Stop if the output is closed, or takes no more.
        code = print(&format!("{line}\n"));
        code == ExitCode::SUCCESS
    })?;
    Ok(code)
}
