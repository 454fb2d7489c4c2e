//! Answers of a program to calls, computed as the kernel's machine does.

use crate::arch::Arch;
use crate::instruction::{AND, ARCH, Comparison, Instruction, JUMP, LOAD, NUMBER, RETURN, argument, verdict};

/// True if a program for [`Arch::NATIVE`] allows a call with that first argument and zeros for the others. A call
/// that notifies a listener is not allowed in this sense.
#[must_use]
pub fn lets_through(program: &[Instruction], call: &str, first: u32) -> bool {
    let Some(number) = Arch::NATIVE.number(call) else {
        return false;
    };
    let word = |offset| match offset {
        NUMBER => number,
        ARCH => Arch::NATIVE.audit(),
        _ if offset == argument(0) => first,
        _ => 0,
    };
    let answer = run(program, word);
    answer.is_some_and(|answer| matches!(answer & 0xffff_0000, verdict::ALLOW | verdict::LOG))
}

/// Returns a program that allows these calls of [`Arch::NATIVE`], whatever their arguments, and answers all others as `program` does.
#[must_use]
pub fn widened<'a>(program: &[Instruction], calls: impl IntoIterator<Item = &'a str>) -> Vec<Instruction> {
    let instruction = |code, jt, jf, k| Instruction { code, jt, jf, k };
    let mut allowed = Vec::new();
    for number in calls.into_iter().filter_map(|call| Arch::NATIVE.number(call)) {
        allowed.push(instruction(EQUAL, 0, 1, number));
        allowed.push(instruction(RETURN, 0, 0, verdict::ALLOW));
    }
    // The calls are far fewer than a long jump reaches.
    let length = u32::try_from(allowed.len()).unwrap_or(u32::MAX);
    let mut whole = vec![
        instruction(LOAD, 0, 0, ARCH),
        instruction(EQUAL, 1, 0, Arch::NATIVE.audit()),
        instruction(JUMP, 0, 0, length.saturating_add(1)),
        instruction(LOAD, 0, 0, NUMBER),
    ];
    whole.append(&mut allowed);
    whole.extend_from_slice(program);
    whole
}

/// `A == k`
const EQUAL: u16 = Comparison::Equal as u16;

/// Returns the program's answer; `None` for a program that the kernel would not load.
fn run(program: &[Instruction], word: impl Fn(u32) -> u32) -> Option<u32> {
    let (mut accumulator, mut at) = (0, 0_usize);
    loop {
        let Instruction { code, jt, jf, k } = *program.get(at)?;
        let mut skipped = 0;
        let mut branch = |holds: bool| skipped = usize::from(if holds { jt } else { jf });
        match code {
            RETURN => return Some(k),
            LOAD => accumulator = word(k),
            AND => accumulator &= k,
            JUMP => skipped = k as usize,
            0x15 => branch(accumulator == k),
            0x25 => branch(accumulator > k),
            0x35 => branch(accumulator >= k),
            0x45 => branch(accumulator & k != 0),
            _ => return None,
        }
        at = at.checked_add(skipped)?.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapSet, DEFAULT, default_filter};

    #[test]
    fn answers_of_the_default_profile() {
        for (call, first, allowed) in [
            ("clone", 0x8000, true),
            ("clone", 0x1000_0000, false),
            ("setsid", 0, true),
            ("keyctl", 0, false),
            ("no_such_call", 0, false),
        ] {
            assert_eq!(lets_through(DEFAULT, call, first), allowed, "{call} {first:#x}");
        }
        let all = default_filter(CapSet::from_bits(u64::MAX));
        assert!(lets_through(&all, "clone", 0x1000_0000));
    }

    #[test]
    fn a_wider_program_allows_more_calls_and_nothing_else() {
        let deny = [Instruction {
            code: RETURN,
            jt: 0,
            jf: 0,
            k: verdict::ERRNO | 1,
        }];
        let some = widened(&deny, ["accept4", "close", "no_such_call"]);
        for (call, allowed) in [
            ("accept4", true),
            ("close", true),
            ("mount", false),
            ("read", false),
        ] {
            assert_eq!(lets_through(&some, call, 7), allowed, "{call}");
        }
        let elsewhere = |offset| match offset {
            ARCH => 1,
            _ => Arch::NATIVE.number("close").unwrap(),
        };
        assert_eq!(
            run(&some, elsewhere),
            Some(verdict::ERRNO | 1),
            "another architecture"
        );
        let more = widened(DEFAULT, ["mount"]);
        for (call, first) in [
            ("clone", 0x8000),
            ("clone", 0x1000_0000),
            ("keyctl", 0),
            ("openat", 0),
        ] {
            assert_eq!(
                lets_through(&more, call, first),
                lets_through(DEFAULT, call, first),
                "{call}"
            );
        }
        assert!(lets_through(&more, "mount", 0) && !lets_through(DEFAULT, "mount", 0));
    }

    #[test]
    fn programs_that_do_not_end_let_nothing_through() {
        let jump = |k| Instruction {
            code: JUMP,
            jt: 0,
            jf: 0,
            k,
        };
        for program in [&[][..], &[jump(u32::MAX)], &[jump(0)]] {
            assert!(!lets_through(program, "clone", 0));
        }
    }
}
