use super::Case;
use tote_bundle::{ConflictingLimits, SpecError};
use tote_spec::Resources;

fn resources(pairs: &[(&str, &str)]) -> Resources {
    Case::new(pairs).spec().linux.unwrap().resources.unwrap()
}

#[test]
fn memory_and_swap() {
    const M: i64 = 1 << 20;
    for (pairs, limit, reservation, swap) in [
        (&[("memory", "64m")][..], Some(64 * M), None, Some(128 * M)),
        (
            &[("memory", "64m"), ("memory-swap", "-1")],
            Some(64 * M),
            None,
            Some(-1),
        ),
        (
            &[("memory", "64m"), ("memory-swap", "64m")],
            Some(64 * M),
            None,
            Some(64 * M),
        ),
        (&[("memory-reservation", "32m")], None, Some(32 * M), None),
        (&[("memory-swap", "-1")], None, None, Some(-1)),
        (
            &[("memory", "9223372036854775807")],
            Some(i64::MAX),
            None,
            Some(i64::MAX),
        ),
    ] {
        let memory = resources(pairs).memory.unwrap();
        assert_eq!(
            (memory.limit, memory.reservation, memory.swap),
            (limit, reservation, swap),
            "{pairs:?}"
        );
    }
    assert_eq!(resources(&[]).memory, None);
    for (pairs, error) in [
        (
            &[("memory-swap", "64m")][..],
            SpecError::Limits(ConflictingLimits::SwapWithoutMemory),
        ),
        (
            &[("memory", "64m"), ("memory-swap", "32m")],
            SpecError::Limits(ConflictingLimits::SwapBelowMemory),
        ),
        (
            &[("memory", "64m"), ("memory-reservation", "65m")],
            SpecError::Limits(ConflictingLimits::ReservationAboveMemory),
        ),
    ] {
        assert_eq!(Case::new(pairs).error(), error);
    }
}

#[test]
fn processors() {
    for (cpus, quota) in [("1.5", 150_000), ("0.01", 1000), ("0.333333333", 33_333)] {
        let cpu = resources(&[("cpus", cpus)]).cpu.unwrap();
        assert_eq!((cpu.quota, cpu.period), (Some(quota), Some(100_000)), "{cpus}");
    }
    let cpu = resources(&[("cpu-shares", "2"), ("cpuset-cpus", "0-1"), ("cpuset-mems", "0")])
        .cpu
        .unwrap();
    assert_eq!(
        (cpu.shares, cpu.cpus.as_deref(), cpu.mems.as_deref()),
        (Some(2), Some("0-1"), Some("0"))
    );
    assert_eq!((cpu.quota, cpu.period), (None, None));
    assert_eq!(resources(&[]).cpu, None);
}

#[test]
fn processes() {
    for (pairs, limit) in [
        (&[][..], 2048),
        (&[("pids-limit", "5")], 5),
        (&[("pids-limit", "0")], -1),
        (&[("pids-limit", "-1")], -1),
    ] {
        assert_eq!(resources(pairs).pids.unwrap().limit, Some(limit), "{pairs:?}");
    }
}

#[test]
fn device_rules() {
    let rules = resources(&[]).devices;
    assert!(!rules[0].allow && rules[0].kind.is_none());
    let (made, opened): (Vec<_>, Vec<_>) = rules[1..]
        .iter()
        .partition(|rule| rule.access.as_deref() == Some("m"));
    assert!(made.iter().all(|rule| rule.allow && rule.major.is_none()));
    assert!(
        opened
            .iter()
            .all(|rule| rule.allow && rule.kind.as_deref() == Some("c"))
    );
    assert!(
        opened
            .iter()
            .any(|rule| (rule.major, rule.minor) == (Some(136), None))
    );
    let privileged = resources(&[("privileged", "true")]).devices;
    assert!(privileged.len() == 1 && privileged[0].allow);
    let rootless = Case::new(&[])
        .rootless(1)
        .spec()
        .linux
        .unwrap()
        .resources
        .unwrap();
    assert!(rootless.devices.is_empty() && rootless.pids.is_some());
}
