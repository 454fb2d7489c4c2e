# slim: --exec su postgres -c "psql -c \"select c, now() at time zone 'Europe/Berlin' from t where c ~ '[[:alpha:]]'\"" | grep -q ä
# slim: --exec su postgres -c "psql -c 'select nothing'" 2>&1 | grep -q 'does not exist'
# slim: --exec su postgres -c "/usr/lib/postgresql/15/bin/pg_ctl -D /data reload"
# slim: --probe-timeout 180s
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends postgresql-15
RUN install -d -o postgres /data
COPY --chmod=755 <<'EOT' /usr/local/bin/start
#!/bin/sh -e
bin=/usr/lib/postgresql/15/bin
install -d -o postgres /run/postgresql
su postgres -c "$bin/initdb --encoding=UTF8 --locale=C.UTF-8 /data > /dev/null"
su postgres -c "$bin/pg_ctl -w -D /data -l /tmp/log -o '-c listen_addresses= -k /tmp' start"
su postgres -c "psql -h /tmp -c 'create table t (c text primary key)' -c \"insert into t values ('ä')\""
su postgres -c "$bin/pg_ctl -w -D /data stop"
exec su postgres -c "exec $bin/postgres -D /data"
EOT
CMD ["start"]
