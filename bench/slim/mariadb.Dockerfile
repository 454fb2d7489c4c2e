# slim: --exec mariadb --default-character-set=utf8mb4 -e "select c from t.t where c = 'ä' collate utf8mb4_german2_ci" | grep -q ä
# slim: --exec mariadb -e "select nothing" 2>&1 | grep -q 'Unknown column'
# slim: --exec mariadb -e "select 'second start' from information_schema.tables limit 1; select now()"
# slim: --probe-timeout 180s
FROM debian:bookworm
RUN --mount=type=cache,target=/var/cache/apt --mount=type=cache,target=/var/lib/apt/lists apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends mariadb-server
COPY --chmod=755 <<'EOT' /usr/local/bin/start
#!/bin/sh -e
test -d /var/lib/mysql/mysql || mariadb-install-db --user=mysql --datadir=/var/lib/mysql > /dev/null
mkdir -p /run/mysqld && chown mysql /run/mysqld
mariadbd --user=mysql --skip-networking --socket=/tmp/first &
until mariadb-admin --socket=/tmp/first ping > /dev/null 2>&1; do sleep 0.2; done
mariadb --socket=/tmp/first --default-character-set=utf8mb4 -e "create database t character set utf8mb4; create table t.t (c varchar(9)); insert into t.t values ('ä')"
mariadb-admin --socket=/tmp/first shutdown
wait
exec mariadbd --user=mysql
EOT
RUN rm -rf /var/lib/mysql && install -d -o mysql /var/lib/mysql
CMD ["start"]
