//! New instances of file systems: fsopen(2), fsconfig(2), fsmount(2), and overlay's layers in every form that kernels
//! take.
//!
//! | form of a path | kernels that take it |
//! |---|---|
//! | longer than 255 bytes, as a descriptor | Linux 6.13 |
//! | longer than 255 bytes, as `/proc/self/fd/N` | every kernel |
//! | layers one by one (`lowerdir+`) | Linux 6.7 |
//! | layers as `/proc/self/fd/N` with colons between them | every kernel, as many as fit into 255 bytes |
//!
//! If the kernel refuses one way, the next is tried.

use crate::copy::descriptor_path;
use crate::text::Text;
use crate::{Errno, Parameter, Value};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use std::ffi::CStr;

/// The longest value that fsconfig(2) takes, in bytes.
const LONGEST: usize = 255;

/// Number of paths that can be held open for one file system; more layers than fit into a value.
const HELD: usize = 24;

/// Parameter key of a single layer.
const LAYER: &CStr = c"lowerdir+";

/// Makes a new instance of a file system. `place_mode` is the mode of the directory it is for, if that existed
/// before.
pub(crate) fn new(
    fs: &CStr,
    parameters: &[Parameter],
    set: MountAttrFlags,
    place_mode: Option<u32>,
    text: &mut Text,
) -> Result<OwnedFd, Errno> {
    let result = configured(fs, parameters, place_mode, Layers::Single, text);
    let context = match result {
        Err(Errno::INVAL)
            if parameters
                .iter()
                .any(|parameter| parameter.key.as_c_str() == LAYER) =>
        {
            *text = Text::EMPTY;
            configured(fs, parameters, place_mode, Layers::Together, text)?
        }
        result => result?,
    };
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, set)
}

/// Ways to pass layers to overlayfs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layers {
    /// A parameter for each layer.
    Single,
    /// All layers in one value.
    Together,
}

fn configured(
    fs: &CStr,
    parameters: &[Parameter],
    place_mode: Option<u32>,
    layers: Layers,
    text: &mut Text,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(fs, FsOpenFlags::FSOPEN_CLOEXEC)?;
    let mut held = Held::default();
    let mut configure = || {
        if layers == Layers::Together {
            set_together(&context, parameters, &mut held)?;
        }
        for Parameter { key, value } in parameters {
            match value {
                Value::Flag => fsconfig_set_flag(&context, key.as_c_str())?,
                Value::ModeOfPlace => {
                    if let Some(mode) = place_mode {
                        let octal = octal(mode);
                        fsconfig_set_string(&context, key.as_c_str(), octal_text(&octal)?)?;
                    }
                }
                Value::Path(_) if layers == Layers::Together && key.as_c_str() == LAYER => {}
                Value::Path(path) if path.as_bytes().len() > LONGEST => {
                    set_long_path(&context, key, path, &mut held)?;
                }
                Value::Text(value) | Value::Path(value) => {
                    fsconfig_set_string(&context, key.as_c_str(), value.as_c_str())?;
                }
            }
        }
        fsconfig_create(&context)
    };
    configure().inspect_err(|_| explain(&context, text))?;
    Ok(context)
}

/// Paths that are passed by descriptor; they stay open until the file system has been made.
#[derive(Default)]
struct Held {
    paths: [Option<OwnedFd>; HELD],
    count: usize,
}

impl Held {
    /// Opens a path; returns the name that it has from now on, with a NUL.
    fn open(&mut self, path: &CStr) -> Result<[u8; 25], Errno> {
        let place = self.paths.get_mut(self.count).ok_or(Errno::NAMETOOLONG)?;
        let opened = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let name = descriptor_path(opened.as_fd());
        *place = Some(opened);
        self.count += 1;
        Ok(name)
    }
}

/// Passes all layers as one value.
fn set_together(context: &OwnedFd, parameters: &[Parameter], held: &mut Held) -> Result<(), Errno> {
    let mut joined = [0u8; LONGEST + 1];
    let mut length = 0;
    for Parameter { key, value } in parameters {
        let Value::Path(path) = value else { continue };
        if key.as_c_str() != LAYER {
            continue;
        }
        let name = held.open(path)?;
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::INVAL)?;
        let colon: &[u8] = if length == 0 { b"" } else { b":" };
        for &byte in colon.iter().chain(name.to_bytes()) {
            // The last byte stays NUL.
            *joined[..LONGEST].get_mut(length).ok_or(Errno::NAMETOOLONG)? = byte;
            length += 1;
        }
    }
    let joined = CStr::from_bytes_until_nul(&joined).map_err(|_| Errno::INVAL)?;
    fsconfig_set_string(context, c"lowerdir", joined)
}

/// Passes a long path as a descriptor, or by a descriptor's name. Neither takes the backslashes that overlayfs wants
/// before `:`, `,` and `\`, so they are removed here; a single layer (`lowerdir+`) has none.
#[inline(never)]
fn set_long_path(context: &OwnedFd, key: &CStr, path: &CStr, held: &mut Held) -> Result<(), Errno> {
    let mut plain = [0u8; 4096];
    let mut length = 0;
    let mut escaped = false;
    for &byte in path.to_bytes() {
        escaped = byte == b'\\' && !escaped && !key.to_bytes().ends_with(b"+");
        if !escaped {
            *plain.get_mut(length).ok_or(Errno::NAMETOOLONG)? = byte;
            length += 1;
        }
    }
    let plain = CStr::from_bytes_with_nul(plain.get(..=length).ok_or(Errno::NAMETOOLONG)?)
        .map_err(|_| Errno::INVAL)?;
    let name = held.open(plain)?;
    let opened = held
        .paths
        .get(held.count - 1)
        .and_then(Option::as_ref)
        .ok_or(Errno::BADF)?;
    match fsconfig_set_fd(context, key, opened) {
        Err(Errno::INVAL) => {
            let name = CStr::from_bytes_until_nul(&name).map_err(|_| Errno::INVAL)?;
            fsconfig_set_string(context, key, name)
        }
        result => result,
    }
}

/// Reads the kernel's message about an error, which a file system context gives as `e overlay: …`.
fn explain(context: &OwnedFd, text: &mut Text) {
    let mut bytes = [0u8; 256];
    if let Ok(length) = rustix::io::read(context, &mut bytes)
        && length > 2
    {
        text.set(&bytes[2..length]);
    }
}

/// Formats permission bits as four octal digits and a NUL.
fn octal(mode: u32) -> [u8; 5] {
    let digit = |shift: u32| b'0' + (mode >> shift & 7) as u8;
    [digit(9), digit(6), digit(3), digit(0), 0]
}

fn octal_text(octal: &[u8; 5]) -> Result<&CStr, Errno> {
    CStr::from_bytes_with_nul(octal).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic anywhere, a skipped one says so"
)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn layer(path: &std::path::Path) -> Parameter {
        let text = path.to_str().unwrap();
        Parameter {
            key: LAYER.to_owned(),
            value: Value::Path(CString::new(text).unwrap()),
        }
    }

    /// Kernels before 6.7 need layers together.
    #[test]
    fn layers_together_are_what_they_are_one_by_one() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(200)).join("y:".repeat(60));
        let layers = [long, dir.path().join("b,c"), dir.path().join("d")];
        for (name, layer) in ["one", "two", "three"].iter().zip(&layers) {
            std::fs::create_dir_all(layer).unwrap();
            std::fs::write(layer.join(name), name).unwrap();
            std::fs::write(layer.join("all"), name).unwrap();
        }
        let parameters: Vec<_> = layers.iter().map(|path| layer(path)).collect();
        for way in [Layers::Single, Layers::Together] {
            let mut text = Text::EMPTY;
            let made = configured(c"overlay", &parameters, None, way, &mut text);
            if way == Layers::Single && made.as_ref().is_err_and(|errno| *errno == Errno::INVAL) {
                continue; // an older kernel
            }
            let attributes = MountAttrFlags::empty();
            let mount = fsmount(made.unwrap(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).unwrap();
            for (name, text) in [("one", "one"), ("two", "two"), ("three", "three"), ("all", "one")] {
                let file = openat(mount.as_fd(), name, OFlags::RDONLY, Mode::empty()).unwrap();
                assert_eq!(std::io::read_to_string(std::fs::File::from(file)).unwrap(), text);
            }
        }
        let many: Vec<_> = (0..20).map(|_| layer(&layers[2])).collect();
        let mut text = Text::EMPTY;
        let made = configured(c"overlay", &many, None, Layers::Together, &mut text);
        assert_eq!(made.unwrap_err(), Errno::NAMETOOLONG);
    }

    #[test]
    fn permission_bits_in_octal() {
        assert_eq!(octal(0o7777), *b"7777\0");
        assert_eq!(octal(0o710), *b"0710\0");
        assert_eq!(octal(0), *b"0000\0");
    }
}
