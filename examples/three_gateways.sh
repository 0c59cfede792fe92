#!/bin/sh
# three_gateways.sh [OPTION...]: starts PostgreSQL, three gateways and a balancer (HAProxy) on this machine, for trying out what
# docs/guides/bub/several-gateways.md describes. The options are those of `cubepi gateway`, e.g. --offline for a scripted model; without
# them the model is the one that is configured. Needs the Debian packages postgresql and haproxy.
#
# The balancer listens at 127.0.0.1:8650, and the gateways at the three ports after it. PORT=N uses others; CUBEPI names the
# program. All records are in a temporary directory that Ctrl-C removes.
set -eu
port=${PORT:-8650}
cubepi=${CUBEPI:-cubepi}

fail() { printf 'three_gateways.sh: %s\n' "$*" >&2; exit 1; }

PATH=$PATH:/usr/sbin
command -v "$cubepi" > /dev/null || fail "there is no program '$cubepi'; CUBEPI=/path/to/cubepi names it"
command -v haproxy > /dev/null || fail "HAProxy is missing: sudo apt-get install haproxy"
server=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
[ -x "$server/initdb" ] || server=$(dirname "$(command -v initdb || echo none/initdb)")
[ -x "$server/initdb" ] || fail "PostgreSQL is missing: sudo apt-get install postgresql"

umask 077
root=$(mktemp -d)
case $root in
    *[!A-Za-z0-9/._-]*) rmdir "$root"; fail "the path of temporary files must have letters, digits, '.', '_' and '-' only: TMPDIR=/tmp $0" ;;
esac
gateways=
balancer=

# PostgreSQL refuses to run as root.
as_server() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
    else
        "$@"
    fi
}

end() {
    trap '' HUP INT TERM
    # shellcheck disable=SC2086
    [ -z "$gateways$balancer" ] || kill $gateways $balancer 2> /dev/null || true
    wait
    [ ! -e "$root/server/data/postmaster.pid" ] || as_server "$server/pg_ctl" -D "$root/server/data" -m fast stop > /dev/null
    rm -rf "$root"
}
trap end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir "$root/server"
if [ "$(id -u)" = 0 ]; then
    chmod 711 "$root"
    chown postgres "$root/server"
fi
as_server "$server/initdb" -D "$root/server/data" --username=cubepi --auth=trust > "$root/initdb.log"
as_server "$server/pg_ctl" -D "$root/server/data" -l "$root/server/log" -w start \
    -o "-c listen_addresses= -c unix_socket_directories=$root/server" > /dev/null ||
    fail "PostgreSQL does not start: $(cat "$root/server/log")"
database="postgres://cubepi@/postgres?host=$root/server"
"$cubepi" db init --tapes "$database" > "$root/init.log" 2>&1 || fail "no tables: $(cat "$root/init.log")"

CUBEPI_HTTP_TOKEN=${CUBEPI_HTTP_TOKEN:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
export CUBEPI_HTTP_TOKEN
configuration=${XDG_CONFIG_HOME:-$HOME/.config}/cubepi/config.yaml

for number in 1 2 3; do
    mkdir -p "$root/$number/cubepi"
    {
        # The model of the user.
        [ ! -e "$configuration" ] || awk '/^[^ #]/ { other = /^(gateway|databases?):/ } !other' "$configuration"
        echo "database: $database"
        echo "gateway:"
        echo "  http: {listen: '127.0.0.1:$((port + number))'}"
        echo "  status: 127.0.0.1:$((port + 3 + number))"
        echo "  root: $root/work"
    } > "$root/$number/cubepi/config.yaml"
    # Without a function or a shell between them, so that $! is the gateway.
    XDG_CONFIG_HOME=$root/$number BUB_HOME=$root/$number/bub "$cubepi" gateway "$@" > "$root/$number.log" 2>&1 &
    gateways="$gateways $!"
done

cat > "$root/haproxy.cfg" << END
defaults
    mode http
    retries 3
    option redispatch 1
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend clients
    bind 127.0.0.1:$port
    default_backend gateways
backend gateways
    balance leastconn
    option httpchk GET /readyz
    default-server check inter 1s fall 1 rise 1
    server one 127.0.0.1:$((port + 1)) port $((port + 4))
    server two 127.0.0.1:$((port + 2)) port $((port + 5))
    server three 127.0.0.1:$((port + 3)) port $((port + 6))
END
# When the gateways are ready, because it takes one that does not answer out of service for a second.
for number in 1 2 3; do
    # shellcheck disable=SC2086
    process=$(echo $gateways | cut -d ' ' -f $number)
    until XDG_CONFIG_HOME=$root/$number BUB_HOME=$root/$number/bub "$cubepi" gateway status > /dev/null 2>&1; do
        kill -0 "$process" 2> /dev/null || fail "a gateway has ended: $(cat "$root/$number.log")"
        sleep 0.2
    done
done
haproxy -db -f "$root/haproxy.cfg" > "$root/haproxy.log" 2>&1 &
balancer=$!
sleep 0.5
kill -0 "$balancer" 2> /dev/null || fail "HAProxy has ended: $(cat "$root/haproxy.log")"

cat << END
Three gateways answer at 127.0.0.1:$port. In another terminal:

export CUBEPI_HTTP_TOKEN=$CUBEPI_HTTP_TOKEN
curl http://127.0.0.1:$port/v1/messages -H "Authorization: Bearer \$CUBEPI_HTTP_TOKEN" -d '{"session": "s1", "user": "ann", "text": "Hello"}'
XDG_CONFIG_HOME=$root/1 BUB_HOME=$root/1/bub $cubepi gateway status
kill -9 $process    # one of$gateways; the others continue its sessions

Their logs are in $root. Ctrl-C ends them and removes all records.
END
# A gateway may end before.
wait "$balancer" || true
fail "HAProxy has ended: $(cat "$root/haproxy.log")"
