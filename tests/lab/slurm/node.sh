#!/bin/sh
# One compute node, as slurmd in an arm64 root of its own: node.sh NAME ROOT FOLDER PRELOAD PROCESSORS
# Run by `unshare --mount --uts`: every mount vanishes with the last process of the node. FOLDER is the cluster's, with the same
# path inside. PRELOAD and PROCESSORS are empty where nothing is emulated.
set -eu
name=$1 root=$2 folder=$3 preload=$4 processors=$5
hostname "$name"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/random" c 1 8
mkdir -m 1777 "$root/dev/shm"
for index in 0 1 2 3; do mknod -m 666 "$root/dev/nvidia$index" c 1 3; done
[ -z "$processors" ] || mount --bind "$processors" "$root/sys/devices/system/cpu"
mkdir -p "$root$folder"
mount --rbind "$folder" "$root$folder"
for file in passwd group; do mount --bind "$folder/etc/$file" "$root/etc/$file"; done

# slurmd, slurmstepd and their libraries, at the paths they have here.
for path in /usr/sbin/slurmd /usr/sbin/slurmstepd /lib64/ld-linux-x86-64.so.2; do
    [ -e "$path" ] || continue
    mkdir -p "$root${path%/*}"
    [ -e "$root$path" ] || touch "$root$path"
    mount --bind "$(readlink -f "$path")" "$root$path"
done
libraries=/usr/lib/$(gcc -dumpmachine 2>/dev/null || dpkg-architecture -q DEB_HOST_MULTIARCH)
mkdir -p "$root$libraries"
mount --bind "$libraries" "$root$libraries"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin ${preload:+LD_PRELOAD=$preload} SLURM_CONF="$folder/etc/slurm.conf" \
    /usr/sbin/slurmd -D -N "$name" -L "$folder/log/$name.log"
