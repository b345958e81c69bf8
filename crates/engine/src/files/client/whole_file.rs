//! A file as a whole in one operation, whose response time is that of all its calls: opened, written or read, closed.

use super::{leaves_session, FilesClient, Moved};
use crate::files::sessions::Sessions;
use dyno_measure::Failure;
use dyno_workload::FileAction;

impl<S: Sessions> FilesClient<S> {
    /// Opens a file, moves its data and closes it, also where moving failed.
    pub(super) async fn whole_file(&mut self, action: &FileAction, moved: &mut Moved) -> Result<(), Failure> {
        let mut result = Ok(());
        for step in action.steps() {
            let ended = match step {
                FileAction::Open { .. } => self.open(&step).await,
                FileAction::Read { slot, offset, bytes } => self.read(slot, offset, bytes, moved).await,
                FileAction::Write { .. } => self.write(&step, moved).await,
                _ => self.noted(&step).await,
            };
            let over = match (&step, &ended) {
                (FileAction::Open { .. }, Err(_)) => true,
                (_, Err(failure)) => !leaves_session(failure.fault),
                _ => false,
            };
            result = result.and(ended);
            if over {
                break;
            }
        }
        result
    }
}
