use super::*;

fn rule(text: &str) -> DeviceRule {
    let mut fields = text.split([' ', ':']);
    let allow = fields.next() == Some("+");
    let kind = fields.next().map(str::to_owned);
    let mut number = || fields.next().and_then(|n| n.parse().ok());
    let (major, minor) = (number(), number());
    DeviceRule {
        allow,
        kind,
        major,
        minor,
        access: fields.next().map(str::to_owned),
    }
}

fn lines(rules: &[&str], list: &str) -> Vec<String> {
    let rules: Vec<_> = rules.iter().map(|r| rule(r)).collect();
    let lines = Access::from_rules(&rules)
        .unwrap()
        .lines_from(&Access::from_list(list));
    lines
        .iter()
        .map(|(allow, line)| format!("{}{line}", if *allow { '+' } else { '-' }))
        .collect()
}

#[test]
fn later_rules_override_and_a_forgets() {
    let all = "a *:* rwm\n";
    let cases: [(&[&str], &str, &[&str]); 9] = [
        (&["+ c 1:3 rwm", "- c 1:3 rwa"], all, &["-a", "+c 1:3 m"]),
        (&[], all, &["-a"]),
        (&["+ a"], all, &["+a"]),
        (&["- a", "+ c 1:3 rw", "+ c 1:3 m"], all, &["-a", "+c 1:3 rwm"]),
        (&["+ c 1:3 rwm", "- c 1:3 w"], all, &["-a", "+c 1:3 rm"]),
        (&["+ c 1:3 rwm", "- a 9:9 r"], all, &["-a"]),
        (&["+ a", "- b *:* w"], all, &["+a", "-b *:* w"]),
        (
            &["- a", "+ c 1:3 rwm", "+ c 1:5 r"],
            "c 1:3 rwm\nc 1:5 rw\n",
            &["-c 1:5 w"],
        ),
        (&["+ a"], "c 1:3 rwm\n", &["+a"]),
    ];
    for (rules, list, expected) in cases {
        assert_eq!(lines(rules, list), expected, "{rules:?} from {list:?}");
    }
}

#[test]
fn rules_that_cannot_be() {
    let error = |rules: &[&str]| {
        let rules: Vec<_> = rules.iter().map(|r| rule(r)).collect();
        Access::from_rules(&rules).unwrap_err()
    };
    assert!(matches!(
        error(&["+ c *:* rwm", "- c 1:3 w"]),
        DeviceError::Hole { index: 1, .. }
    ));
    assert!(matches!(error(&["+ x 1:3 r"]), DeviceError::Kind { .. }));
    assert!(matches!(error(&["+ c 1:3 rx"]), DeviceError::Access { .. }));
    assert!(matches!(
        error(&["+ c 4294967296:3 r"]),
        DeviceError::Number {
            number: 4_294_967_296,
            ..
        }
    ));
    assert!(matches!(
        error(&["+ c -2:3 r"]),
        DeviceError::Number { number: -2, .. }
    ));
}

#[test]
fn a_hole_that_takes_nothing_away_is_none() {
    assert_eq!(
        lines(&["+ c *:* m", "+ c 1:3 rwm", "- c 1:3 rw"], ""),
        ["+c *:* m", "+c 1:3 m"]
    );
}

#[test]
fn defaults_are_one_line_each() {
    let access = Access::from_rules(&default_device_rules()).unwrap();
    assert!(!access.allow_by_default);
    assert_eq!(access.exceptions.len(), 11);
    let listed: String = access
        .lines_from(&Access::default())
        .iter()
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    assert!(
        listed.contains("c 136:* rwm\n") && listed.contains("b *:* m\n") && listed.contains("c 10:200 rwm\n")
    );
    assert_eq!(Access::from_list(&listed), access, "devices.list reads back");
}
