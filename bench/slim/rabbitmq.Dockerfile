# slim: --exec rabbitmqctl -q status && rabbitmqctl -q add_user a b && rabbitmqctl -q list_users | grep -q a
# slim: --probe-timeout 300s
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends rabbitmq-server
CMD ["rabbitmq-server"]
