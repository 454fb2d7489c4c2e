//! Exactly the modules that a guest needs.

use crate::KernelError;
use crate::find::Kernel;
use crate::modinfo::modinfo;
use std::collections::BTreeSet;

/// A module, decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name as the kernel has it, with `_` for each `-`.
    pub name: String,
    /// The ELF file.
    pub content: Vec<u8>,
}

/// Modules and built-in parts of a kernel, by name.
pub(crate) trait Modules {
    /// Returns the content of a module; `None` if there is no such module.
    fn module(&self, name: &str) -> Result<Option<Vec<u8>>, KernelError>;

    /// True if the kernel has it without a module.
    fn has_builtin(&self, name: &str) -> bool;

    /// Returns the release of the kernel.
    fn release(&self) -> &str;
}

/// Returns the modules that these need, themselves included, each after all that it needs. `optional` ones may be absent.
///
/// # Errors
/// [`KernelError::NoModule`] and those of reading.
pub fn closure(kernel: &Kernel, wanted: &[&str], optional: &[&str]) -> Result<Vec<Module>, KernelError> {
    closure_of(kernel, wanted, optional)
}

pub(crate) fn closure_of(
    kernel: &dyn Modules,
    wanted: &[&str],
    optional: &[&str],
) -> Result<Vec<Module>, KernelError> {
    let mut closure = Closure {
        kernel,
        seen: BTreeSet::new(),
        modules: Vec::new(),
    };
    for name in optional {
        closure.add(name, false)?;
    }
    for name in wanted {
        closure.add(name, true)?;
    }
    Ok(closure.modules)
}

struct Closure<'a> {
    kernel: &'a dyn Modules,
    seen: BTreeSet<String>,
    modules: Vec<Module>,
}

impl Closure<'_> {
    /// Adds a module after all that it needs.
    fn add(&mut self, name: &str, is_needed: bool) -> Result<(), KernelError> {
        let name = plain(name);
        if self.seen.contains(&name) || self.kernel.has_builtin(&name) {
            return Ok(());
        }
        let Some(content) = self.kernel.module(&name)? else {
            return if is_needed {
                Err(KernelError::NoModule {
                    release: self.kernel.release().to_owned(),
                    name,
                })
            } else {
                Ok(())
            };
        };
        // Before its own needs: modules that need each other would never end.
        self.seen.insert(name.clone());
        for (needed, is_needed) in needs(&content).ok_or_else(|| KernelError::Module(name.clone()))? {
            self.add(&needed, is_needed)?;
        }
        let content = unsigned(content);
        self.modules.push(Module { name, content });
        Ok(())
    }
}

/// Returns a module without the signature behind it. Guests would check each, which takes an emulated processor a while, and nothing
/// depends on it: what gives them the modules gives them the kernel as well.
pub(crate) fn unsigned(mut module: Vec<u8>) -> Vec<u8> {
    const END: &[u8] = b"~Module signature appended~\n";
    /// Length of `struct module_signature`, whose last four bytes are that of the signature.
    const RECORD: usize = 12;
    let length = || {
        let record = module.strip_suffix(END)?;
        let signature = u32::from_be_bytes(*record.last_chunk()?);
        record.len().checked_sub(RECORD)?.checked_sub(signature as usize)
    };
    if let Some(length) = length() {
        module.truncate(length);
    }
    module
}

/// Returns the names that a module needs, and whether it cannot do without. What is to be loaded before it
/// (`softdep=pre: NAME…`) may also be built in under another name.
fn needs(module: &[u8]) -> Option<Vec<(String, bool)>> {
    let mut needs = Vec::new();
    for (key, value) in modinfo(module)? {
        match key {
            "depends" => {
                let names = value.split(',').filter(|name| !name.is_empty());
                needs.extend(names.map(|name| (name.to_owned(), true)));
            }
            "softdep" => {
                let before = value.split("post:").next().unwrap_or_default();
                let names = before.split_whitespace().filter(|word| *word != "pre:");
                needs.extend(names.map(|name| (name.to_owned(), false)));
            }
            _ => {}
        }
    }
    Some(needs)
}

/// Returns a name as the kernel has it.
pub(crate) fn plain(name: &str) -> String {
    name.replace('-', "_")
}
