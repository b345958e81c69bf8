#!/bin/sh
# Installs the servers that the demo and the tests put under load: Apache, nginx, lighttpd, Samba and NFS-Ganesha from
# Debian's packages. With the argument `tests`, it also installs packages that only tests need, such as other clients.
# It installs only missing packages, and only if it can; otherwise it says so and changes nothing.
# No service is started, now or at the next boot: serverdyno starts its own copies, on private ports of loopback.
# Existing services are not changed. The exit status is 0 unless an argument is wrong: without these servers, serverdyno
# uses its own reference server.
set -eu

POLICY=/usr/sbin/policy-rc.d
POLICY_MARK='serverdyno: no service starts while its servers are installed'
PATH=$PATH:/usr/sbin:/sbin
export PATH

say() { printf 'install-servers: %s\n' "$*"; }

say_reference() { say "$1; the reference server (dyno reference http) stands in for what is missing."; }

# Each entry is PROGRAM:PACKAGE or FILE:PACKAGE. apache2-dev is needed to build Apache's native module.
SERVERS='apache2:apache2 apxs:apache2-dev nginx:nginx-light lighttpd:lighttpd smbd:samba'
SERVERS="$SERVERS /usr/lib/lighttpd/mod_openssl.so:lighttpd-mod-openssl"
SERVERS="$SERVERS /usr/lib/nginx/modules/ngx_http_lua_module.so:libnginx-mod-http-lua /usr/lib/lighttpd/mod_magnet.so:lighttpd-modules-lua"
SERVERS="$SERVERS haproxy:haproxy varnishd:varnish h2o:h2o caddy:caddy ganesha.nfsd:nfs-ganesha-vfs rpcbind:rpcbind"
FOR_TESTS='tc:iproute2 sshd:openssh-server openssl:openssl curl:curl nghttp:nghttp2-client smbclient:smbclient smbtorture:samba-testsuite mkfs.xfs:xfsprogs dbench:dbench nfs-cat:libnfs-utils /usr/include/nfsc/libnfs.h:libnfs-dev dbus-daemon:dbus-daemon dbus-send:dbus-bin tshark:tshark bindfs:bindfs eatmydata:eatmydata chromium:chromium chromedriver:chromium-driver'
# For a test domain: the Kerberos client, and the packages that make Samba a domain controller.
FOR_TESTS="$FOR_TESTS kinit:krb5-user /usr/share/samba/setup/ad-schema:samba-ad-provision /usr/lib/x86_64-linux-gnu/samba/ldb/samba_secrets.so:samba-dsdb-modules"
# A module of Samba, found by its file, because the package has no program.
FOR_TESTS="$FOR_TESTS /usr/lib/x86_64-linux-gnu/samba/vfs/io_uring.so:samba-vfs-modules"

missing() {
    for entry in $wanted; do
        [ -e "${entry%%:*}" ] || command -v "${entry%%:*}" >/dev/null 2>&1 || printf '%s\n' "$entry"
    done
}

remove_own_policy() {
    if [ -f "$POLICY" ] && grep -qF "$POLICY_MARK" "$POLICY"; then rm -f "$POLICY"; fi
}

# Debian starts a service when its package is installed; exit status 101 of this file forbids that.
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
    # Package lists may be missing or outdated on a fresh machine. Update them only if the first attempt fails.
    log=$(mktemp)
    {
        apt-get install -y -qq --no-install-recommends "$@" ||
            { apt-get update -qq -o DPkg::Lock::Timeout=120 && apt-get install -y -qq --no-install-recommends "$@"; }
    } >"$log" 2>&1 && rm -f "$log" && return
    tail -n 40 "$log" >&2 # the log is shown only on failure
    rm -f "$log"
    return 1
}

installed() { dpkg-query -W -f '${db:Status-Abbrev}${binary:Package}\n' | sed -n 's/^ii *//p' | sort; }

# Disable the services of new packages, which would otherwise take port 80 at the next boot. $1: packages, one per line.
disable_services() {
    disabled=''
    for unit in $(files_of "$1" 's#^\(/usr\)\{0,1\}/lib/systemd/system/\([^/]*\.[a-z]*\)$#\2#p'); do
        links=$(find /etc/systemd/system -type l -name "$unit") # the links that `systemctl disable` would remove
        [ -n "$links" ] || continue
        # shellcheck disable=SC2086 # paths without spaces
        rm $links
        disabled="$disabled $unit"
    done
    for script in $(files_of "$1" 's#^/etc/init\.d/\([^/]*\)$#\1#p'); do
        update-rc.d "$script" disable >/dev/null 2>&1 || say "could not disable $script: it may start at the next boot."
    done
    [ -z "$disabled" ] || say "disabled the new services:$disabled (systemctl enable NAME undoes that)."
}

files_of() { printf '%s\n' "$1" | while read -r package; do dpkg -L "$package" 2>/dev/null | sed -n "$2"; done; }

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
    packages=$(printf '%s\n' "$entries" | cut -d: -f2 | sort -u | tr '\n' ' ')
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
    before=$(installed)
    # shellcheck disable=SC2086 # a list of words
    install_packages $packages || say_reference "apt-get could not install all of: $packages"
    disable_services "$(installed | grep -vxF -- "$before")"
}

main "$@"
