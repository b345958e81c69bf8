//! The threads of a server, whatever it speaks.

use dyno_reactor::pin_to;
use std::io;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

/// Those that were started and not yet joined.
#[derive(Debug, Default)]
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Starts one that sets itself up, says so, and runs. `cpus`: the threads are pinned to them in turn, by `number`;
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
        run: impl FnOnce(T) + Send + 'static,
    ) -> io::Result<R> {
        let cpu = cpus.get(number % cpus.len().max(1)).copied();
        let (report, started) = mpsc::sync_channel(1);
        let whole = move || {
            let ready = cpu.map_or(Ok(()), |cpu| Ok(pin_to(cpu)?)).and_then(|()| set_up());
            match ready {
                Ok((thread, told)) => {
                    let _ = report.send(Ok(told));
                    run(thread);
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            }
        };
        self.0
            .push(Builder::new().name(format!("{name}-{number}")).spawn(whole)?);
        started.recv().map_err(io::Error::other)?
    }

    /// Waits until each has ended.
    pub(crate) fn join(&mut self) {
        for thread in self.0.drain(..) {
            // A thread that panicked has said so on standard error, and is as gone as the others.
            let _ = thread.join();
        }
    }
}
