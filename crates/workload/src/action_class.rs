//! Classes for counting file actions. The disk mix and load files share them, so both report the same rows.
//! Workloads with few kinds of actions have their own classes.

use crate::{ClassId, FileAction, Intent};

/// Names of the classes, in the order of [`class_of`].
pub(crate) const ACTION_CLASSES: [&str; 13] = [
    "open",
    "create",
    "close",
    "read",
    "write",
    "delete",
    "rename",
    "find",
    "get attributes",
    "set attributes",
    "free space",
    "flush",
    "lock",
];

/// Returns the class under which an action is counted.
pub(crate) fn class_of(action: &FileAction) -> ClassId {
    ClassId(match action {
        FileAction::Open {
            intent: Intent::Make | Intent::MakeOrEdit | Intent::Replace,
            ..
        }
        | FileAction::MakeDirectory { .. } => 1,
        FileAction::Open { .. } => 0,
        FileAction::Close { .. } | FileAction::LetGo { .. } => 2,
        FileAction::Read { .. }
        | FileAction::ReadFile { .. }
        | FileAction::ReadBlock { .. }
        | FileAction::ReadBack { .. } => 3,
        FileAction::Write { .. } | FileAction::WriteFile { .. } | FileAction::WriteBlock { .. } => 4,
        FileAction::Delete { .. } | FileAction::RemoveDirectory { .. } => 5,
        FileAction::Rename { .. } => 6,
        FileAction::Find { .. } => 7,
        FileAction::QueryFile { .. } | FileAction::QueryTimes { .. } | FileAction::QueryPath { .. } => 8,
        FileAction::SetTimes { .. } | FileAction::SetEnd { .. } => 9,
        FileAction::QuerySpace => 10,
        FileAction::Flush { .. } => 11,
        FileAction::Lock { .. } | FileAction::LockWaiting { .. } | FileAction::Unlock { .. } => 12,
    })
}
