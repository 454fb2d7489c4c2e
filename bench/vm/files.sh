#!/bin/sh
# Measures files of a container in a virtual machine on its root (a disk), on a volume that is a disk, and in a directory of this
# machine by virtiofs and by 9p: the table in docs/vm.md. It needs busybox, and a kernel with 9p (linux-image-amd64).
#
#   sh bench/vm/files.sh TOTE KERNEL.deb [ROUNDS]
set -eu
tote=$1 kernel=$2 rounds=${3:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/vm-files.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
run() { "$tote" --root "$work/tote" "$@"; }

run vm setup -q "$kernel" > /dev/null
mkdir -p "$work/root/bin"
cp "$(command -v busybox)" "$work/root/bin/busybox"
for name in sh cat dd echo ls mkdir sed sync wc; do ln -s busybox "$work/root/bin/$name"; done
tar -C "$work/root" -cf "$work/root.tar" .
run import "$work/root.tar" files > /dev/null

# Hundredths of a second of the guest's clock, since its boot.
now='now() { sed "s/\.//; s/ .*//" /proc/uptime; }; begin=$(now); say() { end=$(now); echo "$1 $((end - begin))"; begin=$(now); }'
first="$now; cd \$1; mkdir -p small; i=0; while [ \$i -lt 1000 ]; do echo x > small/\$i; i=\$((i + 1)); done; sync; say make
dd if=/dev/zero of=large bs=1M count=64 2> /dev/null; sync; say write"
# After a boot, so that the guest has nothing in memory.
second="$now; cd \$1; ls -l small | wc -l > /dev/null; say list; cat large > /dev/null; say read; cat large > /dev/null; say again"

for round in $(seq "$rounds"); do
  for place in root disk virtiofs 9p; do
    shares=virtiofs
    case $place in
      root) set -- / ;;
      disk) set -- /data -v "disk:files$round,size=1g:/data" ;;
      *)
        mkdir -m 777 "$work/$place$round"
        shares=$place
        set -- /data -v "$work/$place$round:/data"
        ;;
    esac
    dir=$1
    shift
    {
      run run --name "c$place$round" --network none --isolation "vm,memory=256m,shares=$shares" "$@" files \
        sh -c "test -e $dir/large && set -- $dir 2 || set -- $dir 1; if [ \$2 = 1 ]; then $first; else $second; fi"
      run start -a "c$place$round"
    } | sed "s/^/$place /"
    run rm "c$place$round" > /dev/null
  done
done | awk '{ key = $2 " " $1; all[key] = all[key] " " $3 / 100 } END { for (key in all) print key ":" all[key] }' | sort
