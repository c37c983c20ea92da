#!/bin/bash
# Ranks on four hosts that are namespaces of this machine: each its own network (a veth pair to a bridge), name, processes,
# System V memory, mounts and /dev/shm. All traffic stays in the outer namespace and ends with it.
# usage: hosts.sh TESSERA MPI_FAILURE MPIRUN...      SKIPPED and exit code 77 where namespaces are not allowed
here=$(readlink -f "$0")
skip() { echo "SKIPPED: $*"; exit 77; }

if [ "${1:-}" = agent ]; then  # what mpirun takes for ssh: hosts.sh agent HOST COMMAND...
    holder=$(cat "$HOSTS_FOLDER/$2") || exit 1
    shift 2
    # The daemon's files (sessions, memory shared by ranks) are the host's own.
    exec nsenter --target "$holder" --mount --uts --ipc --net --pid -- env TMPDIR=/dev/shm sh -c "$*"
fi

if [ -z "${HOSTS_FOLDER:-}" ]; then
    for tool in ip unshare nsenter; do command -v $tool >/dev/null || skip "there is no $tool (Debian: iproute2, util-linux)"; done
    spaces="--net --mount --uts --ipc --pid --fork --mount-proc --kill-child"
    [ "$(id -u)" -eq 0 ] || spaces="--user --map-root-user $spaces"
    why=$(unshare $spaces sh -c 'ip link add hub type bridge && ip link add v0 type veth peer name v1' 2>&1) ||
        skip "namespaces or veth pairs are not allowed here: $why"
    HOSTS_FOLDER=$(mktemp -d)
    export HOSTS_FOLDER
    unshare $spaces "$here" "$@"
    code=$?
    rm -rf "$HOSTS_FOLDER"
    exit $code
fi

tessera=$1 failure=$2
shift 2
mpirun=("$@")
bad=0
complain() { echo "FAILED: $*"; bad=1; }

mount --make-rprivate /
hostname head
{
    echo "127.0.0.1 localhost"
    echo "10.77.0.254 head"
    for i in 1 2 3 4; do echo "10.77.0.$i node$i"; done
} > "$HOSTS_FOLDER/names"
mount --bind "$HOSTS_FOLDER/names" /etc/hosts
ip link set lo up
ip link add hub type bridge
ip addr add 10.77.0.254/24 dev hub
ip link set hub up

make_host() {  # number
    rm -f "$HOSTS_FOLDER/up$1"
    unshare --mount --uts --ipc --net --pid --fork --mount-proc --kill-child \
        sh -c "mount -t tmpfs -o size=2g shm /dev/shm; hostname node$1; echo > $HOSTS_FOLDER/up$1; while :; do sleep 1000; done" 2>/dev/null &
    local outer=$!
    until [ -e "$HOSTS_FOLDER/up$1" ]; do sleep 0.02; done
    tr -d ' ' < /proc/$outer/task/$outer/children > "$HOSTS_FOLDER/node$1"
    local holder
    holder=$(cat "$HOSTS_FOLDER/node$1")
    ip link add "veth$1" type veth peer name eth0 netns "$holder"
    ip link set "veth$1" master hub up
    nsenter --target "$holder" --net sh -c "ip link set lo up; ip addr add 10.77.0.$1/24 dev eth0; ip link set eth0 up"
}
for i in 1 2 3 4; do make_host $i; done

cat > "$HOSTS_FOLDER/agent" <<EOF
#!/bin/sh
HOSTS_FOLDER=$HOSTS_FOLDER exec $here agent "\$@"
EOF
chmod +x "$HOSTS_FOLDER/agent"
# As docs/CLUSTER.md says, with this network and launcher.
on_hosts() {  # slots of each host, arguments of mpirun
    local slots=$1
    shift
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "${mpirun[@]}" \
        -H "node1:$slots,node2:$slots,node3:$slots,node4:$slots" --mca plm_rsh_agent "$HOSTS_FOLDER/agent" \
        --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
        --mca btl self,vader,tcp --mca pml ob1 --mca osc pt2pt "$@" </dev/null
}
field() { python3 -c "import json,sys; print(json.load(open(sys.argv[1]))$2)" "$1"; }

# Four nodes are seen, two ranks on each.
on_hosts 2 -n 8 "$tessera" info --json > "$HOSTS_FOLDER/info.json" 2> "$HOSTS_FOLDER/errors" ||
    complain "info on eight ranks: $(cat "$HOSTS_FOLDER/errors")"
seen="$(field "$HOSTS_FOLDER/info.json" "['ranks']") $(field "$HOSTS_FOLDER/info.json" "['nodes']")"
[ "$seen" = "8 4" ] || complain "8 ranks on 4 nodes are seen as '$seen'"
echo "nodes: $seen (ranks, nodes)"

# What leaves the hosts is what the plan says, and little more: frames' headers, MPI's own words, checksums.
left() { tr : ' ' < /proc/net/dev | awk '$1 ~ /^veth[1-4]$/ { bytes += $2 } END { printf "%d", bytes }'; }
problem=blocks:32,96,0.4
one=$("$tessera" run $problem --threads 1 --check 0 --json | python3 -c "import json,sys; print(json.load(sys.stdin)['checksum'])")
for how in "stationary_b --grid 1x4" "outer_product --grid 2x2"; do
    before=$(left)
    on_hosts 1 -n 4 "$tessera" run $problem --threads 1 --check 0 --algorithm $how --json > "$HOSTS_FOLDER/run.json" 2> "$HOSTS_FOLDER/errors" ||
        complain "run on four hosts: $(cat "$HOSTS_FOLDER/errors")"
    moved=$(($(left) - before))
    sent=$(field "$HOSTS_FOLDER/run.json" "['bytes']['sent']")
    [ "$(field "$HOSTS_FOLDER/run.json" "['checksum']")" = "$one" ] || complain "$how: another checksum than on one rank"
    echo "$how: the plan sends $sent bytes, $moved left the hosts"
    [ "$moved" -ge "$sent" ] && [ "$moved" -le $((sent + sent / 16 + 3000000)) ] ||
        complain "$how: the plan sends $sent bytes, but $moved left the hosts"
done

# A host that is gone, or whose packets are, ends every rank within 10 s, with a line that says so: ours, or mpirun's where
# that sees it first. mpirun itself may wait for its daemon on a host that it does not reach.
alive() { pgrep -c -r R,S,D -x "$(basename "$failure" | cut -c1-15)"; }
lose() {  # how, what to do, what must be said
    on_hosts 2 -n 8 "$failure" slow -1 > "$HOSTS_FOLDER/output" 2>&1 &
    local job=$! ten
    until [ "$(grep -c "begins" "$HOSTS_FOLDER/output")" -ge 8 ] || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
    sleep 1
    kill -0 $job 2>/dev/null || complain "$1: the work was over before: $(cat "$HOSTS_FOLDER/output")"
    local start
    start=$(date +%s%N)
    eval "$2"
    for ((ten = 0; ten < 200; ++ten)); do
        [ "$(alive)" -eq 0 ] && break
        sleep 0.1
    done
    local after=$((($(date +%s%N) - start) / 1000000))
    sleep 1  # for what is on its way to this output
    echo "$1: all ended after $after ms: $(grep -a -E "$3" "$HOSTS_FOLDER/output")"
    if [ $after -gt 10000 ] || [ "$(grep -a -c -E "$3" "$HOSTS_FOLDER/output")" -ne 1 ]; then
        complain "$1: after $after ms $(alive) ranks are left; the job said:"
        cat "$HOSTS_FOLDER/output"
        pkill -9 -x "$(basename "$failure" | cut -c1-15)"
    fi
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
}
lose "packets of a host dropped" "ip link set veth3 nomaster" "^tessera: .* node3, .* is lost"
ip link set veth3 master hub
lose "a host killed" "kill -9 $(cat "$HOSTS_FOLDER/node2")" "^tessera: .* node2, .* is lost|lost communication with a remote daemon|^tessera: .*MPI: "
exit $bad
