# slim: --http-probe http://localhost:8080/
# slim: --http-probe 404=http://localhost:8080/no
# slim: --probe-timeout 120s
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends tomcat10 openjdk-17-jre-headless
ENV CATALINA_HOME=/usr/share/tomcat10 CATALINA_BASE=/var/lib/tomcat10
CMD ["/usr/share/tomcat10/bin/catalina.sh", "run"]
