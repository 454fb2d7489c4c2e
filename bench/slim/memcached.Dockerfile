# slim: --probe bash -c 'exec 3<>/dev/tcp/127.0.0.1/11211; printf "set a 0 0 1\r\nx\r\nget a\r\nstats\r\nquit\r\n" >&3; grep -q "VALUE a" <&3'
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends memcached
CMD ["memcached", "-u", "memcache"]
