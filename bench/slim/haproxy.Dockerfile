# slim: --http-probe 503=http://localhost/
# slim: --http-probe http://localhost:8404/stats
# slim: --exec kill -USR2 1
# slim: --http-probe http://localhost:8404/stats
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends haproxy
COPY <<'EOT' /etc/haproxy/haproxy.cfg
global
    log stdout format raw local0
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 5s
    errorfile 503 /etc/haproxy/errors/503.http
frontend web
    bind :80
    default_backend none
backend none
    server one localhost:81 check
frontend stats
    bind :8404
    stats enable
    stats uri /stats
EOT
CMD ["haproxy", "-W", "-f", "/etc/haproxy/haproxy.cfg"]
