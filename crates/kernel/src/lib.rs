//! Kernels of distributions, made ready for small virtual machines.
//!
//! A [`Kernel`] is found in a directory with `boot/` and `lib/modules/`, which is the root of a machine or an unpacked
//! package ([`unpack`]). [`Kernel::make`] takes the ELF file out of the compressed image, which saves each guest that work,
//! reads of the modules exactly those that a list of names needs, and puts them into an archive. [`Boot`] makes of that what a guest
//! boots with: an initramfs, and a disk.
//!
//! Invariants:
//!
//! - The modules are in the order in which they can be loaded: each comes after all that it needs. The reason for a
//!   module is in the module itself (`depends` and `softdep` of its `.modinfo`), so no index of depmod(8) is needed, which
//!   packages do not have.
//! - Packages and images are read as if they were an enemy's: whatever they say, there is a value or an error, and what is
//!   decompressed has a limit.
//!
//! Not in this crate: places of what it makes, the program that a guest begins with, and virtual machines.

mod ar;
mod boot;
mod cpio;
mod error;
mod find;
mod image;
mod lean;
mod lz4;
mod modinfo;
mod modules;
#[cfg(test)]
mod tests;

pub use ar::unpack;
pub use boot::Boot;
pub use error::KernelError;
pub use find::Kernel;
pub use lean::lean;
pub use modules::{Module, closure};

use cpio::{Cpio, LIST, MODULES};

/// Kernel and initramfs of a guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Release of the kernel, as uname(2) has it.
    pub release: String,
    /// The kernel as an ELF file.
    pub vmlinux: Vec<u8>,
    /// The modules in the order in which they are loaded, by name, with their sizes in bytes.
    pub modules: Vec<(String, u64)>,
    /// The modules, and in `modules/list` their order: an archive without an end, which may be the beginning of an initramfs.
    pub initramfs: Vec<u8>,
}

impl Kernel {
    /// Reads the kernel, and of its modules those that these need; `optional` ones may be absent. Those of `devices` are loaded only
    /// where the guest has a virtio device of that number; their lines in the list end with it. They may be absent if true stands there.
    ///
    /// # Errors
    /// [`KernelError`] names what is missing or cannot be read.
    pub fn make(
        &self,
        wanted: &[&str],
        optional: &[&str],
        devices: &[(&str, u32, bool)],
    ) -> Result<Guest, KernelError> {
        let vmlinux = image::vmlinux(self.read_image()?)?;
        let mut modules = closure(self, wanted, optional)?;
        let mut list: String = modules
            .iter()
            .map(|module| format!("{}\n", module.name))
            .collect();
        for (name, device, is_optional) in devices {
            let closure = if *is_optional {
                closure(self, wanted, &[optional, &[name]].concat())
            } else {
                closure(self, &[wanted, &[name]].concat(), optional)
            };
            for module in closure? {
                if !modules.contains(&module) {
                    list += &format!("{} {device}\n", module.name);
                    modules.push(module);
                }
            }
        }
        let mut cpio = Cpio::new();
        cpio.directory(MODULES);
        for module in &modules {
            cpio.file(&format!("{MODULES}/{}.ko", module.name), 0o600, &module.content);
        }
        cpio.file(LIST, 0o600, list.as_bytes());
        Ok(Guest {
            release: self.release().to_owned(),
            vmlinux,
            modules: modules
                .iter()
                .map(|module| (module.name.clone(), module.content.len() as u64))
                .collect(),
            initramfs: cpio.into_bytes(),
        })
    }
}
