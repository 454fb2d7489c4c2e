//! Sandboxes whose program waits for a taker itself, and the plan that it holds ready for what the taker brings.

use crate::plan::Plan;
use rustix::fd::OwnedFd;
use std::ffi::CString;
use tote_sys::{DOOR, Exec, Op};

/// Program that takes the place of the planned one.
#[derive(Debug)]
pub struct Substitute {
    /// The program.
    pub exec: Exec,
    /// Directory to start in, made if it is missing; `None` is the planned one.
    pub cwd: Option<CString>,
    /// Rows and columns of a terminal.
    pub terminal: Option<(u16, u16)>,
    /// True if it reads its standard input.
    pub has_input: bool,
}

impl Plan {
    /// Gives the program the socket at which takers come, and its channel to the keeper ([`tote_sys::Parked`]).
    pub fn hand_over(&mut self, listener: OwnedFd, channel: OwnedFd) {
        let place = self.last_of_its_maker();
        let fds = [(listener, DOOR), (channel, DOOR + 1)];
        let ops = fds.map(|(fd, number)| Op::Stdio { fd, number });
        self.ops.splice(place..place, ops);
    }

    /// Puts another program in the place of the planned one, in the same sandbox.
    pub fn replace_program(&mut self, program: Substitute) {
        if program.has_input {
            self.ops.retain(|op| !matches!(op, Op::NoStdin));
        }
        let mut ops = Vec::new();
        if let Some(size) = program.terminal {
            ops.push(Op::Console {
                size,
                owner: self.owner(),
                plain: false,
            });
        }
        if let Some(cwd) = program.cwd {
            for op in &mut self.ops {
                if let Op::WorkingDir(path) = op {
                    path.clone_from(&cwd);
                }
            }
            if cwd.as_c_str() != c"/" {
                ops.push(Op::MakeDir {
                    path: cwd,
                    mode: 0o755,
                });
            }
        }
        let switch = self.switch_position();
        self.ops.splice(switch..switch, ops);
        for op in &mut self.ops {
            if let Op::Exec(exec) = op {
                let never = exec.never;
                **exec = Exec {
                    never,
                    ..program.exec
                };
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::tests::plan_of;
    use tote_sys::{Credentials, Privilege, Program};

    fn exec(name: &str) -> Exec {
        let name = CString::new(name).unwrap();
        Exec {
            file: None,
            candidates: vec![name.clone()],
            program: Program::new(vec![name], Vec::new()),
            never: Some((1, 2)),
        }
    }

    fn plan() -> Plan {
        let credentials = Credentials {
            uid: 7,
            gid: 8,
            groups: None,
        };
        plan_of(vec![
            Op::Pivot,
            Op::NoStdin,
            Op::CloseFrom(3),
            Op::WorkingDir(c"/old".into()),
            Op::Privilege(Privilege {
                credentials: Some(credentials),
                capabilities: None,
                no_new_privs: false,
                filter: None,
            }),
            Op::DieWithParent,
            Op::Exec(Box::new(exec("/old"))),
        ])
    }

    #[test]
    fn a_program_that_waits_has_its_descriptors_before_its_ids() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let mut plan = plan();
        plan.hand_over(file(), file());
        let numbers: Vec<i32> = plan.ops[4..6]
            .iter()
            .map(|op| match op {
                Op::Stdio { number, .. } => *number,
                op => panic!("{op:?}"),
            })
            .collect();
        assert_eq!(numbers, [DOOR, DOOR + 1]);
        assert!(matches!(plan.ops[6], Op::Privilege(_)));
    }

    #[test]
    fn another_program_has_its_directory_and_its_terminal() {
        let mut whole = plan();
        whole.replace_program(Substitute {
            exec: exec("/new"),
            cwd: Some(c"/srv".into()),
            terminal: Some((24, 80)),
            has_input: true,
        });
        let [console, make, pivot, close, directory, ..] = &whole.ops[..] else {
            panic!("{whole}")
        };
        assert!(matches!(
            console,
            Op::Console {
                size: (24, 80),
                owner: 7,
                ..
            }
        ));
        assert!(matches!(make, Op::MakeDir { path, .. } if path.as_c_str() == c"/srv"));
        assert!(matches!((pivot, close), (Op::Pivot, Op::CloseFrom(3))));
        assert!(matches!(directory, Op::WorkingDir(path) if path.as_c_str() == c"/srv"));
        let Some(Op::Exec(program)) = whole.ops.last() else {
            panic!("{whole}")
        };
        assert_eq!(program.candidates, [CString::from(c"/new")]);
        assert_eq!(program.never, Some((1, 2)));
        let mut same = plan();
        same.replace_program(Substitute {
            exec: exec("/new"),
            cwd: None,
            terminal: None,
            has_input: false,
        });
        assert_eq!(same.ops.len(), plan().ops.len());
        assert!(matches!(same.ops[1], Op::NoStdin));
    }
}
