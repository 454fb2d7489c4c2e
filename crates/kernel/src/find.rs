//! A kernel and its modules in a directory.

use crate::KernelError;
use crate::modules::{Modules, plain};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use tote_archive::{Decoder, Expansion};

/// Bytes of a module at most.
const MODULE: u64 = 64 << 20;

/// Directories below one another at most.
const DEPTH: usize = 16;

/// Endings of modules.
const ENDINGS: [&str; 4] = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"];

/// A kernel with its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    image: PathBuf,
    release: String,
    modules: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl Kernel {
    /// Finds the newest kernel that has modules in a directory with `boot/` and `lib/modules/`. Those made for virtual
    /// machines (`-cloud-`) come first: they have fewer drivers, and boot in less time.
    ///
    /// # Errors
    /// [`KernelError::NoKernel`] if there is none, and those of reading.
    pub fn below(root: &Path) -> Result<Self, KernelError> {
        let boot = root.join("boot");
        let mut releases = Vec::new();
        for name in names(&boot)? {
            let Some(release) = name.strip_prefix("vmlinuz-") else {
                continue;
            };
            if let Some(modules) = modules_of(root, release) {
                releases.push((
                    release.contains("-cloud-"),
                    version(release),
                    name.clone(),
                    modules,
                ));
            }
        }
        releases.sort();
        let newest = releases.pop();
        let (.., name, modules) = newest.ok_or_else(|| KernelError::NoKernel(root.to_owned()))?;
        Self::of(&boot.join(name), &modules)
    }

    /// Takes an image of a kernel, and its directory of modules, whose name is the release.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of(image: &Path, modules: &Path) -> Result<Self, KernelError> {
        let release = modules.file_name().unwrap_or_default();
        let mut kernel = Self {
            image: image.to_owned(),
            release: release.to_string_lossy().into_owned(),
            modules: BTreeMap::new(),
            builtin: BTreeSet::new(),
        };
        let builtin = modules.join("modules.builtin");
        match std::fs::read_to_string(&builtin) {
            Ok(text) => kernel.builtin.extend(text.lines().filter_map(name_of)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(KernelError::file("read", builtin)(source)),
        }
        kernel.collect(&modules.join("kernel"), DEPTH)?;
        Ok(kernel)
    }

    /// Returns the release, as uname(2) has it.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Returns the path of the image.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    pub(crate) fn read_image(&self) -> Result<Vec<u8>, KernelError> {
        std::fs::read(&self.image).map_err(KernelError::file("read", &self.image))
    }

    fn collect(&mut self, dir: &Path, depth: usize) -> Result<(), KernelError> {
        let entries = std::fs::read_dir(dir).map_err(KernelError::file("read", dir))?;
        for entry in entries {
            let entry = entry.map_err(KernelError::file("read", dir))?;
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.is_ok_and(|kind| kind.is_dir()) {
                if depth > 0 {
                    self.collect(&path, depth - 1)?;
                }
            } else if let Some(name) = entry.file_name().to_str().and_then(name_of) {
                self.modules.insert(name, path);
            }
        }
        Ok(())
    }
}

impl Modules for Kernel {
    fn module(&self, name: &str) -> Result<Option<Vec<u8>>, KernelError> {
        let Some(path) = self.modules.get(name) else {
            return Ok(None);
        };
        let read = || {
            let limits = Expansion {
                total: MODULE,
                ..Expansion::default()
            };
            let mut content = Vec::new();
            Decoder::new(File::open(path)?, limits)?.read_to_end(&mut content)?;
            Ok(Some(content))
        };
        read().map_err(KernelError::file("read", path))
    }

    fn has_builtin(&self, name: &str) -> bool {
        self.builtin.contains(name)
    }

    fn release(&self) -> &str {
        &self.release
    }
}

/// Returns the names in a directory; none if it does not exist.
fn names(dir: &Path) -> Result<Vec<String>, KernelError> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(KernelError::file("read", dir))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(KernelError::file("read", dir))?;
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}

/// Returns the directory of a release's modules. Where `/lib` is a link to `/usr/lib`, an unpacked package may have either.
fn modules_of(root: &Path, release: &str) -> Option<PathBuf> {
    let below = ["lib/modules", "usr/lib/modules"].map(|dir| root.join(dir).join(release));
    below.into_iter().find(|dir| dir.join("kernel").is_dir())
}

/// Returns the name of a module in a path such as `kernel/fs/fuse/fuse.ko.xz`.
fn name_of(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let ending = ENDINGS.iter().find_map(|ending| file.strip_suffix(ending));
    ending.map(plain)
}

/// Returns the numbers of a release, by which it is older or newer than another one.
fn version(release: &str) -> Vec<u64> {
    let numbers = release.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}
