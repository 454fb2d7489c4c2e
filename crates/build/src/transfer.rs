//! `COPY` and `ADD`: from what is written to what is to be copied.

use crate::Fault;
use crate::config::absolute;
use crate::scope::{Globals, Scope};
use crate::worker::{CopyStep, Origin};
use tote_dockerfile::Transfer;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Copy,
    Add,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "COPY",
            Self::Add => "ADD",
        }
    }
}

pub(crate) fn step(
    verb: Verb,
    transfer: &Transfer,
    from: Origin,
    unpack: bool,
    (scope, globals): (&Scope, &Globals),
    (env, workdir): (&[String], &str),
) -> Result<CopyStep, Fault> {
    let expand = |text: &str| scope.expand(globals, text, env);
    let all = |texts: &[String]| {
        texts
            .iter()
            .map(|text| expand(text))
            .collect::<Result<Vec<_>, _>>()
    };
    let sources = all(&transfer.sources)?;
    if let Some(url) = sources.iter().find(|source| verb == Verb::Add && is_url(source)) {
        return Err(Fault::Url(url.clone()));
    }
    let destination = expand(&transfer.destination)?;
    let is_dir = destination.ends_with('/') || destination == "." || destination.ends_with("/.");
    if sources.len() + transfer.heredocs.len() > 1 && !is_dir {
        return Err(Fault::Destination(verb.name()));
    }
    let mut absolute = absolute(workdir, &destination);
    if is_dir && absolute != "/" {
        absolute.push('/');
    }
    let inline = transfer.heredocs.iter().map(|doc| {
        let content = if doc.expand {
            scope.heredoc(&doc.content, env)?
        } else {
            doc.content.clone()
        };
        Ok((doc.name.clone(), content))
    });
    Ok(CopyStep {
        from,
        sources,
        inline: inline.collect::<Result<_, Fault>>()?,
        destination: absolute,
        chown: transfer.chown.as_deref().map(expand).transpose()?,
        mode: transfer
            .chmod
            .as_deref()
            .map(|text| mode(&expand(text)?))
            .transpose()?,
        exclude: all(&transfer.exclude)?,
        unpack,
    })
}

fn mode(text: &str) -> Result<u32, Fault> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| Fault::Chmod(text.to_owned()))
}

fn is_url(source: &str) -> bool {
    ["http://", "https://", "git://", "git@", "ssh://"]
        .iter()
        .any(|start| source.starts_with(start))
}
