//! QEMU, with its smallest machine.

use crate::console::{Tail, last_words};
use crate::plug::{Change, Plug};
use crate::qmp::Qmp;
use crate::vmm::{Booted, Vmm, Wires};
use crate::{Accel, Board, Disk, Link, Machine, Shares, Spare, VmmError};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use tote_sys::{Errno, best_effort, tsc_khz};

/// Name of the program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// Attempt of the conversation.
const TALK: &str = "talk to the virtual machine monitor";

/// Bytes of a spare disk.
const SPARE: u64 = 1 << 40;

/// QEMU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Qemu;

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
        #[expect(
            clippy::disallowed_methods,
            reason = "a machine is a program of the host, at a path that was found before"
        )]
        let mut command = Command::new(&machine.program);
        command
            .args(arguments(machine, tsc_khz(), (control, channel, console), shares))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = tote_sys::spawn_mortal(&mut command).map_err(|error| start(machine, error))?;
        drop((theirs, wires));
        let running = Running {
            pidfd: pidfd(&child)?,
            errors: child.stderr.take(),
            child,
            control: ours,
            qmp: Qmp::new(),
            words: Tail::default(),
        };
        running.unblock()?;
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

/// Returns the command line of the kernel. By `reboot=t`, with QEMU's `-no-reboot`, the guest ends the machine as it would begin anew. A
/// kernel that finds no PIT cannot measure the clock of an emulated processor, so it is told.
fn command_line((accel, board): (Accel, Board), tsc_khz: Option<u64>) -> String {
    let mut line = "console=ttyS0 quiet panic=-1 reboot=t".to_owned();
    if board == Board::Microvm {
        line += " pci=off";
    }
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
fn arguments(
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
    let bus = machine.board.bus();
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
        ("-kernel", machine.kernel.display().to_string()),
        ("-initrd", machine.initramfs.display().to_string()),
        ("-append", command_line((machine.accel, machine.board), tsc_khz)),
        ("-chardev", format!("socket,id=control,fd={control}")),
        ("-mon", "chardev=control,mode=control".to_owned()),
        ("-chardev", format!("socket,id=console,fd={console}")),
        ("-serial", "chardev:console".to_owned()),
        ("-device", format!("virtio-serial-{bus},max_ports=2")),
        ("-chardev", format!("socket,id=channel,fd={channel}")),
        (
            "-device",
            format!("virtserialport,chardev=channel,name={}", machine.port),
        ),
        ("-object", "rng-random,id=random,filename=/dev/urandom".to_owned()),
        ("-device", format!("virtio-rng-{bus},rng=random")),
    ];
    let disks = machine.disks.iter().flat_map(|one| disk(one, bus));
    let spare = machine.spare.iter().flat_map(|one| spare(one, bus));
    let links = machine.links.iter().flat_map(|one| link(one, bus));
    let hotplug = machine.grows.then(|| crate::plug::controller(bus));
    let shares = machine.shares.iter().flat_map(|own| match shares {
        Some(socket) => share(machine, own, socket),
        None => nine_p(own, bus).to_vec(),
    });
    let flags = ["-nodefaults", "-no-user-config", "-no-reboot", "-S"].map(str::to_owned);
    let pairs = pairs
        .into_iter()
        .chain(disks)
        .chain(spare)
        .chain(hotplug)
        .chain(links)
        .chain(shares)
        .flat_map(|(name, value)| [name.to_owned(), value]);
    flags.into_iter().chain(pairs).collect()
}

/// Returns the type of the machine. A server of files has the guest's memory in common with QEMU.
fn machine_type(machine: &Machine) -> String {
    let served = machine.shares.as_ref().and_then(|shares| shares.server.as_ref());
    let memory = served.map_or("", |_| ",memory-backend=memory");
    match machine.board {
        Board::Microvm => format!("microvm{memory}"),
        // Nothing of the rest is used.
        Board::Q35 => format!("q35,sata=off,smbus=off,vmport=off{memory}"),
    }
}

/// Returns the words for shared directories. Their device has no form for guests of the time before virtio's first standard, so no
/// device of the machine has it then.
fn share(machine: &Machine, shares: &Shares, socket: i32) -> Vec<(&'static str, String)> {
    let (memory, bus) = (machine.memory, machine.board.bus());
    let modern =
        (machine.board == Board::Microvm).then(|| ("-global", "virtio-mmio.force-legacy=false".to_owned()));
    let words = [
        (
            "-object",
            format!("memory-backend-memfd,id=memory,size={memory}M,share=on"),
        ),
        ("-chardev", format!("socket,id=shares,fd={socket}")),
        (
            "-device",
            format!("vhost-user-fs-{bus},chardev=shares,tag={}", shares.tag),
        ),
    ];
    modern.into_iter().chain(words).collect()
}

/// Returns the words for shared directories that QEMU serves itself: with its own rights, so that it cannot give files to others.
/// The file systems of the host have numbers of their own in one tree.
fn nine_p(shares: &Shares, bus: &str) -> [(&'static str, String); 2] {
    let path = shares.directory.display();
    [
        (
            "-fsdev",
            format!("local,id=shares,path={path},security_model=none,multidevs=remap"),
        ),
        (
            "-device",
            format!("virtio-9p-{bus},fsdev=shares,mount_tag={}", shares.tag),
        ),
    ]
}

/// Returns the words for a disk. Of a file that it writes to, QEMU takes a lock that no other machine gets meanwhile.
fn disk(disk: &Disk, bus: &str) -> [(&'static str, String); 2] {
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
            format!("virtio-blk-{bus},drive={serial},serial={serial}"),
        ),
    ]
}

/// Returns the words for a disk that is empty until [`Booted::replace`]. A guest learns the size of a disk once, so this one
/// is larger than every file that may follow.
fn spare(spare: &Spare, bus: &str) -> [(&'static str, String); 2] {
    let Spare { serial, .. } = spare;
    [
        (
            "-blockdev",
            format!(
                "driver=raw,node-name={serial},read-only=on,file.driver=null-co,file.read-zeroes=on,file.size={SPARE}"
            ),
        ),
        (
            "-device",
            format!("virtio-blk-{bus},drive={serial},serial={serial}"),
        ),
    ]
}

/// Returns the words for a network device. The tap is there already, so no script has to make it.
fn link(link: &Link, bus: &str) -> [(&'static str, String); 2] {
    let Link { tap, mac } = link;
    [
        (
            "-netdev",
            format!("tap,id={tap},ifname={tap},script=no,downscript=no"),
        ),
        ("-device", format!("virtio-net-{bus},netdev={tap},mac={mac}")),
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
        let failed = VmmError::kernel(TALK);
        let set = || {
            rustix::io::ioctl_fionbio(&self.control, true)?;
            self.errors
                .as_ref()
                .map_or(Ok(()), |errors| rustix::io::ioctl_fionbio(errors, true))
        };
        set().map_err(failed)
    }

    /// Says what is to be said now: a short line, and no other before its answer, so that there is room for it.
    fn say(&mut self) -> Result<(), VmmError> {
        let Some((line, fd)) = self.qmp.take_outgoing() else {
            return Ok(());
        };
        match crate::pass::send(&self.control, &line, fd.as_ref().map(AsFd::as_fd).as_slice()) {
            Ok(()) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(VmmError::kernel(TALK)(errno)),
        }
    }
}

impl Booted for Running {
    fn control(&self) -> Option<BorrowedFd<'_>> {
        Some(self.control.as_fd())
    }

    fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    fn advance(&mut self) -> Result<Vec<Change>, VmmError> {
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.control, &mut buffer) {
                // The end of the process says more.
                Ok(0) | Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(self.qmp.plugs.take_changes()),
                Ok(length) => self.qmp.received(&buffer[..length])?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(VmmError::kernel(TALK)(errno)),
            }
            self.say()?;
        }
    }

    fn attach(&mut self, plug: Plug) -> Result<(), VmmError> {
        self.qmp.plugs.attach(plug);
        self.say()
    }

    fn detach(&mut self, serial: &str) -> Result<(), VmmError> {
        self.qmp.plugs.detach(serial);
        self.say()
    }

    fn replace(&mut self, serial: &str, file: OwnedFd) -> Result<(), VmmError> {
        self.qmp.swap.replace(serial, file);
        self.say()
    }

    fn replaced(&mut self) -> Option<Result<(), VmmError>> {
        self.qmp.swap.replaced()
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
            board: Board::Microvm,
            grows: false,
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
            "-global virtio-mmio.force-legacy=false",
            "memory-backend-memfd,id=memory,size=512M,share=on",
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

    #[test]
    fn a_machine_with_pci() {
        let whole = Machine {
            board: Board::Q35,
            grows: true,
            shares: Some(Shares {
                server: Some("/usr/libexec/virtiofsd".into()),
                directory: "/vm/shares".into(),
                tag: "tote".to_owned(),
            }),
            ..machine(Accel::Kvm)
        };
        let line = arguments(&whole, None, (3, 4, 5), Some(6)).join(" ");
        for part in [
            "-machine q35,",
            "memory-backend=memory",
            "-accel kvm -cpu host ",
            "virtio-serial-pci,",
            "virtio-blk-pci,drive=image",
            "virtio-blk-pci,drive=tools",
            "virtio-net-pci,netdev=tap0",
            "virtio-scsi-pci,id=plug",
            "vhost-user-fs-pci,",
            "virtio-rng-pci,",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        for part in ["pci=off", "virtio-mmio", "-device,", "tsc_early_khz"] {
            assert!(!line.contains(part), "{part}: {line}");
        }
        let mut own = whole;
        own.shares.as_mut().unwrap().server = None;
        let line = arguments(&own, None, (3, 4, 5), None).join(" ");
        assert!(line.contains("virtio-9p-pci,fsdev=shares"), "{line}");
        assert!(!line.contains("memory-backend"), "{line}");
    }
}
