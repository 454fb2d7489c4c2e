# slim: --exec mosquitto_pub -r -t a -m hello && mosquitto_sub -t a -C 1 -W 20 | grep -q hello
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends mosquitto mosquitto-clients
CMD ["mosquitto"]
