//! `tote build`.

use crate::{engine_error, home, print, warning};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tote_engine::{BuildContext, BuildEvent, BuildOptions, BuildRequest, EngineError};
use tote_options::{Parsed, UsageError};

/// Why nothing was built.
enum Failed {
    Usage(UsageError),
    Engine(EngineError),
}

impl From<UsageError> for Failed {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

pub(crate) fn build(parsed: &Parsed) -> ExitCode {
    match run(parsed) {
        Ok(code) => code,
        Err(Failed::Usage(error)) => crate::usage_error(&error),
        Err(Failed::Engine(error)) => {
            engine_error(&error);
            ExitCode::from(1)
        }
    }
}

fn run(parsed: &Parsed) -> Result<ExitCode, Failed> {
    let request = request(parsed)?;
    let quiet = parsed.flag("quiet");
    let mut tell = |event: BuildEvent<'_>| tell(&event, quiet);
    let built = tote_engine::build(home(parsed)?, &request, &mut tell)?;
    if let Some(path) = parsed.value("iidfile") {
        std::fs::write(path, built.id.to_string()).map_err(|source| EngineError::File {
            option: "iidfile",
            attempt: "write",
            path: PathBuf::from(path),
            source,
        })?;
    }
    if quiet {
        return Ok(print(&format!("{}\n", built.id)));
    }
    let mut text = format!("Successfully built {}\n", built.id.short());
    for name in &built.names {
        text += &format!("Successfully tagged {}\n", name.familiar());
    }
    Ok(print(&text))
}

fn request(parsed: &Parsed) -> Result<BuildRequest, Failed> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| EngineError::File {
            option: "file",
            attempt: "find",
            path: path.to_owned(),
            source,
        })
    };
    let path = parsed.positionals().first().map(Path::new);
    let context = match path {
        Some(path) if path != Path::new("-") => BuildContext::Directory(absolute(path)?),
        _ => BuildContext::Stdin,
    };
    let dockerfile = match parsed.value("file").map(Path::new) {
        Some(file) if file != Path::new("-") && context != BuildContext::Stdin => Some(absolute(file)?),
        other => other.map(Path::to_owned),
    };
    let mut args = BTreeMap::new();
    for text in parsed.texts("build-arg")? {
        match text.split_once('=') {
            Some((name, value)) => drop(args.insert(name.to_owned(), value.to_owned())),
            None => args.extend(std::env::var(text).ok().map(|value| (text.to_owned(), value))),
        }
    }
    let label = |text: &str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        (name.to_owned(), value.to_owned())
    };
    let mut secrets = BTreeMap::new();
    for text in parsed.texts("secret")? {
        let (id, source) = tote_engine::parse_secret(text, &|name| std::env::var_os(name).is_some())?;
        secrets.insert(id, source);
    }
    let host_network = match parsed.text("network")? {
        None | Some("none" | "default") => false,
        Some("host") => true,
        Some(other) => {
            return Err(parsed
                .invalid("network", other.as_ref(), "none and host are known")
                .into());
        }
    };
    Ok(BuildRequest {
        context,
        dockerfile,
        tags: parsed.texts("tag")?.into_iter().map(ToOwned::to_owned).collect(),
        options: BuildOptions {
            args,
            target: parsed
                .text("target")?
                .filter(|target| !target.is_empty())
                .map(ToOwned::to_owned),
            labels: parsed.texts("label")?.into_iter().map(label).collect(),
            no_cache: parsed.flag("no-cache"),
            platform: parsed.converted("platform", str::parse)?,
        },
        secrets,
        host_network,
        quiet: parsed.flag("quiet"),
    })
}

/// In the words of docker's builder.
fn tell(event: &BuildEvent<'_>, quiet: bool) {
    match event {
        BuildEvent::Unused(names) => {
            warning(&format!(
                "one or more build-args [{}] were not consumed",
                names.join(" ")
            ));
        }
        _ if quiet => {}
        BuildEvent::Step { number, total, text } => {
            print(&format!("Step {number}/{total} : {}\n", crate::one_line(text)));
        }
        BuildEvent::Triggers(1) => drop(print("# Executing 1 build trigger\n")),
        BuildEvent::Triggers(count) => drop(print(&format!("# Executing {count} build triggers\n"))),
        BuildEvent::Cached => drop(print(" ---> Using cache\n")),
        BuildEvent::Image(id) => drop(print(&format!(" ---> {}\n", id.short()))),
    }
}
