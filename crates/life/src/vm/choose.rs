//! Choice of what a machine is made of: how its instructions are executed, and its type.

use super::VmFault;
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tote_bundle::{Acceleration, MachineType, VmOptions};
use tote_spec::{Device, DeviceType};
use tote_state::{closed, record};
use tote_sys::{Wait, best_effort};
use tote_vmm::{Accel, Board};

/// Time in which QEMU says which machines it has.
const PATIENCE: Duration = Duration::from_secs(60);

/// Directories of the host's that have the VMM.
const DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/usr/libexec"];

/// Device by which the processor executes guests.
pub(crate) const KVM: &str = "/dev/kvm";

/// Name of the record of what QEMU can do.
const RECORD: &str = "qemu.json";

/// Abilities of this machine's QEMU. It is asked once, and again when its file has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// Path, size and time of the file.
    file: (PathBuf, u64, i64),
    /// True if it has the smallest machine.
    microvm: bool,
}

/// Finds QEMU on the host, at a path that the sandbox has as well.
pub(crate) fn program() -> Result<PathBuf, EngineError> {
    find(tote_vmm::PROGRAM)?.ok_or_else(|| VmFault::NoVmm(tote_vmm::PROGRAM).into())
}

/// Finds a program in the directories of VMMs.
fn find(name: &str) -> Result<Option<PathBuf>, EngineError> {
    for directory in DIRECTORIES {
        let path = Path::new(directory).join(name);
        if record::is_there(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Finds a VMM by the name of its program; `None` if the host has it not, or it cannot be known.
#[must_use]
pub fn vmm_at(name: &str) -> Option<PathBuf> {
    find(name).ok().flatten()
}

/// Chooses how instructions are executed: by the processor where it really executes those of a guest's kernel, as `probe` finds out.
pub(crate) fn accel(
    vm: &VmOptions,
    probe: impl FnOnce() -> Result<(), tote_sys::KvmFault>,
) -> Result<Accel, VmFault> {
    match vm.accel {
        Some(Acceleration::Tcg) => Ok(Accel::Tcg),
        Some(Acceleration::Kvm) => match probe() {
            Ok(()) => Ok(Accel::Kvm),
            Err(fault) => Err(VmFault::NoKvm(fault.to_string())),
        },
        None => Ok(probe().map_or(Accel::Tcg, |()| Accel::Kvm)),
    }
}

/// Chooses the type of the machine: the smallest one that this QEMU has.
pub(crate) fn board(home: &Home, vm: &VmOptions, program: &Path, dry: bool) -> Result<Board, EngineError> {
    match vm.machine {
        Some(MachineType::Microvm) => Ok(Board::Microvm),
        Some(MachineType::Q35) => Ok(Board::Q35),
        None if dry || known(home, program)?.microvm => Ok(Board::Microvm),
        None => Ok(Board::Q35),
    }
}

/// Returns the node by which the processor executes guests, for the sandbox of a machine that needs it.
pub(crate) fn kvm_node(accel: Accel) -> Result<Vec<Device>, VmFault> {
    if accel != Accel::Kvm {
        return Ok(Vec::new());
    }
    let found = Path::new(KVM).metadata().map_err(VmFault::file("look at", KVM))?;
    let number = found.rdev();
    Ok(vec![Device {
        path: KVM.to_owned(),
        kind: DeviceType::Char,
        major: rustix::fs::major(number).into(),
        minor: rustix::fs::minor(number).into(),
        file_mode: Some(0o666),
        uid: None,
        gid: None,
    }])
}

fn known(home: &Home, program: &Path) -> Result<Known, EngineError> {
    let found = program.metadata().map_err(VmFault::file("look at", program))?;
    let file = (program.to_owned(), found.size(), found.mtime());
    let place = home.vm().join(RECORD);
    // A record that cannot be read is made anew.
    if let Ok(Some(known)) = record::read::<Known>(&place)
        && known.file == file
    {
        return Ok(known);
    }
    let known = Known {
        microvm: has_microvm(&types(program, PATIENCE)?),
        file,
    };
    closed::directory(&home.vm()).map_err(VmFault::file("make", home.vm()))?;
    // Where it cannot be kept, it is asked again.
    best_effort(record::write(&place, &known));
    Ok(known)
}

/// Asks QEMU for the types of machines that it has.
fn types(program: &Path, patience: Duration) -> Result<String, VmFault> {
    // process: programs of the host
    #[expect(
        clippy::disallowed_methods,
        reason = "only the program itself knows, and it is asked once"
    )]
    let mut command = std::process::Command::new(program);
    command
        .args(["-machine", "help"])
        .env_clear()
        .stdin(Stdio::null());
    let asked = Wait::within(patience)
        .output(&mut command)
        .map_err(VmFault::file("start", program))?;
    Ok(String::from_utf8_lossy(&asked.stdout).into_owned())
}

/// True if QEMU's list of machines has the smallest one. A list that says nothing is of a QEMU that cannot tell.
fn has_microvm(types: &str) -> bool {
    let mut names = types.lines().filter_map(|line| line.split_whitespace().next());
    types.trim().is_empty() || names.any(|name| name == Board::Microvm.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tote_sys::KvmFault;

    #[test]
    fn a_qemu_that_says_nothing_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let silent = dir.path().join("qemu");
        std::os::unix::fs::symlink("/bin/sleep", &silent).unwrap();
        // It takes the option for an invalid time, and says so: this shows that the program is executed.
        assert_eq!(types(&silent, PATIENCE).unwrap(), "");
        let text = "#!/bin/sh\nexec /bin/sleep 1000\n";
        let script = dir.path().join("script");
        std::fs::write(&script, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::File::open(&script)
            .unwrap()
            .set_permissions(mode)
            .unwrap();
        let late = types(&script, Duration::from_millis(50)).unwrap_err();
        assert!(tote_sys::chain(&late).contains("timed out"), "{late:?}");
    }

    #[test]
    fn kvm_is_used_where_it_executes_a_kernel() {
        let vm = |accel| VmOptions {
            accel,
            ..VmOptions::default()
        };
        let bad = || Err(KvmFault::Emulated(17));
        assert_eq!(accel(&vm(None), || Ok(())).unwrap(), Accel::Kvm);
        assert_eq!(accel(&vm(None), bad).unwrap(), Accel::Tcg);
        let tcg = vm(Some(Acceleration::Tcg));
        assert_eq!(accel(&tcg, || panic!("nothing to find out")).unwrap(), Accel::Tcg);
        let kvm = vm(Some(Acceleration::Kvm));
        assert_eq!(accel(&kvm, || Ok(())).unwrap(), Accel::Kvm);
        let refused = accel(&kvm, bad).unwrap_err().to_string();
        assert!(
            refused.starts_with("cannot use accel=kvm: /dev/kvm emulates the kernel of a guest"),
            "{refused}"
        );
    }

    #[test]
    fn machines_of_a_qemu() {
        let list = "Supported machines are:\nmicrovm              microvm (i386)\nq35                  PC\n";
        assert!(has_microvm(list));
        assert!(!has_microvm(&list.replace("\nmicrovm", "\nother")));
        assert!(has_microvm(""));
    }

    #[test]
    fn a_qemu_is_asked_once() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(&dir.path().join("root"))).unwrap();
        let program = dir.path().join("qemu");
        std::fs::write(&program, "no program").unwrap();
        let vm = VmOptions::default();
        let error = board(&home, &vm, &program, false).unwrap_err().to_string();
        assert!(error.starts_with("cannot start "), "{error}");
        let found = program.metadata().unwrap();
        let known = Known {
            file: (program.clone(), found.size(), found.mtime()),
            microvm: false,
        };
        closed::directory(&home.vm()).unwrap();
        record::write(&home.vm().join(RECORD), &known).unwrap();
        assert_eq!(board(&home, &vm, &program, false).unwrap(), Board::Q35);
        let asked = VmOptions {
            machine: Some(MachineType::Microvm),
            ..vm
        };
        assert_eq!(board(&home, &asked, &program, false).unwrap(), Board::Microvm);
    }
}
