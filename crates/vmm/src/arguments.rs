//! QEMU's command line.

use crate::machine::Begin;
use crate::saved::{self, MEMORY};
use crate::{Accel, Board, Disk, Link, Machine, Shares, Spare};

/// Bytes of a spare disk.
const SPARE: u64 = 1 << 40;

/// Work that a kernel does at each boot and that has no use in a machine of an emulator: tests of its ciphers, which its distribution has made, and of
/// a timer; changes of its code for one processor. Grace periods end soon with few processors (RCU), and mounts wait for them.
const WITHOUT: &str = "cryptomgr.notests no_timer_check noreplace-smp rcupdate.rcu_expedited=1";

/// Parts of the kernel that do something in each call, change of the process or page, and nothing in a guest: security modules without rules,
/// an account of memory for groups that have no limit, one of stalls, and a record for a daemon that is not there.
const UNUSED: &str = "lsm=landlock,yama cgroup_disable=memory psi=0 audit=0";

/// Beginnings of the kernel's parts that a guest does without: the files of its tracer, two thousand directories; more tests of ciphers;
/// the certificates by which it would check modules, which have no signatures here; and an order of requests to disks, which are files of the
/// host. A kernel that has not got one of them does not mind.
const NOT_BEGUN: &str = "initcall_blacklist=trace_eval_init,tracer_init_tracefs,init_kprobe_trace,crypto_kdf108_init,blake2s_mod_init,\
    load_system_certificate_list,deadline_init";

/// Setting by which the kernel interprets filters of calls. A translation of each process's filter is code that is new, which the emulator has to
/// translate as well; and when the next process's takes its place in memory, it forgets for each instruction where all other code is.
const INTERPRETED: &str = "sysctl.net.core.bpf_jit_enable=0";

/// Returns the command line of the kernel. By `reboot=t`, with QEMU's `-no-reboot`, the guest ends the machine as it would begin anew. A
/// kernel that finds no PIT cannot measure the clock of an emulated processor, so it is told. It believes in that clock then: with a lesser one
/// its timers would have steps of 4 ms, and a processor without work would be woken in each of them.
fn command_line(machine: &Machine, tsc_khz: Option<u64>) -> String {
    let mut line = format!("console=ttyS0 quiet panic=-1 reboot=t {WITHOUT} {UNUSED}");
    if machine.board == Board::Microvm {
        line += " pci=off";
    }
    if machine.accel == Accel::Kvm {
        return line;
    }
    if let Some(khz) = tsc_khz {
        line += &format!(" tsc_early_khz={khz} tsc=reliable");
    }
    // This machine's processor executes QEMU's translation, and a guest's kernel cannot change how it speculates.
    line + " mitigations=off " + INTERPRETED + " " + NOT_BEGUN
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
        // The translator executes `rep movsb` byte by byte, which kernels and programs take where a processor says that it is quick. With
        // keys of memory (PKU) each change to a thread of the kernel empties its table of addresses.
        Accel::Tcg => ("tcg,thread=multi", "max,erms=off,fsrm=off,pku=off"),
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
    let kernel = kernel(machine, tsc_khz);
    let disks = std::iter::once(&machine.system).chain(&machine.disks);
    let disks = disks.flat_map(|one| disk(one, bus));
    let disks = disks.chain(saved::absent_disks(machine));
    let spare = machine.spare.iter().flat_map(|one| spare(one, bus));
    let links = machine.links.iter().flat_map(|one| link(one, bus));
    let links = links.chain(saved::absent_links(machine));
    let hotplug = machine.grows.then(|| crate::plug::controller(bus));
    let shares = machine.shares.iter().flat_map(|own| match shares {
        Some(socket) => share(machine, own, socket),
        None => nine_p(own, bus).to_vec(),
    });
    let flags = ["-nodefaults", "-no-user-config", "-no-reboot", "-S"].map(str::to_owned);
    let pairs = pairs
        .into_iter()
        .chain(kernel)
        .chain(returned(machine))
        .chain(saved::words(machine))
        .chain(disks)
        .chain(spare)
        .chain(hotplug)
        .chain(links)
        .chain(shares)
        .flat_map(|(name, value)| [name.to_owned(), value]);
    flags.into_iter().chain(pairs).collect()
}

/// Returns the words for the kernel. The one of a machine that goes on is in its memory.
fn kernel(machine: &Machine, tsc_khz: Option<u64>) -> Vec<(&'static str, String)> {
    let mut line = command_line(machine, tsc_khz);
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
    let device = || format!("virtio-balloon-{},free-page-reporting=on", machine.board.bus());
    (machine.begin == Begin::Boot).then(|| ("-device", device()))
}

/// Returns the type of the machine. A server of files has the guest's memory in common with QEMU, and a template's is a file.
fn machine_type(machine: &Machine) -> String {
    let served = machine.shares.as_ref().and_then(|shares| shares.server.as_ref());
    let apart = served.is_some() || machine.begin != Begin::Boot;
    let memory = if apart { ",memory-backend=memory" } else { "" };
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
            format!("memory-backend-memfd,id={MEMORY},size={memory}M,share=on"),
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

/// Returns the words for a disk that is empty until [`Booted::replace`].
fn spare(spare: &Spare, bus: &str) -> [(&'static str, String); 2] {
    empty_disk(&spare.serial, bus)
}

/// Returns the words for a disk that is empty and gets a content later. A guest learns the size of a disk once, so this one
/// is larger than every file that may follow.
pub(crate) fn empty_disk(serial: &str, bus: &str) -> [(&'static str, String); 2] {
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
            system: Disk {
                serial: "tote".to_owned(),
                file: "/vm/system".into(),
                readonly: true,
            },
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
            "-accel tcg,thread=multi -cpu max,erms=off,fsrm=off,pku=off -m 512M -smp 2",
            "socket,id=control,fd=3",
            "socket,id=channel,fd=4",
            "socket,id=console,fd=5",
            "read-only=on,filename=/vm/system -device virtio-blk-device,drive=tote,serial=tote -blockdev driver=file,node-name=image",
            "read-only=on,filename=/vm/a,,b -device virtio-blk-device,drive=image,serial=image",
            "tap,id=tap0,ifname=tap0,script=no,downscript=no -device virtio-net-device,netdev=tap0,mac=02:42:ac:11:00:02",
            "node-name=writes,discard=unmap,filename=/vm/writes",
            "file.size=1099511627776 -device virtio-blk-device,drive=tools,serial=tools",
            "tsc_early_khz=2596000 tsc=reliable mitigations=off sysctl.net.core.bpf_jit_enable=0 initcall_blacklist=trace_eval_init,",
            "lsm=landlock,yama cgroup_disable=memory psi=0",
            "-device virtio-balloon-device,free-page-reporting=on",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let line = arguments(&machine(Accel::Kvm), Some(1), (3, 4, 5), None).join(" ");
        assert!(line.contains("-accel kvm -cpu host"), "{line}");
        assert!(!line.contains("tsc_early"), "{line}");
        // The guest's own code runs on the processor there.
        assert!(!line.contains("mitigations"), "{line}");
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
