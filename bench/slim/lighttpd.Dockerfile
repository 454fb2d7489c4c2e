# slim: --http-probe 200=http://localhost/
# slim: --http-probe 404=http://localhost/no
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends lighttpd
RUN echo Hello > /var/www/html/index.html
CMD ["lighttpd", "-D", "-f", "/etc/lighttpd/lighttpd.conf"]
