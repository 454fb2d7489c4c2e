# slim: --exec redis-cli set a b && redis-cli get a | grep -q b && redis-cli eval 'return redis.sha1hex(ARGV[1])' 0 x && redis-cli bgsave
# slim: --exec redis-cli config set appendonly yes && redis-cli get a | grep -q b
# slim: --also redis-server --version
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends redis-server
WORKDIR /var/lib/redis
CMD ["redis-server", "--protected-mode", "no"]
