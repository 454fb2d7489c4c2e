//! A machine for classic BPF as seccomp runs it, which refuses what the kernel's check would refuse.

use crate::instruction::{AND, Instruction, JUMP, LOAD, RETURN};

/// System call as a filter sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Call {
    pub(super) arch: u32,
    pub(super) number: u32,
    pub(super) args: [u64; 6],
}

impl Call {
    /// Returns the word at an offset of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.arch,
            16..64 if offset.is_multiple_of(4) => {
                let argument = self.args[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) {
                    argument as u32
                } else {
                    (argument >> 32) as u32
                }
            }
            _ => panic!("load from {offset}"),
        }
    }
}

/// Returns the program's answer and the number of executed instructions.
pub(super) fn run(program: &[Instruction], call: &Call) -> (u32, usize) {
    let mut accumulator = 0;
    let mut at = 0;
    for steps in 1.. {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
        match code {
            RETURN => return (k, steps),
            LOAD => accumulator = call.word(k),
            AND => accumulator &= k,
            JUMP => at += k as usize,
            0x15 => branch(accumulator == k),
            0x25 => branch(accumulator > k),
            0x35 => branch(accumulator >= k),
            0x45 => branch(accumulator & k != 0),
            _ => panic!("instruction {code:#x}"),
        }
    }
    unreachable!("a program ends: it only goes forwards")
}

/// Makes the checks of `bpf_check_classic` and `seccomp_check_filter` that concern the instructions used here.
pub(super) fn check(program: &[Instruction]) {
    assert!(
        !program.is_empty() && program.len() <= crate::MAX_INSTRUCTIONS,
        "{}",
        program.len()
    );
    for (at, instruction) in program.iter().enumerate() {
        let after = at + 1;
        match instruction.code {
            RETURN | AND => {}
            LOAD => assert!(
                instruction.k.is_multiple_of(4) && instruction.k < 64,
                "{at}: {instruction:?}"
            ),
            JUMP => assert!(
                after + (instruction.k as usize) < program.len(),
                "{at}: {instruction:?}"
            ),
            0x15 | 0x25 | 0x35 | 0x45 => {
                let farthest = usize::from(instruction.jt.max(instruction.jf));
                assert!(after + farthest < program.len(), "{at}: {instruction:?}");
            }
            code => panic!("{at}: instruction {code:#x}"),
        }
    }
    assert_eq!(program[program.len() - 1].code, RETURN);
}
