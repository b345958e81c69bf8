//! The reference S3 server with hand-written requests. Signatures are tested in its own files; boto3, rclone and the
//! generator use it in Python's tests.

mod faults;
mod hostile;
mod objects;
mod raw;
mod uploads;
