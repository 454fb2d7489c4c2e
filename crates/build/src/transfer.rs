//! `COPY` and `ADD`: from the arguments to the step.

use crate::config::absolute;
use crate::mode::FileMode;
use crate::scope::{Globals, Scope};
use crate::worker::{CopyStep, Origin};
use crate::{Fault, Repository};
use tote_dockerfile::Transfer;
use tote_image::Digest;

/// The instruction, `COPY` or `ADD`.
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

/// Arguments that `COPY` and `ADD` do not share.
pub(crate) struct Special<'a> {
    pub(crate) verb: Verb,
    pub(crate) from: Origin,
    pub(crate) parents: bool,
    /// `--unpack`
    pub(crate) unpack: Option<bool>,
    /// `--checksum`
    pub(crate) checksum: Option<&'a str>,
    /// `--keep-git-dir`
    pub(crate) keep_git_dir: bool,
}

pub(crate) fn step(
    special: Special<'_>,
    transfer: &Transfer,
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
    let Special { verb, from, .. } = special;
    let is_add = verb == Verb::Add;
    let mut sources = all(&transfer.sources)?;
    let destination = expand(&transfer.destination)?;
    let is_dir = destination.ends_with('/') || destination == "." || destination.ends_with("/.");
    if sources.len() + transfer.heredocs.len() > 1 && !is_dir {
        return Err(Fault::Destination(verb.name()));
    }
    let mut repositories = Vec::new();
    if is_add {
        repositories = take_repositories(&mut sources, special.keep_git_dir)?;
    }
    let downloads = sources
        .extract_if(.., |source| is_add && is_url(source))
        .collect::<Vec<_>>();
    let mut checksum = None;
    if let Some(text) = special.checksum {
        let text = expand(text)?;
        match (downloads.as_slice(), &mut *repositories) {
            _ if !sources.is_empty() => return Err(Fault::ChecksumOf),
            ([_], []) => checksum = Some(digest(&text)?),
            ([], [only]) => *only = only.clone().with_checksum(&text)?,
            _ => return Err(Fault::ChecksumOf),
        }
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
        downloads,
        repositories,
        checksum,
        inline: inline.collect::<Result<_, Fault>>()?,
        destination: absolute,
        chown: transfer.chown.as_deref().map(expand).transpose()?,
        mode: transfer
            .chmod
            .as_deref()
            .map(|text| mode(&expand(text)?))
            .transpose()?,
        exclude: all(&transfer.exclude)?,
        parents: special.parents,
        unpack: is_add && special.unpack != Some(false),
        unpack_downloads: special.unpack == Some(true),
    })
}

fn digest(text: &str) -> Result<Digest, Fault> {
    text.parse().map_err(|_| Fault::Value {
        what: "checksum",
        value: text.to_owned(),
    })
}

fn mode(text: &str) -> Result<FileMode, Fault> {
    FileMode::parse(text).ok_or_else(|| Fault::Chmod(text.to_owned()))
}

fn is_url(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

/// Removes the repositories from the sources, and returns them.
fn take_repositories(sources: &mut Vec<String>, keep_git_dir: bool) -> Result<Vec<Repository>, Fault> {
    let (mut repositories, mut others) = (Vec::new(), Vec::new());
    for source in sources.drain(..) {
        match Repository::parse(&source)? {
            Some(mut repository) => {
                if keep_git_dir {
                    repository.keep_git_dir = Some(true);
                }
                repositories.push(repository);
            }
            None => others.push(source),
        }
    }
    *sources = others;
    Ok(repositories)
}
