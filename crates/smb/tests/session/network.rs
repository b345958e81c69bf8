//! A network namespace for tests, and a capture of its loopback traffic. Needs root and system tools.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const LAST_WORDS: &[u8] = b"the last packet of this capture";
const DISCARD_PORT: u16 = 9;
const PATIENCE: Duration = Duration::from_secs(20);

/// Finds a program in the search path or in the administrator's directories.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories
        .map(|directory| directory.join(name))
        .find(|program| program.exists())
}

/// A namespace with loopback and one more address that is not on loopback. A process keeps it alive until the end of
/// its standard input.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Returns None, after printing the reason, if a namespace can't be created.
    pub fn make(address: Ipv4Addr) -> Option<Self> {
        let tools = ["unshare", "nsenter", "ip"]
            .iter()
            .all(|tool| find_program(tool).is_some());
        if !tools || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: a network namespace needs root, unshare, nsenter and ip");
            return None;
        }
        let script = format!("ip link set lo up && ip addr add {address}/32 dev lo && echo made && exec cat");
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut line = String::new();
        let output = holder.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it speaks");
        assert_eq!(line, "made\n");
        Some(Self { holder })
    }

    pub fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    /// Returns a command that runs in the namespace.
    pub fn command(namespace: Option<&Self>, program: &Path) -> Command {
        let Some(namespace) = namespace else {
            return Command::new(program);
        };
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", namespace.file().display()))
            .arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Moves the calling thread into the namespace `file`.
pub fn enter(file: &Path) {
    let file = File::open(file).expect("the namespace");
    let network = Some(rustix::thread::LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(file.as_fd(), network).expect("root may");
}

/// Returns whether the final packets are in the file. Packets reach it in order, so all earlier ones have then arrived,
/// too.
fn ends_with_last_words(file: &Path) -> bool {
    let captured = fs::read(file).unwrap_or_default();
    let tail = &captured[captured.len().saturating_sub(4096)..];
    tail.windows(LAST_WORDS.len()).any(|window| window == LAST_WORDS)
}

/// A capture of a namespace's loopback traffic, until `finish`.
pub struct Capture {
    process: Child,
    errors: BufReader<ChildStderr>,
    file: PathBuf,
}

impl Capture {
    pub fn start(namespace: &Namespace, file: PathBuf) -> Self {
        let program = find_program("dumpcap").expect("looked for before");
        let mut process = Namespace::command(Some(namespace), &program)
            .args(["-q", "-i", "lo", "-B", "64", "-w"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .expect("dumpcap starts");
        let mut errors = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut line = String::new();
        // dumpcap prints the file name once it captures.
        while !line.starts_with("File:") {
            line.clear();
            assert!(
                errors.read_line(&mut line).expect("it speaks") > 0,
                "dumpcap begins"
            );
        }
        Self {
            process,
            errors,
            file,
        }
    }

    /// Ends the capture after everything sent before has reached it, and dissects it; `port` is the SMB
    /// server's. The calling thread must be in the namespace.
    pub fn finish(mut self, port: u16) -> Dissected {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        sender
            .send_to(LAST_WORDS, (Ipv4Addr::LOCALHOST, DISCARD_PORT))
            .expect("it is sent");
        let started = Instant::now();
        while !ends_with_last_words(&self.file) {
            assert!(started.elapsed() < PATIENCE, "what is sent is captured");
            std::thread::sleep(Duration::from_millis(5));
        }
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
        self.process.wait().expect("it ends");
        let mut said = String::new();
        self.errors.read_to_string(&mut said).expect("it speaks");
        assert!(
            said.contains("(pcap:0/dumpcap:0/"),
            "the capture is whole: {said}"
        );
        Dissected {
            file: self.file.clone(),
            port,
        }
    }
}

/// A finished capture.
pub struct Dissected {
    file: PathBuf,
    port: u16,
}

impl Dissected {
    /// Returns the values of `field` in packets that match `filter`, one per line.
    pub fn values(&self, filter: &str, field: &str) -> Vec<String> {
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&self.file)
            .args(["-d", &format!("tcp.port=={},nbss", self.port), "-Y", filter])
            .args(["-T", "fields", "-E", "aggregator=/s", "-e", field])
            .output()
            .expect("tshark runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).expect("text");
        text.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Dissected {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}
