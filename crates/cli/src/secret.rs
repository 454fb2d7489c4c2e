//! `tote secret …`.

use crate::home::home;
use crate::listing::{describe_each, each_named, only_ids, show};
use crate::tell::{engine_error, print, print_made, tell_damaged, tell_left};
use crate::words::{values, words};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::ExitCode;
use tote_engine::{EngineError, NewSecret, SecretFault, SecretRow};
use tote_options::Parsed;

/// The most bytes of a secret that are read: more than it may have.
const LIMIT: u64 = 1 << 20;

pub(crate) fn create(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let words = words(parsed);
    let [name, source] = words.as_slice() else {
        return Ok(ExitCode::FAILURE);
    };
    let data = match (parsed.flag("env"), source.as_str()) {
        (true, variable) => match std::env::var_os(variable) {
            Some(value) => std::os::unix::ffi::OsStringExt::into_vec(value),
            None => {
                // podman's words.
                let text =
                    format!("cannot create store secret data: environment variable {variable} is not set");
                return Err(EngineError::Usage(text));
            }
        },
        (false, "-") => read(std::io::stdin(), "-")?,
        (false, path) => read(std::fs::File::open(path).map_err(unread(path))?, path)?,
    };
    let labels = values(parsed, "label")
        .into_iter()
        .map(|label| match label.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None => (label, String::new()),
        });
    let secret = NewSecret {
        name: name.clone(),
        driver: parsed
            .value("driver")
            .unwrap_or("file".as_ref())
            .to_string_lossy()
            .into_owned(),
        labels: labels.collect::<BTreeMap<_, _>>(),
        data,
        replace: parsed.flag("replace"),
        ignore: parsed.flag("ignore"),
    };
    let id = tote_engine::create_secret(&home(parsed)?, secret)?;
    Ok(print_made(&id, "the secret is"))
}

fn read(from: impl std::io::Read, path: &str) -> Result<Vec<u8>, EngineError> {
    let mut data = Vec::new();
    from.take(LIMIT).read_to_end(&mut data).map_err(unread(path))?;
    Ok(data)
}

fn unread(path: &str) -> impl FnOnce(std::io::Error) -> EngineError {
    let path = path.into();
    move |source| {
        EngineError::from(SecretFault::File {
            attempt: "read",
            path,
            source,
        })
    }
}

pub(crate) fn exists(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let name = words(parsed).pop().unwrap_or_default();
    let is_here = tote_engine::has_secret(&home(parsed)?, &name)?;
    Ok(ExitCode::from(u8::from(!is_here)))
}

pub(crate) fn list(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let rows = tote_engine::secrets(&home(parsed)?, &values(parsed, "filter"))?;
    tell_damaged(rows.iter().map(|row| &row.error));
    if only_ids(parsed) {
        let ids = rows.iter().map(|row| format!("{}\n", handle(row)));
        return Ok(print(&ids.collect::<String>()));
    }
    Ok(show(&tote_view::secrets(&rows), parsed))
}

/// Returns the id by which commands find a secret; the name of one that cannot be used.
fn handle(row: &SecretRow) -> &str {
    if row.id.is_empty() { &row.name } else { &row.id }
}

pub(crate) fn inspect(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    let find = |name: &str| tote_engine::inspect_secret(&home, name, parsed.flag("showsecret"));
    if !parsed.flag("pretty") {
        return Ok(describe_each(parsed, |name| {
            Ok(tote_view::secret_details(&find(name)?))
        }));
    }
    let mut code = ExitCode::SUCCESS;
    for name in words(parsed) {
        match find(&name) {
            Ok(found) => drop(print(&tote_view::secret(&found))),
            Err(error) => {
                engine_error(&error);
                code = ExitCode::from(1);
            }
        }
    }
    Ok(code)
}

pub(crate) fn remove(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let home = home(parsed)?;
    if parsed.flag("all") {
        let (mut removed, mut errors) = (String::new(), Vec::new());
        for row in tote_engine::secrets(&home, &[])? {
            // A secret of a newer tote goes only if it is named.
            match tote_engine::remove_secret(&home, handle(&row), false) {
                Ok(id) => removed += &(id + "\n"),
                Err(error) => errors.push(error),
            }
        }
        let code = print(&removed);
        return Ok(tell_left(&errors).unwrap_or(code));
    }
    Ok(each_named(parsed, |name| {
        match tote_engine::remove_secret(&home, name, parsed.flag("force")) {
            Err(error) if parsed.flag("ignore") && matches!(error.part(), Some(SecretFault::Missing(_))) => {
                Ok(String::new())
            }
            removed => Ok(removed? + "\n"),
        }
    }))
}
