# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sf http://localhost/ | grep -q 'ä 127.0.0.1 CET'
# published: an application, from ruby:2.5.3 96.9
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends ruby ruby-webrick ca-certificates tzdata
COPY <<'EOT' /app.rb
require 'webrick'; require 'json'; require 'openssl'; require 'socket'; require 'digest'; require 'date'
store = OpenSSL::X509::Store.new; store.set_default_paths
server = WEBrick::HTTPServer.new(Port: 80)
server.mount_proc('/') do |request, response|
  raise WEBrick::HTTPStatus::NotFound unless request.path == '/'
  ENV['TZ'] = 'Europe/Berlin'
  text = "\xE4".dup.force_encoding('ISO-8859-1').encode('UTF-8')
  response.body = JSON.parse(JSON.dump([text]))[0] + " #{Addrinfo.getaddrinfo('localhost', 80, :INET)[0].ip_address} #{Time.at(0).zone}"
end
trap('TERM') { server.shutdown }
server.start
EOT
CMD ["ruby", "/app.rb"]
