//! Files that options name.

use crate::{EngineError, RequestError};
use std::io::Write as _;
use std::path::PathBuf;
use tote_bundle::{ContainerId, EnvOptions, RunOptions};

/// `--env-host`: a variable that is not text cannot be recorded, and is left out.
fn note_environment(options: &mut RunOptions) {
    if options.env_base.host && options.env_base.of_host.is_empty() {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            Some(format!("{name}={value}"))
        });
        options.env_base.of_host.extend(variables);
    }
}

/// `--env-host`, `--label-file` and the lists of `--egress`.
pub fn read_surroundings(options: &mut RunOptions) -> Result<(), EngineError> {
    note_environment(options);
    if let Some(egress) = &mut options.egress {
        for path in std::mem::take(&mut egress.files) {
            egress
                .add_file(&read("egress", &path)?)
                .map_err(tote_bundle::OptionError::EgressFile)?;
        }
    }
    check_cpus(options)?;
    let paths = options.label_files.iter();
    let texts: Vec<String> = paths
        .map(|path| read("label-file", path))
        .collect::<Result<_, _>>()?;
    Ok(options.add_label_files(&texts)?)
}

/// `--cpus`: at most as many processors as there are, as docker has it.
pub fn check_cpus(options: &RunOptions) -> Result<(), EngineError> {
    if options.nano_cpus == 0 {
        return Ok(());
    }
    // Where the machine does not say, it is not for us to know better.
    match crate::processors::counted_processors() {
        Some(count) if options.nano_cpus > count.saturating_mul(1_000_000_000) => {
            Err(RequestError::Processors(count).into())
        }
        _ => Ok(()),
    }
}

/// `--env-file`: each is read once, however often this is asked for.
pub fn read_env_files(env: &mut EnvOptions) -> Result<(), EngineError> {
    for path in std::mem::take(&mut env.files) {
        env.add_file(&read("env-file", &path)?)
            .map_err(tote_bundle::OptionError::EnvFile)?;
    }
    Ok(())
}

fn read(option: &'static str, path: &str) -> Result<String, EngineError> {
    std::fs::read_to_string(path).map_err(|source| {
        EngineError::Request(RequestError::File {
            option,
            attempt: "read",
            path: PathBuf::from(path),
            source,
        })
    })
}

/// Reads a seccomp profile.
pub fn read_profile(path: PathBuf) -> Result<tote_spec::Seccomp, EngineError> {
    let text = std::fs::read_to_string(&path).map_err(|source| {
        EngineError::Request(RequestError::File {
            option: "security-opt",
            attempt: "read",
            path: path.clone(),
            source,
        })
    })?;
    serde_json::from_str(&text).map_err(|source| EngineError::Request(RequestError::Profile { path, source }))
}

/// Writes `--cidfile`; one that exists is another container's.
pub fn note_id(options: &RunOptions, id: &ContainerId) -> Result<(), EngineError> {
    let Some(path) = &options.cidfile else {
        return Ok(());
    };
    let written = std::fs::File::create_new(path).and_then(|mut file| file.write_all(id.as_str().as_bytes()));
    written.map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => EngineError::Request(RequestError::CidFile(path.clone())),
        _ => EngineError::Request(RequestError::File {
            option: "cidfile",
            attempt: "write",
            path: PathBuf::from(path),
            source,
        }),
    })
}
