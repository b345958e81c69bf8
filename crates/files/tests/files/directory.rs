//! Compares the results of every call on a real directory with the directory's contents, and checks that nothing
//! outside is touched.

use dyno_files::posix::{DirectoryTarget, FlushCall, Options, Session};
use dyno_files::{
    Access, Ask, Call, CallKind, Counted, Disposition, Files, Handle, Open, Reply, Stability, Uncached,
};
use dyno_measure::{Failure, Fault};
use dyno_net::Executor;
use dyno_net::TargetError;
use std::cell::Cell;
use std::fs;
use std::future::Future;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::rc::Rc;

fn run<F: Future<Output = ()> + 'static>(work: impl FnOnce(Executor) -> F) {
    let executor = Executor::new().expect("a loop");
    let done = Rc::new(Cell::new(false));
    let (flag, work) = (done.clone(), work(executor.clone()));
    executor.spawn(async move {
        work.await;
        flag.set(true);
    });
    executor.run(|| false).expect("it runs");
    assert!(done.get());
}

struct Client {
    files: Uncached<Session>,
    data: Vec<u8>,
}

impl Client {
    async fn at(directory: &Path, options: Options, executor: &Executor) -> Self {
        let target = DirectoryTarget::open(directory, options, None).expect("a directory of this machine");
        let mut files = Uncached::new(target.session(executor));
        files.connect().await.expect("it is there");
        Self {
            files,
            data: Vec::new(),
        }
    }

    async fn call(&mut self, call: Call<'_>) -> Result<Reply, Failure> {
        self.data.clear();
        let data = &mut self.data;
        self.files
            .call(&call, &mut |bytes: &[u8]| data.extend_from_slice(bytes))
            .await
    }

    async fn open(&mut self, path: &str, disposition: Disposition) -> Result<Reply, Failure> {
        let open = Open {
            path,
            access: Access::ReadWrite,
            disposition,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        self.call(Call::Open(open)).await
    }

    async fn handle(&mut self, path: &str, disposition: Disposition) -> (Handle, bool) {
        match self.open(path, disposition).await {
            Ok(Reply::Opened { handle, created, .. }) => (handle, created),
            other => panic!("{other:?}"),
        }
    }
}

fn fault(result: Result<Reply, Failure>) -> Option<Fault> {
    result.err().map(|failure| failure.fault)
}

#[test]
fn written_data_are_in_the_directory_even_without_the_page_cache() {
    // The build directory: /tmp may be a file system without O_DIRECT.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let at = place.path().to_owned();
    run(|executor| async move {
        for (direct, flush) in [
            (false, FlushCall::Fsync),
            (true, FlushCall::Fdatasync),
            (true, FlushCall::Nothing),
        ] {
            let mut client = Client::at(&at, Options { direct, flush }, &executor).await;
            check_contents(&mut client, &at).await;
            check_names(&mut client).await;
            client.files.finish().await.expect("it ends");
            assert_eq!(fs::read_dir(&at).expect("the directory").count(), 0);
        }
    });
}

#[test]
fn calls_are_counted_and_executed_at_once_or_begun_concurrently() {
    let place = tempfile::tempdir().expect("a directory");
    let at = place.path().to_owned();
    run(|executor| async move {
        let target = DirectoryTarget::open(&at, Options::default(), None).expect("a directory");
        let mut files = Uncached::new(Counted::new(target.session(&executor)));
        files.connect().await.expect("it is there");
        let open = Open {
            path: "file",
            access: Access::ReadWrite,
            disposition: Disposition::Create,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        let Ok(Reply::Opened { handle, .. }) = files.call(&Call::Open(open), &mut |_: &[u8]| {}).await else {
            panic!("it is opened");
        };
        let (offset, bytes, stability) = (0, 3, Stability::Unstable);
        let data = b"abc";
        let write = Call::Write {
            handle,
            offset,
            data,
            stability,
        };
        let read = Call::Read {
            handle,
            offset,
            bytes,
        };
        let mut came = Vec::new();
        let mut take = |bytes: &[u8]| came.extend_from_slice(bytes);
        let written = files.call(&write, &mut take).await;
        assert_eq!(written, Ok(Reply::Written { bytes }));
        let begun = files.begin(&read).await.expect("it is begun");
        // An immediately executed call does not affect a pending one.
        assert_eq!(files.call(&read, &mut take).await, Ok(Reply::Read { bytes }));
        let ended = files.ended(&mut |_, bytes: &[u8]| take(bytes)).await;
        assert_eq!(ended, Ok((begun, Ok(Reply::Read { bytes }))));
        assert_eq!(came, b"abcabc");
        let count = |kind: CallKind| {
            let count = files.client().calls()[kind as usize];
            (count.done, count.failed, count.bytes)
        };
        assert_eq!(
            [count(CallKind::Create), count(CallKind::Write)],
            [(1, 0, 0), (1, 0, 3)]
        );
        assert_eq!(count(CallKind::Read), (2, 0, 6));
    });
}

async fn check_contents(client: &mut Client, at: &Path) {
    let made = client.call(Call::MakeDirectory { path: "a" }).await;
    assert_eq!(made, Ok(Reply::Done));
    let (handle, created) = client.handle("a/file", Disposition::OpenIf).await;
    assert!(created);
    let mut expected = Vec::new();
    for (part, stability) in [
        (4096, Stability::Unstable),
        (8192, Stability::Data),
        (100, Stability::File),
    ] {
        let data: Vec<u8> = (0..part).map(|byte| (byte % 251) as u8).collect();
        let write = Call::Write {
            handle,
            offset: expected.len() as u64,
            data: &data,
            stability,
        };
        assert_eq!(client.call(write).await, Ok(Reply::Written { bytes: part }));
        expected.extend(data);
    }
    assert_eq!(client.call(Call::Flush { handle }).await, Ok(Reply::Done));
    for (offset, bytes, came) in [(0, 8192, 8192), (4096, 65_536, 8292), (5, 10, 10), (12_388, 9, 0)] {
        let read = Call::Read {
            handle,
            offset,
            bytes,
        };
        assert_eq!(client.call(read).await, Ok(Reply::Read { bytes: came }));
        let offset = offset as usize;
        assert_eq!(client.data, expected[offset..offset + came as usize]);
    }
    assert_eq!(fs::read(at.join("a/file")).expect("the file"), expected);
    let end = Call::SetEnd { handle, bytes: 7 };
    assert_eq!(client.call(end).await, Ok(Reply::Done));
    assert_eq!(client.call(Call::Close { handle }).await, Ok(Reply::Done));
}

/// Renames and removes what `check_contents` has created.
async fn check_names(client: &mut Client) {
    let Ok(Reply::Info(info)) = client.call(Call::QueryPath { path: "a/file" }).await else {
        panic!("no file");
    };
    assert!(info.bytes == 7 && !info.directory && info.file_id != 0);
    let (handle, created) = client.handle("a/file", Disposition::OverwriteIf).await;
    assert!(!created);
    assert_eq!(client.call(Call::Close { handle }).await, Ok(Reply::Done));
    let (directory, pattern) = ("a", "f*");
    let found = client.call(Call::Find { directory, pattern }).await;
    assert_eq!(found, Ok(Reply::Found { entries: 1 }));
    client
        .call(Call::MakeDirectory { path: "b" })
        .await
        .expect("made");
    let rename = Call::Rename {
        from: "a/file",
        to: "b/other",
    };
    assert_eq!(client.call(rename).await, Ok(Reply::Done));
    assert_eq!(
        client.open("a/file", Disposition::Open).await,
        Ok(Reply::NotThere)
    );
    assert_eq!(fault(client.call(rename).await), Some(Fault::NotFound));
    for path in ["a", "b"] {
        let removed = client.call(Call::RemoveDirectory { path }).await;
        assert_eq!(removed.is_ok(), path == "a", "{path}");
    }
    let deleted = client.call(Call::Delete { path: "b/other" }).await;
    assert_eq!(deleted, Ok(Reply::Done));
    let removed = client.call(Call::RemoveDirectory { path: "b" }).await;
    assert_eq!(removed, Ok(Reply::Done));
    assert_eq!(
        client.open("a/file", Disposition::Open).await,
        Ok(Reply::NotThere)
    );
}

#[test]
fn two_clients_of_one_process_respect_each_others_locks() {
    let place = tempfile::tempdir().expect("a directory");
    let at = place.path().to_owned();
    run(|executor| async move {
        let mut one = Client::at(&at, Options::default(), &executor).await;
        let mut other = Client::at(&at, Options::default(), &executor).await;
        let (mine, _) = one.handle("file", Disposition::Create).await;
        assert_eq!(
            fault(other.open("file", Disposition::Create).await),
            Some(Fault::AlreadyThere)
        );
        let (theirs, _) = other.handle("file", Disposition::Open).await;
        let (offset, bytes) = (10, 5);
        let lock = |handle| Call::Lock {
            handle,
            offset,
            bytes,
        };
        assert_eq!(one.call(lock(mine)).await, Ok(Reply::Done));
        assert_eq!(fault(other.call(lock(theirs)).await), Some(Fault::LockConflict));
        let beside = Call::Lock {
            handle: theirs,
            offset: 15,
            bytes,
        };
        assert_eq!(other.call(beside).await, Ok(Reply::Done));
        let unlock = Call::Unlock {
            handle: mine,
            offset,
            bytes,
        };
        assert_eq!(one.call(unlock).await, Ok(Reply::Done));
        assert_eq!(other.call(lock(theirs)).await, Ok(Reply::Done));
    });
}

#[test]
fn nothing_outside_the_directory_is_touched() {
    let place = tempfile::tempdir().expect("a directory");
    let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
    for directory in [&inside, &outside] {
        fs::create_dir(directory).expect("made");
    }
    fs::write(outside.join("theirs"), "keep me").expect("written");
    symlink(&outside, inside.join("way")).expect("a link");
    symlink(outside.join("theirs"), inside.join("link")).expect("a link");
    let at = inside.clone();
    run(|executor| async move {
        let mut client = Client::at(&at, Options::default(), &executor).await;
        for path in [
            "../outside/theirs",
            "way/theirs",
            "link",
            "way/../../outside/theirs",
            "..",
        ] {
            for disposition in [Disposition::Open, Disposition::OpenIf, Disposition::OverwriteIf] {
                let opened = client.open(path, disposition).await;
                assert_eq!(fault(opened), Some(Fault::AccessDenied), "{path}");
            }
            if path != "link" {
                assert!(client.call(Call::Delete { path }).await.is_err(), "{path}");
                let rename = Call::Rename {
                    from: path,
                    to: "mine",
                };
                assert!(client.call(rename).await.is_err(), "{path}");
            }
        }
        for directory in ["way", "../outside"] {
            let found = client
                .call(Call::Find {
                    directory,
                    pattern: "*",
                })
                .await;
            assert!(
                !matches!(found, Ok(Reply::Found { .. })),
                "{directory}: {found:?}"
            );
        }
        assert!(client
            .call(Call::MakeDirectory { path: "way/new" })
            .await
            .is_err());
        // The link itself is a file in the directory.
        assert_eq!(client.call(Call::Delete { path: "link" }).await, Ok(Reply::Done));
    });
    assert_eq!(
        fs::read_to_string(outside.join("theirs")).expect("untouched"),
        "keep me"
    );
    assert_eq!(fs::read_dir(&outside).expect("untouched").count(), 1);
}

#[test]
fn only_the_absolute_path_of_a_directory_is_a_target() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("file");
    fs::write(&file, "").expect("written");
    let open = |path: &Path| DirectoryTarget::open(path, Options::default(), None);
    assert!(matches!(open(Path::new("relative")), Err(TargetError::Url(_))));
    assert!(matches!(open(&file), Err(TargetError::Io(_))));
    assert!(matches!(
        open(&place.path().join("absent")),
        Err(TargetError::Io(_))
    ));
    assert!(open(place.path()).is_ok_and(|target| target.is_local()));
}
