//! Opens, reads or writes, and closes a file as one operation.

use super::{leaves_session, FilesClient, Moved};
use crate::files::sessions::Sessions;
use dyno_measure::Failure;
use dyno_workload::FileAction;

impl<S: Sessions> FilesClient<S> {
    /// Opens a file, moves its data and closes it. Closes the file even after a failure.
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
