# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# The official image has busybox and accounts, and nothing else: there is nothing to remove.
FROM debian:bookworm AS build
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends busybox-static
RUN mkdir -p /out/bin /out/etc /out/www /out/tmp && cp /bin/busybox /out/bin/ && for name in $(busybox --list); do test -e /out/bin/$name || ln -s busybox /out/bin/$name; done && \
    cp /etc/passwd /etc/group /out/etc/ && echo Hello > /out/www/index.html
FROM scratch
COPY --from=build /out /
CMD ["sh", "-c", "trap 'exit 0' TERM; httpd -f -p 80 -h /www & wait"]
