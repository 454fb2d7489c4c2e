//! Every call that clippy refuses, so that a list with a wrong name, or without one, is noticed: clippy complains about an expectation that does
//! not come true. `cargo xtask tidy` compares this file with the list.
#![allow(unused_qualifications, reason = "the names are those of the list")]

use rustix::event::epoll::Event;
use rustix::fd::BorrowedFd;
use rustix::net::SocketAddrUnix;
use rustix::process::WaitId;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Names each call once, in a statement of its own.
macro_rules! refused {
    ($($call:expr;)*) => {
        $(
            #[expect(clippy::disallowed_methods, reason = "the list has it")]
            let _ = $call;
        )*
    };
}

#[test]
fn clippy_refuses_what_the_list_has() {
    refused! {
        std::fs::canonicalize::<&Path>;
        std::path::Path::canonicalize;
        std::fs::File::create::<&Path>;
        std::fs::set_permissions::<&Path>;
        std::os::unix::fs::chown::<&Path>;
        std::path::Path::exists;
        std::path::Path::is_dir;
        std::path::Path::is_file;
        std::path::Path::is_symlink;
        std::env::set_var::<&str, &str>;
        std::env::remove_var::<&str>;
        std::env::current_dir;
        std::thread::sleep;
        rustix::fs::flock::<BorrowedFd<'_>>;
        std::env::args;
        std::env::args_os;
        rustix::fs::openat2::<BorrowedFd<'_>, &Path>;
        std::process::Command::new::<&str>;
    }
}

#[test]
fn clippy_refuses_waits_without_an_end() {
    refused! {
        rustix::event::poll;
        rustix::event::epoll::wait::<BorrowedFd<'_>, &mut [MaybeUninit<Event>]>;
        rustix::event::pause;
        rustix::process::waitid::<WaitId<'_>>;
        rustix::process::waitpid;
        rustix::process::waitpgid;
        rustix::process::wait;
        rustix::thread::nanosleep;
        |socket: BorrowedFd<'_>, to: &SocketAddrUnix| rustix::net::connect(socket, to);
        std::os::unix::net::UnixStream::connect::<&Path>;
        std::os::unix::net::UnixStream::connect_addr;
        std::net::TcpStream::connect::<SocketAddr>;
        std::process::Child::wait;
        std::process::Child::wait_with_output;
        |command: &mut Command| std::process::Command::output(command);
        |command: &mut Command| std::process::Command::status(command);
        std::fs::File::lock;
        std::fs::File::lock_shared;
        std::sync::Condvar::wait::<()>;
        std::sync::Condvar::wait_while::<(), fn(&mut ()) -> bool>;
        std::thread::park;
    }
}
