# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sf http://localhost/ | grep -q 'CET 127.0.0.1'
# published: an application, from golang:latest 99.8
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends golang-go ca-certificates tzdata
COPY <<'EOT' /src/main.go
package main

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"time"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		pool, err := x509.SystemCertPool()
		zone, errZone := time.LoadLocation("Europe/Berlin")
		names, errName := net.LookupHost("localhost")
		if r.URL.Path != "/" || err != nil || errZone != nil || errName != nil || pool.Equal(x509.NewCertPool()) {
			http.NotFound(w, r)
			return
		}
		name, _ := time.Unix(0, 0).In(zone).Zone()
		for _, found := range names {
			if net.ParseIP(found).To4() != nil {
				fmt.Fprintf(w, "%s %s", name, found)
			}
		}
	})
	http.ListenAndServe(":80", nil)
}
EOT
RUN cd /src && GO111MODULE=off CGO_ENABLED=0 GOCACHE=/tmp/cache go build -o /usr/local/bin/app . && rm -rf /tmp/cache
CMD ["app"]
