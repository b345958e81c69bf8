//! mdtest's phases: several clients create, query, read and remove files. All clients finish a phase before
//! the next one starts. Each phase uses a new session, so that its cache is empty. As in mdtest, the measured
//! time does not include creating and removing directories.

use super::{level, Step};
use crate::files::job::Job;
use crate::files::measured::Measured;
use crate::files::program::Program;
use crate::files::sessions::Sessions;
use crate::job::JobLevels;
use crate::scenario::{MetadataSpec, StepSpec, METADATA_PHASES};
use dyno_files::{Access, Disposition, Files};
use dyno_measure::Failure;

#[derive(Debug, Clone, Copy)]
enum Phase {
    Create,
    Stat,
    Read,
    Remove,
}

const PHASES: [Phase; METADATA_PHASES] = [Phase::Create, Phase::Stat, Phase::Read, Phase::Remove];

pub(super) fn carry_out<S: Sessions>(
    job: &Job<'_, S>,
    spec: &StepSpec,
    shape: &MetadataSpec,
) -> Result<JobLevels, Failure> {
    let found = job.by_several(shape.clients, 1, 0, |number, client| {
        all_phases(Step::<S>::new(client, spec.clone()), shape.clone(), number)
    })?;
    let files = found.len() as u64 * u64::from(shape.files);
    let mut by_phase: Vec<Vec<Measured>> = PHASES.map(|_| Vec::new()).into();
    for of_client in found {
        for (all, one) in by_phase.iter_mut().zip(of_client) {
            all.push(one);
        }
    }
    let phases = by_phase.into_iter().map(Measured::together);
    Ok(phases.map(|all| Some(level(all?, files))).collect())
}

/// Returns the directory of a client's files.
fn directory(spec: &StepSpec, shape: &MetadataSpec, client: u32) -> String {
    match shape.shared {
        true => format!("{}/{}", spec.base, shape.name),
        false => format!("{}/{}.{client}", spec.base, shape.name),
    }
}

async fn all_phases<S: Sessions>(
    mut step: Step<S>,
    shape: MetadataSpec,
    number: u32,
) -> Result<Vec<Measured>, Failure> {
    let own = &directory(&step.spec, &shape, number);
    let makes_directory = !shape.shared || number == 0;
    step.client.connect().await?;
    if makes_directory {
        step.client.make_directory(own).await?;
    }
    let of = |client: u32, directory: &str| -> Vec<String> {
        let names = (1..=shape.files).map(|file| format!("{directory}/{client}.{file}"));
        names.collect()
    };
    let next = (number + 1) % shape.clients;
    let (mine, others) = (of(number, own), of(next, &directory(&step.spec, &shape, next)));
    let mut measured = Vec::with_capacity(PHASES.len());
    for phase in PHASES {
        let (owner, files) = match phase {
            Phase::Create | Phase::Remove => (number, &mine),
            Phase::Stat | Phase::Read => (next, &others),
        };
        let one = step.client.begin_together().await?;
        step.do_all(phase, owner, files, &shape).await?;
        measured.push(step.client.end_together(one).await?);
        // If another client removes files whose handles are cached here, their directory would not be empty.
        step.client.finish().await?;
        step.client.connect().await?;
    }
    step.client.wait_for_all().await?;
    if makes_directory {
        step.client.remove_directory(own).await?;
    }
    step.client.finish().await?;
    Ok(measured)
}

impl<S: Sessions> Step<S> {
    async fn do_all(
        &mut self,
        phase: Phase,
        owner: u32,
        files: &[String],
        shape: &MetadataSpec,
    ) -> Result<(), Failure> {
        for (number, path) in files.iter().enumerate() {
            let number = owner as usize * shape.files as usize + number;
            let writing = self.writing(number, super::SOURCE_GENERATION);
            match phase {
                Phase::Create => {
                    let handle = self
                        .client
                        .open(path, Access::ReadWrite, Disposition::Create)
                        .await?;
                    self.write_whole(handle, writing, shape.bytes).await?;
                    self.client.close(handle).await?;
                }
                Phase::Stat => self.client.expect(path, Some(shape.bytes)).await?,
                Phase::Read => self.read_whole(path, writing, shape.bytes).await?,
                Phase::Remove => self.client.delete(path).await?,
            }
        }
        Ok(())
    }
}
