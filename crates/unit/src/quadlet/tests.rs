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
            "[Container]\nImage=i\nGIDMap=80\n",
            "line 3: unsupported key \"GIDMap\" in [Container]",
        ),
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
            "line 3: Network: tote has no .network files: make the network with 'tote network create', and give its name",
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
            "[Container]\nImage=i\n[Quadlet]\nA=1\n",
            "line 4: unsupported key \"A\" in [Quadlet]",
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
    assert!(Kind::is_unknown("a.network") && !Kind::is_unknown("a.conf"));
}
