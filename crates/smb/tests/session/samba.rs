//! A private smbd for tests: own directories, own users, a free port of loopback. It ends with the test process,
//! because it reads its standard input and finds the end of it.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

pub const USER: &str = "nobody";
pub const PASSWORD: &str = "correct horse";
const PROGRAM: &str = "smbd";
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// One that runs.
pub struct Samba {
    pub address: SocketAddr,
    directory: PathBuf,
    process: Child,
}

impl Samba {
    /// One with `settings` of its own in the global section; None where it isn't installed, which is said.
    pub fn start(name: &str, settings: &str) -> Option<Self> {
        if !is_installed() {
            eprintln!("skipped: {PROGRAM} is not installed");
            return None;
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = format!("serverdyno-smb-{}-{number}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a port")
            .port();
        write_configuration(&directory, port, settings);
        add_user(&directory);
        let log = fs::File::create(directory.join("stdout")).expect("a file");
        let process = Command::new(PROGRAM)
            .args([
                "--foreground",
                "--no-process-group",
                "--debug-stdout",
                "--configfile",
            ])
            .arg(directory.join("smb.conf"))
            // When its input ends, it ends its whole process group.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("smbd starts");
        let samba = Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            directory,
            process,
        };
        samba.wait_until_it_accepts();
        Some(samba)
    }

    /// The one that most tests share; it ends when none of them runs.
    pub fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Samba>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(samba) = shared.upgrade() {
            return Some(samba);
        }
        let samba = Arc::new(Self::start("shared", "")?);
        *shared = Arc::downgrade(&samba);
        Some(samba)
    }

    /// What a share holds, seen from the server's side.
    pub fn share(&self) -> PathBuf {
        self.directory.join("share")
    }

    fn wait_until_it_accepts(&self) {
        let started = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            let log = || fs::read_to_string(self.directory.join("stdout")).unwrap_or_default();
            assert!(
                started.elapsed() < START_TIMEOUT,
                "smbd does not answer: {}",
                log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Samba {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(PROGRAM).exists())
        || Path::new("/usr/sbin").join(PROGRAM).exists()
}

fn write_configuration(directory: &Path, port: u16, settings: &str) {
    for name in [
        "private", "lock", "state", "cache", "pid", "ncalrpc", "log", "share",
    ] {
        fs::create_dir_all(directory.join(name)).expect("a directory");
    }
    // The server works there as an unprivileged user.
    fs::set_permissions(directory.join("share"), fs::Permissions::from_mode(0o777)).expect("allowed");
    let at = directory.display();
    let text = format!(
        "[global]
  server role = standalone server
  workgroup = BENCH
  netbios name = DYNOTEST
  disable netbios = yes
  smb ports = {port}
  interfaces = 127.0.0.1/8
  bind interfaces only = yes
  private dir = {at}/private
  lock directory = {at}/lock
  state directory = {at}/state
  cache directory = {at}/cache
  pid directory = {at}/pid
  ncalrpc dir = {at}/ncalrpc
  usershare path =
  passdb backend = tdbsam:{at}/private/passdb.tdb
  log file = {at}/log/log.%m
  load printers = no
  printing = bsd
  printcap name = /dev/null
  disable spoolss = yes
  map to guest = bad user
  guest account = nobody
  case sensitive = yes
  kernel oplocks = no
  smb2 leases = yes
  idmap config * : backend = tdb
  idmap config * : range = 3000-7999
{settings}
[share]
  path = {at}/share
  read only = no
  guest ok = yes
[secret]
  path = {at}/share
  read only = no
  smb encrypt = required
"
    );
    fs::write(directory.join("smb.conf"), text).expect("a file");
}

fn add_user(directory: &Path) {
    let mut process = Command::new("smbpasswd")
        .arg("-c")
        .arg(directory.join("smb.conf"))
        .args(["-s", "-a", USER])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("smbpasswd starts");
    let mut input = process.stdin.take().expect("a pipe");
    write!(input, "{PASSWORD}\n{PASSWORD}\n").expect("it reads");
    drop(input);
    assert!(process.wait().expect("it ends").success(), "the user was added");
}
