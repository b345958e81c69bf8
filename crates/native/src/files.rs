//! Shares and workspaces as Python sees them, and a mix of work on files.

use crate::load::poisoned;
use crate::mix::{nanoseconds, MixSpec, Problems, Shape};
use crate::question::in_slices;
use crate::target::target_error;
use dyno_engine::{FilesWork, FilesWorkload, Work};
use dyno_files::{CacheOptions, Caching, Policy, Redirector};
use dyno_smb::{Dialect, Encryption, Options, Signing};
use dyno_workload::{DiskMix, DiskMixOptions, Script, LEAST_WORKSPACE_BYTES};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MAX_WORKSPACE_BYTES: u64 = 1 << 40;
const MAX_DORMANT_FILES: u32 = 100_000;

/// What the clients' files contain, from mix to mix.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Workspaces {
    pub(crate) inner: dyno_engine::Workspaces,
}

#[pymethods]
impl Workspaces {
    #[new]
    fn new() -> Self {
        Self {
            inner: dyno_engine::Workspaces::default(),
        }
    }

    /// Clients whose workspaces stand on the server, whole or in part.
    fn standing(&self) -> Vec<usize> {
        self.inner.standing()
    }

    /// Whether any was ever begun.
    fn begun(&self) -> bool {
        self.inner.begun()
    }

    #[pyo3(signature = (client, *, seed, operations, workspace_bytes=20 << 20))]
    fn diskmix_files<'py>(
        &self,
        py: Python<'py>,
        client: u32,
        seed: u64,
        operations: u64,
        workspace_bytes: u64,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(kept) = self.inner.kept(client as usize) else {
            return Ok(None);
        };
        let options = DiskMixOptions {
            workspace_bytes,
            ..DiskMixOptions::default()
        };
        let files = py.detach(|| {
            let mut workload = DiskMix::new(Script::load(&options), seed, client);
            dyno_workload::played(&mut workload, client, kept.mix(), operations)
        });
        let contents = PyDict::new(py);
        for (path, bytes) in files {
            contents.set_item(path, PyBytes::new(py, &bytes))?;
        }
        Ok(Some(contents))
    }
}

/// A dbench load file, understood.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct LoadFile {
    inner: Arc<dyno_workload::LoadFile>,
}

#[pymethods]
impl LoadFile {
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| {
            let content = std::fs::read(path)?;
            let inner = dyno_workload::LoadFile::parse(&content)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(Self {
                inner: Arc::new(inner),
            })
        })
    }

    #[getter]
    fn operations(&self) -> u64 {
        self.inner.operations()
    }

    #[getter]
    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.inner.counts().clone()
    }
}

/// Shares that load may go to.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct SmbTarget {
    inner: dyno_smb::SmbTarget,
    url: String,
}

fn dialect(problems: &mut Problems, name: &str, given: &str) -> Option<Dialect> {
    let dialects = Dialect::ALL.map(|dialect| (dialect.name(), dialect));
    problems.choose(name, given, &dialects)
}

#[pymethods]
impl SmbTarget {
    #[staticmethod]
    #[pyo3(signature = (url, *, shares, user=None, password=None, network_namespace=None, consent_token=None,
        min_dialect="2.0.2", max_dialect="3.1.1", signing="auto", encryption="off", seed=0))]
    #[allow(clippy::too_many_arguments)]
    fn open(
        py: Python<'_>,
        url: String,
        shares: Vec<String>,
        user: Option<String>,
        password: Option<String>,
        network_namespace: Option<PathBuf>,
        consent_token: Option<String>,
        min_dialect: &str,
        max_dialect: &str,
        signing: &str,
        encryption: &str,
        seed: u64,
    ) -> PyResult<Self> {
        let mut problems = Problems::default();
        let oldest = dialect(&mut problems, "min_dialect", min_dialect);
        let newest = dialect(&mut problems, "max_dialect", max_dialect);
        let signings = [
            ("off", Signing::Off),
            ("auto", Signing::WhenRequired),
            ("required", Signing::Required),
        ];
        let signing = problems.choose("signing", signing, &signings);
        let encryptions = [("off", Encryption::Off), ("required", Encryption::Required)];
        let encryption = problems.choose("encryption", encryption, &encryptions);
        problems.unless(oldest <= newest, "min_dialect is newer than max_dialect");
        let (Some(min_dialect), Some(max_dialect), Some(signing), Some(encryption), true) =
            (oldest, newest, signing, encryption, problems.none())
        else {
            return Err(problems.error());
        };
        let (domain, user) = match user.as_deref().and_then(|user| user.split_once('\\')) {
            Some((domain, name)) => (domain.to_owned(), Some(name.to_owned())),
            None => (String::new(), user),
        };
        let options = Options {
            guest: user.is_none(),
            user: user.unwrap_or_default(),
            password: password.unwrap_or_default(),
            domain,
            min_dialect,
            max_dialect,
            signing,
            encryption,
            guid_seed: seed,
            ..Options::default()
        };
        let asked = url.clone();
        let opened = in_slices(py, move || {
            let token = consent_token.as_deref();
            dyno_smb::SmbTarget::open(&asked, shares, options, network_namespace.as_deref(), token)
        })?;
        Ok(Self {
            inner: opened.map_err(target_error)?,
            url,
        })
    }

    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    #[getter]
    fn address(&self) -> String {
        self.inner.address().to_string()
    }

    #[getter]
    fn loopback(&self) -> bool {
        self.inner.is_loopback()
    }

    #[getter]
    fn shares(&self) -> Vec<String> {
        self.inner.shares().to_vec()
    }

    fn look<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let looks = PyList::empty(py);
        let target = self.inner.clone();
        for look in in_slices(py, move || dyno_engine::look(&target))? {
            let row = PyDict::new(py);
            row.set_item("share", look.share)?;
            row.set_item("free_bytes", look.free_bytes)?;
            row.set_item("is_used", look.is_used)?;
            row.set_item("why", look.failure.map(|failure| failure.to_string()))?;
            row.set_item("advice", look.failure.as_ref().and_then(dyno_smb::advice))?;
            looks.append(row)?;
        }
        Ok(looks)
    }
}

/// The room that the files of one client of a mix need at least.
#[pyfunction]
pub fn files_footprint_bytes(py: Python<'_>, spec: &MixSpec) -> PyResult<u64> {
    match &spec.mix.work {
        Work::Files(work) => Ok(py.detach(|| work.footprint_bytes())),
        Work::Web(_) => Err(PyValueError::new_err("work on documents makes no files")),
    }
}

/// The removal of what the clients of mixes have left.
#[pyclass(frozen, module = "serverdyno._native")]
pub struct Removal {
    inner: Mutex<dyno_engine::Removal>,
}

#[pymethods]
impl Removal {
    #[staticmethod]
    fn start(spec: &MixSpec, most_s: f64) -> PyResult<Self> {
        let Work::Files(work) = &spec.mix.work else {
            return Err(PyValueError::new_err(
                "work on documents has no workspaces to remove",
            ));
        };
        if !(0.0..=86_400.0).contains(&most_s) {
            return Err(PyValueError::new_err("most_s lies between 0 and 86,400"));
        }
        Ok(Self {
            inner: Mutex::new(dyno_engine::Removal::start(work, nanoseconds(most_s))),
        })
    }

    fn stop(&self) -> PyResult<()> {
        self.inner.lock().map_err(poisoned)?.stop();
        Ok(())
    }

    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        py.detach(|| Ok(self.inner.lock().map_err(poisoned)?.wait(timeout)))
    }

    fn left<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for left in self.inner.lock().map_err(poisoned)?.left() {
            let row = PyDict::new(py);
            row.set_item("client", left.client)?;
            row.set_item("share", left.share)?;
            row.set_item("directory", left.directory)?;
            row.set_item("why", left.why.map(|failure| failure.to_string()))?;
            rows.append(row)?;
        }
        Ok(rows)
    }
}

/// What a client keeps of its files, by the names of the plan.
fn cache_options(
    problems: &mut Problems,
    cache: &str,
    redirector: &str,
    dormant_files: u32,
    dormant_s: f64,
) -> Option<CacheOptions> {
    let askings = [
        ("none", None),
        ("oplocks", Some(Policy::Oplock(Caching::ALL))),
        ("leases", Some(Policy::Lease(Caching::ALL))),
    ];
    let policy = problems.choose("cache", cache, &askings).flatten();
    let manners = [("xp", CacheOptions::default()), ("plain", CacheOptions::modern())];
    let like = problems.choose("redirector", redirector, &manners);
    problems.unless(
        dormant_files <= MAX_DORMANT_FILES,
        "dormant_files lies between 0 and 100,000",
    );
    problems.unless(
        (0.0..=3600.0).contains(&dormant_s),
        "dormant_s lies between 0 and 3,600",
    );
    match (policy, like) {
        (Some(policy), Some(like)) => Some(CacheOptions {
            policy,
            most_deferred: dormant_files,
            deferred_age_ns: nanoseconds(dormant_s),
            ..like
        }),
        // Without a cache the redirector of XP still has its manners around deletes and renames.
        (None, Some(like)) if like.redirector == Redirector::Xp => Some(CacheOptions {
            policy: Policy::Nothing,
            ..like
        }),
        _ => None,
    }
}

/// A mix of work on files.
#[pyfunction]
#[pyo3(signature = (shape, *, target, workload, workspaces, cache="leases", redirector="plain", dormant_files=45,
    dormant_s=10.0, workspace_bytes=20_971_520, legacy_seed_reads=false, true_offsets=false, load_file=None, keep_workspace=true,
    preparation_timeout_s=600.0))]
#[allow(clippy::too_many_arguments)]
pub fn files_mix(
    shape: &Shape,
    target: &SmbTarget,
    workload: &str,
    workspaces: &Workspaces,
    cache: &str,
    redirector: &str,
    dormant_files: u32,
    dormant_s: f64,
    workspace_bytes: u64,
    legacy_seed_reads: bool,
    true_offsets: bool,
    load_file: Option<&LoadFile>,
    keep_workspace: bool,
    preparation_timeout_s: f64,
) -> PyResult<MixSpec> {
    let mut problems = Problems::default();
    let replays = problems.choose("workload", workload, &[("diskmix", false), ("loadfile", true)]);
    problems.unless(
        replays == Some(load_file.is_some()),
        "load_file is for the workload loadfile, which needs one",
    );
    let cache = cache_options(&mut problems, cache, redirector, dormant_files, dormant_s);
    problems.unless(
        (LEAST_WORKSPACE_BYTES..=MAX_WORKSPACE_BYTES).contains(&workspace_bytes),
        "workspace_bytes lies between 15 MiB and 1 TiB",
    );
    problems.unless(
        (0.0..=86_400.0).contains(&preparation_timeout_s),
        "preparation_timeout_s lies between 0 and 86,400",
    );
    shape.check_files(&mut problems, target.inner.is_loopback());
    if !problems.none() {
        return Err(PyValueError::new_err(problems.text()));
    }
    let options = DiskMixOptions {
        workspace_bytes,
        legacy_seed_reads,
        true_offsets,
    };
    Ok(MixSpec {
        mix: shape.mix(Work::Files(Box::new(FilesWork {
            target: target.inner.clone(),
            workload: match load_file {
                Some(file) => FilesWorkload::LoadFile(file.inner.clone()),
                None => FilesWorkload::DiskMix(options),
            },
            cache,
            keep_workspace,
            workspaces: workspaces.inner.clone(),
            preparation_ns: nanoseconds(preparation_timeout_s),
        }))),
    })
}
