#!/usr/bin/env bash
# Installs the package into a fresh Debian, by dpkg alone, copies to that Debian over ssh, asks for its manual page and for
# its completions, removes it, and fails where something is left that neither the user nor ssh made. As root:
#
#     bash xtask/tests/fresh-root.sh DIR
#
# DIR holds the packages of `cargo xtask release --out DIR`; debootstrap fetches the Debian.
set -Eeuo pipefail
package=$(echo "$1"/linerate_*_"$(dpkg --print-architecture)".deb)
test -s "$package"
root=$(mktemp -d)
chmod 755 "$root"
trap 'umount "$root/proc" 2>/dev/null; rm -rf --one-file-system "$root"' EXIT

debootstrap --variant=minbase --include=openssh-server,man-db,bash-completion bookworm "$root" >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log"; exit 1; }
rm "$root.log"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
mount -t proc proc "$root/proc"
# The minimal Debian keeps no manual pages unless it is told to.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }
# What is there, without what changes by itself: dpkg's own records, man's index, logs.
listed() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/cache/man -o -path ./var/log -o -path ./run \
    -o -path ./tmp \) -prune -o -print | sort)
}
listed >"$root/tmp/before"

cp "$package" "$root/tmp/linerate.deb"
inside dpkg --install /tmp/linerate.deb >/dev/null
echo "installed: $(inside linerate --version)"

# The first copy, to an ssh server of that Debian, in a network of its own.
inside mkdir -p /run/sshd /root/.ssh
inside ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519
inside cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys
unshare --net bash -ec "
  ip link set lo up
  chroot '$root' /usr/sbin/sshd
  trap 'kill \$(cat \"$root/run/sshd.pid\")' EXIT
  for step in 'ssh -o StrictHostKeyChecking=accept-new localhost true' \
      'linerate cp -a /usr/share/doc localhost:/srv/' 'linerate verify -a /usr/share/doc localhost:/srv/doc' \
      'linerate sync -a --delete /etc/ /srv/etc'; do
    echo \"\$step\"
    chroot '$root' /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin LC_ALL=C.UTF-8 \$step
  done"
inside man linerate-cp | grep -q 'Copy files'
inside bash -ec 'source /usr/share/bash-completion/bash_completion; _completion_loader linerate || true; complete -p linerate'

inside dpkg --purge linerate >/dev/null
listed >"$root/tmp/after"
# What the user made: the copies, ssh's files, and the key of the account's journals.
left=$(comm -13 "$root/tmp/before" "$root/tmp/after" | grep -v -e '^./srv/' -e '^./root/\.ssh' -e '^./root/\.local' || true)
gone=$(comm -23 "$root/tmp/before" "$root/tmp/after")
if [ -n "$left$gone" ]; then
  echo "left: $left"
  echo "gone: $gone"
  exit 1
fi
echo "nothing is left"
