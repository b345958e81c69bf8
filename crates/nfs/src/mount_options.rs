//! Explains why a URL parameter is refused, and what to write instead. Many such parameters are mount options of
//! mount(8) and nfs(5).

use crate::session::Version;

/// Valid URL parameters, as messages list them.
const KNOWN: &str =
    "nfsport, mountport, uid, gid, vers=3, vers=4 (4.2, or 4.1 if the server has no 4.2), vers=4.1, \
                     vers=4.2, and proto=tcp or proto=udp";
const WITHOUT_EFFECT: &str = "dyno mounts nothing, so this mount option has no effect: leave it out";

/// Mount options that concern neither the server nor the connection to it.
const OF_A_MOUNT: [&str; 41] = [
    "_netdev",
    "ac",
    "acdirmax",
    "acdirmin",
    "acl",
    "acregmax",
    "acregmin",
    "actimeo",
    "async",
    "auto",
    "bg",
    "clientaddr",
    "cto",
    "defaults",
    "fg",
    "fsc",
    "hard",
    "intr",
    "local_lock",
    "lock",
    "lookupcache",
    "noac",
    "noacl",
    "noatime",
    "nocto",
    "nodev",
    "nodiratime",
    "noexec",
    "nofail",
    "nointr",
    "nolock",
    "nosharecache",
    "nosuid",
    "relatime",
    "retrans",
    "retry",
    "ro",
    "rw",
    "sharecache",
    "soft",
    "timeo",
];

/// Returns the version in the name of a mount option such as `v4.1`.
pub(crate) fn version_in(name: &str) -> Option<Version> {
    name.strip_prefix('v').and_then(Version::of_name)
}

/// Returns why a parameter is refused, and what to write in its place.
pub(crate) fn refusal(parameter: &str) -> String {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let instead = match (name, value) {
        _ if parameter.contains(',') => "join parameters with &, not with commas: ?vers=4.1&uid=1000",
        ("vers" | "version" | "nfsvers", "2" | "4.0") | ("v2" | "v4.0", _) => {
            "dyno speaks neither NFSv2 nor NFSv4.0: use vers=3, or vers=4 for 4.2 or 4.1"
        }
        ("minorversion", "1" | "2") => "write both parts of the version: vers=4.1 or vers=4.2",
        ("proto", "tcp6") => "use proto=tcp: the URL's address selects IPv4 or IPv6 (nfs://[ADDRESS]/EXPORT)",
        ("proto", "udp6") => "use proto=udp: the URL's address selects IPv4 or IPv6 (nfs://[ADDRESS]/EXPORT)",
        ("proto", "rdma" | "rdma6") | ("rdma", _) => "dyno does not speak RDMA: use proto=tcp",
        ("mountproto", _) => "MOUNT uses the transport of NFS: leave it out, or use proto=udp for both",
        ("mountvers", _) => {
            "NFSv3 always uses version 3 of MOUNT, and NFSv4 does not use MOUNT: leave it out"
        }
        ("mounthost" | "mountaddr", _) => "dyno sends MOUNT requests to the URL's address: leave it out",
        ("sec", "sys") => "leave it out: all requests use AUTH_SYS",
        ("sec", _) => {
            "dyno does not support Kerberos with NFS: allow sec=sys on the export, and leave it out"
        }
        ("nconnect" | "max_connect" | "trunkdiscovery" | "notrunkdiscovery", _) => {
            "each client has one connection: leave it out, and use more clients"
        }
        ("rsize" | "wsize", _) => "transfers have the size that the server prefers: leave it out",
        ("rdirplus" | "nordirplus", _) => "readdirplus in [nfs] of a suite sets this: leave it out",
        ("resvport" | "noresvport", _) => {
            "dyno uses ports below 1024 if the server requires them and the user may use them: leave it out"
        }
        ("sync", _) => "a suite decides what is flushed: leave it out",
        ("user" | "username" | "pass" | "password", _) => {
            "NFS identifies users by number: use uid=1000&gid=1000"
        }
        _ if OF_A_MOUNT.contains(&name) => WITHOUT_EFFECT,
        _ => return format!("{parameter:?} is not a valid parameter; these are {KNOWN}"),
    };
    format!("{parameter:?} is not a valid parameter; {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_option_that_is_refused_is_told_with_what_to_write() {
        for (parameter, instead) in [
            ("vers=4.1,proto=tcp", "join parameters with &"),
            ("nfsvers=4.0", "vers=4 for 4.2 or 4.1"),
            ("vers=2", "use vers=3"),
            ("minorversion=1", "vers=4.1"),
            ("proto=tcp6", "nfs://[ADDRESS]/EXPORT"),
            ("proto=udp6", "use proto=udp"),
            ("proto=rdma", "use proto=tcp"),
            ("sec=krb5p", "sec=sys"),
            ("nconnect=4", "more clients"),
            ("rsize=1048576", "leave it out"),
            ("hard", "has no effect"),
            ("actimeo=0", "has no effect"),
            ("vers=5", "vers=4 (4.2, or 4.1 if the server has no 4.2)"),
            ("debug=9", "these are nfsport"),
        ] {
            let said = refusal(parameter);
            assert!(said.contains(instead), "{said}");
        }
    }
}
