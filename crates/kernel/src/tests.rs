use crate::cpio::Cpio;
use crate::error::KernelError;
use crate::find::Kernel;
use crate::modules::{Modules, closure_of};
use crate::{ar, image, lz4, modinfo};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// A module with these texts.
fn module(texts: &[&str]) -> Vec<u8> {
    let names = b"\0.modinfo\0.shstrtab\0";
    let info: Vec<u8> = texts
        .iter()
        .flat_map(|text| [text.as_bytes(), b"\0"].concat())
        .collect();
    let mut elf = b"\x7fELF\x02\x01".to_vec();
    elf.resize(0x40, 0);
    let names_at = elf.len() as u64;
    elf.extend_from_slice(names);
    let info_at = elf.len() as u64;
    elf.extend_from_slice(&info);
    let table = elf.len() as u64;
    elf[0x28..0x30].copy_from_slice(&table.to_le_bytes());
    for (at, value) in [(0x3a, 0x40_u16), (0x3c, 3), (0x3e, 2)] {
        elf[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    for (name, at, length) in [
        (0_u32, 0, 0),
        (1, info_at, info.len()),
        (10, names_at, names.len()),
    ] {
        let mut header = vec![0; 0x40];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[0x18..0x20].copy_from_slice(&at.to_le_bytes());
        header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
        elf.extend_from_slice(&header);
    }
    elf
}

struct Fake(BTreeMap<&'static str, Vec<u8>>);

impl Modules for Fake {
    fn module(&self, name: &str) -> Result<Option<Vec<u8>>, KernelError> {
        Ok(self.0.get(name).cloned())
    }

    fn has_builtin(&self, name: &str) -> bool {
        name == "builtin"
    }

    fn release(&self) -> &str {
        "6.1"
    }
}

#[test]
fn exactly_the_modules_that_are_needed_in_their_order() {
    let fake = Fake(BTreeMap::from([
        (
            "a",
            module(&["license=GPL", "depends=b,c-d", "softdep=pre: e absent post: f"]),
        ),
        ("b", module(&["depends=c-d,builtin"])),
        ("c_d", module(&["depends=", "name=c_d"])),
        ("e", module(&[])),
        ("f", module(&[])),
        ("loop", module(&["depends=pool"])),
        ("pool", module(&["depends=loop"])),
        ("lacks", module(&["depends=nothing"])),
    ]));
    let names = |wanted: &[&str], optional: &[&str]| {
        let found = closure_of(&fake, wanted, optional)?;
        Ok::<_, KernelError>(found.into_iter().map(|module| module.name).collect::<Vec<_>>())
    };
    assert_eq!(
        names(&["a", "builtin"], &["absent"]).unwrap(),
        ["c_d", "b", "e", "a"]
    );
    assert_eq!(names(&["loop"], &[]).unwrap(), ["pool", "loop"]);
    for (wanted, lacking) in [("absent", "absent"), ("lacks", "nothing")] {
        let error = names(&[wanted], &[]).unwrap_err().to_string();
        assert_eq!(error, format!("kernel 6.1 lacks {lacking}, which a guest needs"));
    }
    let broken = Fake(BTreeMap::from([("x", b"no module".to_vec())]));
    assert!(matches!(
        closure_of(&broken, &["x"], &[]),
        Err(KernelError::Module(_))
    ));
}

#[test]
fn the_newest_kernel_with_modules() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let missing = Kernel::below(root.path()).unwrap_err();
    assert!(matches!(missing, KernelError::NoKernel(_)), "{missing}");
    for release in ["6.1.0-9-cloud-amd64", "6.1.0-10-cloud-amd64", "6.12.0-1-amd64"] {
        let dir = path(&format!("lib/modules/{release}/kernel/fs"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("some-fs.ko"), module(&[])).unwrap();
        std::fs::create_dir_all(path("boot")).unwrap();
        std::fs::write(path(&format!("boot/vmlinuz-{release}")), "").unwrap();
    }
    std::fs::write(path("boot/vmlinuz-9.0-cloud-amd64"), "").unwrap();
    let builtin = path("lib/modules/6.1.0-10-cloud-amd64/modules.builtin");
    std::fs::write(builtin, "kernel/fs/ext4/ext4.ko\n").unwrap();
    let kernel = Kernel::below(root.path()).unwrap();
    assert_eq!(kernel.release(), "6.1.0-10-cloud-amd64");
    assert!(kernel.has_builtin("ext4"));
    assert!(kernel.module("some_fs").unwrap().is_some());
    assert!(kernel.module("ext4").unwrap().is_none());
}

fn elf() -> Vec<u8> {
    let mut elf = b"\x7fELF\x02\x01".to_vec();
    elf.resize(3000, 7);
    elf[18..20].copy_from_slice(&[62, 0]);
    elf
}

/// An image of a kernel with this payload.
fn bzimage(payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 5 * 512 + 100];
    image[0x1f1] = 4;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x248..0x24c].copy_from_slice(&100_u32.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend_from_slice(payload);
    image
}

/// A legacy frame of literals, and a match that makes the rest of the text out of its last byte.
fn lz4_of(text: &[u8], repeated: usize) -> Vec<u8> {
    let mut block = vec![0xff];
    let mut length = text.len() - 15;
    while length >= 255 {
        block.push(255);
        length -= 255;
    }
    block.push(length as u8);
    block.extend_from_slice(text);
    block.extend_from_slice(&1_u16.to_le_bytes());
    block.push((repeated - 19) as u8);
    block.push(0);
    let mut frame = lz4::MAGIC.to_vec();
    frame.extend_from_slice(&(block.len() as u32).to_le_bytes());
    frame.extend_from_slice(&block);
    frame
}

#[test]
fn kernels_come_out_of_their_images() {
    let elf = elf();
    assert_eq!(image::vmlinux(elf.clone()).unwrap(), elf);
    let mut longer = elf.clone();
    longer.resize(elf.len() + 30, 7);
    let size = (longer.len() as u32).to_le_bytes();
    let lz4 = [&lz4_of(&elf, 30)[..], &size].concat();
    assert_eq!(image::vmlinux(bzimage(&lz4)).unwrap(), longer);
    let mut gzip = tote_archive::Encoder::new(Vec::new(), tote_archive::Compression::Gzip, None).unwrap();
    std::io::Write::write_all(&mut gzip, &elf).unwrap();
    let gzip = [&gzip.finish().unwrap()[..], &(elf.len() as u32).to_le_bytes()].concat();
    assert_eq!(image::vmlinux(bzimage(&gzip)).unwrap(), elf);
    for (image, reason) in [
        (b"MZ".to_vec(), "neither a bzImage nor"),
        (bzimage(b"unknown"), "compression is unknown"),
        (bzimage(&lz4)[..2800].to_vec(), "cut off"),
        (bzimage(&lz4_of(&[b'x'; 40], 20)), "not an ELF file"),
        (
            bzimage(&[&lz4::MAGIC[..], &[3, 0, 0, 0, 0, 9, 9]].concat()),
            "LZ4 is damaged",
        ),
    ] {
        let error = image::vmlinux(image).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn packages_are_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let (package, into) = (dir.path().join("a.deb"), dir.path().join("into"));
    std::fs::create_dir(&into).unwrap();
    let path = tote_archive::EntryPath::parse(b"boot/vmlinuz-1").unwrap();
    let kind = tote_archive::Kind::File { size: 2 };
    let mut tar = tote_archive::Writer::new(Vec::new());
    tar.entry(&tote_archive::Entry::new(path, kind)).unwrap();
    std::io::Write::write_all(&mut tar, b"hi").unwrap();
    let tar = tar.finish().unwrap();
    let member = |name: &str, content: &[u8]| {
        let header = format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            0,
            100_644,
            content.len()
        );
        let mut bytes = [header.as_bytes(), content].concat();
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
        bytes
    };
    let deb = [
        b"!<arch>\n".to_vec(),
        member("debian-binary", b"2.0"),
        member("data.tar", &tar),
    ]
    .concat();
    std::fs::write(&package, &deb).unwrap();
    ar::unpack(&package, &into).unwrap();
    assert_eq!(std::fs::read(into.join("boot/vmlinuz-1")).unwrap(), b"hi");
    for (bytes, reason) in [
        (&b"PK"[..], "not a package"),
        (&deb[..40], "no member data.tar"),
        (&[b'!'; 80][..], "not a package"),
    ] {
        std::fs::write(&package, bytes).unwrap();
        let error = ar::unpack(&package, &into).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let absent = ar::unpack(Path::new("/absent.deb"), &into).unwrap_err();
    assert_eq!(absent.to_string(), "cannot open /absent.deb");
}

#[test]
fn archives_as_the_kernel_reads_them() {
    let mut cpio = Cpio::new();
    cpio.directory("a");
    cpio.file("a/b", 0o755, b"12345");
    let bytes = cpio.finish();
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        text.starts_with("070701000000010000 41ed".replace(' ', "").as_str()),
        "{text}"
    );
    assert_eq!(bytes.len() % 4, 0);
    assert!(text.contains("0000000500000000"), "{text}");
    assert!(text.contains("TRAILER!!!"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_refused(at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<prop::sample::Index>()) {
        for whole in [module(&["depends=a,b"]), bzimage(&lz4_of(&elf(), 30))] {
            let mut damaged = whole[..cut.index(whole.len()) + 1].to_vec();
            let at = at.index(damaged.len());
            damaged[at] = value;
            if let Some(texts) = modinfo::modinfo(&damaged) {
                prop_assert!(texts.count() < 100);
            }
            drop(image::vmlinux(damaged));
        }
    }

    #[test]
    fn noise_is_no_lz4(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let frame = [&lz4::MAGIC[..], &(noise.len() as u32).to_le_bytes(), &noise].concat();
        if let Some(out) = lz4::decompress(&frame, 10_000) {
            prop_assert!(out.len() <= 10_000);
        }
    }
}

#[test]
fn signatures_of_modules_are_left_out() {
    use crate::modules::unsigned;
    let signed = |length: u32| {
        let record = [&[0; 8][..], &length.to_be_bytes()].concat();
        [
            b"module signature".as_slice(),
            &record,
            b"~Module signature appended~\n",
        ]
        .concat()
    };
    assert_eq!(unsigned(signed(10)), b"module");
    assert_eq!(
        unsigned(signed(1000)),
        signed(1000),
        "it is longer than the module"
    );
    assert_eq!(unsigned(b"module".to_vec()), b"module");
    assert_eq!(unsigned(Vec::new()), b"");
}
