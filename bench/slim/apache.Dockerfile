# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sfk https://localhost/ | grep -q Apache2
# slim: --exec apache2ctl graceful
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends apache2 ssl-cert
RUN a2enmod -q ssl && a2ensite -q default-ssl && echo ServerName localhost > /etc/apache2/conf-enabled/name.conf
CMD ["apache2ctl", "-D", "FOREGROUND"]
