//! QEMU, with its smallest machine.

use crate::console::{Tail, last_words};
use crate::exchange::say;
use crate::machine::Begin;
use crate::qmp::Qmp;
use crate::saved::{self, Files, MEMORY, Starting};
use crate::vmm::{Booted, Vmm, Wires};
use crate::{Accel, Disk, Link, Machine, Shares, Spare, VmmError};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use tote_sys::{Errno, OPEN_FOR_BOTH, best_effort, spawn_reporting, tsc_khz};

/// Name of the program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// Bytes of a spare disk.
const SPARE: u64 = 1 << 40;

/// QEMU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Qemu {
    /// User and group that it belongs to, if it is another one than this process's.
    pub user: Option<u32>,
}

impl Vmm for Qemu {
    fn boot(&self, machine: &Machine, wires: Wires) -> Result<Box<dyn Booted>, VmmError> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| start(machine, error))?;
        let fds = [theirs.as_fd(), wires.channel.as_fd(), wires.console.as_fd()];
        let shares = wires.shares.as_ref().map(AsFd::as_fd);
        for fd in fds.into_iter().chain(shares) {
            rustix::io::fcntl_setfd(fd, FdFlags::empty()).map_err(VmmError::kernel("pass on a socket"))?;
        }
        let [control, channel, console] = fds.map(|fd| fd.as_raw_fd());
        let shares = shares.map(|fd| fd.as_raw_fd());
        let files = Files::open(machine)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "a machine is a program of the host, at a path that was found before"
        )]
        let mut command = Command::new(&machine.program);
        command
            .args(arguments(
                machine,
                files.is_none().then(tsc_khz).flatten(),
                (control, channel, console),
                shares,
            ))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let spawned = match &files {
            None => tote_sys::spawn_mortal(&mut command).map(|child| (child, None)),
            Some(_) => {
                spawn_reporting(&mut command, &OPEN_FOR_BOTH).map(|(child, calls)| (child, Some(calls)))
            }
        };
        let (mut child, listener) = spawned.map_err(|error| start(machine, error))?;
        drop((theirs, wires));
        let mut running = Running {
            pidfd: pidfd(&child)?,
            errors: child.stderr.take(),
            child,
            control: ours,
            qmp: Qmp::new(files.as_ref().map(|files| files.state.as_raw_fd())),
            words: Tail::default(),
        };
        running.unblock()?;
        if let (Some(files), Some(listener)) = (files, listener) {
            let handed = files.hand_out(machine, &listener, &mut running);
            handed.inspect_err(|_| drop(running.end()))?;
        }
        Ok(Box::new(running))
    }
}

fn start(machine: &Machine, source: std::io::Error) -> VmmError {
    VmmError::Start {
        program: machine.program.display().to_string(),
        source,
    }
}

fn pidfd(child: &Child) -> Result<OwnedFd, VmmError> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or(Errno::CHILD)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
        .map_err(VmmError::kernel("watch the virtual machine"))
}

/// Work that a kernel does at each boot and that has no use in a machine of an emulator: tests of its ciphers, which its distribution has made, and of
/// a timer; changes of its code for one processor. Grace periods end soon with few processors (RCU), and mounts wait for them.
const WITHOUT: &str = "cryptomgr.notests no_timer_check noreplace-smp rcupdate.rcu_expedited=1";

/// Returns the command line of the kernel. By `reboot=t`, with QEMU's `-no-reboot`, the guest ends the machine as it would begin anew. A
/// kernel that finds no PIT cannot measure the clock of an emulated processor, so it is told.
fn command_line(accel: Accel, tsc_khz: Option<u64>) -> String {
    let mut line = format!("console=ttyS0 quiet panic=-1 reboot=t pci=off {WITHOUT}");
    if let (Accel::Tcg, Some(khz)) = (accel, tsc_khz) {
        line += &format!(" tsc_early_khz={khz}");
    }
    if accel == Accel::Tcg {
        // What this machine's processor speculates about is the translation's, which a guest's kernel has no hold on.
        line += " mitigations=off";
    }
    line
}

/// Returns the command line; the numbers are those of the sockets for QMP, the channel and the console, and of the server's of files.
pub(crate) fn arguments(
    machine: &Machine,
    tsc_khz: Option<u64>,
    (control, channel, console): (i32, i32, i32),
    shares: Option<i32>,
) -> Vec<String> {
    let (accel, cpu) = match machine.accel {
        Accel::Kvm => ("kvm", "host"),
        // The translator executes `rep movsb` byte by byte, which kernels and programs take where a processor says that it is quick.
        Accel::Tcg => ("tcg,thread=multi", "max,erms=off,fsrm=off"),
    };
    let pairs = [
        (
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".to_owned(),
        ),
        ("-machine", machine_type(machine)),
        ("-accel", accel.to_owned()),
        ("-cpu", cpu.to_owned()),
        ("-m", format!("{}M", machine.memory)),
        ("-smp", machine.processors.to_string()),
        ("-display", "none".to_owned()),
        ("-chardev", format!("socket,id=control,fd={control}")),
        ("-mon", "chardev=control,mode=control".to_owned()),
        ("-chardev", format!("socket,id=console,fd={console}")),
        ("-serial", "chardev:console".to_owned()),
        ("-device", "virtio-serial-device,max_ports=2".to_owned()),
        ("-chardev", format!("socket,id=channel,fd={channel}")),
        (
            "-device",
            format!("virtserialport,chardev=channel,name={}", machine.port),
        ),
        ("-object", "rng-random,id=random,filename=/dev/urandom".to_owned()),
        ("-device", "virtio-rng-device,rng=random".to_owned()),
    ];
    let kernel = kernel(machine, tsc_khz);
    let disks = machine
        .disks
        .iter()
        .flat_map(disk)
        .chain(saved::absent_disks(machine));
    let links = machine
        .links
        .iter()
        .flat_map(link)
        .chain(saved::absent_links(machine));
    let spare = machine.spare.iter().flat_map(spare);
    let socket = shares;
    let shares = machine.shares.iter().flat_map(|own| match socket {
        Some(socket) => share(machine.memory, own, socket).to_vec(),
        None => nine_p(own).to_vec(),
    });
    let flags = ["-nodefaults", "-no-user-config", "-no-reboot", "-S"].map(str::to_owned);
    let pairs = pairs
        .into_iter()
        .chain(kernel)
        .chain(returned(machine))
        .chain(saved::words(machine))
        .chain(disks)
        .chain(spare)
        .chain(links)
        .chain(shares)
        .flat_map(|(name, value)| [name.to_owned(), value]);
    flags.into_iter().chain(pairs).collect()
}

/// Returns the words for the kernel. The one of a machine that goes on is in its memory.
fn kernel(machine: &Machine, tsc_khz: Option<u64>) -> Vec<(&'static str, String)> {
    let mut line = command_line(machine.accel, tsc_khz);
    match &machine.begin {
        Begin::Resume(_) => return Vec::new(),
        Begin::Save { word, .. } => line += &format!(" {word}=1"),
        Begin::Boot => {}
    }
    vec![
        ("-kernel", machine.kernel.display().to_string()),
        ("-initrd", machine.initramfs.display().to_string()),
        ("-append", line),
    ]
}

/// Returns the words for a device by which the guest says what memory it does not use, which this machine gets back then. QEMU would want to
/// punch holes into the file of a template.
fn returned(machine: &Machine) -> Option<(&'static str, String)> {
    let device = || "virtio-balloon-device,free-page-reporting=on".to_owned();
    (machine.begin == Begin::Boot).then(|| ("-device", device()))
}

/// Returns the type of the machine. A server of files has the guest's memory in common with QEMU, and a template's is a file.
fn machine_type(machine: &Machine) -> String {
    let served = machine.shares.as_ref().and_then(|shares| shares.server.as_ref());
    let apart = served.is_some() || machine.begin != Begin::Boot;
    format!("microvm{}", if apart { ",memory-backend=memory" } else { "" })
}

/// Returns the words for shared directories. Their device has no form for guests of the time before virtio's first standard, so no
/// device of the machine has it then.
fn share(memory: u64, shares: &Shares, socket: i32) -> [(&'static str, String); 4] {
    let memory = format!("memory-backend-memfd,id={MEMORY},size={memory}M,share=on");
    [
        ("-object", memory),
        ("-global", "virtio-mmio.force-legacy=false".to_owned()),
        ("-chardev", format!("socket,id=shares,fd={socket}")),
        (
            "-device",
            format!("vhost-user-fs-device,chardev=shares,tag={}", shares.tag),
        ),
    ]
}

/// Returns the words for shared directories that QEMU serves itself: with its own rights, so that it cannot give files to others.
/// The file systems of the host have numbers of their own in one tree.
fn nine_p(shares: &Shares) -> [(&'static str, String); 2] {
    let path = shares.directory.display();
    [
        (
            "-fsdev",
            format!("local,id=shares,path={path},security_model=none,multidevs=remap"),
        ),
        (
            "-device",
            format!("virtio-9p-device,fsdev=shares,mount_tag={}", shares.tag),
        ),
    ]
}

/// Returns the words for a disk. Of a file that it writes to, QEMU takes a lock that no other machine gets meanwhile.
fn disk(disk: &Disk) -> [(&'static str, String); 2] {
    let Disk { serial, readonly, .. } = disk;
    // A comma in a value is written twice.
    let path = disk.file.display().to_string().replace(',', ",,");
    let access = if *readonly {
        "read-only=on"
    } else {
        "discard=unmap"
    };
    let file = format!("driver=file,node-name={serial},{access},filename={path}");
    [
        ("-blockdev", file),
        (
            "-device",
            format!("virtio-blk-device,drive={serial},serial={serial}"),
        ),
    ]
}

/// Returns the words for a disk that is empty until [`Booted::replace`].
fn spare(spare: &Spare) -> [(&'static str, String); 2] {
    empty_disk(&spare.serial)
}

/// Returns the words for a disk that is empty and gets a content later. A guest learns the size of a disk once, so this one
/// is larger than every file that may follow.
pub(crate) fn empty_disk(serial: &str) -> [(&'static str, String); 2] {
    [
        (
            "-blockdev",
            format!(
                "driver=raw,node-name={serial},read-only=on,file.driver=null-co,file.read-zeroes=on,file.size={SPARE}"
            ),
        ),
        (
            "-device",
            format!("virtio-blk-device,drive={serial},serial={serial}"),
        ),
    ]
}

/// Returns the words for a network device. The tap is there already, so no script has to make it.
fn link(link: &Link) -> [(&'static str, String); 2] {
    let Link { tap, mac } = link;
    [
        (
            "-netdev",
            format!("tap,id={tap},ifname={tap},script=no,downscript=no"),
        ),
        ("-device", format!("virtio-net-device,netdev={tap},mac={mac}")),
    ]
}

/// A process of QEMU.
#[derive(Debug)]
struct Running {
    child: Child,
    pidfd: OwnedFd,
    errors: Option<ChildStderr>,
    control: UnixStream,
    qmp: Qmp,
    words: Tail,
}

impl Running {
    fn unblock(&self) -> Result<(), VmmError> {
        let failed = VmmError::kernel("talk to the virtual machine monitor");
        let set = || {
            rustix::io::ioctl_fionbio(&self.control, true)?;
            self.errors
                .as_ref()
                .map_or(Ok(()), |errors| rustix::io::ioctl_fionbio(errors, true))
        };
        set().map_err(failed)
    }

    /// Sends the next line to QEMU: each waits for the answer to the one before, so there is room for it.
    fn say(&mut self) -> Result<(), VmmError> {
        match self.qmp.take_outgoing() {
            Some((line, file)) => say(self.control.as_fd(), &line, file.as_ref()),
            None => Ok(()),
        }
    }
}

impl Starting for Running {
    fn waits(&self) -> [BorrowedFd<'_>; 2] {
        [self.control.as_fd(), self.pidfd.as_fd()]
    }

    fn speak(&mut self) -> Result<(), VmmError> {
        self.advance()
    }

    fn is_open(&self) -> bool {
        self.qmp.is_answered()
    }
}

impl Booted for Running {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        Some(self.control.as_fd())
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    fn advance(&mut self) -> Result<(), VmmError> {
        let failed = "talk to the virtual machine monitor";
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.control, &mut buffer) {
                // The end of the process says more.
                Ok(0) | Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(()),
                Ok(length) => self.qmp.received(&buffer[..length])?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(VmmError::kernel(failed)(errno)),
            }
            self.say()?;
        }
    }

    fn replace(&mut self, serial: &str, file: OwnedFd) -> Result<(), VmmError> {
        self.qmp.replace(serial, file);
        self.say()
    }

    fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        self.qmp.replaced()
    }

    fn runs(&self) -> bool {
        self.qmp.runs()
    }

    fn save(&mut self, state: OwnedFd) -> Result<(), VmmError> {
        self.qmp.save(state);
        self.say()
    }

    fn is_saved(&self) -> bool {
        self.qmp.is_saved()
    }

    fn end(&mut self) -> String {
        // It may have ended already; nothing in it is kept.
        best_effort(self.child.kill());
        best_effort(self.child.wait());
        let mut text = Vec::new();
        if let Some(errors) = self.errors.take() {
            // A program that was killed has said everything.
            best_effort(errors.take(64 << 10).read_to_end(&mut text));
        }
        self.words.push(&text);
        let said = self.words.lines(2);
        last_words(&[said]).trim_start_matches(": ").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(accel: Accel) -> Machine {
        Machine {
            program: "/usr/bin/qemu-system-x86_64".into(),
            accel,
            memory: 512,
            processors: 2,
            kernel: "/vm/kernel".into(),
            initramfs: "/vm/initramfs".into(),
            disks: vec![
                Disk {
                    serial: "image".to_owned(),
                    file: "/vm/a,b".into(),
                    readonly: true,
                },
                Disk {
                    serial: "writes".to_owned(),
                    file: "/vm/writes".into(),
                    readonly: false,
                },
            ],
            spare: Some(Spare {
                serial: "tools".to_owned(),
                order: "hold\n".to_owned(),
            }),
            links: vec![Link {
                tap: "tap0".to_owned(),
                mac: "02:42:ac:11:00:02".to_owned(),
            }],
            shares: None,
            port: "tote".to_owned(),
            begin: Begin::Boot,
        }
    }

    #[test]
    fn command_lines() {
        let line = arguments(&machine(Accel::Tcg), Some(2_596_000), (3, 4, 5), None).join(" ");
        for part in [
            "-nodefaults -no-user-config",
            "-sandbox on,",
            "-accel tcg,thread=multi -cpu max,erms=off,fsrm=off -m 512M -smp 2",
            "socket,id=control,fd=3",
            "socket,id=channel,fd=4",
            "socket,id=console,fd=5",
            "read-only=on,filename=/vm/a,,b -device virtio-blk-device,drive=image,serial=image",
            "tap,id=tap0,ifname=tap0,script=no,downscript=no -device virtio-net-device,netdev=tap0,mac=02:42:ac:11:00:02",
            "node-name=writes,discard=unmap,filename=/vm/writes",
            "file.size=1099511627776 -device virtio-blk-device,drive=tools,serial=tools",
            "tsc_early_khz=2596000",
            "-device virtio-balloon-device,free-page-reporting=on",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let line = arguments(&machine(Accel::Kvm), Some(1), (3, 4, 5), None).join(" ");
        assert!(line.contains("-accel kvm -cpu host"), "{line}");
        assert!(!line.contains("tsc_early"), "{line}");
        let shares = Shares {
            server: Some("/usr/libexec/virtiofsd".into()),
            directory: "/vm/shares".into(),
            tag: "tote".to_owned(),
        };
        let shared = Machine {
            shares: Some(shares),
            ..machine(Accel::Tcg)
        };
        let line = arguments(&shared, None, (3, 4, 5), Some(6)).join(" ");
        for part in [
            "-machine microvm,memory-backend=memory",
            "memory-backend-memfd,id=memory,size=512M,share=on -global virtio-mmio.force-legacy=false",
            "socket,id=shares,fd=6 -device vhost-user-fs-device,chardev=shares,tag=tote",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let mut own = shared;
        own.shares.as_mut().unwrap().server = None;
        let line = arguments(&own, None, (3, 4, 5), None).join(" ");
        for part in [
            "-machine microvm -accel",
            "local,id=shares,path=/vm/shares,security_model=none,multidevs=remap -device virtio-9p-device,fsdev=shares,mount_tag=tote",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}
