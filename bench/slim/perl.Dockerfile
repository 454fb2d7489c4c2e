# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sf http://localhost/ | grep -q 'Ä CET 127.0.0.1'
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends perl libhttp-daemon-perl tzdata
COPY <<'EOT' /app.pl
use strict; use warnings; use utf8;
use HTTP::Daemon; use HTTP::Response; use Encode; use POSIX; use Socket qw(:addrinfo AF_INET inet_ntoa unpack_sockaddr_in); use Data::Dumper;
$SIG{TERM} = sub { exit 0 };
my $server = HTTP::Daemon->new(LocalPort => 80, ReuseAddr => 1) or die;
while (my $client = $server->accept) {
    while (my $request = $client->get_request) {
        if ($request->uri->path ne '/') { $client->send_error(404); next }
        $ENV{TZ} = 'Europe/Berlin'; tzset();
        my (undef, @found) = getaddrinfo('localhost', '', { family => AF_INET });
        my $address = inet_ntoa((unpack_sockaddr_in($found[0]{addr}))[1]);
        my $text = uc(decode('iso-8859-1', "\xe4")) . ' ' . strftime('%Z', localtime(0)) . " $address";
        $client->send_response(HTTP::Response->new(200, undef, undef, encode('UTF-8', $text)));
    }
    $client->close;
}
EOT
CMD ["perl", "/app.pl"]
