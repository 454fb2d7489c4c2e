# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no.html
# slim: --probe curl -sf http://localhost/ | grep -q 'ok ä 12 Berlin'
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends php-cli tzdata
COPY <<'EOT' /srv/index.php
<?php
if ($_SERVER['REQUEST_URI'] === '/no.html') { http_response_code(404); exit('none'); }
$zone = new DateTimeZone('Europe/Berlin');
$text = iconv('ISO-8859-1', 'UTF-8', chr(228));
preg_match('/\p{L}+/u', $text, $found);
$key = openssl_random_pseudo_bytes(6);
$db = hash('sha256', json_encode(['key' => bin2hex($key)]));
file_put_contents('/tmp/x', gzcompress($db));
echo 'ok ', $found[0], ' ', strlen(bin2hex($key)), ' ', explode('/', $zone->getName())[1];
EOT
CMD ["php", "-S", "0.0.0.0:80", "-t", "/srv", "/srv/index.php"]
