# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sf http://localhost/ | grep -q 'ä CET 3 127.0.0.1'
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3 ca-certificates tzdata
COPY <<'EOT' /app.py
import asyncio, ctypes, datetime, http.server, json, locale, signal, socket, sqlite3, ssl, sys, zoneinfo
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
locale.setlocale(locale.LC_ALL, 'C.UTF-8')
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != '/':
            return self.send_error(404)
        zone = datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).tzname()
        assert ssl.create_default_context().get_ca_certs()
        async def three(): return sqlite3.connect(':memory:').execute('select 1 + 2').fetchone()[0]
        name = socket.getaddrinfo('localhost', 80, socket.AF_INET)[0][4][0]
        text = f'{bytes([228]).decode("latin-1")} {zone} {asyncio.run(three())} {name}'.encode()
        self.send_response(200); self.end_headers(); self.wfile.write(text)
http.server.ThreadingHTTPServer(('', 80), Handler).serve_forever()
EOT
CMD ["python3", "/app.py"]
