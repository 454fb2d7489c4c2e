//! A small program that executes another one with words in front of its own arguments.
//!
//! A script could not do it: the container may have no shell, and the shell of the tools needs such a program itself.

use crate::flat;

/// Word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Text(String),
    /// The name by which the small program was called.
    OwnName,
}

/// Machine code: it pushes the words of the table behind it below its own arguments, whose first one it drops, and executes
/// the last word with the rest.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x58,                                     //       pop rax               number of arguments
    0x5b,                                     //       pop rbx               own name
    0x48, 0x8d, 0x14, 0xc4,                   //       lea rdx, [rsp+rax*8]  environment
    0x48, 0x8d, 0x35, 0x2a, 0x00, 0x00, 0x00, //       lea rsi, [rip+table]
    0x48, 0xad,                               // next: lodsq
    0x48, 0x85, 0xc0,                         //       test rax, rax
    0x48, 0x0f, 0x44, 0xc3,                   //       cmove rax, rbx
    0x48, 0x83, 0xf8, 0xff,                   //       cmp rax, -1
    0x74, 0x03,                               //       je run
    0x50,                                     //       push rax
    0xeb, 0xee,                               //       jmp next
    0x5f,                                     // run:  pop rdi
    0x48, 0x89, 0xe6,                         //       mov rsi, rsp
    0xb8, 0x3b, 0x00, 0x00, 0x00,             //       mov eax, execve
    0x0f, 0x05,                               //       syscall
    0xbf, 0x7f, 0x00, 0x00, 0x00,             //       mov edi, 127
    0xb8, 0xe7, 0x00, 0x00, 0x00,             //       mov eax, exit_group
    0x0f, 0x05,                               //       syscall
    0x90,                                     //       nop
];

#[cfg(target_arch = "aarch64")]
#[rustfmt::skip]
const CODE: &[u8] = &[
    0xe0, 0x03, 0x40, 0xf9, //       ldr x0, [sp]          number of arguments
    0xe3, 0x07, 0x40, 0xf9, //       ldr x3, [sp, #8]      own name
    0xe1, 0x43, 0x00, 0x91, //       add x1, sp, #16
    0x22, 0x0c, 0x00, 0x8b, //       add x2, x1, x0, lsl 3 environment
    0xc4, 0x01, 0x00, 0x10, //       adr x4, table
    0x85, 0x84, 0x40, 0xf8, // next: ldr x5, [x4], #8
    0xbf, 0x04, 0x00, 0xb1, //       cmn x5, #1
    0xa0, 0x00, 0x00, 0x54, //       b.eq run
    0xbf, 0x00, 0x00, 0xf1, //       cmp x5, #0
    0x65, 0x00, 0x85, 0x9a, //       csel x5, x3, x5, eq
    0x25, 0x8c, 0x1f, 0xf8, //       str x5, [x1, #-8]!
    0xfa, 0xff, 0xff, 0x17, //       b next
    0x20, 0x84, 0x40, 0xf8, // run:  ldr x0, [x1], #8
    0xa8, 0x1b, 0x80, 0xd2, //       mov x8, execve
    0x01, 0x00, 0x00, 0xd4, //       svc #0
    0xe0, 0x0f, 0x80, 0xd2, //       mov x0, #127
    0xc8, 0x0b, 0x80, 0xd2, //       mov x8, exit_group
    0x01, 0x00, 0x00, 0xd4, //       svc #0
];

/// Builds the program: it executes `file` with these words as the first arguments, its name among them.
pub(super) fn program(file: &str, words: &[Word]) -> Vec<u8> {
    let file = Word::Text(file.to_owned());
    let all = || std::iter::once(&file).chain(words);
    let table = (words.len() as u64 + 2) * 8;
    let first_text = flat::start() + CODE.len() as u64 + table;
    let (mut texts, mut addresses) = (Vec::new(), Vec::new());
    for word in all() {
        match word {
            Word::OwnName => addresses.push(0),
            Word::Text(text) => {
                addresses.push(first_text + texts.len() as u64);
                texts.extend(text.as_bytes());
                texts.push(0);
            }
        }
    }
    // The last word lies highest on the stack, so it comes first.
    let addresses = addresses.into_iter().rev().chain([u64::MAX]);
    let table: Vec<u8> = addresses.flat_map(u64::to_le_bytes).collect();
    flat::executable(&[CODE, &table, &texts])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::process::Command;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test of a program has to start it")]
    fn words_come_before_the_arguments() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("launcher");
        let text = |text: &str| Word::Text(text.to_owned());
        let script = "echo $0 \"$@\" $A";
        let words = [
            text("shell"),
            text("-c"),
            text(script),
            Word::OwnName,
            text("first"),
        ];
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(&path)
            .unwrap();
        std::io::Write::write_all(&mut file, &program("/bin/sh", &words)).unwrap();
        drop(file);
        // The program is started by another process: a thread of this one may fork while the file is open for writing.
        let run = |line: &str| {
            let mut shell = Command::new("sh");
            let out = shell.args(["-c", line]).arg(&path).env("A", "env").output();
            let out = out.unwrap();
            (String::from_utf8(out.stdout).unwrap(), out.status.code())
        };
        let own = path.to_str().unwrap();
        assert_eq!(
            run("exec \"$0\" one 'two three'"),
            (format!("{own} first one two three env\n"), Some(0))
        );
        assert_eq!(run("exec \"$0\""), (format!("{own} first env\n"), Some(0)));
        let file = std::fs::File::options().write(true).truncate(true).open(&path);
        std::io::Write::write_all(&mut file.unwrap(), &program("/no/such", &words)).unwrap();
        assert_eq!(run("exec \"$0\"").1, Some(127));
    }
}
