//! Copies of a container that is in a virtual machine: the guest packs and extracts with the code of this folder, and the host
//! passes the archive on.

use super::error::CopyError;
use super::inside::Inside;
use super::place::Wanted;
use super::put::Copying;
use super::{Copied, CopyRequest, CopyStreams, Named, original};
use crate::container::Entry;
use crate::exec::converse;
use crate::{EngineError, Home};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use tote_sys::{best_effort, chain};

/// Bytes that pass at a time.
const CHUNK: usize = 64 << 10;

/// What the guest is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Name of the container, as given.
    name: String,
    /// Path in the container, as given.
    path: Vec<u8>,
    /// True if an archive is extracted there.
    writes: bool,
    follow: bool,
    overwrite: bool,
}

/// Copies between a container in a virtual machine, by its name and a path in it, and a stream.
pub(super) fn pass(
    home: &Home,
    (entry, name, path): (&Entry, &str, &[u8]),
    request: &CopyRequest,
    (streams, writes): (CopyStreams<'_>, bool),
    told: &mut dyn FnMut(u64),
) -> Result<Copied, EngineError> {
    let asked = Asked {
        name: name.to_owned(),
        path: path.to_vec(),
        writes,
        follow: request.follow,
        overwrite: request.overwrite,
    };
    let text = serde_json::to_vec(&asked).map_err(CopyError::Asked)?;
    let (target, plan) = crate::vm::copying(home, entry, &text, writes)?;
    let mut talk = converse(target, plan)?;
    let failed = |source: std::io::Error| CopyError::Passed(source);
    let mut bytes = 0;
    if let Some(mut input) = talk.input.take_if(|_| writes) {
        while let Some(piece) = next(streams.input).map_err(failed)? {
            bytes += piece.len() as u64;
            told(piece.len() as u64);
            // One that reads no more says why at its end.
            if input.write_all(&piece).is_err() {
                break;
            }
        }
    } else {
        while let Some(piece) = next(&mut talk.output).map_err(failed)? {
            bytes += piece.len() as u64;
            told(piece.len() as u64);
            streams.output.write_all(&piece).map_err(failed)?;
        }
        streams.output.flush().map_err(failed)?;
    }
    let (code, said) = talk.finish()?;
    if code != 0 {
        let said = String::from_utf8_lossy(&said);
        let said = said.trim_end();
        return Err(CopyError::Guest(said.strip_prefix("tote: ").unwrap_or(said).to_owned()).into());
    }
    Ok(Copied {
        bytes,
        devices_skipped: 0,
    })
}

/// Reads the next piece; `None` at the end.
fn next(from: &mut dyn Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut piece = vec![0; CHUNK];
    loop {
        match from.read(&mut piece) {
            Ok(length) => {
                piece.truncate(length);
                return Ok(Some(piece).filter(|piece| !piece.is_empty()));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Does what the host asks for, in the guest: `root` is the container's, and the archive is on a standard stream.
///
/// # Errors
/// The reason, in one line.
pub(crate) fn copy_in_guest(asked: &[u8], root: OwnedFd) -> Result<(), String> {
    let asked: Asked = serde_json::from_slice(asked).map_err(|error| error.to_string())?;
    let inside = Inside::of_guest(root, &asked.name);
    let request = CopyRequest {
        follow: asked.follow,
        overwrite: asked.overwrite,
        ..CopyRequest::default()
    };
    let wanted = Wanted::new(b"", &asked.path);
    let mut copying = Copying {
        request: &request,
        told: &mut |_| (),
    };
    let done = if asked.writes {
        let mut input = std::io::stdin().lock();
        let done = copying.unpack(&mut input, &inside, &wanted);
        // What follows the archive is not of interest, but whoever writes it does not fail.
        best_effort(std::io::copy(&mut input, &mut std::io::sink()));
        done
    } else {
        original(inside.tree(), &wanted, asked.follow, &Named::Inside(&inside))
            .map_err(EngineError::from)
            .and_then(|found| copying.pack(&found, &mut std::io::stdout().lock()))
    };
    done.map(drop).map_err(|error| chain(&error))
}
