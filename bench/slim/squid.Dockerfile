# slim: --probe curl -s -o /dev/null -w '%{http_code}' -x http://localhost:3128 http://localhost:8181/ | grep -q 503
# slim: --probe curl -s -x http://localhost:3128 http://localhost:8181/ | grep -q ERR_CONNECT_FAIL
# slim: --exec kill -HUP 1
# slim: --probe-timeout 60s
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends squid
CMD ["squid", "-N", "-f", "/etc/squid/squid.conf"]
