//! Program of an infra container: it waits, reaps orphans of a shared PID namespace, and ends on request.
//!
//! The program is written into the container's own layer, so that a pod needs no image and tote's own executable is
//! not in there. It is one page of code without a heap or a library, so an infra container costs hardly more than its
//! monitor.

/// Path of an infra container's program, in its root.
pub const PAUSE: &str = "pause";

/// Machine code. All signals are blocked, and taken one after another: SIGTERM and SIGINT end the
/// program, at SIGCHLD it reaps.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x6a, 0xff,                               //       push -1               all signals
    0x48, 0x89, 0xe6,                         //       mov rsi, rsp
    0x31, 0xff,                               //       xor edi, edi          SIG_BLOCK
    0x31, 0xd2,                               //       xor edx, edx
    0x41, 0xba, 0x08, 0x00, 0x00, 0x00,       //       mov r10d, 8
    0xb8, 0x0e, 0x00, 0x00, 0x00,             //       mov eax, rt_sigprocmask
    0x0f, 0x05,                               //       syscall
    0x48, 0x89, 0xe7,                         // wait: mov rdi, rsp
    0x31, 0xf6,                               //       xor esi, esi
    0x31, 0xd2,                               //       xor edx, edx          for ever
    0x41, 0xba, 0x08, 0x00, 0x00, 0x00,       //       mov r10d, 8
    0xb8, 0x80, 0x00, 0x00, 0x00,             //       mov eax, rt_sigtimedwait
    0x0f, 0x05,                               //       syscall
    0x83, 0xf8, 0x11,                         //       cmp eax, SIGCHLD
    0x74, 0x13,                               //       je reap
    0x83, 0xf8, 0x0f,                         //       cmp eax, SIGTERM
    0x74, 0x05,                               //       je end
    0x83, 0xf8, 0x02,                         //       cmp eax, SIGINT
    0x75, 0xdd,                               //       jne wait
    0x31, 0xff,                               // end:  xor edi, edi
    0xb8, 0xe7, 0x00, 0x00, 0x00,             //       mov eax, exit_group
    0x0f, 0x05,                               //       syscall
    0x48, 0xc7, 0xc7, 0xff, 0xff, 0xff, 0xff, // reap: mov rdi, -1           any child
    0x31, 0xf6,                               //       xor esi, esi
    0xba, 0x01, 0x00, 0x00, 0x00,             //       mov edx, WNOHANG
    0x45, 0x31, 0xd2,                         //       xor r10d, r10d
    0xb8, 0x3d, 0x00, 0x00, 0x00,             //       mov eax, wait4
    0x0f, 0x05,                               //       syscall
    0x85, 0xc0,                               //       test eax, eax
    0x7f, 0xe4,                               //       jg reap
    0xeb, 0xb6,                               //       jmp wait
];

#[cfg(target_arch = "aarch64")]
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x09, 0x00, 0x80, 0x92, //       mov x9, #-1           all signals
    0xe9, 0x0f, 0x1f, 0xf8, //       str x9, [sp, #-16]!
    0x00, 0x00, 0x80, 0xd2, //       mov x0, #0            SIG_BLOCK
    0xe1, 0x03, 0x00, 0x91, //       mov x1, sp
    0x02, 0x00, 0x80, 0xd2, //       mov x2, #0
    0x03, 0x01, 0x80, 0xd2, //       mov x3, #8
    0xe8, 0x10, 0x80, 0xd2, //       mov x8, rt_sigprocmask
    0x01, 0x00, 0x00, 0xd4, //       svc #0
    0xe0, 0x03, 0x00, 0x91, // wait: mov x0, sp
    0x01, 0x00, 0x80, 0xd2, //       mov x1, #0
    0x02, 0x00, 0x80, 0xd2, //       mov x2, #0            for ever
    0x03, 0x01, 0x80, 0xd2, //       mov x3, #8
    0x28, 0x11, 0x80, 0xd2, //       mov x8, rt_sigtimedwait
    0x01, 0x00, 0x00, 0xd4, //       svc #0
    0x1f, 0x44, 0x00, 0x71, //       cmp w0, SIGCHLD
    0x00, 0x01, 0x00, 0x54, //       b.eq reap
    0x1f, 0x3c, 0x00, 0x71, //       cmp w0, SIGTERM
    0x60, 0x00, 0x00, 0x54, //       b.eq end
    0x1f, 0x08, 0x00, 0x71, //       cmp w0, SIGINT
    0xa1, 0xfe, 0xff, 0x54, //       b.ne wait
    0x00, 0x00, 0x80, 0xd2, // end:  mov x0, #0
    0xc8, 0x0b, 0x80, 0xd2, //       mov x8, exit_group
    0x01, 0x00, 0x00, 0xd4, //       svc #0
    0x00, 0x00, 0x80, 0x92, // reap: mov x0, #-1           any child
    0x01, 0x00, 0x80, 0xd2, //       mov x1, #0
    0x22, 0x00, 0x80, 0xd2, //       mov x2, WNOHANG
    0x03, 0x00, 0x80, 0xd2, //       mov x3, #0
    0x88, 0x20, 0x80, 0xd2, //       mov x8, wait4
    0x01, 0x00, 0x00, 0xd4, //       svc #0
    0x1f, 0x00, 0x00, 0x71, //       cmp w0, #0
    0x2c, 0xff, 0xff, 0x54, //       b.gt reap
    0xe9, 0xff, 0xff, 0x17, //       b wait
];

/// Builds the executable.
#[must_use]
pub fn program() -> Vec<u8> {
    crate::flat::executable(&[CODE])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command};

    #[expect(clippy::disallowed_methods, reason = "a test of a program has to start it")]
    fn start(dir: &std::path::Path) -> Child {
        let path = dir.join("pause");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(&path)
            .unwrap();
        file.write_all(&program()).unwrap();
        drop(file);
        // The program is started by another process: a thread of this one may fork while the file
        // is open for writing.
        let mut shell = Command::new("sh");
        shell.arg("-c").arg("exec \"$0\"").arg(path).spawn().unwrap()
    }

    fn send(child: &Child, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
    }

    #[test]
    fn it_waits_until_it_is_asked_to_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = start(dir.path());
        // The loop waits for the execution of the program, because the signal would kill the shell.
        let is_pause = || {
            std::fs::read_link(format!("/proc/{}/exe", child.id())).is_ok_and(|exe| exe.ends_with("pause"))
        };
        while !is_pause() {
            std::thread::yield_now();
        }
        // The program sleeps only while it waits for signals.
        let sleeps = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.contains(") S ")
        };
        while !sleeps() {
            std::thread::yield_now();
        }
        send(&child, rustix::process::Signal::HUP);
        send(&child, rustix::process::Signal::CHILD);
        assert!(child.try_wait().unwrap().is_none());
        send(&child, rustix::process::Signal::TERM);
        let status = tote_sys::await_program(&mut child).unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None));
    }
}
