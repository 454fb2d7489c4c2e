# slim: --http-probe http://localhost:5000/
# slim: --http-probe 404=http://localhost:5000/no
# slim: --probe curl -sf http://localhost:5000/ | grep -q '<p>1, 2, 3</p>'
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3-flask
COPY <<'EOT' /srv/app.py
import signal, sys
from flask import Flask, render_template_string
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
app = Flask(__name__)
@app.route('/')
def page():
    return render_template_string("<p>{{ xs | join(', ') }}</p>", xs=[1, 2, 3])
EOT
WORKDIR /srv
CMD ["flask", "run", "--host", "0.0.0.0"]
