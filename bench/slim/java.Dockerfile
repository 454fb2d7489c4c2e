# slim: --http-probe http://localhost/
# slim: --http-probe 404=http://localhost/no
# slim: --probe curl -sf http://localhost/ | grep -q 'CET 1.234,5 localhost'
# slim: --probe-timeout 90s
# published: an application, from ubuntu:14.04 86.5
FROM debian:bookworm AS build
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends openjdk-17-jdk-headless
COPY <<'EOT' /App.java
import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.text.NumberFormat;
import java.time.*;
import java.time.format.TextStyle;
import java.util.Locale;
import javax.net.ssl.SSLContext;
public class App {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(80), 0);
        server.createContext("/", exchange -> {
            boolean home = exchange.getRequestURI().getPath().equals("/");
            try { SSLContext.getDefault(); } catch (Exception error) { throw new RuntimeException(error); }
            String zone = ZoneId.of("Europe/Berlin").getRules().isDaylightSavings(Instant.EPOCH) ? "CEST" : "CET";
            String text = zone + " " + NumberFormat.getInstance(Locale.GERMANY).format(1234.5) + " " + InetAddress.getByName("127.0.0.1").getHostName();
            byte[] bytes = (home ? text : "none").getBytes("UTF-8");
            exchange.sendResponseHeaders(home ? 200 : 404, bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        server.start();
    }
}
EOT
RUN javac -d /out /App.java
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends openjdk-17-jre-headless
COPY --from=build /out /app
CMD ["java", "-cp", "/app", "App"]
