use super::VERSION;
use super::any::Any;
use super::code::{Form, Reader, Writer};
use crate::error::FormError;
use crate::plan::Plan;
use proptest::prelude::*;
use rustix::fd::OwnedFd;
use std::collections::HashSet;
use tote_sys::Op;

fn copies(fds: &[rustix::fd::BorrowedFd<'_>]) -> Vec<OwnedFd> {
    fds.iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect()
}

fn null() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

/// Returns everything about a plan that can be printed, with the numbers of descriptors left out.
fn printed(plan: &Plan) -> String {
    let text = format!("{plan:?}");
    let mut parts = text.split("fd: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "fd: " + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

fn number_of(op: &Op) -> u8 {
    let mut out = Writer::new(b"");
    op.write(&mut out);
    out.bytes[0]
}

#[test]
fn every_operation_comes_back() {
    let mut seen = HashSet::new();
    for seed in 0..20_000 {
        let op = Op::any(&mut Any::new(seed));
        let mut out = Writer::new(VERSION);
        op.write(&mut out);
        let mut from = Reader::new(&out.bytes, VERSION, copies(&out.fds)).unwrap();
        let read = Op::read(&mut from).unwrap();
        from.finish().unwrap();
        let mut once_more = Writer::new(VERSION);
        read.write(&mut once_more);
        assert_eq!(once_more.bytes, out.bytes, "{op:?}");
        seen.insert(number_of(&op));
    }
    assert_eq!(seen.len(), 63, "a new operation has a number, and a row there");
}

/// Other bytes for the same plan need another number in the first line. If it is the generator of values that has
/// changed, or a new kind of value that has come, the number here changes alone.
#[test]
fn bytes_stay_the_same() {
    let mut any = Any::new(15);
    let sum = (0..500).fold(0xcbf2_9ce4_8422_2325_u64, |sum, _| {
        let plan = Plan::any(&mut any);
        let bytes = plan.to_bytes().bytes;
        bytes.iter().fold(sum, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    });
    assert_eq!(
        (VERSION, sum),
        (&b"tote plan 6\n"[..], 0xb49c_43c3_60a2_ab40),
        "{sum:#x}"
    );
}

#[test]
fn only_this_version_is_read() {
    let plan = Plan::any(&mut Any::new(3));
    let bytes = plan.to_bytes().bytes;
    let other = [b"tote plan 7\n", &bytes[VERSION.len()..]].concat();
    assert_eq!(Plan::from_bytes(&other, vec![]).unwrap_err(), FormError::Version);
    assert_eq!(Plan::from_bytes(b"", vec![]).unwrap_err(), FormError::Version);
}

#[test]
fn descriptors_are_brought_in_their_order() {
    let mut plan = Plan::from_bytes(&empty(), vec![]).unwrap();
    plan.pid_namespace = Some(null());
    plan.ops = vec![
        Op::Stdio {
            fd: std::fs::File::open("/dev/zero").unwrap().into(),
            number: 1,
        },
        Op::Session,
    ];
    let written = plan.to_bytes();
    assert_eq!(written.fds.len(), 2);
    let read = Plan::from_bytes(&written.bytes, copies(&written.fds)).unwrap();
    let [Op::Stdio { fd, number: 1 }, Op::Session] = &read.ops[..] else {
        panic!("{read}");
    };
    let device = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_rdev;
    assert_eq!(device(fd), rustix::fs::makedev(1, 5));
    assert_eq!(
        device(read.pid_namespace.as_ref().unwrap()),
        rustix::fs::makedev(1, 3)
    );
    let one = copies(&written.fds[..1]);
    let missing = FormError::Descriptor { index: 1 };
    assert_eq!(Plan::from_bytes(&written.bytes, one).unwrap_err(), missing);
    let mut three = copies(&written.fds);
    three.push(null());
    assert_eq!(
        Plan::from_bytes(&written.bytes, three).unwrap_err(),
        FormError::Rest
    );
}

/// Returns the form of a plan that does nothing.
fn empty() -> Vec<u8> {
    let (flags, no_fds, lists) = ([0; 8], [0; 2], [0; 6 * 8]);
    [VERSION, &flags, &no_fds, &lists].concat()
}

#[test]
fn a_length_is_not_believed() {
    let bytes = empty();
    for list in 0..6 {
        for claimed in [1_u64, 1 << 20, u64::MAX >> 1, u64::MAX] {
            let mut bytes = bytes.clone();
            let at = bytes.len() - (6 - list) * 8;
            bytes[at..at + 8].copy_from_slice(&claimed.to_le_bytes());
            if let Ok(plan) = Plan::from_bytes(&bytes, vec![]) {
                panic!("{list} {claimed}: {plan}");
            }
        }
    }
}

/// Memory of a plan is proportional to its bytes: each element of a list has at least one byte, and this is the most
/// that one takes.
#[test]
fn no_element_is_large() {
    assert!(size_of::<Op>() <= 128, "{}", size_of::<Op>());
    assert!(size_of::<crate::Errand>() <= 128);
    assert!(size_of::<tote_network::ContainerLink>() <= 256);
}

#[test]
fn every_shorter_form_is_refused() {
    for seed in 0..40 {
        let plan = Plan::any(&mut Any::new(seed));
        let written = plan.to_bytes();
        for length in 0..written.bytes.len() {
            let cut = Plan::from_bytes(&written.bytes[..length], copies(&written.fds));
            let error = cut.expect_err("a part of a plan").to_string();
            assert!(error.starts_with("cannot read the plan: "), "{error}");
        }
        let longer = [&written.bytes[..], &[0]].concat();
        let more = Plan::from_bytes(&longer, copies(&written.fds)).unwrap_err();
        assert_eq!(more, FormError::Rest);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_come_back(seed in any::<u64>()) {
        let plan = Plan::any(&mut Any::new(seed));
        let read = plan.handed_over().unwrap();
        prop_assert_eq!(printed(&read), printed(&plan));
        prop_assert_eq!(read.to_string(), plan.to_string());
        prop_assert_eq!(read.to_bytes().bytes, plan.to_bytes().bytes);
    }

    /// A change is an error, or another plan that has exactly these bytes.
    #[test]
    fn changed_bytes_are_refused_or_another_plan(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let plan = Plan::any(&mut Any::new(seed));
        let written = plan.to_bytes();
        let mut bytes = written.bytes.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        match Plan::from_bytes(&bytes, copies(&written.fds)) {
            Ok(read) => prop_assert_eq!(read.to_bytes().bytes, bytes),
            Err(error) => prop_assert!(error.to_string().starts_with("cannot read the plan: ")),
        }
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [VERSION, &noise].concat();
        if let Ok(read) = Plan::from_bytes(&bytes, vec![]) {
            prop_assert_eq!(read.to_bytes().bytes, bytes);
        }
    }
}
