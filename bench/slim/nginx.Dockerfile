# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sfk https://localhost/ | grep -q Welcome
# slim: --exec nginx -s reload && nginx -t
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends nginx-light openssl
RUN openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 3650 -keyout /etc/ssl/private/own.key -out /etc/ssl/certs/own.pem
COPY <<EOT /etc/nginx/conf.d/tls.conf
server {
    listen 443 ssl;
    ssl_certificate /etc/ssl/certs/own.pem;
    ssl_certificate_key /etc/ssl/private/own.key;
    root /var/www/html;
    index index.nginx-debian.html;
}
EOT
CMD ["nginx", "-g", "daemon off;"]
