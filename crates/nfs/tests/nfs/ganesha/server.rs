//! A private Ganesha for tests in its own namespaces. It ends with the test process. The first process of its PID
//! namespace is a shell, which ends with its standard input. The kernel then ends everything in the namespace.

use dyno_nfs::{NfsTarget, Options};
use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65_534;
const START_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// Ganesha's verifier is its start time in seconds, so only a start in another second changes it.
const VERIFIER_AGE: Duration = Duration::from_millis(1100);

/// A running server.
pub struct Ganesha {
    /// Its export over NFSv3 and NFSv4.1.
    pub v3: NfsTarget,
    pub v4: NfsTarget,
    /// Reads answered by clients' caches.
    pub reads_hit: AtomicU64,
    directory: PathBuf,
    process: Child,
    started: Instant,
}

impl Ganesha {
    /// Starts a server without a grace period, so that clients can't reclaim state after a restart. Returns
    /// None, after printing the reason, if that is impossible.
    pub fn start() -> Option<Self> {
        Self::start_with("Graceless = true;")
    }

    /// Starts a server with these lines in the block `NFSv4` of its configuration.
    pub fn start_with(lines: &str) -> Option<Self> {
        let installed = ["ganesha.nfsd", "rpcbind", "unshare", "ip"].map(is_installed);
        if installed.contains(&false) || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: Ganesha, rpcbind, unshare or ip is not installed, or this is not root");
            return None;
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = format!("serverdyno-nfs-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        fs::create_dir_all(directory.join("export")).expect("a directory");
        chown(directory.join("export"), Some(NOBODY), Some(NOBODY)).expect("allowed");
        fs::write(directory.join("ganesha.conf"), configuration(&directory, lines)).expect("a file");
        fs::write(directory.join("run.sh"), script(&directory)).expect("a file");
        let log = fs::File::create(directory.join("log")).expect("a file");
        let process = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "sh"])
            .arg(directory.join("run.sh"))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("unshare starts");
        let v3 = wait_for_target(&directory, process.id(), "3");
        let v4 = wait_for_target(&directory, process.id(), "4.1");
        let started = Instant::now();
        Some(Self {
            v3,
            v4,
            reads_hit: AtomicU64::new(0),
            directory,
            process,
            started,
        })
    }

    /// Opens the server's export with another NFS version.
    pub fn open(&self, version: &str) -> NfsTarget {
        wait_for_target(&self.directory, self.process.id(), version)
    }

    /// Returns the directory that clients see as the export's root.
    pub fn export(&self) -> PathBuf {
        self.directory.join("export")
    }

    /// Creates a directory that clients may write.
    pub fn make_directory(&self, name: &str) -> PathBuf {
        let path = self.export().join(name);
        fs::create_dir(&path).expect("a directory");
        chown(&path, Some(NOBODY), Some(NOBODY)).expect("allowed");
        path
    }

    /// Kills the server with SIGKILL and starts another one in its place. Returns once the first has ended.
    pub fn kill_and_start_again(&mut self) {
        std::thread::sleep(VERIFIER_AGE.saturating_sub(self.started.elapsed()));
        let kills = || fs::metadata(self.directory.join("killed")).map_or(0, |file| file.len());
        let (before, asked) = (kills(), Instant::now());
        let input = self.process.stdin.as_mut().expect("a pipe");
        writeln!(input, "again").expect("the shell reads");
        while kills() == before {
            assert!(asked.elapsed() < START_TIMEOUT, "Ganesha does not end");
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories
        .into_iter()
        .any(|directory| directory.join(name).exists())
}

fn wait_for_target(directory: &Path, holder: u32, version: &str) -> NfsTarget {
    let namespace = PathBuf::from(format!("/proc/{holder}/ns/net"));
    let started = Instant::now();
    loop {
        let url = format!("nfs://127.0.0.1/export?vers={version}");
        match NfsTarget::open(&url, vec![], Options::default(), Some(&namespace), None) {
            // Before unshare has created the namespace, its process is in this one.
            Ok(target) if is_another_network(&namespace) => return target,
            Ok(_) | Err(_) if started.elapsed() < START_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(_) => panic!("there is no namespace"),
            Err(error) => {
                let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
                panic!("Ganesha does not answer: {error:?}\n{log}");
            }
        }
    }
}

fn is_another_network(namespace: &Path) -> bool {
    let own = fs::read_link("/proc/self/ns/net").expect("there is one");
    fs::read_link(namespace).is_ok_and(|found| found != own)
}

fn script(directory: &Path) -> String {
    let at = directory.display();
    format!(
        "ip link set lo up && mount -t tmpfs none /run && rpcbind || exit 1
start() {{ ganesha.nfsd -F -f {at}/ganesha.conf -p {at}/pid -L STDERR & server=$!; }}
start
while read -r word; do kill -9 $server; wait $server; echo >>{at}/killed; start; done
"
    )
}

fn configuration(directory: &Path, lines: &str) -> String {
    let at = directory.display();
    format!(
        "NFS_CORE_PARAM {{
  NFS_Protocols = 3, 4; NFS_Port = 2049; MNT_Port = 20048; mount_path_pseudo = true;
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
}}
NFSv4 {{ RecoveryRoot = \"{at}\"; {lines} }}
EXPORT {{
  Export_Id = 1; Path = \"{at}/export\"; Pseudo = /export; Protocols = 3, 4; Transports = TCP; Access_Type = RW;
  SecType = sys; Squash = All_Squash; Anonymous_Uid = {NOBODY}; Anonymous_Gid = {NOBODY};
  FSAL {{ Name = VFS; }}
}}
"
    )
}
