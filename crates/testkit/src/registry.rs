use crate::content::digest;
use crate::exchange::{Reply, Request};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::io::BufReader;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Function that gets a request and may reply; `None` leaves the reply to the registry.
type Hook = Box<dyn Fn(&Request) -> Option<Reply> + Send + Sync>;

/// A registry on a port of the loopback interface, as long as the value lives.
pub struct FakeRegistry {
    address: SocketAddr,
    state: Arc<State>,
    server: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    own: String,
    stopped: AtomicBool,
    /// Blobs by repository and digest.
    blobs: Mutex<HashMap<(String, String), Vec<u8>>>,
    /// Manifests by repository and tag or digest.
    manifests: Mutex<BTreeMap<(String, String), Stored>>,
    uploads: Mutex<HashMap<String, Vec<u8>>>,
    /// Credentials, and the token that a client gets for them.
    login: Mutex<Option<Login>>,
    hooks: Mutex<Vec<Hook>>,
    log: Mutex<Vec<Request>>,
}

/// Media type and bytes of a manifest.
type Stored = (String, Vec<u8>);

#[derive(Clone)]
struct Login {
    /// Whole value of the header with name and password.
    basic: String,
    token: String,
    /// True if every client may read.
    public: bool,
}

impl std::fmt::Debug for FakeRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeRegistry")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl FakeRegistry {
    /// Starts an empty registry that is open to all clients.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface has a free port");
        Self::on(listener)
    }

    /// Starts an empty registry that answers on a socket.
    ///
    /// # Panics
    /// If the socket has no address.
    #[must_use]
    pub fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::new(State {
            own: format!("http://{address}"),
            ..State::default()
        });
        let shared = Arc::clone(&state);
        let server = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // Some tests are about a client that goes away in the middle.
                std::thread::spawn(move || shared.serve(stream).ok());
            }
        });
        Self {
            address,
            state,
            server: Some(server),
        }
    }

    /// Returns `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Adds a blob; returns its digest.
    pub fn blob(&self, repository: &str, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        let key = (repository.to_owned(), digest.clone());
        lock(&self.state.blobs).insert(key, bytes.to_vec());
        digest
    }

    /// Adds a manifest under a tag, and under its digest, which is returned.
    pub fn manifest(&self, repository: &str, tag: &str, bytes: &[u8]) -> String {
        self.state.put_manifest(repository, tag, media_type(bytes), bytes)
    }

    /// Returns the contents stored under a tag or a digest.
    #[must_use]
    pub fn stored(&self, repository: &str, name: &str) -> Option<Vec<u8>> {
        let key = (repository.to_owned(), name.to_owned());
        let manifest = lock(&self.state.manifests)
            .get(&key)
            .map(|(_, bytes)| bytes.clone());
        manifest.or_else(|| lock(&self.state.blobs).get(&key).cloned())
    }

    /// Demands a token from now on, which a client gets for the header `Basic …`; if `public`, every client gets one
    /// for reading.
    pub fn demand_token(&self, basic: &str, token: &str, public: bool) {
        *lock(&self.state.login) = Some(Login {
            basic: basic.to_owned(),
            token: token.to_owned(),
            public,
        });
    }

    /// Lets a function reply to requests before the registry does; the first hook with a reply wins.
    pub fn hook(&self, hook: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) {
        lock(&self.state.hooks).push(Box::new(hook));
    }

    /// Returns all requests so far.
    #[must_use]
    pub fn log(&self) -> Vec<Request> {
        lock(&self.state.log).clone()
    }

    /// Returns how many requests there were of a method whose path contains a text.
    #[must_use]
    pub fn count(&self, method: &str, part: &str) -> usize {
        let log = lock(&self.state.log);
        log.iter()
            .filter(|request| request.method == method && request.path.contains(part))
            .count()
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // A connection wakes the thread that waits for one; if it fails, the thread ends with the process.
        if TcpStream::connect(self.address).is_ok()
            && let Some(server) = self.server.take()
        {
            server.join().ok();
        }
    }
}

impl State {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        // Head and body are written separately; otherwise the second would wait until the client acknowledges the
        // first.
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        while let Some(mut request) = Request::read(&mut reader)? {
            {
                let mut log = lock(&self.log);
                let same =
                    |earlier: &&Request| earlier.method == request.method && earlier.path == request.path;
                request.nth = log.iter().filter(same).count();
                log.push(request.clone());
            }
            let hooked = lock(&self.hooks).iter().find_map(|hook| hook(&request));
            let reply = hooked.unwrap_or_else(|| self.answer(&request));
            if !reply.write(&mut writer, request.method == "HEAD")? {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Reply {
        if let Some(refusal) = self.refusal(request) {
            return refusal;
        }
        let path = request.path.strip_prefix("/v2/").unwrap_or_default();
        for (part, answer) in [
            (
                "/manifests/",
                Self::manifests as fn(&Self, &Request, &str, &str) -> Reply,
            ),
            ("/blobs/uploads/", Self::upload),
            ("/blobs/", Self::blob),
            ("/tags/", Self::tags),
        ] {
            if let Some((repository, name)) = path.split_once(part) {
                return answer(self, request, repository, name);
            }
        }
        if path.is_empty() {
            Reply::status(200)
        } else {
            not_found()
        }
    }

    fn refusal(&self, request: &Request) -> Option<Reply> {
        let login = lock(&self.login).clone()?;
        let authorization = request.header("authorization");
        if request.path == "/token" {
            let reads = request
                .parameter("scope")
                .is_some_and(|scope| scope.ends_with(":pull"));
            let good =
                authorization == Some(&login.basic) || login.public && reads && authorization.is_none();
            let token = json!({ "token": login.token, "expires_in": 300 }).to_string();
            return Some(if good {
                Reply::status(200).body(token)
            } else {
                Reply::status(401)
            });
        }
        if authorization == Some(&format!("Bearer {}", login.token)) {
            return None;
        }
        let challenge = format!(r#"Bearer realm="{}/token",service="fake""#, self.own);
        Some(Reply::status(401).header("www-authenticate", &challenge))
    }

    fn manifests(&self, request: &Request, repository: &str, name: &str) -> Reply {
        if request.method == "PUT" {
            let media_type = request.header("content-type").unwrap_or_default();
            let digest = self.put_manifest(repository, name, media_type, &request.body);
            return Reply::status(201).header("docker-content-digest", &digest);
        }
        match lock(&self.manifests).get(&(repository.to_owned(), name.to_owned())) {
            Some((media_type, bytes)) => Reply::status(200)
                .header("content-type", media_type)
                .header("docker-content-digest", &digest(bytes))
                .body(bytes.clone()),
            None => not_found(),
        }
    }

    fn put_manifest(&self, repository: &str, name: &str, media_type: &str, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        let mut manifests = lock(&self.manifests);
        for name in [name, &digest] {
            let key = (repository.to_owned(), name.to_owned());
            manifests.insert(key, (media_type.to_owned(), bytes.to_vec()));
        }
        digest
    }

    fn blob(&self, request: &Request, repository: &str, name: &str) -> Reply {
        let blobs = lock(&self.blobs);
        let Some(bytes) = blobs.get(&(repository.to_owned(), name.to_owned())) else {
            return not_found();
        };
        let range = request
            .header("range")
            .and_then(|range| range.strip_prefix("bytes="));
        match range.and_then(|range| range.trim_end_matches('-').parse::<usize>().ok()) {
            Some(start) => Reply::status(206)
                .header(
                    "content-range",
                    &format!("bytes {start}-{}/{}", bytes.len() - 1, bytes.len()),
                )
                .body(&bytes[start..]),
            None => Reply::status(200).body(bytes.clone()),
        }
    }

    fn upload(&self, request: &Request, repository: &str, id: &str) -> Reply {
        let mut uploads = lock(&self.uploads);
        let here = |id: &str, size: usize| {
            Reply::status(202)
                .header(
                    "location",
                    &format!("/v2/{repository}/blobs/uploads/{id}?state=x"),
                )
                .header("range", &format!("0-{}", size.saturating_sub(1)))
        };
        match request.method.as_str() {
            "POST" => {
                if let (Some(digest), Some(from)) = (request.parameter("mount"), request.parameter("from")) {
                    let mut blobs = lock(&self.blobs);
                    if let Some(bytes) = blobs.get(&(from.to_owned(), digest.to_owned())).cloned() {
                        blobs.insert((repository.to_owned(), digest.to_owned()), bytes);
                        return Reply::status(201);
                    }
                }
                let id = format!("u{}", uploads.len());
                uploads.insert(id.clone(), Vec::new());
                here(&id, 0)
            }
            "PATCH" => {
                let Some(bytes) = uploads.get_mut(id) else {
                    return not_found();
                };
                let range = request.header("content-range").unwrap_or_default();
                if range.split('-').next().and_then(|start| start.parse().ok()) != Some(bytes.len()) {
                    return Reply::status(416);
                }
                bytes.extend_from_slice(&request.body);
                here(id, bytes.len())
            }
            "PUT" => {
                let mut bytes = uploads.remove(id).unwrap_or_default();
                bytes.extend_from_slice(&request.body);
                if request.parameter("digest") != Some(&digest(&bytes)) {
                    return Reply::status(400)
                        .body(r#"{"errors":[{"code":"DIGEST_INVALID","message":"bad digest"}]}"#);
                }
                lock(&self.blobs).insert((repository.to_owned(), digest(&bytes)), bytes);
                Reply::status(201)
            }
            _ => uploads
                .get(id)
                .map_or_else(not_found, |bytes| here(id, bytes.len())),
        }
    }

    /// Lists tags, two on each page.
    fn tags(&self, request: &Request, repository: &str, _: &str) -> Reply {
        let manifests = lock(&self.manifests);
        let last = request.parameter("last").unwrap_or_default();
        let mut tags = manifests
            .keys()
            .filter(|(of, name)| of == repository && !name.contains(':') && name.as_str() > last)
            .map(|(_, name)| name);
        let page: Vec<&String> = tags.by_ref().take(2).collect();
        let reply = Reply::status(200).body(json!({ "name": repository, "tags": page }).to_string());
        match (tags.next(), page.last()) {
            (Some(_), Some(last)) => {
                let next = format!(r#"</v2/{repository}/tags/list?n=2&last={last}>; rel="next""#);
                reply.header("link", &next)
            }
            _ => reply,
        }
    }
}

fn not_found() -> Reply {
    Reply::status(404).body(r#"{"errors":[{"code":"UNKNOWN","message":"it is unknown here"}]}"#)
}

/// Returns the media type that a document declares, as docker's and OCI's do.
fn media_type(bytes: &[u8]) -> &str {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let after = text.split_once(r#""mediaType":"application/vnd.oci.image.index"#);
    if after.is_some() && text.contains(r#""manifests""#) {
        "application/vnd.oci.image.index.v1+json"
    } else {
        "application/vnd.oci.image.manifest.v1+json"
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread of a fake registry panics with a lock held")
}
