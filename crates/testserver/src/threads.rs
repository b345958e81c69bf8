//! Threads of a server with any protocol.

use dyno_net::pin_to;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{Builder, JoinHandle};

#[derive(Debug, Default)]
pub struct Threads {
    running: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
}

impl Threads {
    /// Starts a thread, which calls `set_up` and then runs until it must stop. Returns the result of
    /// `set_up`. `cpus`: the CPUs to which threads are pinned in turn, by `number`. If empty, the scheduler
    /// decides.
    ///
    /// # Errors
    /// `set_up` fails, the CPU does not exist or is not allowed, or no thread can be created.
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

    /// Stops and joins all threads. New ones can be started afterwards.
    pub(crate) fn stop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            // A thread that panicked has printed its message to standard error, and has ended like the others.
            let _ = thread.join();
        }
        self.stopping.store(false, Ordering::Relaxed);
    }
}
