# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sf http://localhost/ | grep -q '01:00 1.234,5 127.0.0.1'
# published: an application, from debian:jessie 93.8
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends nodejs ca-certificates
COPY <<'EOT' /app.js
const http = require('http'), dns = require('dns'), tls = require('tls'), zlib = require('zlib'), crypto = require('crypto');
process.on('SIGTERM', () => process.exit(0));
tls.createSecureContext({ ca: tls.rootCertificates });
http.createServer((request, response) => {
  if (request.url !== '/') { response.statusCode = 404; return response.end('none'); }
  const hour = new Date(0).toLocaleTimeString('de-DE', { timeZone: 'Europe/Berlin', hour: '2-digit', minute: '2-digit' });
  zlib.gzip(crypto.createHash('sha256').update('x').digest(), () => dns.lookup('localhost', 4, (_, address) =>
    response.end(`${hour} ${(1234.5).toLocaleString('de-DE')} ${address}`)));
}).listen(80);
EOT
CMD ["node", "/app.js"]
