//! No-op work: operations end at once or after a delay, without sockets. It shows the cost of the client loop, or
//! imitates a server with known response times.

use crate::client::{ClientState, ClientThread};
use crate::engine_thread::EngineThread;
use crate::kind::{Material, OpenError, Secrets, Sections, Target, Work};
use crate::level::Level;
use crate::problems::Problems;
use crate::protocol::{Performed, Protocol};
use crate::spec::nanoseconds;
use dyno_http::Exchange;
use dyno_net::Executor;
use dyno_workload::{ClassId, Outcome, Workload};
use serde::Deserialize;
use serde_json::{json, Value};
use std::rc::Rc;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    #[serde(rename = "url")]
    _url: String,
}

/// Clients that repeat an operation without effect.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
enum WorkloadSection {
    Null {
        /// Duration of each operation.
        #[serde(default)]
        delay_s: f64,
        /// Start of a stall, during which no operation ends.
        #[serde(default)]
        stall_at_s: f64,
        /// Length of the stall.
        #[serde(default)]
        stall_s: f64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientSection {}

pub(super) fn open(section: &Value, _secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
    let mut problems = Problems::default();
    let section: Option<TargetSection> = problems.section("target", section);
    problems.none_or(section).map_err(OpenError::Section)?;
    Ok(Box::new(NullTarget))
}

#[derive(Debug)]
struct NullTarget;

impl Target for NullTarget {
    fn address(&self) -> String {
        "nowhere".to_owned()
    }

    /// The load never leaves the process.
    fn is_loopback(&self) -> bool {
        true
    }

    fn facts(&self) -> Value {
        json!({})
    }

    fn prepare(
        &self,
        _level: &Arc<Level>,
        sections: Sections<'_>,
        _material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>> {
        let workload = problems.section("workload", sections.workload);
        let client: Option<ClientSection> = problems.section("client", sections.client);
        let (workload, ClientSection {}) = (workload?, client?);
        let WorkloadSection::Null {
            delay_s,
            stall_at_s,
            stall_s,
        } = workload;
        problems.time(delay_s, "workload.delay_s");
        problems.time(stall_at_s, "workload.stall_at_s");
        problems.time(stall_s, "workload.stall_s");
        Some(Arc::new(NullWork {
            classes: vec!["nothing".to_owned()],
            delay_ns: nanoseconds(delay_s),
            stall_at_ns: nanoseconds(stall_at_s),
            stall_ns: nanoseconds(stall_s),
        }))
    }
}

#[derive(Debug)]
struct NullWork {
    classes: Vec<String>,
    delay_ns: u64,
    stall_at_ns: u64,
    stall_ns: u64,
}

impl Work for NullWork {
    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn spawn_clients(&self, thread: &Rc<EngineThread>) {
        let (delay_ns, stall_at_ns, stall_ns) = (self.delay_ns, self.stall_at_ns, self.stall_ns);
        for (place, client) in thread.clients().enumerate() {
            let state = ClientState::new(place);
            for stream in 0..thread.level.threads {
                let (engine, state) = (thread.clone(), state.clone());
                thread.executor.spawn(async move {
                    let start_ns = engine.start.wait(&engine.executor).await;
                    let mut protocol = NullClient {
                        executor: engine.executor.clone(),
                        delay_ns,
                        stalls_ns: start_ns + stall_at_ns,
                        goes_on_ns: start_ns + stall_at_ns + stall_ns,
                    };
                    ClientThread::new(&engine, start_ns, (client, stream), state)
                        .run(&mut NoOperations, &mut protocol)
                        .await;
                });
            }
        }
        thread.start.arrive(thread.clients().len());
    }
}

/// Operations without effect.
struct NoOperations;

impl Workload for NoOperations {
    type Op = ();

    fn next(&mut self, _last: &Outcome) {}
}

/// A client whose operations all succeed.
struct NullClient {
    executor: Executor,
    delay_ns: u64,
    stalls_ns: u64,
    goes_on_ns: u64,
}

impl Protocol for NullClient {
    type Op = ();

    async fn perform(&mut self, _op: &(), start_ns: u64) -> Performed {
        let mut ends_ns = start_ns.saturating_add(self.delay_ns);
        if (self.stalls_ns..self.goes_on_ns).contains(&ends_ns) {
            ends_ns = self.goes_on_ns;
        }
        if ends_ns > start_ns {
            self.executor.sleep_until(ends_ns).await;
        } else {
            // A client that never waits must yield to the others.
            self.executor.give_way().await;
        }
        Performed {
            class: ClassId(0),
            result: Ok(()),
            bytes_read: 0,
            bytes_written: 0,
            cost: Exchange::default(),
            session_lost: false,
        }
    }
}
