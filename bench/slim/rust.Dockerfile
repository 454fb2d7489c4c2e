# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# published: an application, from rust:1.31 99.3
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends rustc gcc libc6-dev
COPY <<'EOT' /src/main.rs
use std::io::{Read, Write};
use std::net::{TcpListener, ToSocketAddrs};
fn main() {
    for stream in TcpListener::bind("0.0.0.0:80").unwrap().incoming() {
        let (mut stream, mut bytes) = (stream.unwrap(), [0; 1024]);
        let length = stream.read(&mut bytes).unwrap();
        let found = bytes[..length].starts_with(b"GET / ") && ("localhost", 80).to_socket_addrs().unwrap().count() > 0;
        let line = if found { "200 OK" } else { "404 Not Found" };
        write!(stream, "HTTP/1.0 {line}\r\nContent-Length: 3\r\n\r\nhi\n").unwrap();
    }
}
EOT
RUN rustc -O -o /usr/local/bin/app /src/main.rs
CMD ["app"]
