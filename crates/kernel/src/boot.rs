//! Files that a guest boots with: a small initramfs, which the kernel keeps in memory, and a disk with all that is read when it is needed.
//!
//! ```text
//! initramfs   init  modules/list  modules/N.ko     modules of every guest, and of machines with PCI
//! disk        tote  modules/list  modules/N.ko     modules of guests with certain devices
//! ```

use crate::KernelError;
use crate::cpio::{self, Cpio, LIST, MODULES};
use std::io::Write;
use tote_erofs::{Inode, Layout, Node, Tree, Xattr};

/// Name of the file system on the disk. No overlay has it among its layers, so all such disks have the same one.
const NAME: [u8; 16] = *b"tote, for guests";

/// Directories of the initramfs beside that of modules: the places of the first mounts.
const PLACES: [&str; 5] = ["dev", "proc", "sys", "root", "tote"];

/// Word behind the modules of machines with PCI, in the list of the initramfs.
const WITH_PCI: &str = "pci";

/// Modules of a kernel, by when a guest needs them.
#[derive(Debug)]
pub struct Boot<'a> {
    first: Vec<Listed<'a>>,
    later: Vec<Listed<'a>>,
}

/// A module with its line in a list.
#[derive(Debug)]
struct Listed<'a> {
    line: String,
    /// Name of its file.
    file: String,
    content: &'a [u8],
}

impl<'a> Boot<'a> {
    /// Takes the modules of [`crate::Guest::initramfs`]; `pci` is the number in their list that stands for PCI.
    ///
    /// # Errors
    /// [`KernelError::Modules`] if this is something else.
    pub fn of(modules: &'a [u8], pci: u32) -> Result<Self, KernelError> {
        let files = cpio::files(modules).ok_or(KernelError::Modules)?;
        let find = |path: &str| {
            files
                .iter()
                .find(|(name, _)| *name == path)
                .map(|(_, bytes)| *bytes)
        };
        let list = find(LIST).and_then(|list| std::str::from_utf8(list).ok());
        let mut boot = Self {
            first: Vec::new(),
            later: Vec::new(),
        };
        for line in list.ok_or(KernelError::Modules)?.lines() {
            let (name, device) = line.split_once(' ').unwrap_or((line, ""));
            let file = format!("{name}.ko");
            let content = find(&format!("{MODULES}/{file}")).ok_or(KernelError::Modules)?;
            let is_of_pci = device.parse() == Ok(pci);
            let line = match is_of_pci {
                true => format!("{name} {WITH_PCI}"),
                false => line.to_owned(),
            };
            let listed = Listed { line, file, content };
            if device.is_empty() || is_of_pci {
                boot.first.push(listed);
            } else {
                boot.later.push(listed);
            }
        }
        Ok(boot)
    }

    /// Returns the initramfs; `init` is the program of the first process.
    #[must_use]
    pub fn initramfs(&self, init: &[u8]) -> Vec<u8> {
        let mut cpio = Cpio::new();
        for directory in PLACES {
            cpio.directory(directory);
        }
        cpio.file("init", 0o755, init);
        cpio.directory(MODULES);
        for Listed { file, content, .. } in &self.first {
            cpio.file(&format!("{MODULES}/{file}"), 0o600, content);
        }
        cpio.file(LIST, 0o600, list(&self.first).as_bytes());
        cpio.finish()
    }

    /// Writes the disk, an image of EROFS; `program` is the file `tote` on it.
    ///
    /// # Errors
    /// Those of `out`; [`std::io::ErrorKind::InvalidData`] if the format cannot hold it.
    pub fn write_disk(&self, program: &[u8], out: impl Write) -> std::io::Result<()> {
        let list = list(&self.later);
        let mut modules: Vec<(&[u8], &[u8])> = self
            .later
            .iter()
            .map(|listed| (listed.file.as_bytes(), listed.content))
            .collect();
        modules.push((b"list", list.as_bytes()));
        modules.sort_unstable();
        let tree = DiskTree { program, modules };
        let layout = Layout::with_data(&tree, ROOT, NAME)
            .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))?;
        layout.write_with_data(out, &mut |number, out| out.write_all(tree.content(number)))
    }
}

fn list(modules: &[Listed<'_>]) -> String {
    modules
        .iter()
        .map(|listed| format!("{}\n", listed.line))
        .collect()
}

/// Numbers of inodes on the disk; the files of modules follow.
const ROOT: usize = 0;
const DIRECTORY: usize = 1;
const PROGRAM: usize = 2;
const FILES: usize = 3;

/// Tree of the disk: the program, and the files of the directory of modules, sorted.
struct DiskTree<'a> {
    program: &'a [u8],
    modules: Vec<(&'a [u8], &'a [u8])>,
}

impl DiskTree<'_> {
    fn content(&self, number: usize) -> &[u8] {
        match number {
            ROOT | DIRECTORY => &[],
            PROGRAM => self.program,
            _ => self
                .modules
                .get(number - FILES)
                .map_or(&[], |(_, content)| content),
        }
    }
}

impl Tree for DiskTree<'_> {
    fn inode(&self, number: usize) -> Inode<'_> {
        let node = match number {
            ROOT | DIRECTORY => Node::Directory,
            _ => Node::File(self.content(number).len() as u64),
        };
        Inode {
            mode: if number <= PROGRAM { 0o755 } else { 0o600 },
            uid: 0,
            gid: 0,
            secs: 0,
            nanos: 0,
            node,
        }
    }

    fn names<'a>(&'a self, number: usize, each: &mut dyn FnMut(&'a [u8], usize)) {
        match number {
            ROOT => {
                each(MODULES.as_bytes(), DIRECTORY);
                each(b"tote", PROGRAM);
            }
            DIRECTORY => {
                for (at, (name, _)) in self.modules.iter().enumerate() {
                    each(name, FILES + at);
                }
            }
            _ => {}
        }
    }

    fn xattrs(&self, _: usize, _: &mut dyn FnMut(Xattr<'_>)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the archive of a setup with these lines and modules.
    fn made_ready(list: &str, modules: &[&str]) -> Vec<u8> {
        let mut cpio = Cpio::new();
        cpio.directory(MODULES);
        for name in modules {
            cpio.file(&format!("{MODULES}/{name}.ko"), 0o600, name.as_bytes());
        }
        cpio.file(LIST, 0o600, list.as_bytes());
        cpio.into_bytes()
    }

    #[test]
    fn modules_are_where_they_are_needed() {
        let ready = made_ready(
            "ring\nblock\npci 0\nnet 1\nballoon 5\n",
            &["ring", "block", "pci", "net", "balloon"],
        );
        let boot = Boot::of(&ready, 0).unwrap();
        let initramfs = boot.initramfs(b"program");
        let files = cpio::files(&initramfs).unwrap();
        let content = |path: &str| {
            files
                .iter()
                .find(|(name, _)| *name == path)
                .map(|(_, bytes)| *bytes)
        };
        assert_eq!(content("init"), Some(&b"program"[..]));
        assert_eq!(content(LIST), Some(&b"ring\nblock\npci pci\n"[..]));
        assert_eq!(content("modules/block.ko"), Some(&b"block"[..]));
        assert_eq!(content("modules/net.ko"), None);
        assert_eq!(content("tote"), Some(&b""[..]), "the place of the disk");

        let file = tempfile::NamedTempFile::new().unwrap();
        boot.write_disk(&[7; 10_000], file.as_file()).unwrap();
        let disk = tote_erofs::Image::open(file.reopen().unwrap()).unwrap();
        let size = |path: &str| disk.find(path.as_bytes()).unwrap().map(|found| found.size);
        assert_eq!(size("tote"), Some(10_000));
        assert_eq!(size("modules/list"), Some("net 1\nballoon 5\n".len() as u64));
        assert_eq!(size("modules/net.ko"), Some(3));
        assert_eq!(size("modules/ring.ko"), None);
    }

    #[test]
    fn other_files_are_no_modules() {
        let whole = made_ready("ring\n", &["ring"]);
        assert!(Boot::of(&whole, 0).is_ok());
        let lacking = made_ready("ring\nblock\n", &["ring"]);
        let none = made_ready("", &[]);
        let bad = [&whole[..whole.len() - 4], b"ELF", b"", &lacking[..]];
        for bytes in bad {
            let error = Boot::of(bytes, 0).unwrap_err().to_string();
            assert!(error.contains("they are damaged"), "{error}");
        }
        assert!(Boot::of(&none, 0).is_ok());
    }
}
