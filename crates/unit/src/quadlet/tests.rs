use super::*;

fn quadlet(file_name: &str, text: &str) -> Quadlet {
    let (kind, name) = Kind::of(file_name).unwrap();
    Quadlet {
        kind,
        name: name.to_owned(),
        path: format!("/etc/tote/systemd/{file_name}"),
        file: UnitFile::parse(text).unwrap(),
    }
}

fn around() -> Surroundings<'static> {
    Surroundings {
        program: "/usr/bin/tote",
        mounts_for: Some("/var/lib/tote"),
        user: false,
        volumes: [("data".to_owned(), "systemd-data".to_owned())].into(),
        networks: [("net".to_owned(), "systemd-net".to_owned())].into(),
        pods: [("shop".to_owned(), "systemd-shop".to_owned())].into(),
        members: [("shop".to_owned(), vec!["web.service".to_owned()])].into(),
    }
}

const WEB: &str = "\
[Unit]
Description=The web
After=db.container local-fs.target

[Container]
Image=registry.example/web:1
Exec=serve --port 80 'two words' %n
Environment=A=1 \"B=two words\"
Environment=C=3
EnvironmentFile=./env
Volume=data.volume:/data
Volume=./conf:/conf:ro
Volume=/srv
Mount=type=volume,source=data.volume,target=/more
AddCapability=NET_ADMIN SYS_TIME
ReadOnly=yes
NoNewPrivileges=true
User=1000
Group=100
Notify=yes
PodmanArgs=--cpus 2

[Service]
Restart=always

[Install]
WantedBy=multi-user.target other.target
Alias=www.service
";

#[test]
fn a_container() {
    let made = quadlet("web.container", WEB).service(&around()).unwrap();
    assert_eq!(made.name, "web.service");
    let expected = "\
[Unit]
Description=The web
After=db.service local-fs.target
SourcePath=/etc/tote/systemd/web.container
Wants=network-online.target
After=network-online.target
RequiresMountsFor=/var/lib/tote
Requires=data-volume.service
After=data-volume.service
Requires=data-volume.service
After=data-volume.service

[X-Container]
";
    assert!(made.text.starts_with(expected), "{}", made.text);
    let expected = "
[Service]
Restart=always
Type=notify
NotifyAccess=all
ExecStart=/usr/bin/tote run --name systemd-web --replace --rm --cgroups=split --sdnotify=container \
--cap-add NET_ADMIN --cap-add SYS_TIME --env A=1 --env \"B=two words\" --env C=3 --read-only=true \
--env-file /etc/tote/systemd/env --security-opt no-new-privileges --user 1000:100 \
--volume systemd-data:/data --volume /etc/tote/systemd/conf:/conf:ro --volume /srv \
--mount type=volume,source=systemd-data,target=/more --cpus 2 registry.example/web:1 serve --port 80 \"two words\" %n
ExecStop=/usr/bin/tote stop --ignore /systemd-web
ExecStopPost=-/usr/bin/tote rm --force --volumes --ignore /systemd-web
KillMode=mixed
Delegate=yes
SuccessExitStatus=143
SyslogIdentifier=%N
";
    assert!(made.text.contains(expected), "{}", made.text);
    let links: Vec<_> = made
        .links
        .iter()
        .map(|link| (&*link.path, &*link.target))
        .collect();
    assert_eq!(
        links,
        [
            ("www.service", "web.service"),
            ("multi-user.target.wants/web.service", "../web.service"),
            ("other.target.wants/web.service", "../web.service"),
        ]
    );
}

#[test]
fn a_volume() {
    let text = "[Volume]\nLabel=a=b \"c=d e\"\n[Quadlet]\nDefaultDependencies=no\n";
    let made = quadlet("data.volume", text).service(&around()).unwrap();
    assert_eq!(made.name, "data-volume.service");
    let expected = "\
[Service]
ExecStart=/usr/bin/tote volume create --label a=b --label \"c=d e\" systemd-data
Type=oneshot
RemainAfterExit=yes
SyslogIdentifier=%N
";
    assert!(made.text.ends_with(expected), "{}", made.text);
    assert!(!made.text.contains("network-online"), "{}", made.text);
}

#[test]
fn a_pod_and_a_member() {
    let text = "[Pod]\nHostName=h\nLabel=a=b\n";
    let made = quadlet("shop.pod", text).service(&around()).unwrap();
    assert_eq!(made.name, "shop-pod.service");
    for line in [
        "Wants=web.service\nBefore=web.service\n",
        "ExecStartPre=/usr/bin/tote pod create --name systemd-shop --replace --infra-name systemd-shop-infra \
         --hostname h --label a=b\n",
        "ExecStart=/usr/bin/tote start --sdnotify=conmon /systemd-shop-infra\n",
        "ExecStopPost=-/usr/bin/tote pod rm --force --ignore /systemd-shop\n",
    ] {
        assert!(made.text.contains(line), "{line}: {}", made.text);
    }
    let member = quadlet("web.container", "[Container]\nImage=i\nPod=shop.pod\n");
    assert_eq!(member.pod(), Some("shop"));
    let made = member.service(&around()).unwrap();
    assert!(made.text.contains(" --pod systemd-shop i\n"), "{}", made.text);
    let bound = "BindsTo=shop-pod.service\nAfter=shop-pod.service\n";
    assert!(made.text.contains(bound), "{}", made.text);
}

#[test]
fn templates() {
    let text = "[Container]\nImage=i\nExec=%i\n[Install]\nWantedBy=a.target\n";
    let made = quadlet("job@.container", text).service(&around()).unwrap();
    assert!(made.text.contains("--name systemd-%p_%i "), "{}", made.text);
    assert!(made.links.is_empty());
    let text = format!("{text}DefaultInstance=7\n");
    let made = quadlet("job@.container", &text).service(&around()).unwrap();
    assert_eq!(made.links[0].path, "a.target.wants/job@7.service");
    assert_eq!(made.links[0].target, "../job@.service");
    assert_eq!(
        quadlet("v@.volume", "[Volume]\n")
            .service(&around())
            .unwrap()
            .name,
        "v-volume@.service"
    );
}

#[test]
fn what_is_refused() {
    for (text, words) in [
        ("[Unit]\n", "missing [Container] section"),
        ("[Container]\n", "missing Image"),
        (
            "[Container]\nImage=i\nRootfs=/a\n",
            "line 3: Rootfs: there is an Image as well",
        ),
        (
            "[Container]\nImage=i\nReadOnly=perhaps\n",
            "line 3: ReadOnly: neither yes nor no",
        ),
        ("[Container]\nImage=i\nExec='\n", "line 3: Exec"),
        (
            "[Container]\nImage=i\nVolume=no.volume:/a\n",
            "line 3: Volume: file no.volume not found",
        ),
        (
            "[Container]\nImage=i\nNetwork=a.network\n",
            "line 3: Network: file a.network not found",
        ),
        (
            "[Container]\nImage=i\nGroup=1\n",
            "line 3: Group: there is no User beside it",
        ),
        (
            "[Container]\nImage=i\n[Service]\nType=simple\n",
            "line 4: Type: must be notify or oneshot",
        ),
        (
            "[Container]\nImage=i\n[Install]\nWantedBy=../a\n",
            "line 4: WantedBy: not the name of a unit",
        ),
        (
            "[Container]\nImage=i\nReloadCmd=a\nReloadSignal=HUP\n",
            "line 3: ReloadCmd: there is a ReloadSignal as well",
        ),
    ] {
        let error = quadlet("a.container", text).service(&around()).unwrap_err();
        assert_eq!(error.to_string(), words, "{text}");
    }
}

#[test]
fn which_files_there_are() {
    assert_eq!(Kind::of("a.b.container"), Some((Kind::Container, "a.b")));
    assert_eq!(Kind::of("a.volume"), Some((Kind::Volume, "a")));
    assert_eq!(Kind::of(".container"), None);
    assert_eq!(Kind::of("a.service"), None);
    assert!(Kind::is_unknown("a.kube") && !Kind::is_unknown("a.conf"));
}

/// Each key gives its option; what has no effect is told, and the rest works.
#[test]
fn keys_as_they_are_found() {
    for (text, expected) in [
        (
            "Secret=key,type=env,target=KEY",
            "--secret key,type=env,target=KEY",
        ),
        ("Timezone=Europe/Zurich", "--tz Europe/Zurich"),
        ("Network=net.network", "--network systemd-net"),
        (
            "Network=net.network:ip=10.1.2.3,alias=a",
            "--network systemd-net:ip=10.1.2.3,alias=a",
        ),
        ("Network=host", "--network host"),
        ("NetworkAlias=a b", "--network-alias a --network-alias b"),
        ("IP=10.1.2.3", "--ip 10.1.2.3"),
        ("HealthOnFailure=kill", "--health-on-failure kill"),
        ("SecurityLabelDisable=true", "--security-opt label=disable"),
        ("Mask=/proc/a:/proc/b", "--security-opt mask=/proc/a:/proc/b"),
        ("UIDMap=0:1:9", "--uidmap 0:1:9"),
        ("EnvironmentHost=yes", "--env-host=true"),
    ] {
        let file = quadlet("a.container", &format!("[Container]\nImage=i\n{text}\n"));
        let made = file.service(&around()).unwrap();
        assert!(
            made.text.contains(&format!(" {expected} i\n")),
            "{text}: {}",
            made.text
        );
        assert_eq!(made.unused, [], "{text}");
    }
    let text =
        "[Container]\nImage=i\nAutoUpdate=registry\nHealthStartupCmd=true\nColour=red\n[Quadlet]\nA=1\n";
    let made = quadlet("a.container", text).service(&around()).unwrap();
    assert!(made.text.contains(" i\n"), "{}", made.text);
    let told: Vec<_> = made.unused.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(
        told[0]
            .starts_with("line 3: unsupported key \"AutoUpdate\" in [Container] has no effect: tote updates")
    );
    assert_eq!(
        told[2],
        "line 5: unsupported key \"Colour\" in [Container] has no effect"
    );
    assert_eq!(
        told[3],
        "line 7: unsupported key \"A\" in [Quadlet] has no effect"
    );
}

#[test]
fn a_network() {
    let text = "[Network]\nSubnet=10.1.2.0/24\nInternal=true\nOptions=mtu=1400\nDisableDNS=true\n";
    let made = quadlet("net.network", text).service(&around()).unwrap();
    assert_eq!(made.name, "net-network.service");
    let expected = "ExecStart=/usr/bin/tote network create --ignore --internal=true --opt mtu=1400 --subnet 10.1.2.0/24 \
                    systemd-net\nType=oneshot\n";
    assert!(made.text.contains(expected), "{}", made.text);
    assert_eq!(made.unused.len(), 1);
    let member = quadlet("web.container", "[Container]\nImage=i\nNetwork=net.network\n");
    let made = member.service(&around()).unwrap();
    let tied = "Requires=net-network.service\nAfter=net-network.service\n";
    assert!(made.text.contains(tied), "{}", made.text);
}

#[test]
fn a_volume_of_a_disk() {
    let text = "[Volume]\nDriver=local\nType=ext4\nDevice=/dev/x\nOptions=ro\nUser=7\nCopy=true\n";
    let made = quadlet("data.volume", text).service(&around()).unwrap();
    let expected =
        " volume create --driver local --opt type=ext4 --opt device=/dev/x --opt o=ro,uid=7 systemd-data\n";
    assert!(made.text.contains(expected), "{}", made.text);
}
