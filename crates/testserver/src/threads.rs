//! The threads of a server, whatever it speaks.

use dyno_net::pin_to;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{Builder, JoinHandle};

/// Those that were started and not yet stopped.
#[derive(Debug, Default)]
pub struct Threads {
    running: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

impl Threads {
    /// Starts one that sets itself up, says so, and runs until it sees that it is to stop. `cpus`: the threads are pinned to them in turn, by `number`;
    /// where there are none, the scheduler decides.
    ///
    /// Ends when the thread is set up, with what that told.
    ///
    /// # Errors
    /// That of `set_up`; where its CPU does not exist or is not ours; where no thread can be had.
    pub(crate) fn start<T, R: Send + 'static>(
        &mut self,
        (name, number): (&str, usize),
        cpus: &[usize],
        set_up: impl FnOnce() -> io::Result<(T, R)> + Send + 'static,
        run: impl FnOnce(T, &AtomicBool) + Send + 'static,
    ) -> io::Result<R> {
        let cpu = cpus.get(number % cpus.len().max(1)).copied();
        let (report, started) = mpsc::sync_channel(1);
        let stopping = self.stopping.clone();
        let whole = move || {
            let ready = cpu.map_or(Ok(()), |cpu| Ok(pin_to(cpu)?)).and_then(|()| set_up());
            match ready {
                Ok((thread, told)) => {
                    let _ = report.send(Ok(told));
                    run(thread, &stopping);
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            }
        };
        let builder = Builder::new().name(format!("{name}-{number}"));
        self.running.push(builder.spawn(whole)?);
        started.recv().map_err(io::Error::other)?
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Tells each to stop, and waits until each has ended. Others can be started then.
    pub(crate) fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            // A thread that panicked has said so on standard error, and is as gone as the others.
            let _ = thread.join();
        }
        self.stopping.store(false, Ordering::Relaxed);
    }
}
