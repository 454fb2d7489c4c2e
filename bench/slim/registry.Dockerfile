# slim: --http-probe http://localhost:5000/v2/
# slim: --http-probe 404=http://localhost:5000/v2/none/manifests/1
# slim: --probe curl -sfi -X POST http://localhost:5000/v2/a/blobs/uploads/ | grep -qi '^location'
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends docker-registry ca-certificates
RUN sed -i '/^auth:/,/path:/d' /etc/docker/registry/config.yml
CMD ["docker-registry", "serve", "/etc/docker/registry/config.yml"]
