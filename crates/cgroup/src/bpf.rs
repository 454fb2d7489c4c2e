//! Device controller of v2: a program that the kernel runs at every open(2) and mknod(2) of a device.

use crate::devices::{ALL, Access, DeviceError, Devices};
use tote_spec::DeviceRule;

/// Instruction of eBPF, laid out as the kernel's `struct bpf_insn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BpfInsn {
    /// Class, operation and source.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high ones. (Little endian machines; on big
    /// endian ones the kernel has the two the other way round.)
    pub regs: u8,
    /// Offset of a load or jump.
    pub off: i16,
    /// Immediate operand.
    pub imm: i32,
}

// Registers, as include/uapi/linux/bpf.h counts them: R0 is the verdict, R1 the context at entry.
const VERDICT: u8 = 0;
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;

const LDX_MEM_W: u8 = 0x61;
const ALU32_AND_K: u8 = 0x54;
const ALU32_RSH_K: u8 = 0x74;
const ALU32_MOV_K: u8 = 0xb4;
const ALU32_MOV_X: u8 = 0xbc;
const EXIT: u8 = 0x95;
// 32-bit jumps (Linux 5.1): a 64-bit one sign-extends its immediate, and so never matches a number above 2^31.
const JMP32_JEQ_K: u8 = 0x16;
const JMP32_JNE_K: u8 = 0x56;

const fn insn(code: u8, to: u8, from: u8, off: i16, imm: i32) -> BpfInsn {
    let regs = if cfg!(target_endian = "little") {
        from << 4 | to
    } else {
        to << 4 | from
    };
    BpfInsn { code, regs, off, imm }
}

/// Compiles `rules`, which allow nothing to begin with, to a program that is loaded as `BPF_PROG_TYPE_CGROUP_DEVICE`.
///
/// The meaning is that of the v1 controller: an access is allowed only if one exception allows all of it, and denied
/// if a rule denies any part of it. (runc's program lets `rw` through if only `w` is denied.)
///
/// # Errors
/// A rule is malformed or makes a hole in a wider one: see [`DeviceError`].
pub fn device_program(rules: &[DeviceRule]) -> Result<Vec<BpfInsn>, DeviceError> {
    let access = Access::from_rules(rules)?;
    let mut program = Vec::with_capacity(8 + access.exceptions.len() * 8);
    // struct bpf_cgroup_dev_ctx { u32 access_type; /* access << 16 | kind */ u32 major; u32 minor; }
    program.extend([
        insn(LDX_MEM_W, KIND, CONTEXT, 0, 0),
        insn(ALU32_MOV_X, ACCESS, KIND, 0, 0),
        insn(ALU32_AND_K, KIND, 0, 0, 0xffff),
        insn(ALU32_RSH_K, ACCESS, 0, 0, 16),
        insn(LDX_MEM_W, MAJOR, CONTEXT, 4, 0),
        insn(LDX_MEM_W, MINOR, CONTEXT, 8, 0),
    ]);
    for &(devices, bits) in &access.exceptions {
        exception(&mut program, devices, bits, access.allow_by_default);
    }
    program.extend(verdict(access.allow_by_default));
    Ok(program)
}

fn verdict(allow: bool) -> [BpfInsn; 2] {
    [
        insn(ALU32_MOV_K, VERDICT, 0, 0, i32::from(allow)),
        insn(EXIT, 0, 0, 0, 0),
    ]
}

/// Appends the tests of an exception and its verdict; every failing test jumps behind the verdict.
fn exception(program: &mut Vec<BpfInsn>, devices: Devices, bits: u8, allow_by_default: bool) {
    let start = program.len();
    program.push(insn(JMP32_JNE_K, KIND, 0, 0, devices.kind as i32));
    for (register, number) in [(MAJOR, devices.major), (MINOR, devices.minor)] {
        if let Some(number) = number {
            program.push(insn(JMP32_JNE_K, register, 0, 0, number.cast_signed()));
        }
    }
    if bits != ALL {
        // R1 is free once the context has been read.
        program.push(insn(ALU32_MOV_X, CONTEXT, ACCESS, 0, 0));
        let (mask, miss) = if allow_by_default {
            (bits, JMP32_JEQ_K)
        } else {
            (ALL & !bits, JMP32_JNE_K)
        };
        program.push(insn(ALU32_AND_K, CONTEXT, 0, 0, i32::from(mask)));
        program.push(insn(miss, CONTEXT, 0, 0, 0));
    }
    program.extend(verdict(!allow_by_default));
    let end = program.len();
    for (at, jump) in program.iter_mut().enumerate().skip(start) {
        if matches!(jump.code, JMP32_JEQ_K | JMP32_JNE_K) {
            // An exception has at most eight instructions, so the distance always fits.
            jump.off = (end - at - 1) as i16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{Kind, MKNOD, READ, WRITE, default_device_rules};
    use proptest::prelude::*;

    /// Runs a program as the kernel would, as far as its instructions are used here.
    fn run(program: &[BpfInsn], kind: Kind, access: u8, major: u32, minor: u32) -> bool {
        let context = [u32::from(access) << 16 | kind as u32, major, minor];
        let mut registers = [0u32; 11];
        let mut at = 0;
        loop {
            let BpfInsn { code, regs, off, imm } = program[at];
            let (to, from) = (usize::from(regs & 15), usize::from(regs >> 4));
            at += 1;
            let mut jump = false;
            match code {
                LDX_MEM_W => {
                    assert_eq!(from, usize::from(CONTEXT));
                    registers[to] = context[usize::try_from(off).unwrap() / 4];
                }
                ALU32_AND_K => registers[to] &= imm as u32,
                ALU32_RSH_K => registers[to] >>= imm,
                ALU32_MOV_K => registers[to] = imm as u32,
                ALU32_MOV_X => registers[to] = registers[from],
                JMP32_JEQ_K => jump = registers[to] == imm as u32,
                JMP32_JNE_K => jump = registers[to] != imm as u32,
                EXIT => return registers[0] == 1,
                other => panic!("unknown instruction {other:#x}"),
            }
            if jump {
                at += usize::try_from(off).expect("no loops");
            }
        }
    }

    #[test]
    fn the_default_rules() {
        let program = device_program(&default_device_rules()).unwrap();
        let cases = [
            (Kind::Char, READ | WRITE, 1, 3, true),
            (Kind::Char, READ | WRITE | MKNOD, 1, 3, true),
            (Kind::Block, READ, 1, 3, false),
            (Kind::Char, READ, 136, 77, true),
            (Kind::Char, MKNOD, 10, 200, true),
            (Kind::Char, READ | WRITE, 10, 200, true),
            (Kind::Char, MKNOD, 10, 229, true),
            (Kind::Char, READ | WRITE, 10, 229, false),
            (Kind::Char, READ | MKNOD, 10, 229, false),
            (Kind::Block, MKNOD, 8, 0, true),
            (Kind::Block, READ, 8, 0, false),
            (Kind::Char, READ, 1, 1, false),
        ];
        for (kind, access, major, minor, allowed) in cases {
            assert_eq!(
                run(&program, kind, access, major, minor),
                allowed,
                "{kind:?} {access} {major}:{minor}"
            );
        }
    }

    #[test]
    fn denied_access_is_denied_within_more() {
        let all = DeviceRule {
            allow: true,
            ..DeviceRule::default()
        };
        let no_write = DeviceRule {
            kind: Some("b".into()),
            major: Some(0xffff_fff0),
            access: Some("w".into()),
            ..DeviceRule::default()
        };
        let program = device_program(&[all, no_write]).unwrap();
        assert!(run(&program, Kind::Block, READ, 0xffff_fff0, 1));
        assert!(!run(&program, Kind::Block, READ | WRITE, 0xffff_fff0, 1));
        assert!(run(&program, Kind::Block, READ | WRITE, 1, 1));
    }

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(size_of::<BpfInsn>(), 8);
        let program = device_program(&[]).unwrap();
        assert!(!run(&program, Kind::Char, READ, 1, 3), "no rules allow nothing");
    }

    fn rules() -> impl Strategy<Value = Vec<DeviceRule>> {
        let number = prop_oneof![Just(None), (0i64..3).prop_map(Some)];
        let kind = prop_oneof![6 => "b|c", 1 => "a"];
        let rule = (any::<bool>(), kind, number.clone(), number, "r?w?m?");
        let rule = rule.prop_map(|(allow, kind, major, minor, access)| DeviceRule {
            allow,
            kind: Some(kind),
            major,
            minor,
            access: Some(access),
        });
        proptest::collection::vec(rule, 0..8)
    }

    proptest! {
        /// Compares the program with the model that follows the kernel's `__devcgroup_check_permission`.
        #[test]
        fn the_program_decides_as_v1(rules in rules(), major in 0u32..4, minor in 0u32..4, wanted in 1u8..8, block: bool) {
            let (Ok(access), Ok(program)) = (Access::from_rules(&rules), device_program(&rules)) else { return Ok(()) };
            let kind = if block { Kind::Block } else { Kind::Char };
            let hit = |d: &Devices| d.kind == kind
                && d.major.is_none_or(|m| m == major) && d.minor.is_none_or(|m| m == minor);
            let mut matching = access.exceptions.iter().filter(|(d, _)| hit(d));
            let allowed = if access.allow_by_default {
                !matching.any(|(_, bits)| bits & wanted != 0)
            } else {
                matching.any(|(_, bits)| wanted & !bits == 0)
            };
            prop_assert_eq!(run(&program, kind, wanted, major, minor), allowed);
        }
    }
}
