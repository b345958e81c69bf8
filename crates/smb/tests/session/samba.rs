//! A private smbd for tests, with its own directories and users, on a free loopback port or in a network
//! namespace. It ends with the test process, when its standard input ends.

use crate::network::{find_program, Namespace};
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
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running server.
pub struct Samba {
    pub address: SocketAddr,
    directory: PathBuf,
    process: Child,
}

impl Samba {
    /// Starts a server with `settings` in its global section; returns None, after printing the reason, if
    /// that is impossible.
    pub fn start(name: &str, settings: &str) -> Option<Self> {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        Self::start_at(name, settings, address.expect("a port"), None)
    }

    /// Starts a server that listens on `address`, in the given network namespace if any.
    pub fn start_at(
        name: &str,
        settings: &str,
        address: SocketAddr,
        namespace: Option<&Namespace>,
    ) -> Option<Self> {
        let Some(program) = find_program("smbd").filter(|_| rustix::process::geteuid().is_root()) else {
            eprintln!(
                "skipped: smbd is not installed, or can't become the user who logs on, as this is not root"
            );
            return None;
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = format!("serverdyno-smb-{}-{number}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        write_configuration(&directory, address, settings);
        add_user(&directory);
        let log = fs::File::create(directory.join("stdout")).expect("a file");
        let process = Namespace::command(namespace, &program)
            .args([
                "--foreground",
                "--no-process-group",
                "--debug-stdout",
                "--configfile",
            ])
            .arg(directory.join("smb.conf"))
            // At the end of its standard input, the server ends its whole process group.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("smbd starts");
        let samba = Self {
            address,
            directory,
            process,
        };
        let namespace = namespace.map(Namespace::file);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| samba.wait_until_it_accepts(namespace.as_deref()));
            waiting.join().expect("smbd answers");
        });
        Some(samba)
    }

    /// Returns the server that most tests share. It ends when no test uses it.
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

    /// Returns the directory of the share.
    pub fn share(&self) -> PathBuf {
        self.directory.join("share")
    }

    /// Sets the flags of the user's account, as letters of `pdbedit`: `D` for disabled, `L` for locked,
    /// none for neither.
    pub fn flag_account(&self, letters: &str) {
        let status = Command::new("pdbedit")
            .arg(format!(
                "--configfile={}",
                self.directory.join("smb.conf").display()
            ))
            .args(["-u", USER, "-c", &format!("[{letters}]")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            status.expect("pdbedit starts").success(),
            "the account was changed"
        );
    }

    fn wait_until_it_accepts(&self, namespace: Option<&Path>) {
        if let Some(file) = namespace {
            crate::network::enter(file);
        }
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

fn write_configuration(directory: &Path, address: SocketAddr, settings: &str) {
    let (host, port) = (address.ip(), address.port());
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
  interfaces = {host}/32
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
