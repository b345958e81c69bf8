#!/bin/sh
# Installs the servers that the demo and the tests put under load: Apache, nginx, lighttpd, Samba and NFS-Ganesha from
# Debian's packages. With the argument `tests`, also what only tests need: other clients to hold ours against.
# Only what is missing is installed, and only where that is possible; everything else is said and left alone.
# No service is started, now or at the next boot: serverdyno starts its own copies, on private ports of loopback.
# A service that was here before is not touched. Exit status is 0 unless an argument is wrong: without these servers
# serverdyno uses its own reference server.
set -eu

POLICY=/usr/sbin/policy-rc.d
POLICY_MARK='serverdyno: no service starts while its servers are installed'
PATH=$PATH:/usr/sbin:/sbin
export PATH

say() { printf 'install-servers: %s\n' "$*"; }

say_reference() { say "$1; the reference server (dyno reference http) stands in for what is missing."; }

# program or file:package:services
SERVERS='apache2:apache2:apache2 nginx:nginx-light:nginx lighttpd:lighttpd:lighttpd smbd:samba:smbd,nmbd,samba-ad-dc'
SERVERS="$SERVERS /usr/lib/lighttpd/mod_openssl.so:lighttpd-mod-openssl:lighttpd"
SERVERS="$SERVERS /usr/lib/nginx/modules/ngx_http_lua_module.so:libnginx-mod-http-lua:nginx /usr/lib/lighttpd/mod_magnet.so:lighttpd-modules-lua:lighttpd"
SERVERS="$SERVERS haproxy:haproxy:haproxy varnishd:varnish:varnish,varnishncsa h2o:h2o:h2o caddy:caddy:caddy"
SERVERS="$SERVERS ganesha.nfsd:nfs-ganesha-vfs:nfs-ganesha rpcbind:rpcbind:rpcbind"
# samba-testsuite brings winbind with it.
FOR_TESTS='apxs:apache2-dev: tc:iproute2: sshd:openssh-server:ssh openssl:openssl: curl:curl: nghttp:nghttp2-client: smbclient:smbclient: smbtorture:samba-testsuite:winbind mkfs.xfs:xfsprogs: dbench:dbench: nfs-cat:libnfs-utils: /usr/include/nfsc/libnfs.h:libnfs-dev: dbus-daemon:dbus-daemon: dbus-send:dbus-bin: tshark:tshark: bindfs:bindfs: eatmydata:eatmydata: chromium:chromium: chromedriver:chromium-driver:'
# A domain of its own: the KDC's client, and what makes samba a domain controller.
FOR_TESTS="$FOR_TESTS kinit:krb5-user: /usr/share/samba/setup/ad-schema:samba-ad-provision: /usr/lib/x86_64-linux-gnu/samba/ldb/samba_secrets.so:samba-dsdb-modules:"
# A module of Samba's, which no program stands for.
FOR_TESTS="$FOR_TESTS /usr/lib/x86_64-linux-gnu/samba/vfs/io_uring.so:samba-vfs-modules:"

missing() {
    for entry in $wanted; do
        [ -e "${entry%%:*}" ] || command -v "${entry%%:*}" >/dev/null 2>&1 || printf '%s\n' "$entry"
    done
}

remove_own_policy() {
    if [ -f "$POLICY" ] && grep -qF "$POLICY_MARK" "$POLICY"; then rm -f "$POLICY"; fi
}

# Debian starts a service as soon as its package is unpacked; status 101 from this file forbids it.
forbid_service_start() {
    remove_own_policy # left by an earlier run that was killed
    if [ -e "$POLICY" ]; then
        say "$POLICY exists and decides whether the new services start; it is left as it is."
        return
    fi
    trap remove_own_policy EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    printf '#!/bin/sh\n# %s\nexit 101\n' "$POLICY_MARK" >"$POLICY"
    chmod 755 "$POLICY"
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    set -- "$@" -o DPkg::Lock::Timeout=120
    # Package lists may be absent or stale on a fresh machine: fetch them only if the first attempt fails.
    log=$(mktemp)
    {
        apt-get install -y -qq --no-install-recommends "$@" ||
            { apt-get update -qq -o DPkg::Lock::Timeout=120 && apt-get install -y -qq --no-install-recommends "$@"; }
    } >"$log" 2>&1 && rm -f "$log" && return
    tail -n 40 "$log" >&2 # quiet unless it fails
    rm -f "$log"
    return 1
}

# Only for a package installed just now: its service would otherwise take port 80 at the next boot.
disable_new_service() {
    if update-rc.d "$1" disable >/dev/null 2>&1; then
        say "installed $1; its service is disabled (update-rc.d $1 enable undoes that)."
    else
        say "installed $1, but could not disable its service: it may start at the next boot."
    fi
}

main() {
    case "$*" in
    '') wanted=$SERVERS ;;
    tests) wanted="$SERVERS $FOR_TESTS" ;;
    *) say "takes no argument but: tests" >&2; exit 2 ;;
    esac
    entries=$(missing)
    if [ -z "$entries" ]; then
        say "everything is installed; nothing to do."
        return
    fi
    packages=$(printf '%s\n' "$entries" | cut -d: -f2 | tr '\n' ' ')
    packages=${packages% }
    if [ "$(id -u)" -ne 0 ]; then
        say_reference "not root, so these can't be installed: $packages"
        return
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        say_reference "no apt-get here, so these can't be installed: $packages"
        return
    fi
    say "installing $packages (Debian packages): serverdyno starts and loads servers itself, each from a private directory."
    forbid_service_start
    # shellcheck disable=SC2086 # a list of words
    install_packages $packages || say_reference "apt-get could not install all of: $packages"
    for entry in $entries; do
        command -v "${entry%%:*}" >/dev/null 2>&1 || continue
        # shellcheck disable=SC2086 # a list of words
        for service in $(printf '%s' "${entry##*:}" | tr ',' ' '); do disable_new_service "$service"; done
    done
}

main "$@"
