//! A plan that another process performs than the one that made it.

use crate::container::{Bundle, perform, seal};
use crate::needs;
use std::process::Command;
use tote_runtime::{Outcome, Parting};
use tote_sandbox::Plan;

/// File with the plan that this process is to perform.
const PLAN: &str = "TOTE_TEST_PLAN";

/// The performer gets the bytes of the plan, and nothing but them.
#[test]
#[expect(clippy::disallowed_methods, reason = "this program itself, by its own path")]
fn another_process_performs_a_plan() {
    needs!();
    if let Some(path) = std::env::var_os(PLAN) {
        seal();
        let plan = Plan::from_bytes(&std::fs::read(path).unwrap(), Vec::new()).unwrap();
        let Parting::Ended(ended) = perform(&plan).unwrap() else {
            panic!("nobody asked for it");
        };
        assert_eq!(ended.outcome, Outcome::Exited(0));
        return;
    }
    let bundle = Bundle::new("echo performed by a $(id -u) of $(hostname)")
        .with("/hostname", "elsewhere".into())
        .in_user_namespace();
    let plan = bundle.plan().unwrap();
    let written = plan.to_bytes();
    assert!(written.fds.is_empty());
    let file = bundle.dir.path().join("plan");
    std::fs::write(&file, written.bytes).unwrap();
    // Not by /proc/self/exe: a test beside this one may have sealed the program, whose path then is that of its own mount.
    let program = std::env::args_os().next().unwrap();
    let other = Command::new(program)
        .args([
            "--exact",
            "handed::another_process_performs_a_plan",
            "--nocapture",
        ])
        .env(PLAN, &file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success(), "{other:?}");
    assert!(said.contains("performed by a 0 of elsewhere\n"), "{said}");
}
