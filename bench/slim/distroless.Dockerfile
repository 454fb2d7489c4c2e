# slim: --probe curl -sfk https://localhost/ | grep -q 'Cipher'
# slim: --also openssl version -a
# Files of packages without a package manager, as the image base of that project has them.
FROM debian:bookworm AS build
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends openssl
RUN --mount=type=cache,target=/var/lib/apt/lists mkdir -p /debs /out/var/lib/dpkg/status.d && cd /debs && \
    apt-get download -qq base-files ca-certificates libc6 libssl3 netbase openssl tzdata && \
    for file in *.deb; do dpkg -x $file /out && dpkg -f $file > /out/var/lib/dpkg/status.d/${file%%_*} && \
    dpkg --ctrl-tarfile $file | tar -xOf - ./md5sums > /out/var/lib/dpkg/status.d/${file%%_*}.md5sums; done && \
    for top in bin sbin lib lib64; do if test -d /out/$top; then cp -a /out/$top/. /out/usr/$top/ 2> /dev/null || { mkdir -p /out/usr/$top && cp -a /out/$top/. /out/usr/$top/; }; rm -r /out/$top; ln -s usr/$top /out/$top; fi; done && \
    rm -rf /out/usr/share/man && mkdir -p /out/etc/ssl/certs /out/tmp && find /out/usr/share/ca-certificates -name '*.crt' -exec cat {} + > /out/etc/ssl/certs/ca-certificates.crt && \
    cp /etc/passwd /etc/group /out/etc/ && openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout /out/key.pem -out /out/cert.pem
FROM scratch
COPY --from=build /out /
CMD ["openssl", "s_server", "-accept", "443", "-key", "/key.pem", "-cert", "/cert.pem", "-CAfile", "/etc/ssl/certs/ca-certificates.crt", "-www"]
